//! `cargo xtask torture`: the binary killed again and again on a real store, for as long as one likes.

use anyhow::Result;

use crate::call::Call;

/// Builds the binary and whoever tortures it, and begins. `arguments` are the harness's own: `--kills`, `--nodes`, `--store`, `--json` …
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    Call::cargo("build --release -p amends-cli -p amends-torture").run()?;
    harness(arguments).run()
}

/// It finds the binary beside itself.
fn harness(arguments: &[&str]) -> Call {
    Call::cargo("run --quiet --release -p amends-torture --").with(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeating_a_run_is_one_line() {
        let line = harness(&["--kills", "3", "--store", "sqlite:"]).line();
        assert_eq!(line, "cargo run --quiet --release -p amends-torture -- --kills 3 --store sqlite:");
    }
}
