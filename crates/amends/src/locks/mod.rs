//! Locks whose release needs proof that somebody recovers.
//!
//! A lock excludes others and does nothing else: it neither undoes nor recovers. If it is let go while what was done under it is half done, and
//! nothing durable says who brings that to an end, the next holder finds a mess. So the type that can be released is made only by a commit:
//!
//! ```text
//! acquire ──> Held ──submit_in(tx)──> Pending ──commit──> Covered ──release──> ReleaseOutcome
//!              │                         │                   └─ dropped: the lease lapses, and a report says so
//!              ├─ abandon(reason): nothing was done           ├─ rolled back: Held again
//!              └─ dropped: the lease lapses                   └─ nobody knows whether it was committed: the lease lapses
//! ```
//!
//! Each arrow takes the value before it, so that a wrong order, a second release or somebody else's proof does not compile.

mod acquire;
mod covered;
mod held;
mod report;

pub use acquire::{AcquireError, Locks};
pub use covered::Covered;
pub use held::Held;
pub use report::{REPORTS_MAX, ReleaseOutcome, Report, Reported};

pub use amends_store::locks::{Busy, LeaseOver, LockView, Lost, Malformed};
