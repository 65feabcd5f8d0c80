//! `cargo xtask tidy`: the hygiene of the tree as code. Each rule is a function from the tree to findings, beside a
//! test that plants a violation for it.

mod crates;
mod documents;
mod lib_files;
mod ports;
mod rust;
mod sizes;
mod tokens;
mod tree;
mod words;

use anyhow::{Result, bail};

use crate::call::Call;
use tree::Tree;

/// One rule; its name ends each of its findings.
struct Rule {
    name: &'static str,
    check: fn(&Input) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "crate-edges", check: |input| crates::edges(&input.packages) },
    Rule { name: "pure-core-dependencies", check: |input| crates::pure_core(&input.packages) },
    Rule { name: "crate-metadata", check: |input| crates::metadata(&input.packages) },
    Rule { name: "shared-lints", check: |input| crates::shared_lints(&input.tree) },
    Rule { name: "lock-size", check: |input| sizes::lock(&input.tree) },
    Rule { name: "file-length", check: |input| sizes::files(&input.tree) },
    Rule { name: "readable", check: |input| rust::readable(&input.tree) },
    Rule { name: "no-unsafe", check: |input| rust::no_unsafe(&input.tree) },
    Rule { name: "nothing-unfinished", check: |input| rust::nothing_unfinished(&input.tree) },
    Rule { name: "no-ignored-tests", check: |input| rust::no_ignored_tests(&input.tree) },
    Rule { name: "no-unwrap", check: |input| rust::no_unwrap(&input.tree) },
    Rule { name: "pure-core", check: |input| rust::pure_core(&input.tree) },
    Rule { name: "lib-files", check: |input| lib_files::only_the_map(&input.tree) },
    Rule { name: "small-ports", check: |input| ports::small(&input.tree) },
    Rule { name: "engine-calls-by-port", check: |input| ports::engine_calls_by_port(&input.tree) },
    Rule { name: "to-do-names-issue", check: |input| words::to_do_names_issue(&input.tree) },
    Rule { name: "forbidden-words", check: |input| words::forbidden(&input.tree) },
    Rule { name: "decision-records", check: |input| documents::decision_records(&input.tree) },
    Rule { name: "links", check: |input| documents::links(&input.tree) },
    Rule { name: "white-space", check: |input| documents::white_space(&input.tree) },
];

/// What the rules look at.
struct Input {
    tree: Tree,
    packages: Vec<crates::Package>,
}

/// One thing that a rule has found, or, as a note, one that will soon be a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 means the file as a whole.
    line: usize,
    message: String,
    is_note: bool,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into(), is_note: false }
    }

    fn note(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { is_note: true, ..Self::new(path, line, message) }
    }
}

/// Checks the tree under every rule and prints what they found; any finding that is not a note is an error.
pub(crate) fn run() -> Result<()> {
    let host = crates::host(&Call::new("rustc", &["-vV"]).output()?)?;
    let metadata = Call::cargo("metadata --format-version 1 --filter-platform").with(&[&host]).output()?;
    let input = Input { tree: Tree::read()?, packages: crates::packages(&metadata)? };
    let mut faults = 0;
    for rule in RULES {
        let mut findings = (rule.check)(&input);
        findings.sort();
        faults += findings.iter().filter(|finding| !finding.is_note).count();
        findings.iter().for_each(|finding| println!("{}", line(rule.name, finding)));
    }
    match faults {
        0 => {
            println!("tidy: {} rules, nothing found", RULES.len());
            Ok(())
        }
        faults => bail!("tidy: {faults} findings"),
    }
}

fn line(rule: &str, finding: &Finding) -> String {
    let place =
        if finding.line == 0 { finding.path.clone() } else { format!("{}:{}", finding.path, finding.line) };
    let note = if finding.is_note { "note: " } else { "" };
    format!("{place}: {note}{} [{rule}]", finding.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_printed_with_place_and_rule() {
        assert_eq!(line("links", &Finding::new("docs/a.md", 3, "broken")), "docs/a.md:3: broken [links]");
        assert_eq!(line("sizes", &Finding::note("a.rs", 0, "long")), "a.rs: note: long [sizes]");
    }
}
