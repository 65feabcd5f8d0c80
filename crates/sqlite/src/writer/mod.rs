//! The one thread that writes, and its queue.
//!
//! Group commit without a timer: while one transaction is on its way to the disk the next group forms in the queue. At
//! low load a group is one request and waits for nothing; at load groups grow by themselves.

mod group;
mod job;
mod last_seq;
mod tally;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use amends_store::{Error, Kind};
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use crate::health::Health;
use crate::wal::Wal;
use group::Group;
pub(crate) use job::{Call, Job, Tx};
pub(crate) use tally::{Counted, counted};

/// Parts that one transaction takes at most, unless a single request has more: so that the first of them does not wait long.
const GROUP_PARTS_MAX: usize = 1_024;

/// What the writer is asked to do.
pub(crate) enum Request {
    /// Part of the next transaction.
    Job(Box<dyn Job>),
    /// Copy what little is left of the log, between two transactions.
    Checkpoint,
    /// End.
    Stop,
}

/// The writer's queue.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Request>,
    room: Arc<Semaphore>,
    health: Arc<Health>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread on its connection. `queue_max` requests may wait.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(
        conn: Connection,
        health: Arc<Health>,
        wal: Arc<Wal>,
        queue_max: usize,
        probe_interval: Duration,
    ) -> Result<Self, Error> {
        let (queue, requests) = mpsc::channel();
        let group = Group::new(conn, Arc::clone(&health), wal);
        let thread = std::thread::Builder::new()
            .name("amends-sqlite-writer".to_owned())
            .spawn(move || run(group, &requests, probe_interval))
            .map_err(|e| Error::new(Kind::Unavailable, format!("cannot start the writer's thread: {e}")))?;
        let room = Arc::new(Semaphore::new(queue_max));
        Ok(Self { queue, room, health, thread: std::sync::Mutex::new(Some(thread)) })
    }

    /// Runs `call` as part of the next transaction; gives its answer once that is durable. `call` may run more than
    /// once, each time on a state in which it has not run. Dropping the future does not stop what is queued.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        call: impl FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(Call::new(call, reply))).await?;
        answer.await.unwrap_or_else(|_| Err(gone(Kind::Indeterminate)))
    }

    /// Queues a job, waiting for room.
    pub(crate) async fn send(&self, mut job: Box<dyn Job>) -> Result<(), Error> {
        self.health.writable()?;
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| gone(Kind::Unavailable))?;
        job.keep(permit);
        self.queue.send(Request::Job(job)).map_err(|_| gone(Kind::Unavailable))
    }

    /// The queue itself, for the checkpointer.
    pub(crate) fn queue(&self) -> mpsc::Sender<Request> {
        self.queue.clone()
    }

    /// Ends the thread once it has done what is queued.
    pub(crate) fn stop(&self) {
        self.room.close();
        // If the thread is gone already there is nothing to tell it.
        let _ = self.queue.send(Request::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer's thread ended by a panic");
        }
    }
}

/// The thread has ended: by a stop, or by a panic.
fn gone(kind: Kind) -> Error {
    Error::new(kind, "the store's writer has ended; restart the engine")
}

fn run(mut group: Group, requests: &mpsc::Receiver<Request>, probe_interval: Duration) {
    loop {
        let first = if group.is_full() {
            match requests.recv_timeout(probe_interval) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => {
                    group.probe();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        } else {
            match requests.recv() {
                Ok(request) => request,
                Err(mpsc::RecvError) => return,
            }
        };
        let mut next = Some(first);
        let (mut checkpoint, mut stop) = (false, false);
        while let Some(request) = next.take() {
            match request {
                Request::Job(job) => group.add(job),
                Request::Checkpoint => checkpoint = true,
                Request::Stop => stop = true,
            }
            if group.parts() < GROUP_PARTS_MAX && !stop {
                next = requests.try_recv().ok();
            }
        }
        group.commit();
        if checkpoint {
            group.checkpoint();
        }
        if stop {
            return;
        }
    }
}
