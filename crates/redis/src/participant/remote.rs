//! One Redis server or cluster, called for the operations of sagas.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use amends_core::Answer;
use amends_core::definition::redis::{RedisCall, RedisGuard, RedisTest};
use amends_core::request::{Payload, Request};
use amends_participants::{Pass, Remote, UrlSource};
use async_trait::async_trait;
use redis::Value;
use secrecy::ExposeSecret as _;
use tokio::sync::Mutex;

use super::answer::{self, Asked};
use super::{ACT, COMPENSATE, FENCE_LIBRARY, QUERY, record_key};
use crate::client::{Client, Error, ErrorKind, Function, Library, Options};

static LIBRARIES: &[&Library] = &[&FENCE_LIBRARY];

/// Longer than the longest time-out of an operation: whoever calls gives up first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 3_600);

/// A participant that is a Redis server or cluster. It connects with the first call, and again when a connection broke.
pub struct RedisParticipant {
    name: String,
    url: UrlSource,
    current: Mutex<Option<(Client, u64)>>,
    /// Clients up to this number are not used any more.
    given_up: AtomicU64,
}

impl std::fmt::Debug for RedisParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisParticipant").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RedisParticipant {
    /// Makes ready; connects to nothing.
    #[must_use]
    pub fn new(name: &str, url: UrlSource) -> Self {
        Self { name: name.to_owned(), url, current: Mutex::default(), given_up: AtomicU64::new(0) }
    }

    /// The client that calls go over, made anew if there is none or it was given up. One call connects, the others wait for it.
    async fn client(&self) -> Result<(Client, u64), Answer> {
        let mut current = self.current.lock().await;
        let given_up = self.given_up.load(Ordering::Relaxed);
        if let Some((client, nth)) = &*current
            && *nth > given_up
        {
            return Ok((client.clone(), *nth));
        }
        let url = (self.url)().map_err(|reason| Answer::Misconfigured(self.named(&reason)))?;
        let options = Options { answer_timeout: ANSWER_TIMEOUT, ..Options::default() };
        let client = Client::connect(url.expose_secret(), LIBRARIES, options).await;
        let client = client.map_err(|error| self.not_connected(&error))?;
        *current = Some((client.clone(), given_up + 1));
        Ok((client, given_up + 1))
    }

    fn give_up(&self, nth: u64) {
        self.given_up.fetch_max(nth, Ordering::Relaxed);
    }

    fn named(&self, reason: &str) -> String {
        format!("participant `{}`: {reason}", self.name)
    }

    /// Nothing of the call has been sent.
    fn not_connected(&self, error: &Error) -> Answer {
        match error.kind {
            ErrorKind::Unreachable
            | ErrorKind::Unknown
            | ErrorKind::Busy
            | ErrorKind::OutOfMemory
            | ErrorKind::Unwritable
            | ErrorKind::NoFunction => Answer::NotSent(error.message.clone()),
            ErrorKind::Unauthenticated
            | ErrorKind::Denied
            | ErrorKind::CrossSlot
            | ErrorKind::Refused
            | ErrorKind::Unreadable => Answer::Misconfigured(self.named(&error.message)),
        }
    }

    /// The call was sent, and this came back instead of an answer.
    fn failed(&self, error: &Error, nth: u64, in_cluster: bool) -> Answer {
        match error.kind {
            // A cluster's client sends again by itself when a connection broke: this is the end of the last try, and an earlier one
            // may have been carried out.
            ErrorKind::Unreachable
            | ErrorKind::Busy
            | ErrorKind::OutOfMemory
            | ErrorKind::Unwritable
            | ErrorKind::NoFunction
                if in_cluster =>
            {
                Answer::Lost(error.message.clone())
            }
            ErrorKind::Unreachable
            | ErrorKind::Busy
            | ErrorKind::OutOfMemory
            | ErrorKind::Unwritable
            | ErrorKind::NoFunction => Answer::NotSent(error.message.clone()),
            // The URL may hold a password that was changed.
            ErrorKind::Unauthenticated => {
                self.give_up(nth);
                Answer::Misconfigured(self.named(&error.message))
            }
            ErrorKind::Denied | ErrorKind::CrossSlot => Answer::Misconfigured(self.named(&error.message)),
            // The functions answer what they refuse in words of their own: an error may come from their midst.
            ErrorKind::Unknown | ErrorKind::Refused | ErrorKind::Unreadable => {
                Answer::Lost(error.message.clone())
            }
        }
    }
}

