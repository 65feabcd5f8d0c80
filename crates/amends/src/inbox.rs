//! The inbox in handlers: a step that writes to the service's own database, done once, undone once, never done late.
//!
//! A handler opens a transaction, begins, and settles what it did; the rest is [`amends_inbox`], whose documentation tells the rules. What is here besides
//! goes between its words and those of handlers.
//!
//! ```no_run
//! # #[cfg(feature = "inbox-postgres")] mod example {
//! use amends::inbox::{self, Begun, Outcome, postgres};
//! use amends::{Call, Failure, Undone};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Booked { day: String }
//!
//! async fn book(pool: sqlx::PgPool, call: Call, day: String) -> Result<Booked, Failure> {
//!     let mut tx = pool.begin().await?;
//!     let answer = match postgres::action(&mut tx, &inbox::action(&call, &day)?).await.map_err(inbox::failure)? {
//!         Begun::Answered(answer) => answer,
//!         Begun::First(ticket) => {
//!             let take = sqlx::query("UPDATE slot SET free = free - 1 WHERE day = $1 AND free > 0").bind(&day);
//!             let outcome = match take.execute(&mut *tx).await?.rows_affected() {
//!                 0 => Outcome::rejected("no slot is free"),
//!                 _ => inbox::done(&Booked { day })?,
//!             };
//!             postgres::settle(&mut tx, ticket, outcome).await.map_err(inbox::failure)?
//!         }
//!     };
//!     tx.commit().await?;
//!     inbox::fact(answer)
//! }
//!
//! // For `Step::fenced_compensation`.
//! async fn unbook(pool: sqlx::PgPool, call: Call, day: String) -> Result<Undone, Failure> {
//!     let mut tx = pool.begin().await?;
//!     let begun = postgres::compensation(&mut tx, &inbox::compensation(&call, &day)?).await;
//!     let answer = match begun.map_err(inbox::failure)? {
//!         Begun::Answered(answer) => answer,
//!         Begun::First(ticket) => {
//!             sqlx::query("UPDATE slot SET free = free + 1 WHERE day = $1").bind(&day).execute(&mut *tx).await?;
//!             postgres::settle(&mut tx, ticket, inbox::done(&())?).await.map_err(inbox::failure)?
//!         }
//!     };
//!     tx.commit().await?;
//!     inbox::undone(answer)
//! }
//! # }
//! ```

pub use amends_inbox::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Call, Failure, Undone};

/// The action that a handler was called for. `input` is what the handler got: its key with another input is refused.
///
/// # Errors
/// If the input cannot be written as JSON.
pub fn action(call: &Call, input: &impl Serialize) -> Result<Action, Failure> {
    Ok(Action::new(Key::new(call.key())?, hash(call, input)?))
}

/// The compensation that a handler was called for, behind a fence.
///
/// # Errors
/// If the input cannot be written as JSON, or the call is none of a fenced compensation, which names no action.
pub fn compensation(call: &Call, input: &impl Serialize) -> Result<Compensation, Failure> {
    let action_key = call
        .action_key()
        .ok_or("only the compensation of a step with `fenced_compensation` names its action")?;
    Ok(Compensation::new(Key::new(call.key())?, Key::new(action_key)?, hash(call, input)?))
}

fn hash(call: &Call, input: &impl Serialize) -> Result<RequestHash, Failure> {
    Ok(RequestHash::of(&[
        call.step().as_bytes(),
        call.operation().as_str().as_bytes(),
        &serde_json::to_vec(input)?,
    ]))
}

/// It was carried out, with this fact.
///
/// # Errors
/// If the fact cannot be written as JSON.
pub fn done(fact: &impl Serialize) -> Result<Outcome, Failure> {
    Ok(Outcome::Done(serde_json::to_value(fact)?))
}

/// What an action's handler returns: the fact, or that it is refused for good. A fact that says nothing is stored as `{}`, which reads as a struct without
/// members, not as `()`.
///
/// # Errors
/// Rejected if the answer is; unknown if the fact is of another type.
pub fn fact<F: DeserializeOwned>(answer: Answer) -> Result<F, Failure> {
    match answer {
        Answer::Done(fact) => Ok(serde_json::from_value(fact)?),
        Answer::Rejected { reason } => Err(Failure::rejected(reason)),
    }
}

/// What a fenced compensation's handler returns.
///
/// # Errors
/// Rejected if the answer is.
pub fn undone(answer: Answer) -> Result<Undone, Failure> {
    match answer {
        Answer::Done(fact) if fact["undone"] == Value::Bool(false) => Ok(Undone::NeverDone),
        Answer::Done(_) => Ok(Undone::Undone),
        Answer::Rejected { reason } => Err(Failure::rejected(reason)),
    }
}

/// What a query's handler returns.
///
/// # Errors
/// Unknown if the fact is of another type.
pub fn found<F: DeserializeOwned>(found: Found) -> Result<crate::Found<F>, Failure> {
    Ok(match found {
        Found::NeverSeen => crate::Found::NeverSeen,
        Found::Done(fact) => crate::Found::Done(serde_json::from_value(fact)?),
        Found::Rejected { reason } => crate::Found::Rejected(reason),
        Found::Sealed => crate::Found::Sealed,
    })
}

/// What a handler returns when the inbox failed, and its transaction is rolled back: not executed if the database ended it for reasons of its own, else
/// unknown. Not for a commit that failed: of that nobody knows, and `?` says so.
#[must_use]
pub fn failure(error: Error) -> Failure {
    if error.is_retryable() { Failure::not_executed(error) } else { Failure::unknown(error) }
}
