//! Exhaustive exploration of a saga definition, over the same core that runs in production.
//!
//! [`check`] plays every story that a definition allows: each participant does anything that it has not promised not to do, the engine
//! crashes and is replaced at each point, people cancel and deadlines pass at each point. It answers three questions: can something be done
//! twice, lost, or left over; can a saga come to a point where only a person can tell what happened; and which of the promises that
//! participants make does this saga rely on.
//!
//! ```
//! use amends_check::{Options, Verdict, check_text};
//!
//! let definition = r#"
//!     saga = "gift"
//!     version = 1
//!     [participants.shop]
//!     idempotency = "none"
//!     [[step]]
//!     name = "order"
//!     pivot = true
//!     [step.action]
//!     to = "shop"
//!     post = "/orders"
//! "#;
//! let report = check_text(definition, &Options::default());
//! // The shop knows no keys and cannot be asked: after a time-out nobody can tell whether it has the order.
//! assert_eq!(report.verdict, Verdict::MayNeedAPerson);
//! assert_eq!(report.persons[0].step, "order");
//! ```
//!
//! # What participants may do
//!
//! A message that is sent may be carried out, refused, lost, or arrive later: after any question about it, after its compensation; with
//! `seals_after` never later than that. Under `none` every message is carried out anew; under `effect` once a key, and a repeat is
//! answered with anything: done, rejected, an error; under `replay` a repeat gets the first answer. A query tells the truth of what has arrived,
//! refusals included, and says "never seen" of what has not, expressly where `seals_after` is declared. A fence answers as the protocol says.
//! Callbacks come, or not, also of messages that were refused too late to matter. Assumed, as everywhere: a message on the wire lives shorter than
//! `key_ttl`, the network duplicates nothing, a node stops at its lease.
//!
//! # What counts as a fault
//!
//! Every turn that a straight story would not take, once each: an answer or a query's answer that is lost, or late; a participant that cannot be
//! reached, is busy, answers 202 or 403, or has something in front of it that answers 400; an open breaker; a first refusal of an operation; a
//! callback; a statement; a cancel; a deadline; a take-over; a claim that is held. What follows from a fault costs nothing: that a message whose
//! answer was lost is carried out, now or later, that a repeat is answered differently, that time passes. All verdicts are within
//! [`Options::faults`].
//!
//! # What is not counted
//!
//! Some sagas are a person's by design, whatever is declared, and are left out of [`Report::persons`]: a compensation or a step after the pivot that is
//! refused, attempts that are over with nothing executed, a configuration that stays wrong, a saga that three nodes in a row died of.
//!
//! What people do to a saga (`retry`, `resolve`, `skip`, `close`) is not explored, nor is what the store and the engine do around the core.

mod advice;
mod cure;
mod guarantee;
mod machine;
mod mermaid;
mod moves;
mod options;
mod order;
mod report;
mod run;
mod safety;
mod scene;
mod search;
mod state;
mod story;
mod text;
mod trust;
mod turn;
mod visited;
mod world;

pub use machine::{Core, Machine};
pub use mermaid::mermaid;
pub use options::{FAULTS_MAX, Options};
pub use report::{PersonNeeded, Problem, Report, Trust, Verdict};
pub use run::{check, check_machine, check_text};
pub use text::text;
