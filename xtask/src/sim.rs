//! `cargo xtask sim`: the simulation for as long as one likes, or one seed of it.

use anyhow::Result;

use crate::call::Call;

/// Where failing seeds are collected. Tried at once, and again by the tests of the simulation.
const FOUND: &str = "crates/sim/seeds/regressions.txt";

/// Runs seed after seed, and keeps those that violate an invariant.
pub(crate) fn long(seconds: &str, rest: &[&str]) -> Result<()> {
    program().with(&["--seconds", seconds, "--keep", FOUND]).with(rest).run()
}

/// Runs one seed, and shows everything that happens.
pub(crate) fn one(seed: &str) -> Result<()> {
    program().with(&["--seed", seed]).run()
}

/// Optimised: a simulation is worth what it gets through.
fn program() -> Call {
    Call::cargo("run --quiet --release -p amends-sim --")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeating_a_seed_is_one_line() {
        let line = program().with(&["--seed", "7"]).line();
        assert_eq!(line, "cargo run --quiet --release -p amends-sim -- --seed 7");
    }
}
