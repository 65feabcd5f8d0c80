//! One engine a file: an exclusive lock of the operating system, which ends with the process however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use amends_store::{Error, Kind};

use crate::create::private;

/// The lock beside a database. It is held while this value lives.
#[derive(Debug)]
pub(crate) struct EngineLock {
    _file: File,
}

impl EngineLock {
    /// Takes the lock of a database.
    ///
    /// # Errors
    /// [`Kind::Refused`], naming the other process if it is known, or if the system has no locks there;
    /// [`Kind::Unwritable`] if the lock's file cannot be made or written.
    pub(crate) fn take(database: &Path) -> Result<Self, Error> {
        let path = lock_path(database);
        let cannot = |e: std::io::Error| {
            let message =
                format!("cannot lock {}: {e}; an engine must be alone on its database", path.display());
            Error::new(Kind::Refused, message)
        };
        let unwritable = |e: std::io::Error| {
            let message = format!(
                "cannot write {}: {e}; the database's folder must be writable by this user",
                path.display()
            );
            Error::new(Kind::Unwritable, message)
        };
        let mut file = private(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(&mut file, database)),
            Err(TryLockError::Error(e)) => return Err(cannot(e)),
        }
        // The number only helps whoever is refused; the lock is what counts.
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        noted.map_err(unwritable)?;
        Ok(Self { _file: file })
    }
}

fn held(file: &mut File, database: &Path) -> Error {
    let mut pid = String::new();
    let by = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => format!("process {pid}"),
        Ok(_) | Err(_) => "another process".to_owned(),
    };
    let message = format!(
        "{} is in use by {by}: one engine at a time can work on it; stop that one, or give this one another store",
        database.display()
    );
    Error::new(Kind::Refused, message)
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}
