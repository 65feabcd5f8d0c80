//! Calls of the store's functions: each write says what its node knows of the store, and what an answer says of the store is noted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use amends_store::{Error, Kind, Loss};
use redis::Value;

use super::error::{Call, store_error};
use super::health::Health;
use super::library::{KEYS, OPEN, TOUCH};
use super::options::Wait;
use super::seen::{Found, Seen, SeenFile};
use super::words::{Arguments, Words};
use crate::client::{Client, ErrorKind, Function};

/// What a person has to know when data is gone.
const REMEDY: &str = "Nothing is claimed and nothing submitted until somebody decides: bring the server with the newest data back, or accept the \
     loss by `amends doctor --accept-loss --reason \"…\"` (see docs/redis-store.md)";

/// The client, with what the node knows.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    pub(super) health: Health,
    wait: Option<Wait>,
    seen: Mutex<Seen>,
    /// The highest mark, kept apart: every answer raises it.
    mark: AtomicU64,
    file: Option<SeenFile>,
    loss: Mutex<Option<Loss>>,
    /// A connection broke: another server may answer now.
    suspect: AtomicBool,
    looking: tokio::sync::Mutex<()>,
    commits: AtomicU64,
    commit_items: AtomicU64,
}

impl Link {
    /// Looks at the store, makes it if there is none, and refuses one that went back in time.
    pub(super) async fn open(
        client: Client,
        wait: Option<Wait>,
        file: Option<SeenFile>,
    ) -> Result<Self, Error> {
        let known = file.as_ref().map(SeenFile::read).transpose()?.flatten();
        let found = look(&client, known.is_none()).await?;
        if let Some(loss) = known.as_ref().and_then(|known| known.loss(found.as_ref())) {
            return Err(Error::new(Kind::Refused, lost(&loss)));
        }
        let Some(found) = found else {
            return Err(Error::new(Kind::Unavailable, "the store went away while it was opened: try again"));
        };
        if let Some(file) = &file {
            file.write(&found.seen)?;
        }
        let mark = AtomicU64::new(found.seen.mark);
        let loss = Mutex::new(loss_of(&found));
        Ok(Self {
            client,
            health: Health::default(),
            wait,
            seen: Mutex::new(found.seen),
            mark,
            file,
            loss,
            suspect: AtomicBool::new(false),
            looking: tokio::sync::Mutex::default(),
            commits: AtomicU64::new(0),
            commit_items: AtomicU64::new(0),
        })
    }

