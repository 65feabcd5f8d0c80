//! What the checks need beside the Rust tool chain, and how it gets onto a fresh machine.
//!
//! A missing requirement is installed or it fails the run; nothing is ever skipped for want of it.

use std::path::Path;

use anyhow::{Result, bail};

use crate::call::Call;

/// What `cargo xtask test` needs.
///
/// One line each, added by the change whose tests first need it, and not before: `apt("nats-server", "nats-server")`,
/// `apt("rabbitmq-server", "rabbitmq-server")`, `apt("chromium", "chromium")`. Tests start their own servers on loopback, with data in
/// a folder of their own, so that two runs never meet.
pub(crate) const FOR_TESTS: &[Requirement] = &[
    // Participants written in another language, with its standard library alone.
    apt("python3", "python3"),
    // Torture sets the wall clock of a single process.
    apt("faketime", "faketime"),
    // One server, one with a replica, a cluster: started by the tests.
    apt("redis-server", "redis-server"),
    // One server a test. Debian keeps the server itself off the `PATH`; this comes with it.
    apt("pg_ctlcluster", "postgresql"),
    // One server a test.
    apt("mariadbd", "mariadb-server"),
    cargo("cargo-nextest", "0.9.143"),
];

/// What `cargo xtask ci` needs beyond that, and `cargo xtask advisories` alone.
pub(crate) const FOR_CI: &[Requirement] = &[cargo("cargo-deny", "0.20.2")];

/// One program that must be there.
pub(crate) struct Requirement {
    program: &'static str,
    source: Source,
}

enum Source {
    /// A package of Debian and its relatives.
    Apt { package: &'static str },
    /// A crate of the same name as the program. The version is one that our tool chain is known to build: the newest
    /// may ask for a newer compiler. Another version that is already there is good enough.
    Cargo { version: &'static str },
}

const fn apt(program: &'static str, package: &'static str) -> Requirement {
    Requirement { program, source: Source::Apt { package } }
}

const fn cargo(program: &'static str, version: &'static str) -> Requirement {
    Requirement { program, source: Source::Cargo { version } }
}

/// Installs what is missing of `requirements`; a second call finds everything there and does nothing. Packages are
/// installed only by root; anyone else gets an error with the line to run.
pub(crate) fn ensure<'a>(requirements: impl IntoIterator<Item = &'a Requirement>) -> Result<()> {
    let missing: Vec<&Requirement> =
        requirements.into_iter().filter(|requirement| !is_present(requirement)).collect();
    for call in plan(&missing, is_root())? {
        call.run()?;
    }
    match missing.into_iter().find(|requirement| !is_present(requirement)) {
        Some(Requirement { program, .. }) => bail!("{program} was installed but cannot be found on the PATH"),
        None => Ok(()),
    }
}

/// The calls that install `missing`: packages in one go, then each crate.
fn plan(missing: &[&Requirement], is_root: bool) -> Result<Vec<Call>> {
    let mut packages = Vec::new();
    let mut crates = Vec::new();
    for requirement in missing {
        match requirement.source {
            Source::Apt { package } => packages.push(package),
            Source::Cargo { version } => {
                let exact = format!("{}@{version}", requirement.program);
                crates.push(Call::cargo("install --locked").with(&[&exact]));
            }
        }
    }
    if packages.is_empty() {
        return Ok(crates);
    }
    if !is_root {
        bail!(
            "the checks need more programs. Install them:\n\n  sudo apt-get install -y {}\n",
            packages.join(" ")
        );
    }
    let apt = |arguments: &[&str]| Call::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let install = apt(&["install", "-y", "--no-install-recommends"]).with(&packages);
    Ok([apt(&["update"]), install].into_iter().chain(crates).collect())
}

fn is_present(requirement: &Requirement) -> bool {
    // A server's folder is often missing from the PATH of an ordinary user.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).any(|folder| folder.join(requirement.program).is_file());
    on_path || Path::new("/usr/sbin").join(requirement.program).is_file()
}

fn is_root() -> bool {
    Call::new("id", &["-u"]).output().is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(missing: &[&Requirement], is_root: bool) -> Vec<String> {
        plan(missing, is_root).unwrap().iter().map(Call::line).collect()
    }

    #[test]
    fn root_installs_packages_together_after_one_update_then_crates() {
        let missing = [
            &cargo("cargo-x", "1.2.3"),
            &apt("redis-server", "redis-server"),
            &apt("mariadbd", "mariadb-server"),
        ];
        let expected = [
            "DEBIAN_FRONTEND=noninteractive apt-get update",
            "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server mariadb-server",
            "cargo install --locked cargo-x@1.2.3",
        ];
        assert_eq!(lines(&missing, true), expected);
    }

    #[test]
    fn anyone_else_is_told_the_one_line_to_run() {
        let missing = [&apt("python3", "python3"), &apt("mariadbd", "mariadb-server")];
        let error = plan(&missing, false).unwrap_err().to_string();
        assert!(error.contains("\n  sudo apt-get install -y python3 mariadb-server\n"), "{error}");
    }

    #[test]
    fn crates_need_no_root() {
        assert_eq!(lines(&[&cargo("cargo-x", "1.2.3")], false), ["cargo install --locked cargo-x@1.2.3"]);
    }

    #[test]
    fn nothing_missing_means_nothing_to_do() {
        assert!(lines(&[], true).is_empty());
        assert!(lines(&[], false).is_empty());
    }

    #[test]
    fn program_is_looked_for_by_name() {
        assert!(is_present(&apt("sh", "dash")));
        assert!(!is_present(&apt("amends-no-such-program", "none")));
    }
}