#[async_trait]
impl Remote for RedisParticipant {
    async fn exchange(&self, request: &Request, pass: &Pass) -> Answer {
        let Some(Payload::Redis(call)) = &request.body else {
            return Answer::Misconfigured(self.named("only Redis commands can be sent to it"));
        };
        let asked = Asked::by(request);
        let (function, keys, args) = match arguments(request, call) {
            Ok(arguments) => arguments,
            Err(reason) => return answer::rejected(&reason, asked),
        };
        let (client, nth) = match self.client().await {
            Ok(client) => client,
            Err(answer) => return answer,
        };
        // If its connection broke meanwhile, the client makes another between this and the write. That a lease lapses in that time
        // does no harm here: the fence gives whoever sends the same key the same answer.
        if !pass.may_send() {
            return Answer::NotSent("the node's lease has lapsed".into());
        }
        let waiting = Waiting { participant: self, nth, answered: false };
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let called: Result<Value, Error> = client.call(function, &keys, &args).await;
        waiting.end();
        match called {
            Ok(value) => answer::read(function, &value, asked),
            Err(error) => self.failed(&error, nth, client.is_cluster()),
        }
    }
}

/// A call under way. If its caller drops it, because time is over, the connection may be dead without anyone having noticed.
struct Waiting<'a> {
    participant: &'a RedisParticipant,
    nth: u64,
    answered: bool,
}

impl Waiting<'_> {
    fn end(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.participant.give_up(self.nth);
        }
    }
}

type Arguments = (&'static Function, Vec<String>, Vec<String>);

/// The function to call, its keys and its arguments; or why the values do not fit, of which nothing is sent.
fn arguments(request: &Request, call: &RedisCall) -> Result<Arguments, String> {
    let (touched, tag) = call.check().map_err(|unfit| unfit.to_string())?;
    let mut keys = vec![record_key(tag, request.key.as_str())];
    if request.is_query {
        return Ok((&QUERY, keys, Vec::new()));
    }
    let function = match &request.action_key {
        Some(action_key) => {
            keys.push(record_key(tag, action_key.as_str()));
            &COMPENSATE
        }
        None => &ACT,
    };
    keys.extend(touched.into_iter().map(str::to_owned));
    let mut args = vec![call.keep_ms.to_string()];
    append(&mut args, &call.guards.iter().map(guard_words).collect::<Vec<_>>());
    append(&mut args, &call.commands);
    Ok((function, keys, args))
}

/// Appends lists of words as the functions read them: their number, then each one's number of words and its words.
fn append(args: &mut Vec<String>, lists: &[Vec<String>]) {
    args.push(lists.len().to_string());
    for words in lists {
        args.push(words.len().to_string());
        args.extend(words.iter().cloned());
    }
}

/// A guard in the words of the functions.
fn guard_words(guard: &RedisGuard<String>) -> Vec<String> {
    let (name, last) = match &guard.test {
        RedisTest::Exists => ("EXISTS", None),
        RedisTest::Equals(text) => ("EQ", Some(text)),
        RedisTest::AtLeast(bound) => ("MIN", Some(bound)),
    };
    let words = [Some(name), Some(guard.key.as_str()), guard.field.as_deref(), last.map(String::as_str)];
    words.into_iter().flatten().map(str::to_owned).collect()
}
