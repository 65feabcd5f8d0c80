//! A filesystem of a few megabytes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// A filesystem in memory, mounted in a folder of its own; both go when it is dropped.
#[derive(Debug)]
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one. `None` where this user may not.
    ///
    /// # Errors
    /// If there is no place for its folder.
    pub fn mount(bytes: u64) -> Result<Option<Self>> {
        let at = tempfile::Builder::new().prefix("amends-disk-").tempdir()?;
        let size = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at.path()).output();
        Ok(mounted.is_ok_and(|output| output.status.success()).then_some(Self(at)))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes it read-only, or writable again. Nobody may have a file of it open for writing.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn read_only(&self, on: bool) -> Result<()> {
        let mode = if on { "remount,ro" } else { "remount,rw" };
        let output = Command::new("mount").args(["-o", mode]).arg(self.0.path()).output().context("mount")?;
        ensure!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the engine that had files open there may be about to end.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}
