//! Who a node is among those that share a store.
//!
//! A node's name must be its own while it lives, or two would take each other's sagas, and the same after a restart, so that it takes its own
//! up again at once. Both follow from a folder that one process at a time may use.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::Path;

use crate::exit::Failure;

/// Bytes of the host's name that are kept: enough to be recognised.
const HOST_MAX: usize = 64;

/// The node's name, and the lock that makes it its own. Held as long as this value lives.
#[derive(Debug)]
pub(crate) struct Identity {
    name: String,
    _lock: Option<File>,
}

impl Identity {
    /// The only node of its store.
    pub(crate) fn embedded() -> Self {
        Self { name: "embedded".to_owned(), _lock: None }
    }

    /// The node whose data folder this is; the folder is made if needed.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, Failure> {
        let broken = |e: std::io::Error| {
            Failure::failed(
                format!("the data folder {} cannot be used: {e}", folder.display()),
                "make it writable, or name another as [store] data in amends.toml",
            )
        };
        std::fs::create_dir_all(folder).map_err(broken)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join("lock"))
            .map_err(broken)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::failed(
                    format!("another amends runs with the data folder {}", folder.display()),
                    "give each its own: [store] data = \"…\" in amends.toml, or start it in another folder",
                ));
            }
            Err(TryLockError::Error(e)) => return Err(broken(e)),
        }
        let file = folder.join("node");
        let own = match std::fs::read_to_string(&file) {
            Ok(own) if !own.trim().is_empty() => own.trim().to_owned(),
            Ok(_) | Err(_) => {
                let own = uuid::Uuid::new_v4().simple().to_string();
                write_synced(folder, &file, &own).map_err(broken)?;
                own
            }
        };
        let host: String =
            rustix::system::uname().nodename().to_string_lossy().chars().take(HOST_MAX).collect();
        Ok(Self { name: format!("{host}-{own}"), _lock: Some(lock) })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Whole or not at all: half a name would be another node's.
fn write_synced(folder: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    let new = folder.join("node.new");
    let mut written = File::create(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_node_at_a_time_and_the_same_one_again() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("state");
        let first = Identity::in_folder(&data).unwrap();
        let name = first.name().to_owned();
        assert!(Identity::in_folder(&data).is_err());
        drop(first);
        assert_eq!(Identity::in_folder(&data).unwrap().name(), name);
        assert_ne!(Identity::in_folder(&folder.path().join("other")).unwrap().name(), name);
    }
}
