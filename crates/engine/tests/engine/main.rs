//! The engine on the memory store, with participants in the same process and a clock that stands still until everybody waits.

mod support;

mod accepting;
mod clocks;
mod crash;
mod duplicates;
mod failing_store;
mod happy;
mod intake;
mod limits;
mod losses;
mod nodes;
mod parking;
mod people;
mod retention;
mod stopping;
mod undo;
mod unreadable;
mod waiting;
