//! How many items a second the store commits: `cargo run --release -p amends-redis --example commit_bench -- URL SECONDS
//! CALLERS…`. The store should be empty: run it on a server of its own, with `appendonly yes` and `appendfsync always`.
//!
//! Each caller takes one saga after the other through four commits: submitted with a claim, two steps done, done and ended. One
//! caller shows the way to the server and back. The items of many are gathered into batches, as the engine does it: while some are
//! on their way the next one forms.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_core::Time;
use amends_redis::{RedisStore, StoreOptions};
use amends_store::conformance::samples::{
    Vary as _, advance, advanced, end, join, now, row, submission, submitted,
};
use amends_store::{Advanced, Health as _, Item, Journal as _, NodeLease, Outcome, StoredEntry, Submitted};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Bytes of an entry's body: an input, or an answer with its fact.
const BODY_BYTES: usize = 250;

/// Items of a batch, as the engine has them.
const BATCH_MAX: usize = 512;

/// Batches on their way at once, as the engine has them.
const IN_FLIGHT_MAX: usize = 2;

type Job = (Item, oneshot::Sender<Outcome>);

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("the first argument is the server's URL");
    let seconds =
        args.next().map_or(3.0, |text| text.parse().expect("the second argument is a number of seconds"));
    let callers: Vec<u64> =
        args.map(|text| text.parse().expect("further arguments are numbers of callers")).collect();
    let store = Arc::new(RedisStore::open(&url, StoreOptions::default()).await.expect("the store opens"));
    for callers in if callers.is_empty() { vec![1, 16, 128] } else { callers } {
        let line = round(&store, callers, Duration::from_secs_f64(seconds)).await;
        writeln!(std::io::stdout(), "{line}").expect("standard output is open");
    }
}

async fn round(store: &Arc<RedisStore>, callers: u64, time: Duration) -> String {
    let lease = join(&**store, "bench").await;
    let (queue, jobs) = mpsc::channel(16_384);
    let batches = tokio::spawn(gather(Arc::clone(store), jobs));
    let commits_before = commits(store);
    let began = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (queue, lease) = (queue.clone(), lease.clone());
            tokio::spawn(async move {
                let mut waits = Vec::new();
                let mut nth = 0;
                while began.elapsed() < time {
                    let text = format!("order:{}:{nth}:{caller}", lease.epoch);
                    saga(&queue, &text, &lease, &mut waits).await;
                    nth += 1;
                }
                waits
            })
        })
        .collect();
    drop(queue);
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.expect("a caller panicked"));
    }
    let seconds = began.elapsed().as_secs_f64();
    batches.await.expect("the batches panicked");
    waits.sort_unstable();
    let items = waits.len();
    format!(
        "callers {callers:4}: {:7.0} items/s, {:6.0} sagas/s, {:5.1} items a call, p50 {:?}, p99 {:?}",
        items as f64 / seconds,
        items as f64 / seconds / 4.0,
        items as f64 / (commits(store) - commits_before) as f64,
        waits[items / 2],
        waits[items * 99 / 100],
    )
}

fn commits(store: &RedisStore) -> u64 {
    store.gauges().iter().find(|gauge| gauge.name == "commits_total").map_or(0, |gauge| gauge.value)
}

/// Commits what waits, in batches.
async fn gather(store: Arc<RedisStore>, mut jobs: mpsc::Receiver<Job>) {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        let permit = Arc::clone(&in_flight).acquire_owned().await.expect("it is never closed");
        let mut batch = Vec::new();
        if jobs.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return;
        }
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let (items, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (answer, outcome) in answers.into_iter().zip(store.commit(items).await) {
                let _ = answer.send(outcome);
            }
            drop(permit);
        });
    }
}

async fn commit(queue: &mpsc::Sender<Job>, item: Item, waits: &mut Vec<Duration>) -> Outcome {
    let began = Instant::now();
    let (answer, answered) = oneshot::channel();
    queue.send((item, answer)).await.expect("batches are taken");
    let outcome = answered.await.expect("batches are answered");
    waits.push(began.elapsed());
    outcome
}

async fn saga(queue: &mpsc::Sender<Job>, text: &str, lease: &NodeLease, waits: &mut Vec<Duration>) {
    let body = |mut entry: StoredEntry| {
        entry.body = vec![b'x'; BODY_BYTES];
        entry
    };
    let mut new = submission(row(text).owned(lease), &[text]);
    new.entries = new.entries.into_iter().map(body).collect();
    let Submitted::Created(rowid) = submitted(commit(queue, Item::Submit(new), waits).await) else {
        panic!("{text} is not new")
    };
    for after in 1..=3 {
        let mut item =
            if after < 3 { advance(text, rowid, after, 1) } else { end(text, rowid, after, Time(now().0)) };
        item.entries = item.entries.into_iter().map(body).collect();
        assert_eq!(advanced(commit(queue, Item::Advance(item), waits).await), Advanced::Committed);
    }
}
