//! Tests that need a process of their own: they run this test program again, with the test's own name and a folder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells a test that it is the child, and where to work.
const FOLDER: &str = "AMENDS_TEST_CHILD_FOLDER";

/// The folder to work in, in the child; `None` in the test itself.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Has a command, which runs this test program, run the test with this name as a child.
pub(crate) fn run(command: &mut Command, test: &str, folder: &Path) {
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
}

/// This test program.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Whether this process may do what ordinary users may not.
pub(crate) fn is_root(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).unwrap().uid() == 0
}
