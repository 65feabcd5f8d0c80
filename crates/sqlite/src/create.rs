//! Making the file: readable by its owner alone, since payloads are in it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use amends_store::{Error, Kind};

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Makes the file unless it is there, and refuses one that is no SQLite database. SQLite gives its log the same permissions.
///
/// # Errors
/// [`Kind::Refused`] or [`Kind::Unwritable`], naming the file.
pub(crate) fn file(path: &Path) -> Result<(), Error> {
    match private(OpenOptions::new().write(true).create_new(true)).open(path) {
        Ok(_) => sync_folder(path),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => is_sqlite(path),
        Err(e) => {
            let message = format!(
                "cannot make the database {}: {e}; its folder must exist and be writable by this user",
                path.display()
            );
            Err(Error::new(Kind::Unwritable, message))
        }
    }
}

/// Makes files that this opens for the first time private to the user.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn is_sqlite(path: &Path) -> Result<(), Error> {
    let mut head = Vec::new();
    warn_if_shared(path);
    File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut head)).map_err(|e| {
        let message = format!("cannot read the database {}: {e}; check its permissions", path.display());
        Error::new(Kind::Unwritable, message)
    })?;
    if head.is_empty() || head == MAGIC {
        return Ok(());
    }
    let message = format!("{} is no SQLite database; name another file, or move it away", path.display());
    Err(Error::new(Kind::Refused, message))
}

/// A file made by somebody else keeps its permissions; whoever runs this should know what they are.
fn warn_if_shared(path: &Path) {
    #[cfg(unix)]
    if let Ok(file) = std::fs::metadata(path)
        && std::os::unix::fs::MetadataExt::mode(&file) & 0o077 != 0
    {
        tracing::warn!("{} can be read by other users of this machine; chmod 600 it", path.display());
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Makes the file's name survive a power failure, not only its content.
fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = if cfg!(unix) { File::open(folder).and_then(|folder| folder.sync_all()) } else { Ok(()) };
    synced.map_err(|e| {
        Error::new(Kind::Unwritable, format!("cannot sync the folder {}: {e}", folder.display()))
    })
}
