//! `cargo xtask ci`: everything a change must pass, from cheap to dear, the first failure ends it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::call::Call;
use crate::requirement::{self, FOR_CI, FOR_TESTS};
use crate::stage::Stages;
use crate::{test, tidy};

/// Enough orders that every fault of the demo's mix occurs, few enough for half a minute.
const DEMO_ORDERS: u64 = 200;

/// Runs all stages and prints the time of each.
///
/// What they compile is shared as far as cargo allows: lints and documentation check the dependencies once, the
/// binary and all kinds of tests build them once, and the demo runs that binary. An optimised build would build them all
/// again: [`release`] makes one.
pub(crate) fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.work("tools", "cargo xtask ci", || requirement::ensure(FOR_TESTS.iter().chain(FOR_CI)))?;
    stages.call("format", &Call::cargo("fmt --all --check"))?;
    stages.work("tidy", "cargo xtask tidy", tidy::run)?;
    stages.call("deny", &Call::cargo("deny check bans licenses sources"))?;
    stages.call("lints", &Call::cargo("clippy --workspace --all-targets -- -D warnings"))?;
    stages.call("docs", &Call::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-Dwarnings"))?;
    stages.call("build", &test::build())?;
    stages.call("doc tests", &test::doc_tests())?;
    stages.work("tests", "cargo xtask test", || test::suite("ci", &[])?.run())?;
    stage_demo(&mut stages, &demo(&test::built_binary()?))?;
    stages.print();
    eprintln!(
        "\nknown vulnerabilities are not part of this: `cargo xtask advisories` looks for them, over the network"
    );
    Ok(())
}

/// The optimised build and its demo: what a new version is tried with before it is given to anybody.
pub(crate) fn release() -> Result<()> {
    let mut stages = Stages::default();
    stages.call("release build", &Call::cargo("build --release -p amends-cli"))?;
    let amends = Call::cargo("run --release -p amends-cli --");
    stage_demo(&mut stages, &with_demo(amends))?;
    stages.print();
    Ok(())
}

/// Compares Cargo.lock with the advisory database, which is fetched from the network.
pub(crate) fn advisories() -> Result<()> {
    requirement::ensure(FOR_CI)?;
    eprintln!(
        "fetching the advisory database; without a network this fails, and says nothing about Cargo.lock"
    );
    Call::cargo("deny check advisories").run()
}

/// The demo of a binary as it is: to have cargo run it would build it anew, for other features are chosen for it alone than
/// for the workspace.
fn demo(binary: &str) -> Call {
    with_demo(Call::new(binary, &[]))
}

fn with_demo(amends: Call) -> Call {
    amends.with(&["demo", "--json", "--orders", &DEMO_ORDERS.to_string()])
}

fn stage_demo(stages: &mut Stages, demo: &Call) -> Result<()> {
    stages.work("demo", &demo.line(), || {
        let output = demo.output()?;
        print!("{output}");
        judge_demo(&output)
    })
}

/// Reads the last line of the demo. Its exit code already said that all is well; this makes sure that it also did
/// what it was asked to.
fn judge_demo(output: &str) -> Result<()> {
    let last =
        output.lines().rev().find(|line| !line.trim().is_empty()).context("the demo printed nothing")?;
    let report: Value =
        serde_json::from_str(last).with_context(|| format!("the demo's last line is no JSON: {last}"))?;
    let number = |name: &str| {
        report[name]
            .as_u64()
            .with_context(|| format!("the demo's last line has no whole number `{name}`: {last}"))
    };
    ensure!(number("orders")? == DEMO_ORDERS, "the demo ran another number of orders: {last}");
    ensure!(
        number("completed")? + number("compensated")? == DEMO_ORDERS,
        "not every order of the demo ended: {last}"
    );
    for name in ["dead", "unknown", "lost", "doubled", "left_over"] {
        ensure!(number(name)? == 0, "`{name}` must be 0 after the demo: {last}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"orders":200,"completed":150,"compensated":50,"dead":0,"unknown":0,"lost":0,"doubled":0,"left_over":0,"restarts":1,"seconds":9.5}"#;

    #[test]
    fn last_line_of_a_good_demo_is_accepted() {
        judge_demo(&format!("some progress\n{GOOD}\n\n")).unwrap();
    }

    #[test]
    fn demo_that_lost_doubled_or_left_something_fails() {
        for name in ["dead", "unknown", "lost", "doubled", "left_over"] {
            let bad = GOOD.replace(&format!(r#""{name}":0"#), &format!(r#""{name}":1"#));
            let error = judge_demo(&bad).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn demo_that_did_less_than_asked_fails() {
        assert!(judge_demo(&GOOD.replace(r#""orders":200"#, r#""orders":0"#)).is_err());
        assert!(judge_demo(&GOOD.replace(r#""completed":150"#, r#""completed":149"#)).is_err());
        assert!(judge_demo(&GOOD.replace("lost", "last")).is_err());
        assert!(judge_demo("").is_err());
        assert!(judge_demo("done").is_err());
    }

    #[test]
    fn repeating_the_demo_is_one_line() {
        assert_eq!(demo("target/debug/amends").line(), "target/debug/amends demo --json --orders 200");
    }
}
