//! Deterministic simulation of amends: the real engine, on virtual time, in a world in which everything goes wrong.
//!
//! One seed drives all of it: which definitions run, on how many nodes, what callers, people and participants do, and what goes
//! wrong where. The same seed gives the same run, to the last event. What runs is `amends_engine`, with its committer, scheduler,
//! recovery and leases, on one thread whose clock is paused, so that hours of waiting cost nothing; only what stands behind its
//! ports is made here.
//!
//! - **The store** is the memory store, behind a line to each node. At every call of its ports, reads included: it fails before;
//!   it is carried out and the answer is lost; neither; it lands later, when everybody thinks that it failed; the node crashes
//!   before, during or after it; the node stands still past its lease, while others take over, and then goes on as if nothing had
//!   been; the call or its answer alone is late. And now and then it is away altogether.
//! - **Participants** accept, refuse, are busy, away, misconfigured, lose calls, lose answers, get calls late, fail before or
//!   after they did something, answer badly, or finish later and report it, twice and in any order. Whatever they do, each keeps
//!   exactly what its definition declares (`none`, `effect`, `replay`, `seals_after`, `key_ttl`, `fenced`), and a ledger says
//!   what really happened.
//! - **Callers and people** submit, again and with another input, want resources that others hold, submit inside transactions of
//!   their own, cancel, retry, resolve, skip and close, on what they saw, which may be old.
//! - **Nodes** crash, stop in order, stand still and have clocks that are wrong, or are set.
//!
//! Then faults end. From there every saga has to end by itself, but for those that a declared guarantee leaves to a person; a
//! person can end those; and when everything that was still on its way has arrived, ledgers and journals are compared. One checker
//! watches one invariant, and for each a bug is planted, here and never in the engine, that it must catch ([`Sabotage`]).
//!
//! ```text
//! cargo xtask sim --seconds 600      # seed after seed; failing ones join crates/sim/seeds/
//! cargo xtask sim --seed 51          # one seed, with everything that happens
//! ```
//!
//! For definitions of your own there is [`World`]: a unit test in which the engine crashes after every write.
//!
//! Not simulated: HTTP and its parsing, real stores, disks and threads, whose tests are elsewhere; a network that duplicates
//! messages, participants that break what they declare, and people who say what they do not know.

mod callers;
mod checkers;
mod clock;
mod definitions;
mod dice;
mod event;
mod fingerprint;
mod ledger;
mod nodes;
mod options;
mod participants;
mod report;
mod run;
mod sabotage;
mod sim;
mod store;
mod trace;
mod truth;
mod world;

pub use checkers::Violation;
pub use participants::Does;
pub use report::{Report, Totals, run_sabotaged, run_seed};
pub use sabotage::Sabotage;
pub use world::{Broken, End, NoWorld, World};
