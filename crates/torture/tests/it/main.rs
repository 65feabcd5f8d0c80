//! Each named fault as a test, and a short long run.
//!
//! The binary is the one that `AMENDS_BIN` names, or the one beside these tests; the store is the one that
//! `AMENDS_TORTURE_STORE` names, or a fresh embedded one.

mod faults;
mod kills;
mod nodes;
