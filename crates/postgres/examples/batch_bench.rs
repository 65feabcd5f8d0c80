//! What a batch costs: `cargo run --release -p amends-postgres --example batch_bench -- [SECONDS] [LANES] [ITEMS]`.
//!
//! It starts a server of its own. Each lane, which stands for a commit on its way, sends one batch after the other: of its sagas, a quarter each is
//! submitted with a claim, done a step, done another, and ended. The server's CPU time tells more than the rate on a machine that does other work.
//!
//! Behind it come the statements that took longest, those within functions too: time a saga, of which planning in milliseconds, calls, rows, bytes
//! of the log.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_postgres::PostgresStore;
use amends_store::conformance::samples::{Vary as _, advance, end, join, now, row, submission};
use amends_store::{Advanced, Item, Journal as _, NodeLease, Outcome, Submission, Submitted};
use amends_testbed::postgres::Postgres;

/// Bytes of an entry's body: an input, or an answer with its fact.
const BODY_BYTES: usize = 250;

/// Those of a digest, in hexadecimal digits.
const DIGEST_BYTES: usize = 64;

/// As servers have by default: the testbed's are small.
const SETTINGS: [(&str, &str); 5] = [
    ("max_wal_size", "1GB"),
    ("shared_buffers", "256MB"),
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track_planning", "on"),
    ("pg_stat_statements.track", "all"),
];

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("arguments are numbers"));
    let (seconds, lanes) = (args.next().unwrap_or(3), args.next().unwrap_or(2));
    let items = usize::try_from(args.next().unwrap_or(40)).expect("so many do not fit");
    let server = Postgres::with(&SETTINGS).expect("PostgreSQL starts");
    server.ask("CREATE EXTENSION pg_stat_statements").expect("the extension is there");
    let store = Arc::new(PostgresStore::open(&server.url()).await.expect("the store opens"));
    let lease = join(&*store, "bench").await;
    let wal = || server.ask("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").expect("it answers");
    let wal = || wal().parse::<f64>().expect("it is a number");
    let (began, time) = (Instant::now(), Duration::from_secs(seconds));
    let (own_id, before_wal) = (std::process::id(), wal());
    let (before, before_own) = (server_cpu(&server), cpu_ms(own_id, 11));
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
    let sagas = committed as f64 / 4.0;
    let mut out = format!(
        "{lanes} lanes of {items} items: {:.0} sagas/s; client's CPU {:.3} ms a saga; WAL {:.0} bytes a saga\n",
        sagas / seconds,
        (cpu_ms(own_id, 11) - before_own) / sagas,
        (wal() - before_wal) / sagas,
    );
    let mut all = 0.0;
    for (part, ms) in server_cpu(&server) {
        let ms = (ms - before.get(&part).unwrap_or(&0.0)) / sagas;
        all += ms;
        out += &format!("server's CPU, {part}: {ms:.4} ms a saga\n");
    }
    out += &format!("server's CPU: {all:.4} ms a saga\n");
    let statements = server.ask(STATEMENTS).expect("it answers");
    for line in statements.lines() {
        let (ms, rest) = line.split_once('|').expect("two columns");
        let ms = ms.parse::<f64>().expect("it is a number");
        out += &format!("{:.2} us a saga|{rest}\n", ms * 1000.0 / sagas);
    }
    write!(std::io::stdout(), "{out}").expect("standard output is open");
}

/// Where the time of statements goes: that of planning and running, in milliseconds.
const STATEMENTS: &str = "SELECT sum(total_exec_time + total_plan_time), sum(total_plan_time), sum(calls), 'all', sum(wal_bytes), '' FROM pg_stat_statements WHERE toplevel
    UNION ALL (SELECT total_exec_time + total_plan_time, total_plan_time, calls, rows::text, wal_bytes,
        left(regexp_replace(query, '\\s+', ' ', 'g'), 60)
    FROM pg_stat_statements ORDER BY 1 DESC LIMIT 16)";

/// Sagas that one lane moves: (id, number, last entry).
struct Lane {
    number: u64,
    lease: NodeLease,
    sagas: Vec<(String, u64, u64)>,
    count: u64,
}

impl Lane {
    /// One batch: those that are under way go on, and new ones come. Gives how many items it had.
    async fn round(&mut self, store: &PostgresStore, items: usize) -> usize {
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
            let mut saga = submission(row(&text).owned(&self.lease), &[&text]);
            saga.row.digest = "d".repeat(DIGEST_BYTES);
            saga.fingerprint = format!("{:0DIGEST_BYTES$}", self.count);
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

/// CPU time of the server so far, by what its processes do. Those that have ended are one.
fn server_cpu(server: &Postgres) -> BTreeMap<String, f64> {
    let main = server.process().id();
    let mut all = BTreeMap::from([("those that ended".to_owned(), cpu_ms(main, 13))]);
    for folder in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = folder.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if id != main && fields(id).get(1) != Some(&main.to_string()) {
            continue;
        }
        let title = std::fs::read(folder.path().join("cmdline")).unwrap_or_default();
        let title = String::from_utf8_lossy(&title).replace('\0', " ");
        let words: Vec<&str> = title.split_whitespace().collect();
        let part = match words.as_slice() {
            ["postgres:", user, _, _, ..] if *user == "postgres" => "sessions",
            ["postgres:", rest @ ..] => &rest.join(" "),
            _ => "postmaster",
        };
        *all.entry(part.to_owned()).or_default() += cpu_ms(id, 11);
    }
    all
}

/// CPU time of a process so far, 0 where the system does not tell (other than Linux); `from` 11: its own; 13: that of its children that ended.
fn cpu_ms(process: u32, from: usize) -> f64 {
    let ticks: f64 =
        fields(process).iter().skip(from).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks * 10.0
}

fn fields(process: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}