    pub(super) fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.seen().epoch
    }

    /// Calls that committed, and items that they consisted of.
    pub(super) fn committed(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.commit_items.load(Ordering::Relaxed))
    }

    pub(super) fn count_commit(&self, items: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// A function that writes what somebody relies on: it has reached the replicas asked for.
    pub(super) async fn write(
        self: &Arc<Self>,
        function: &Function,
        arguments: &Arguments,
    ) -> Result<Words, Error> {
        self.write_to(self.wait, function, arguments).await
    }

    /// A function that writes what is made good by itself when it is lost, such as a lease: on the primary.
    pub(super) async fn write_here(
        self: &Arc<Self>,
        function: &Function,
        arguments: &Arguments,
    ) -> Result<Words, Error> {
        self.write_to(None, function, arguments).await
    }

    async fn write_to(
        self: &Arc<Self>,
        wait: Option<Wait>,
        function: &Function,
        arguments: &Arguments,
    ) -> Result<Words, Error> {
        let written = self.try_write(wait, function, arguments).await;
        let written = match written {
            // Nothing was written: another node has noted a run of the server that this one had not heard of.
            Err(Refusal::OtherRun) => self.try_write(wait, function, arguments).await,
            other => other,
        };
        written.map_err(|refusal| match refusal {
            Refusal::OtherRun => {
                Error::new(Kind::Unavailable, "the redis server was started again: try again")
            }
            Refusal::Failed(error) => {
                if error.kind == Kind::Unwritable && self.health.cannot_write(&error) {
                    self.watch();
                }
                error
            }
        })
    }

    async fn try_write(
        self: &Arc<Self>,
        wait: Option<Wait>,
        function: &Function,
        arguments: &Arguments,
    ) -> Result<Words, Refusal> {
        self.health.is_whole()?;
        if self.suspect.load(Ordering::Acquire) {
            self.look_again().await?;
        }
        let (store, epoch, run) = {
            let seen = self.seen();
            (seen.store.clone(), seen.epoch.to_string(), seen.run.clone())
        };
        let mark = self.mark().to_string();
        let guard = [&store, &epoch, &run, &mark].map(|word| word.as_bytes());
        let args: Vec<&[u8]> = guard.into_iter().chain(arguments.as_words()).collect();
        let keys = KEYS.map(str::as_bytes);
        let (value, replicas) = match wait {
            None => (self.client.call(function, &keys, &args).await, None),
            Some(wait) => {
                match self.client.call_and_wait(function, &keys, &args, wait.replicas, wait.timeout).await {
                    Ok((value, replicas)) => (Ok(value), Some((wait, replicas))),
                    Err(e) => (Err(e), None),
                }
            }
        };
        let mut words = Words::read(function.name, value.map_err(|e| self.note(e, Call::Writes))?)?;
        match words.text()?.as_str() {
            "ok" => {}
            "other-run" => {
                self.look_again().await?;
                return Err(Refusal::OtherRun);
            }
            "other-epoch" => {
                let message = "people have accepted a loss of the store: this node drops what it has in memory and joins anew";
                return Err(Error::new(Kind::Unavailable, message).into());
            }
            // It went back, or is another: looking says so in full.
            _ => {
                self.look_again().await?;
                return Err(Error::new(
                    Kind::Unavailable,
                    "the store changed while it was written: try again",
                )
                .into());
            }
        }
        self.mark.fetch_max(words.number()?, Ordering::Relaxed);
        match replicas {
            Some((wait, replicas)) if replicas < i64::from(wait.replicas) => {
                Err(self.too_few(wait, replicas))
            }
            Some(_) | None => Ok(words),
        }
    }

    /// It is written here, but not where it was to be: the caller asks again whether it stands.
    fn too_few(self: &Arc<Self>, wait: Wait, replicas: i64) -> Refusal {
        let message = format!(
            "{replicas} of the {} replicas asked for had the write within {:?}: see whether they follow the primary; the store goes on by \
             itself once they do",
            wait.replicas, wait.timeout
        );
        if self.health.cannot_write(&Error::new(Kind::Unwritable, message.clone())) {
            self.watch();
        }
        Error::new(Kind::Indeterminate, message).into()
    }

    /// Returns once everything written so far is where it has to be: at once, unless replicas are waited for.
    pub(super) async fn settled(self: &Arc<Self>) -> Result<(), Error> {
        match self.wait {
            None => Ok(()),
            Some(_) => {
                self.write(&TOUCH, &Arguments::default()).await.map(drop).map_err(|error| Error {
                    // Nothing hangs on the touch itself.
                    kind: if error.kind == Kind::Indeterminate { Kind::Unavailable } else { error.kind },
                    ..error
                })
            }
        }
    }

    /// A function that reads.
    pub(super) async fn read(&self, function: &Function, arguments: &Arguments) -> Result<Words, Error> {
        let args: Vec<&[u8]> = arguments.as_words().collect();
        let answer = self.client.call(function, &KEYS.map(str::as_bytes), &args).await;
        Words::read(function.name, answer.map_err(|e| self.note(e, Call::Reads))?)
    }

    /// A command that reads.
    pub(super) async fn ask(&self, command: redis::Cmd) -> Result<Value, Error> {
        self.client.command(command).await.map_err(|e| self.note(e, Call::Reads))
    }

    fn note(&self, error: crate::client::Error, call: Call) -> Error {
        if matches!(error.kind, ErrorKind::Unknown | ErrorKind::Unreachable) {
            self.suspect.store(true, Ordering::Release);
        }
        store_error(error, call)
    }

    /// Looks at the store anew; an error if it went back in time, or cannot be looked at.
    pub(super) async fn look_again(self: &Arc<Self>) -> Result<Found, Error> {
        let _alone = self.looking.lock().await;
        // Before the look: what breaks meanwhile is looked at again.
        self.suspect.store(false, Ordering::Release);
        // What is answered during the look is newer than what the look finds.
        let known = Seen { mark: self.mark(), ..self.seen().clone() };
        let looked = look(&self.client, false).await;
        let found = looked.inspect_err(|_| self.suspect.store(true, Ordering::Release))?;
        if let Some(loss) = known.loss(found.as_ref()) {
            self.suspect.store(true, Ordering::Release);
            let error = Error::new(Kind::Unwritable, lost(&loss));
            if self.health.lost(&error) {
                self.watch();
            }
            return Err(error);
        }
        let found = found.ok_or_else(|| Error::new(Kind::Unavailable, "the store went away: try again"))?;
        if found.seen.epoch == known.epoch {
            self.seen().run.clone_from(&found.seen.run);
        }
        Ok(found)
    }

    /// Takes the store as it was found, a new epoch too. Only who has nothing in memory may: before it joins.
    pub(super) async fn adopt(self: &Arc<Self>) -> Result<(), Error> {
        let found = self.look_again().await?;
        let mut seen = self.seen();
        if found.seen.epoch > seen.epoch {
            tracing::warn!(epoch = found.seen.epoch, "people have accepted that the store lost data");
            self.mark.store(found.seen.mark, Ordering::Relaxed);
            *self.loss.lock().unwrap_or_else(PoisonError::into_inner) = loss_of(&found);
            *seen = found.seen;
        }
        Ok(())
    }

    /// The last loss that people accepted.
    pub(super) fn loss(&self) -> Option<Loss> {
        *self.loss.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what was seen to the data folder, if that has one.
    pub(super) async fn remember(self: &Arc<Self>) {
        if self.file.is_none() {
            return;
        }
        let link = Arc::clone(self);
        let seen = Seen { mark: self.mark(), ..self.seen().clone() };
        let written =
            tokio::task::spawn_blocking(move || link.file.as_ref().map_or(Ok(()), |file| file.write(&seen)));
        // The store works without; only a loss between two lives of this node would go unnoticed.
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("what was seen of the store cannot be kept: {error}"),
            Err(error) => tracing::error!("what was seen of the store cannot be kept: {error}"),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a write was not made, or is not known to be.
enum Refusal {
    OtherRun,
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn loss_of(found: &Found) -> Option<Loss> {
    found.loss.map(|rowid_max| Loss { number: found.seen.epoch, rowid_max })
}

fn lost(loss: &str) -> String {
    format!("the store has lost data: {loss}. {REMEDY}")
}

/// What the store says of itself; `None` if there is none and none was to be made.
pub(super) async fn look(client: &Client, may_make: bool) -> Result<Option<Found>, Error> {
    let run = run_of(client).await?;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let args = [run.as_str(), id.as_str(), if may_make { "1" } else { "0" }].map(str::as_bytes);
    let answer = client.call(&OPEN, &KEYS.map(str::as_bytes), &args).await;
    Found::read(Words::read(OPEN.name, answer.map_err(|e| store_error(e, Call::Reads))?)?)
}

/// The run of the server: another one after each start of its process. Who may not ask has the mark alone.
async fn run_of(client: &Client) -> Result<String, Error> {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let text = match client.command(info).await {
        Ok(Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(Value::SimpleString(text) | Value::VerbatimString { text, .. }) => text,
        Ok(_) => String::new(),
        Err(e) if e.kind == ErrorKind::Denied => String::new(),
        Err(e) => return Err(store_error(e, Call::Reads)),
    };
    let run = text.lines().find_map(|line| line.strip_prefix("run_id:"));
    Ok(run.map_or("unknown", str::trim).to_owned())
}
