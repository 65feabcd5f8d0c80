//! The inbox and fence of a participant, in the participant's own database.
//!
//! A participant of a saga is called more than once: the engine sends again what it got no answer to, a message may be late, and the
//! order to undo may overtake what it undoes. The inbox makes all of this harmless. It is one table beside the business tables, written in the same
//! transaction as the effect:
//!
//! - **each key is carried out once or not at all**, and each call gets the first one's answer, a refusal too;
//! - **undoing what never ran** is recorded (a tombstone), does nothing, and answers `{"undone": false}`;
//! - **what arrives after its tombstone is refused**, however late;
//! - **a crash leaves nothing**: effect and record are committed together, or neither is there.
//!
//! This is what a definition declares by `fenced = true`.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] mod example {
//! use amends_inbox::{Action, Answer, Begun, Error, Outcome, postgres};
//! use serde_json::json;
//!
//! async fn book(pool: &sqlx::PgPool, action: &Action) -> Result<Answer, Error> {
//!     let mut tx = pool.begin().await?;
//!     let answer = match postgres::action(&mut tx, action).await? {
//!         Begun::Answered(answer) => answer,
//!         Begun::First(ticket) => {
//!             let take = "UPDATE slot SET free = free - 1 WHERE day = 'mon' AND free > 0";
//!             let outcome = match sqlx::query(take).execute(&mut *tx).await?.rows_affected() {
//!                 0 => Outcome::rejected("no slot is free"),
//!                 _ => Outcome::Done(json!({ "day": "mon" })),
//!             };
//!             postgres::settle(&mut tx, ticket, outcome).await?
//!         }
//!     };
//!     tx.commit().await?;
//!     Ok(answer)
//! }
//! # }
//! ```
//!
//! [`Answer`] and [`Error`] know the HTTP status and body that the engine reads them by. Errors that a deadlock or a serialization failure
//! made are repeated with the whole transaction: [`Attempts`].
//!
//! The modules `postgres`, `mysql` and `sqlite`, each behind a feature of its name, have the same functions. Their SQL is in the folder `sql` of this crate;
//! `docs/inbox.md` tells the rules, so that any language can follow them.

mod answer;
mod call;
mod desk;
mod error;
mod flow;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;
mod repeat;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod ticket;

pub use answer::{ANSWER_BYTES_MAX, Answer, Found, Outcome};
pub use call::{Action, BadKey, Compensation, KEY_BYTES_MAX, Keep, Key, RequestHash};
pub use error::{BoxError, Error};
pub use repeat::{ATTEMPTS_MAX, Attempts};
pub use ticket::{Begun, Ticket};
