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
//! # #[cfg(feature = "postgres")]
//! # async fn handle(pool: sqlx::PgPool, key: &str, body: &[u8]) -> Result<(u16, serde_json::Value), Box<dyn std::error::Error>> {
//! use amends_inbox::{Action, Key, Outcome, RequestHash, postgres};
//! use serde_json::json;
//!
//! let action = Action::new(Key::from_header(key)?, RequestHash::of(&[b"POST /slots", body]));
//! let answered = postgres::transaction(&pool, async |tx| {
//!     let book = async |db: &mut sqlx::PgConnection| {
//!         let taken = sqlx::query("UPDATE slot SET free = free - 1 WHERE day = 'mon' AND free > 0").execute(db).await?;
//!         Ok(match taken.rows_affected() {
//!             0 => Outcome::rejected("no slot is free"),
//!             _ => Outcome::Done(json!({ "day": "mon" })),
//!         })
//!     };
//!     postgres::action(tx, &action, book).await
//! });
//! match answered.await {
//!     Ok(answer) => Ok((answer.status(), answer.body())),
//!     Err(e) => Ok((e.status(), json!({ "title": e.to_string() }))),
//! }
//! # }
//! ```
//!
//! The modules [`postgres`], [`mysql`] and [`sqlite`] have the same functions: `install`, `action`, `compensation`, `query`, `forget`, and
//! for the first two `transaction`, which repeats what a deadlock or a serialization failure ended. Their SQL is in the folder `sql` of this crate;
//! `docs/inbox.md` tells the rules, so that any language can follow them.

#[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
compile_error!("an inbox is in a database: turn on the feature mysql, postgres or sqlite");

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
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod repeat;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use answer::{ANSWER_BYTES_MAX, Answer, Found, Outcome};
pub use call::{Action, BadKey, Compensation, KEY_BYTES_MAX, Keep, Key, RequestHash};
pub use error::{BoxError, Error};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use repeat::ATTEMPTS_MAX;
