//! The one gate of the workspace, started as `cargo xtask`: it installs what the tests need, runs them, and
//! keeps the rules of the tree as code.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks on its standard streams")]

mod call;
mod ci;
mod requirement;
mod sim;
mod stage;
mod test;
mod tidy;
mod torture;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [-- NEXTEST ARGUMENTS]  install what the tests need, then run all of them (with arguments: those that nextest
                               selects, without the doc tests)
  ci                           everything a change must pass, from cheap to dear; stops at the first failure
  release                      the optimised build, and its demo
  tidy                         the hygiene rules of the tree
  sim --seconds N [--seed S]   the simulation, seed after seed; failing ones join crates/sim/seeds/
  sim --seed S                 one seed of it, with all that happens
  torture [--kills N | --nodes N --sagas N] [--store URL] [--seed S] [--json] …
                               the binary killed again and again on a real store, or several nodes on one, the database and the
                               ways to it; `--help` names the rest
  advisories                   known vulnerabilities in Cargo.lock; needs the network, so `ci` does not run it
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => enter_root().and_then(|()| test::run(&[])),
        ["test", "--", rest @ ..] => enter_root().and_then(|()| test::run(rest)),
        ["ci"] => enter_root().and_then(|()| ci::run()),
        ["release"] => enter_root().and_then(|()| ci::release()),
        ["tidy"] => enter_root().and_then(|()| tidy::run()),
        ["sim", "--seconds", seconds, rest @ ..] => enter_root().and_then(|()| sim::long(seconds, rest)),
        ["sim", "--seed", seed] => enter_root().and_then(|()| sim::one(seed)),
        ["torture", rest @ ..] => enter_root().and_then(|()| torture::run(rest)),
        ["advisories"] => enter_root().and_then(|()| ci::advisories()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the root of the workspace the current folder, so that every command means the same wherever it is started.
fn enter_root() -> Result<()> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("start it as `cargo xtask`, which says where the tree is")?;
    let root = PathBuf::from(own).join("..");
    std::env::set_current_dir(&root).with_context(|| format!("cannot enter {}", root.display()))
}
