//! Under whose name servers run, and programs that are run to their end.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What `setpriv` is told so that it becomes a server: the process id is the server's, and the server ends with this process whatever
/// becomes of it. As root it runs under the server's own user, for it refuses root.
pub(crate) fn server_arguments(user: &str) -> Vec<String> {
    let mut arguments: Vec<String> = ["--pdeathsig", "KILL"].map(str::to_owned).to_vec();
    arguments.extend(user_arguments(user));
    arguments
}

/// A program run under a server's user, if this process is root's.
pub(crate) fn as_user(user: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(user_arguments(user)).arg("--").arg(program);
    command
}

/// Gives a folder and all that is in it to a server's user, if this process is root's.
pub(crate) fn give(user: &str, folder: &Path) -> Result<()> {
    if is_root() {
        run(Command::new("chown").args(["-R", user]).arg(folder))?;
    }
    Ok(())
}

/// Copies a folder. Servers refuse one that others may enter.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-R").arg(from).arg(to))?;
    run(Command::new("chmod").arg("700").arg(to)).map(drop)
}

/// Runs a program, and gives what it wrote.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn user_arguments(user: &str) -> Vec<String> {
    if is_root() {
        ["--reuid", user, "--regid", user, "--clear-groups"].map(str::to_owned).to_vec()
    } else {
        Vec::new()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
