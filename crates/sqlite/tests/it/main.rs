//! The store from outside: on files, through its ports, with everything that can happen to a file and its process.

mod child;
mod conformance;
mod corrupt;
mod full;
mod intake;
mod intake_trees;
mod kill;
mod locks;
mod log;
mod opening;
