//! How many items a second the store commits: `cargo run --release -p amends-sqlite --example commit_bench -- [SECONDS]
//! [FOLDER]`.
//!
//! Each caller takes one saga after the other through four commits: submitted with a claim, two steps done, done and
//! ended. One caller shows the way to the disk and back; many show how commits are grouped.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_core::Time;
use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::{Vary as _, advance, create, end, join, now, row, step, submission};
use amends_store::{Advanced, Health as _, Store, StoredEntry, Submission};

/// Bytes of an entry's body: an input, or an answer with its fact.
const BODY_BYTES: usize = 250;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let seconds =
        args.next().map_or(3.0, |text| text.parse().expect("the first argument is a number of seconds"));
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    for callers in [1, 16, 128] {
        let temporary = tempfile::tempdir_in(&folder).expect("the folder is writable");
        let path = temporary.path().join("bench.db");
        let store = Arc::new(SqliteStore::open(path, Options::default()).expect("the store opens"));
        let line = round(&store, callers, Duration::from_secs_f64(seconds)).await;
        writeln!(std::io::stdout(), "{line}").expect("standard output is open");
    }
}

async fn round(store: &Arc<SqliteStore>, callers: u64, time: Duration) -> String {
    let lease = join(&**store, "bench").await;
    let began = Instant::now();
    let cpu_before = cpu_ms();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(store);
            let lease = lease.clone();
            tokio::spawn(async move {
                let mut waits = Vec::new();
                let mut nth = 0;
                while began.elapsed() < time {
                    saga(&*store, &format!("order:{nth}:{caller}"), &lease, &mut waits).await;
                    nth += 1;
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.expect("a caller panicked"));
    }
    let (seconds, cpu_ms) = (began.elapsed().as_secs_f64(), cpu_ms() - cpu_before);
    waits.sort_unstable();
    let commits =
        store.gauges().iter().find(|gauge| gauge.name == "commits_total").map_or(1, |gauge| gauge.value);
    let items = waits.len();
    format!(
        "callers {callers:4}: {:7.0} items/s, {:6.0} sagas/s, {:5.1} items a commit, p50 {:?}, p99 {:?}, {:.1} µs of CPU an item",
        items as f64 / seconds,
        items as f64 / seconds / 4.0,
        items as f64 / commits as f64,
        waits[items / 2],
        waits[items * 99 / 100],
        cpu_ms * 1_000.0 / items as f64,
    )
}

async fn saga(store: &dyn Store, text: &str, lease: &amends_store::NodeLease, waits: &mut Vec<Duration>) {
    let body = |mut entry: StoredEntry| {
        entry.body = vec![b'x'; BODY_BYTES];
        entry
    };
    let mut new = submission(row(text).owned(lease), &[text]);
    new.entries = new.entries.into_iter().map(body).collect();
    let began = Instant::now();
    let rowid = create(store, Submission { nonce: 7, ..new }).await;
    waits.push(began.elapsed());
    for after in 1..=3 {
        let mut item =
            if after < 3 { advance(text, rowid, after, 1) } else { end(text, rowid, after, Time(now().0)) };
        item.entries = item.entries.into_iter().map(body).collect();
        let began = Instant::now();
        assert_eq!(step(store, item).await, Advanced::Committed);
        waits.push(began.elapsed());
    }
}

/// CPU time of this process so far, 0 where the system does not tell (other than Linux).
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: f64 =
        stat.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks * 10.0
}
