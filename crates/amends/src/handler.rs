//! From a request to a typed handler, and from what it returns to an answer in the terms of HTTP, which the core reads.

use std::future::{Future, ready};
use std::sync::Arc;

use amends_core::{Answer, json};
use amends_participants::config::ANSWER_BYTES_MAX;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failure::Kind;
use crate::{Call, Failure, Found, Undone};

/// Member of a request's body: the saga's input.
pub(crate) const INPUT: &str = "input";
/// Member of a request's body: facts of earlier steps, by name.
pub(crate) const FACTS: &str = "facts";
/// Member of a compensation's body: what its action answered.
pub(crate) const FACT: &str = "fact";

/// A handler without its types. It gets the call and the request's body.
pub(crate) type Handler = Arc<dyn Fn(Call, &Value) -> BoxFuture<'static, Answer> + Send + Sync>;

/// An action: input in, fact out.
pub(crate) fn action<I, F, H, R>(handler: H) -> Handler
where
    I: DeserializeOwned,
    F: Serialize,
    H: Fn(Call, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<F, Failure>> + Send + 'static,
{
    Arc::new(move |call, body| match read(&call, body, INPUT) {
        Ok(input) => answering(handler(call, input), |fact| done(&fact)),
        Err(answer) => Box::pin(ready(answer)),
    })
}

/// A compensation that is only called for what is known to be done: input and fact in.
pub(crate) fn compensation<I, F, C, H, R>(handler: H) -> Handler
where
    I: DeserializeOwned,
    F: DeserializeOwned,
    C: Serialize,
    H: Fn(Call, I, F) -> R + Send + Sync + 'static,
    R: Future<Output = Result<C, Failure>> + Send + 'static,
{
    Arc::new(move |call, body| {
        match read(&call, body, INPUT).and_then(|input| Ok((input, read(&call, body, FACT)?))) {
            Ok((input, fact)) => answering(handler(call, input, fact), |fact| done(&fact)),
            Err(answer) => Box::pin(ready(answer)),
        }
    })
}

/// A compensation behind a fence: it may be called for what was never done.
pub(crate) fn fenced<I, H, R>(handler: H) -> Handler
where
    I: DeserializeOwned,
    H: Fn(Call, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Undone, Failure>> + Send + 'static,
{
    Arc::new(move |call, body| match read(&call, body, INPUT) {
        Ok(input) => answering(handler(call, input), |undone| match undone {
            Undone::Undone => respond(200, &json!({ "undone": true })),
            Undone::NeverDone => respond(200, &json!({ "undone": false })),
        }),
        Err(answer) => Box::pin(ready(answer)),
    })
}

/// A query.
pub(crate) fn query<I, F, H, R>(handler: H) -> Handler
where
    I: DeserializeOwned,
    F: Serialize,
    H: Fn(Call, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Found<F>, Failure>> + Send + 'static,
{
    Arc::new(move |call, body| match read(&call, body, INPUT) {
        Ok(input) => {
            let asking = handler(call, input);
            Box::pin(async move {
                match asking.await {
                    Ok(found) => told(found),
                    // Whatever it says of itself: it is the query that failed, which tells nothing of the operation.
                    Err(failure) => Answer::Lost(failure.into_reason()),
                }
            })
        }
        Err(answer) => Box::pin(ready(answer)),
    })
}

/// What a query found out.
fn told<F: Serialize>(found: Found<F>) -> Answer {
    match found {
        Found::Done(fact) => done(&fact),
        Found::Rejected(reason) => respond(409, &json!({ "outcome": "rejected", "reason": reason })),
        Found::NeverSeen => respond(404, &json!({ "outcome": "never_seen" })),
        Found::Sealed => respond(410, &json!({ "outcome": "sealed" })),
        Found::InProgress => respond(202, &Value::Null),
    }
}

/// Reads a member of the body. What does not fit is a fault of this process, not of the saga: it waits, visibly, for one that knows better,
/// and nothing was done.
fn read<T: DeserializeOwned>(call: &Call, body: &Value, member: &str) -> Result<T, Answer> {
    T::deserialize(&body[member]).map_err(|error| {
        Answer::Misconfigured(format!(
            "the saga's {member} does not fit the type that the {} of step `{}` takes here: {error}; start a build that reads it, and raise the definition's version when its types change",
            call.operation().as_str(),
            call.step(),
        ))
    })
}

fn answering<T>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ok: impl FnOnce(T) -> Answer + Send + 'static,
) -> BoxFuture<'static, Answer> {
    Box::pin(async move { work.await.map_or_else(failed, ok) })
}

/// It was done. A fact that cannot be kept leaves the outcome unknown, as over HTTP: without it nothing could be undone.
fn done<F: Serialize>(fact: &F) -> Answer {
    let fact = match serde_json::to_value(fact) {
        Ok(fact) => fact,
        Err(error) => return Answer::Lost(format!("what it answered cannot be written as JSON: {error}")),
    };
    if !json::can_be_kept(&fact) {
        return Answer::Lost(format!("what it answered is nested more than {} deep", json::DEPTH_MAX));
    }
    respond(200, &fact)
}

fn respond(status: u16, body: &Value) -> Answer {
    let body = body.to_string().into_bytes();
    if body.len() > ANSWER_BYTES_MAX {
        return Answer::Lost(format!("it answered {} bytes, more than {ANSWER_BYTES_MAX}", body.len()));
    }
    Answer::Response { status, retry_after_ms: None, body }
}

fn failed(Failure(kind): Failure) -> Answer {
    match kind {
        Kind::Rejected(reason) => respond(422, &json!({ "outcome": "rejected", "reason": reason })),
        Kind::NotExecuted { reason, retry_after: None } => Answer::NotSent(reason),
        Kind::NotExecuted { reason, retry_after: Some(wait) } => Answer::Response {
            status: 503,
            retry_after_ms: Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            body: json!({ "reason": reason }).to_string().into_bytes(),
        },
        Kind::Unknown(reason) => Answer::Lost(reason),
    }
}
