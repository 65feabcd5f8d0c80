//! Group commit without a timer: while commits are on their way the next batch forms. At low load a batch is one item and
//! waits for nothing; at load batches grow by themselves, all alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amends_store::{Error, Item, Kind, Outcome, Store};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::meter::Meter;

/// Where items are handed in.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Job>,
    waiting: Arc<AtomicUsize>,
    waiting_max: usize,
}

struct Job {
    item: Item,
    answer: oneshot::Sender<Outcome>,
}

/// The other end: whoever owns it runs it.
pub(crate) struct Batches {
    queue: mpsc::Receiver<Job>,
    waiting: Arc<AtomicUsize>,
    batch_max: usize,
    in_flight_max: usize,
}

impl Committer {
    pub(crate) fn new(queue_max: usize, batch_max: usize, in_flight_max: usize) -> (Self, Batches) {
        let (queue, jobs) = mpsc::channel(queue_max.max(1));
        let waiting = Arc::new(AtomicUsize::new(0));
        let batches = Batches {
            queue: jobs,
            waiting: waiting.clone(),
            batch_max: batch_max.max(1),
            in_flight_max: in_flight_max.max(1),
        };
        (Self { queue, waiting, waiting_max: queue_max.max(1) }, batches)
    }

    /// Commits one item together with what else waits; durable when it returns. A full queue makes it wait.
    ///
    /// Dropped before it returns, the item may or may not have been written: the caller is then gone, as in a crash. A saga
    /// never hands in a second item before the first is answered, so that no two batches in flight hold items of one saga.
    pub(crate) async fn commit(&self, item: Item) -> Outcome {
        let counted = Counted::one(&self.waiting);
        let Ok(place) = self.queue.reserve().await else {
            return Outcome::Failed(Error::new(
                Kind::Unavailable,
                "the engine has stopped; nothing was written",
            ));
        };
        let (answer, answered) = oneshot::channel();
        place.send(Job { item, answer });
        let outcome = answered.await;
        drop(counted);
        outcome.unwrap_or_else(|_| {
            Outcome::Failed(Error::new(
                Kind::Indeterminate,
                "the engine stopped while this was being written",
            ))
        })
    }

    /// Items handed in and not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= self.waiting_max
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn one(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Batches {
    /// Runs until the committer is gone and everything handed in is answered.
    pub(crate) async fn run(mut self, store: Arc<dyn Store>, meter: Arc<Meter>) {
        let mut in_flight = FuturesUnordered::new();
        let mut jobs = Vec::new();
        let mut open = true;
        while open || !in_flight.is_empty() {
            let share = self.share();
            let room = share.saturating_sub(jobs.len());
            tokio::select! {
                biased;
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                taken = self.queue.recv_many(&mut jobs, room), if open && room > 0 && in_flight.len() < self.in_flight_max => {
                    if taken == 0 {
                        open = false;
                    }
                }
            }
            // Beside another commit a few items are not worth one of their own: they wait for more, or for the other's end.
            let is_worth_one = in_flight.is_empty() || jobs.len() >= share.div_ceil(2);
            if !jobs.is_empty() && is_worth_one && in_flight.len() < self.in_flight_max {
                in_flight.push(commit(&store, &meter, std::mem::take(&mut jobs)));
            }
        }
        debug_assert_eq!(self.waiting.load(Ordering::Relaxed), 0);
    }

    /// How many items one commit takes: what is there, in equal parts for all that may be on their way. A large one followed by
    /// tiny ones would leave now the store idle and now the engine.
    fn share(&self) -> usize {
        self.waiting.load(Ordering::Relaxed).div_ceil(self.in_flight_max).clamp(1, self.batch_max)
    }
}

async fn commit(store: &Arc<dyn Store>, meter: &Meter, jobs: Vec<Job>) {
    let (items, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.item, job.answer)).unzip();
    let begun = Instant::now();
    let outcomes = store.commit(items).await;
    meter.committed(answers.len(), begun.elapsed(), &outcomes);
    let mut outcomes = outcomes.into_iter();
    for answer in answers {
        // A store answers each item; one that does not has left open what became of it.
        let outcome = outcomes.next().unwrap_or_else(|| {
            Outcome::Failed(Error::new(Kind::Indeterminate, "the store gave no answer to this item"))
        });
        // Nobody waits any more if the saga was dropped from memory: whoever takes it over reads what stands.
        let _ = answer.send(outcome);
    }
}
