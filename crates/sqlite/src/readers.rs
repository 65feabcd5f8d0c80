//! Connections for reads, so that they neither wait for the writer nor hold it up.

use std::sync::{Arc, Mutex, PoisonError};

use amends_store::{Error, Kind};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::health::Health;

/// A few read-only connections. Reads are short: an open one keeps the log from being emptied.
#[derive(Debug)]
pub(crate) struct Readers {
    free: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
    health: Arc<Health>,
}

impl Readers {
    pub(crate) fn new(connections: Vec<Connection>, health: Arc<Health>) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(connections.len()));
        Arc::new(Self { free: Mutex::new(connections), room, health })
    }

    /// Runs `read` on a thread that may block, in one transaction: all it sees is of one moment.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let stopped = || Error::new(Kind::Unavailable, "the read was stopped, because the process is ending");
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| stopped())?;
        let readers = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            // Dropped in reverse order: the connection goes back before the next caller is let in.
            let _permit = permit;
            let lent = Lent::of(&readers);
            in_transaction(lent.connection(), read).map_err(|source| readers.health.note(&source))
        });
        read.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections that are free.
    pub(crate) fn close(&self) {
        self.room.close();
        self.free().clear();
    }
}

fn in_transaction<T>(
    conn: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let tx = conn.unchecked_transaction()?;
    let answer = read(&tx)?;
    tx.commit()?;
    Ok(answer)
}

/// A connection that goes back to the others however the read ends.
struct Lent<'r> {
    readers: &'r Readers,
    conn: Option<Connection>,
}

impl<'r> Lent<'r> {
    fn of(readers: &'r Readers) -> Self {
        Self { readers, conn: readers.free().pop() }
    }

    fn connection(&self) -> &Connection {
        self.conn.as_ref().expect("invariant: there are as many permits as connections")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take().filter(|_| !self.readers.room.is_closed()) {
            self.readers.free().push(conn);
        }
    }
}
