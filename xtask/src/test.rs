//! `cargo xtask test`: every test of the workspace, on a machine that need not be prepared.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::call::Call;
use crate::requirement::{FOR_TESTS, ensure};

/// Tests and binary in one build: the same features for all, so that nothing is compiled twice for the black-box
/// tests, which run the binary.
const BUILD: &str = "build --workspace --tests --bin amends";
/// Doc tests before the others: what a run ends with is nextest's summary, where people and CI systems look for it.
const DOC_TESTS: &str = "test --workspace --doc";

/// Installs what the tests need, builds, and runs all tests; with `arguments` only those that nextest selects by them.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    ensure(FOR_TESTS)?;
    build().run()?;
    if arguments.is_empty() {
        doc_tests().run()?;
    } else {
        eprintln!("only the tests selected by these arguments; the doc tests are not run");
    }
    suite("default", arguments)?.run()
}

/// The build of all tests and of the binary.
pub(crate) fn build() -> Call {
    Call::cargo(BUILD)
}

/// The doc tests.
pub(crate) fn doc_tests() -> Call {
    Call::cargo(DOC_TESTS)
}

/// The run of all other tests under a nextest profile; needs what [`build`] makes.
pub(crate) fn suite(profile: &str, arguments: &[&str]) -> Result<Call> {
    let call =
        Call::cargo("nextest run").with(scope(arguments)).with(&["--profile", profile]).with(arguments);
    Ok(call.env("AMENDS_BIN", &built_binary()?))
}

/// Where [`build`] left the binary.
pub(crate) fn built_binary() -> Result<String> {
    let binary = binary(&Call::cargo("metadata --no-deps --format-version 1").output()?)?;
    if !binary.is_file() {
        bail!("the build left no binary at {}", binary.display());
    }
    Ok(binary.to_str().context("the path of the binary is not UTF-8")?.to_owned())
}

/// The whole workspace, unless the arguments name packages.
fn scope(arguments: &[&str]) -> &'static [&'static str] {
    let names_package = |word: &&str| *word == "-p" || word.starts_with("--package");
    if arguments.iter().any(names_package) { &[] } else { &["--workspace"] }
}

/// The absolute path at which a build leaves the binary `amends`, from what `cargo metadata` says.
fn binary(metadata: &str) -> Result<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata did not write JSON")?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target).join("debug").join(format!("amends{}", std::env::consts::EXE_SUFFIX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_in_the_target_directory_that_cargo_names() {
        assert_eq!(
            binary(r#"{"target_directory": "/elsewhere"}"#).unwrap(),
            PathBuf::from("/elsewhere/debug/amends")
        );
        assert!(binary("{}").is_err());
        assert!(binary("no JSON").is_err());
    }

    #[test]
    fn named_packages_replace_the_workspace() {
        assert_eq!(scope(&[]), ["--workspace"]);
        assert_eq!(scope(&["-E", "test(x)"]), ["--workspace"]);
        assert!(scope(&["-p", "amends-core"]).is_empty());
        assert!(scope(&["--package=amends-core"]).is_empty());
    }
}
