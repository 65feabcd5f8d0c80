//! Deterministic simulation of amends.

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
