//! What a batch costs: `cargo run --release -p amends-mysql --example batch_bench -- [SECONDS] [LANES] [ITEMS]`.
//!
//! It starts a server of its own. Each lane, which stands for a commit on its way, sends one batch after the other: of its sagas, a quarter each is
//! submitted with a claim, done a step, done another, and ended. The server's CPU time tells more than the rate on a machine that does other work.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_mysql::MySqlStore;
use amends_store::conformance::samples::{Vary as _, advance, end, join, now, row, submission};
use amends_store::{Advanced, Item, Journal as _, NodeLease, Outcome, Submission, Submitted};
use amends_testbed::mariadb::MariaDb;

/// Bytes of an entry's body: an input, or an answer with its fact.
const BODY_BYTES: usize = 250;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("arguments are numbers"));
    let (seconds, lanes) = (args.next().unwrap_or(3), args.next().unwrap_or(2));
    let items = usize::try_from(args.next().unwrap_or(64)).expect("so many do not fit");
    let server = MariaDb::with(&[("innodb-log-file-size", "96M")]).expect("MariaDB starts");
    let store = Arc::new(MySqlStore::open(&server.url()).await.expect("the store opens"));
    let lease = join(&*store, "bench").await;
    let (began, time) = (Instant::now(), Duration::from_secs(seconds));
    let (server_id, own_id) = (server.process().id(), std::process::id());
    let before = (cpu_ms(server_id), cpu_ms(own_id));
    let running: Vec<_> = (0..lanes)
        .map(|number| {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            tokio::spawn(async move {
                let mut lane = Lane { number, lease, sagas: Vec::new(), count: 0 };
                let mut committed = 0;
                while began.elapsed() < time {
                    committed += lane.round(&store, items).await;
                }
                committed
            })
        })
        .collect();
    let mut committed = 0;
    for lane in running {
        committed += lane.await.expect("a lane panicked");
    }
    let seconds = began.elapsed().as_secs_f64();
    let per_item = |ms: f64| ms * 1_000.0 / committed as f64;
    let line = format!(
        "{lanes} lanes of {items} items: {:.0} items/s, {:.0} sagas/s; CPU an item: server {:.1} µs, client {:.1} µs",
        committed as f64 / seconds,
        committed as f64 / seconds / 4.0,
        per_item(cpu_ms(server_id) - before.0),
        per_item(cpu_ms(own_id) - before.1),
    );
    writeln!(std::io::stdout(), "{line}").expect("standard output is open");
}

/// Sagas that one lane moves: (id, number, last entry).
struct Lane {
    number: u64,
    lease: NodeLease,
    sagas: Vec<(String, u64, u64)>,
    count: u64,
}

impl Lane {
    /// One batch: those that are under way go on, and new ones come. Gives how many items it had.
    async fn round(&mut self, store: &MySqlStore, items: usize) -> usize {
        let mut batch: Vec<Item> = Vec::with_capacity(items);
        let mut going_on = std::mem::take(&mut self.sagas);
        for (text, rowid, last) in &going_on {
            let moved = match last {
                1 | 2 => advance(text, *rowid, *last, 1),
                _ => end(text, *rowid, *last, now()),
            };
            batch.push(Item::Advance(moved));
        }
        let mut new = Vec::new();
        while batch.len() < items && new.len() < items.div_ceil(4) {
            let text = format!("order:{}:{}", self.number, self.count);
            self.count += 1;
            let saga = submission(row(&text).owned(&self.lease), &[&text]);
            batch.push(Item::Submit(Submission { nonce: self.count, ..saga }));
            new.push(text);
        }
        for item in &mut batch {
            let entries = match item {
                Item::Submit(item) => &mut item.entries,
                Item::Advance(item) => &mut item.entries,
            };
            entries.iter_mut().for_each(|entry| entry.body = vec![b'x'; BODY_BYTES]);
        }
        let count = batch.len();
        let outcomes = store.commit(batch).await;
        let (moved, created) = outcomes.split_at(going_on.len());
        for outcome in moved {
            assert!(matches!(outcome, Outcome::Advanced(Advanced::Committed)), "{outcome:?}");
        }
        going_on.iter_mut().for_each(|(_, _, last)| *last += 1);
        going_on.retain(|(_, _, last)| *last < 4);
        for (text, outcome) in new.into_iter().zip(created) {
            match outcome {
                Outcome::Submitted(Submitted::Created(rowid)) => going_on.push((text, *rowid, 1)),
                other @ (Outcome::Submitted(_) | Outcome::Advanced(_) | Outcome::Failed(_)) => {
                    panic!("{other:?}")
                }
            }
        }
        self.sagas = going_on;
        count
    }
}

/// CPU time of a process so far, 0 where the system does not tell (other than Linux).
fn cpu_ms(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks * 10.0
}
