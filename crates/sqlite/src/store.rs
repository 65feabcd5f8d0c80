//! The store as a value, and how it is opened and closed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use amends_store::locks::Steady;
use amends_store::{Error, Gauge, Health as HealthPort, Kind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::health::Health;
use crate::lock::EngineLock;
use crate::options::Options;
use crate::readers::Readers;
use crate::wal::{self, Wal};
use crate::writer::Writer;
use crate::{create, filesystem, migrate};

/// How long a transaction waits for the log to be emptied, which is all that can be in its way.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Prepared statements kept by each connection: more than there are.
const STATEMENTS_MAX: usize = 96;

/// Memory of the page cache of each connection but the writer's.
const READER_CACHE_KIB: u32 = 2 << 10;

/// A store in one SQLite file, for one engine.
///
/// Dropping it answers what is queued, copies the log and gives the file free for another engine; this may take
/// as long as the disk takes to write the log. A process that is killed instead loses nothing that was answered.
#[derive(Debug)]
pub struct SqliteStore {
    pub(crate) writer: Writer,
    pub(crate) readers: Arc<Readers>,
    pub(crate) health: Arc<Health>,
    /// What leases of locks are measured on.
    pub(crate) clock: Steady,
    wal: Arc<Wal>,
    checkpointer: Mutex<Option<JoinHandle<()>>>,
    // Last, so that the file is given free when nothing of this store touches it any more.
    _lock: EngineLock,
}

impl SqliteStore {
    /// Opens a store, making its file (readable by this user only) and tables if needed. It works on the file's folder
    /// too: SQLite keeps a `-wal` and a `-shm` file there, this store a `.lock`. Blocks while it does so.
    ///
    /// # Errors
    /// [`Kind::Refused`] if another engine has it open, if it is no store, or of a later version, or on a network filesystem;
    /// [`Kind::Corrupt`] if it is damaged; [`Kind::Unwritable`] if it cannot be written. The message says what to do.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = absolute(path.as_ref())?;
        if !options.allow_network_filesystem {
            filesystem::check(&path)?;
        }
        create::file(&path)?;
        // One file has one lock, by whichever links it is reached.
        let path = path.canonicalize().unwrap_or(path);
        let lock = EngineLock::take(&path)?;
        let health = Arc::new(Health::new(path.clone()));
        let note = |source: rusqlite::Error| health.note(&source);
        let mut conn = writing(&path, options.writer_cache_kib).map_err(note)?;
        prepare(&mut conn, &path, &options, &health)?;
        let wal = Arc::new(Wal::new(&path));
        let woken = wal::watch(&mut conn, &wal, options.checkpoint_pages).map_err(note)?;
        let copying = writing(&path, READER_CACHE_KIB).map_err(note)?;
        // It must not wait for readers: it would hold up the writer meanwhile.
        copying.busy_timeout(Duration::ZERO).map_err(note)?;
        let reading: Result<Vec<Connection>, _> =
            (0..options.reader_max.max(1)).map(|_| reading(&path)).collect();
        let readers = Readers::new(reading.map_err(note)?, Arc::clone(&health));
        let (queue_max, probe) = (options.queue_max.max(1), options.probe_interval);
        let writer = Writer::start(conn, Arc::clone(&health), Arc::clone(&wal), queue_max, probe)?;
        let (copies, watched) = (Arc::clone(&wal), Arc::clone(&health));
        let checkpointer =
            wal::start_checkpointer(copying, copies, watched, woken, writer.queue(), options.idle_interval)?;
        let clock = Steady::new();
        Ok(Self {
            writer,
            readers,
            health,
            clock,
            wal,
            checkpointer: Mutex::new(Some(checkpointer)),
            _lock: lock,
        })
    }

    /// Bytes of the write-ahead log's file. It grows while a read stays open, and is emptied when the store is idle.
    #[must_use]
    pub fn wal_bytes(&self) -> u64 {
        self.wal.bytes()
    }
}

impl HealthPort for SqliteStore {
    fn health(&self) -> Result<(), Error> {
        self.health.takes_work()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, help, value| Gauge { name, help, value };
        vec![
            gauge("wal_bytes", "Size of the write-ahead log's file.", self.wal.bytes()),
            gauge("wal_pages", "Pages in use of the write-ahead log.", u64::from(self.wal.pages())),
            gauge("commits_total", "Transactions committed since the store was opened.", self.wal.commits()),
            gauge("commit_items_total", "Items and other writes that they consisted of.", self.wal.parts()),
        ]
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection to be closed copies the log, which one that only reads cannot.
        self.readers.close();
        self.writer.stop();
        let checkpointer = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if checkpointer.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the checkpointer's thread ended by a panic");
        }
    }
}

/// The path from the root, so that messages say which file is meant and a later change of folder changes nothing.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|e| {
        let message = format!("{:?} is no path for a store: {e}; write sqlite://amends.db", path.display());
        Error::new(Kind::Refused, message)
    })
}

/// Checks what is in the file, and brings it up to date.
fn prepare(conn: &mut Connection, path: &Path, options: &Options, health: &Health) -> Result<(), Error> {
    let note = |source: rusqlite::Error| health.note(&source);
    migrate::check(conn, path).map_err(note)??;
    if std::fs::metadata(path).is_ok_and(|file| file.len() <= options.check_bytes_max) {
        quick_check(conn, path).map_err(note)??;
    }
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(note)?;
    if mode != "wal" {
        let message = format!(
            "{} cannot have a write-ahead log (its mode stays {mode:?}); put it on a local disk",
            path.display()
        );
        return Err(Error::new(Kind::Refused, message));
    }
    if let Some(pages) = options.page_max {
        conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(note)?;
    }
    migrate::run(conn).map_err(note)?;
    // The lock proves that the processes of all earlier leases are gone, and with them whoever had taken a submission.
    conn.execute("DELETE FROM node", []).map_err(note)?;
    conn.execute("UPDATE amends_submission SET due_at = 0 WHERE due_at IS NOT NULL", []).map_err(note)?;
    Ok(())
}

fn quick_check(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), Error>> {
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(Ok(()));
    }
    let message = format!(
        "{} is damaged ({found}); keep a copy of it and of its -wal, and restore a backup or try sqlite3's .recover",
        path.display()
    );
    Ok(Err(Error::new(Kind::Corrupt, message)))
}

/// A connection that may write.
fn writing(path: &Path, cache_kib: u32) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    configure(&conn, cache_kib)?;
    // FULL syncs the log at each commit. Copying it is the checkpointer's work.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "fullfsync", true)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    Ok(conn)
}

/// A connection that only reads.
fn reading(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    configure(&conn, READER_CACHE_KIB)?;
    Ok(conn)
}

fn configure(conn: &Connection, cache_kib: u32) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Otherwise SQLite plans a statement again for each value of some of its parameters.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "trusted_schema", false)?;
    // Finds a damaged page when it is read, rather than some time after it was used.
    conn.pragma_update(None, "cell_size_check", true)?;
    // A mapped file turns an I/O error into the death of the process.
    conn.query_row("PRAGMA mmap_size = 0", [], |_| Ok(()))?;
    Ok(())
}
