//! A run of several stages: each is timed, the first failure ends it, a table closes it.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::call::Call;

/// The stages of one run so far.
#[derive(Default)]
pub(crate) struct Stages {
    ended: Vec<Ended>,
}

struct Ended {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Stages {
    /// Runs one call as a stage.
    pub(crate) fn call(&mut self, name: &'static str, call: &Call) -> Result<()> {
        self.work(name, &call.line(), || call.run())
    }

    /// Runs `work` as a stage. When it fails, the table of what ran is printed and the error says that `repeat` is
    /// the command which does only this stage again.
    pub(crate) fn work<T>(
        &mut self,
        name: &'static str,
        repeat: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = work();
        let ended = Ended { name, took: start.elapsed(), passed: result.is_ok() };
        eprintln!("== {name}: {:.1} s", ended.took.as_secs_f64());
        self.ended.push(ended);
        result.inspect_err(|_| self.print()).with_context(|| format!("{name} failed; to repeat it: {repeat}"))
    }

    /// Prints the table of all stages.
    pub(crate) fn print(&self) {
        eprint!("\n{}", self.table());
    }

    fn table(&self) -> String {
        let mut table = format!("{:<14} {:>9}  result\n", "stage", "seconds");
        let mut row = |name: &str, took: Duration, result: &str| {
            writeln!(table, "{name:<14} {:>9.1}  {result}", took.as_secs_f64())
                .expect("a string takes every write");
        };
        for ended in &self.ended {
            row(ended.name, ended.took, if ended.passed { "ok" } else { "FAILED" });
        }
        let all = self.ended.iter().all(|ended| ended.passed);
        row("total", self.ended.iter().map(|ended| ended.took).sum(), if all { "ok" } else { "FAILED" });
        table
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn failure_names_the_stage_the_cause_and_the_command_that_repeats_it() {
        let mut stages = Stages::default();
        stages.work("first", "do first", || Ok(())).unwrap();
        let error = stages.work("second", "do second", || -> Result<()> { bail!("it broke") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "second failed; to repeat it: do second: it broke");
    }

    #[test]
    fn table_has_every_stage_and_the_total() {
        let mut stages = Stages::default();
        stages.ended.push(Ended { name: "format", took: Duration::from_millis(1500), passed: true });
        stages.ended.push(Ended { name: "lints", took: Duration::from_secs(60), passed: false });
        let expected = "\
stage            seconds  result
format               1.5  ok
lints               60.0  FAILED
total               61.5  FAILED
";
        assert_eq!(stages.table(), expected);
    }
}
