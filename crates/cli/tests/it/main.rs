//! The binary from its outside: command lines, files, HTTP, signals.
//!
//! The binary is the one that cargo built for these tests, or the one that `AMENDS_BIN` names.

mod bench;
mod blackbox;
mod check;
mod demo;
mod examples;
mod http;
mod local_transactions;
mod locks;
mod outcomes;
mod participants;
mod people;
mod program;
mod python_participant;
mod reading;
mod redis_doctor;
mod redis_log;
mod redis_participant;
mod serve;
mod sql;
mod submissions;
