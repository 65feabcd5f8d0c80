//! Data folders of empty databases, kept beside the tests' programs: making one takes a second, copying it does not.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::account::{copy, give};

/// The folder kept under this name. If there is none, `make` makes one where it is told, as `user` may.
pub(crate) fn kept(name: &str, user: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let tests = std::env::current_exe()?;
    let beside = tests.parent().context("the test's program is in no folder")?;
    let kept = beside.join(name);
    if kept.is_dir() {
        return Ok(kept);
    }
    // Made elsewhere, for the server's user may not enter the tests' folder.
    let made = tempfile::tempdir()?;
    let data = made.path().join("data");
    give(user, made.path())?;
    make(&data)?;
    // Whole at once, or not at all: other tests look for it at the same time.
    let own = tempfile::tempdir_in(beside)?;
    copy(&data, &own.path().join("data"))?;
    if fs::rename(own.path().join("data"), &kept).is_err() {
        ensure!(kept.is_dir(), "{} cannot be made", kept.display());
    }
    Ok(kept)
}
