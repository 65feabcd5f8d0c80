//! The write-ahead log: how long it is, and how it gets copied into the database off the commit path.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use amends_store::{Error, Kind};
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use crate::error::Trouble;
use crate::health::Health;
use crate::writer::Request;

/// A store with fewer commits between two looks is idle; a node's lease alone makes a few.
const IDLE_COMMITS_MAX: u64 = 100;
/// A log shorter than this is not worth being emptied.
const IDLE_PAGES_MIN: u32 = 256;
/// What the writer itself copies at most, between two transactions.
const LEFT_PAGES_MAX: u32 = 1_000;
/// Each pass copies what was written during the one before; under full load the last may leave more than wished.
const PASSES_MAX: u32 = 4;

/// What is known of the log.
#[derive(Debug)]
pub(crate) struct Wal {
    path: PathBuf,
    pages: AtomicU32,
    commits: AtomicU64,
    parts: AtomicU64,
}

impl Wal {
    pub(crate) fn new(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self {
            path: PathBuf::from(path),
            pages: AtomicU32::new(0),
            commits: AtomicU64::new(0),
            parts: AtomicU64::new(0),
        }
    }

    /// Counts one transaction.
    pub(crate) fn committed(&self, parts: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.parts.fetch_add(parts as u64, Ordering::Relaxed);
    }

    /// Bytes of the log's file, 0 if there is none.
    pub(crate) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Pages in use of the log, when the last transaction was committed.
    pub(crate) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Transactions committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Parts that they consisted of.
    pub(crate) fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// Copies what can be copied without waiting for anyone. Gives the pages left.
    pub(crate) fn copy(&self, conn: &Connection, health: &Health) -> u32 {
        match conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
            Ok((all, copied)) => u32::try_from(all - copied).unwrap_or(0),
            Err(source) => {
                failed(&source, health);
                0
            }
        }
    }

    /// Copies everything and gives the log's room back to the disk, unless somebody is just using it.
    fn empty(&self, conn: &Connection, health: &Health) {
        match conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE) {
            Ok(_) => self.pages.store(0, Ordering::Relaxed),
            Err(source) => failed(&source, health),
        }
    }
}

/// A log that cannot be copied loses nothing, so that a full database file is not yet a reason to stop.
fn failed(source: &rusqlite::Error, health: &Health) {
    match Trouble::of(source) {
        Trouble::Passing => {}
        Trouble::Full => tracing::warn!(file = %health.path().display(), "no room to copy the log: {source}"),
        Trouble::Disk | Trouble::Corrupt | Trouble::Unfit => {
            health.note(source);
        }
    }
}

/// Has the writer's connection report the log's length, and wake the checkpointer at `pages_max`.
///
/// # Errors
/// Those of SQLite.
pub(crate) fn watch(
    conn: &mut Connection,
    wal: &Arc<Wal>,
    pages_max: u32,
) -> rusqlite::Result<mpsc::Receiver<()>> {
    // One wake-up in the channel is enough: it says "look", not "how much".
    let (wake, woken) = mpsc::sync_channel(1);
    let wal = Arc::clone(wal);
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        let pages = u32::try_from(pages).unwrap_or(0);
        wal.pages.store(pages, Ordering::Relaxed);
        if pages >= pages_max {
            // Full: it is awake. Disconnected: the store is being closed.
            let _ = wake.try_send(());
        }
        Ok(())
    }))?;
    Ok(woken)
}

/// Starts the thread that copies the log. It ends when the writer's connection is closed.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start_checkpointer(
    conn: Connection,
    wal: Arc<Wal>,
    health: Arc<Health>,
    woken: mpsc::Receiver<()>,
    writer: mpsc::Sender<Request>,
    idle_interval: Duration,
) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name("amends-sqlite-checkpointer".to_owned())
        .spawn(move || run(&conn, &wal, &health, &woken, &writer, idle_interval))
        .map_err(|e| Error::new(Kind::Unavailable, format!("cannot start the checkpointer's thread: {e}")))
}

fn run(
    conn: &Connection,
    wal: &Wal,
    health: &Health,
    woken: &mpsc::Receiver<()>,
    writer: &mpsc::Sender<Request>,
    idle_interval: Duration,
) {
    let mut commits_seen = 0;
    loop {
        match woken.recv_timeout(idle_interval) {
            Ok(()) => {
                let mut passes = 0;
                while health.writable().is_ok()
                    && wal.copy(conn, health) > LEFT_PAGES_MAX
                    && passes < PASSES_MAX
                {
                    passes += 1;
                }
                // Those who called meanwhile are answered by what follows.
                while woken.try_recv().is_ok() {}
                // The log begins again from its start only when all of it is copied, which under load it never is
                // while transactions go on.
                if writer.send(Request::Checkpoint).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let commits = wal.commits();
                let idle = commits - commits_seen < IDLE_COMMITS_MAX;
                commits_seen = commits;
                if idle && wal.pages() >= IDLE_PAGES_MIN && health.writable().is_ok() {
                    wal.empty(conn, health);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
