//! A temporary folder for servers that this program starts, and that is gone when it ends.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::exit::{Exit, Failure};

/// How often, and how far apart, the removal is tried: a process that was just killed may still be about to write a file.
const REMOVE_TRIES: u32 = 40;
const REMOVE_AGAIN: Duration = Duration::from_millis(50);

/// The folder.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// Makes it.
    pub(crate) fn new(purpose: &str) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix(&format!("amends-{purpose}-")).tempdir();
        let failed = |e| {
            Failure::failed(
                format!("no temporary folder can be made: {e}"),
                "set TMPDIR to one that can be written",
            )
        };
        folder.map(Self).map_err(failed)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Does `work` in it, unless told meanwhile to stop (SIGINT); what the work started ends with it.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            _ = tokio::signal::ctrl_c() => {
                Err(Failure::new(Exit::Failed, "it was interrupted", "run it again; nothing was left behind"))
            }
        }
    }

    /// Removes it with everything in it.
    pub(crate) async fn remove(self) {
        for _ in 0..REMOVE_TRIES {
            if std::fs::remove_dir_all(self.path()).is_ok() || !self.path().exists() {
                break;
            }
            tokio::time::sleep(REMOVE_AGAIN).await;
        }
    }
}
