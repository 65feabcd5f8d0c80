//! `kill -9` at any moment: what was acknowledged is there.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::{
    Vary as _, advance, create, end, join, load, now, row, step, submission, submit,
};
use amends_store::{Advanced, Item, Journal as _, ListFilter, Lists as _, Store, Submitted};

use crate::child;

/// Sagas that run at once in the child, so that groups of all sizes are cut off.
const CALLERS: usize = 8;
/// Lives of the child, each ended at another moment.
const KILLS: usize = 12;

/// Takes sagas through four commits each, and says each one that was acknowledged: a line `id seq`.
async fn work(path: &Path) {
    let options = Options { checkpoint_pages: 50, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, options).unwrap());
    let lease = join(&*store, "n1").await;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            tokio::spawn(async move {
                let said = |text: &str, seq: u64| {
                    // One write a line: a line that is cut off by the kill is told by its missing end.
                    std::io::stdout().lock().write_all(format!("{text} {seq}\n").as_bytes()).unwrap();
                };
                for nth in 0.. {
                    let text = format!("{}:{caller}:{nth}", lease.epoch);
                    let claim = format!("resource:{caller}");
                    let rowid = create(&*store, submission(row(&text).owned(&lease), &[&claim])).await;
                    said(&text, 1);
                    for after in 1..=3 {
                        let item = if after < 3 {
                            advance(&text, rowid, after, 1)
                        } else {
                            end(&text, rowid, after, now())
                        };
                        assert_eq!(step(&*store, item).await, Advanced::Committed);
                        said(&text, after + 1);
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_kill() {
    if let Some(folder) = child::folder() {
        return work(&folder.join("amends.db")).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for nth in 0..KILLS {
        let mut command = Command::new(child::program());
        child::run(&mut command, "kill::acknowledged_writes_survive_a_kill", folder.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // It is killed after some acknowledgement, each time another; what it still said by then counts too.
        let mut left = 20 + 37 * nth;
        loop {
            line.clear();
            if lines.read_line(&mut line).unwrap() == 0 {
                break;
            }
            let said = line.strip_suffix('\n').and_then(|line| line.split_once(' '));
            // The test program says other things as well, such as the test's name.
            if let Some((text, seq)) = said.filter(|(text, _)| text.contains(':'))
                && let Ok(seq) = seq.parse()
            {
                acknowledged.insert(text.to_owned(), seq);
                left -= usize::from(left > 0);
                if left == 0 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert_eq!(left, 0, "the child ended by itself");
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        check(&store, &acknowledged).await;
        check_counts(&store).await;
        release(&store).await;
    }
    assert!(acknowledged.len() > KILLS * CALLERS / 2, "only {} sagas", acknowledged.len());
}

/// Every acknowledged entry is there, and journals have no gaps.
async fn check(store: &SqliteStore, acknowledged: &BTreeMap<String, u64>) {
    for (text, seq) in acknowledged {
        let stored = load(store, text).await;
        let seqs: Vec<u64> = stored.entries.iter().map(|entry| entry.seq).collect();
        assert!(stored.row.seq >= *seq, "{text}: acknowledged {seq}, there are {seqs:?}");
        assert_eq!(seqs, (1..=stored.row.seq).collect::<Vec<_>>(), "{text}");
        assert!(stored.row.seq < 4 || stored.row.ended_at.is_some(), "{text}: its end and its row are one");
    }
}

/// The counts, kept from transaction to transaction, are those of the rows.
async fn check_counts(store: &SqliteStore) {
    let (mut cursor, mut open, mut ended) = (None, 0, 0);
    loop {
        let page = store.page(&ListFilter::default(), cursor, 1_000).await.unwrap();
        ended += page.rows.iter().filter(|row| row.ended_at.is_some()).count() as u64;
        open += page.rows.iter().filter(|row| row.ended_at.is_none()).count() as u64;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let stats = store.stats(now()).await.unwrap();
    assert_eq!(stats.ended.iter().map(|(_, count)| count).sum::<u64>(), ended);
    assert_eq!(stats.open.iter().map(|(_, _, count)| count).sum::<u64>(), open);
}

/// Ends what is open, so that the next child finds its claims free: which proves that they were held by what is there.
async fn release(store: &SqliteStore) {
    let open = ListFilter { status: vec!["running".to_owned()], ..ListFilter::default() };
    let rows = store.page(&open, None, 100).await.unwrap().rows;
    for open in &rows {
        let text = open.id.as_str();
        let seq = load(store, text).await.row.seq;
        assert_eq!(step(store, end(text, open.rowid, seq, now())).await, Advanced::Committed);
    }
    assert!(rows.len() <= CALLERS, "a caller has one saga at a time: {rows:?}");
}

#[tokio::test]
async fn a_caller_that_gives_up_takes_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    let first = submission(row("order:1"), &[]);
    let item = Item::Submit(first.clone());
    // Polled once, it is queued; then it is dropped.
    let given_up = tokio::time::timeout(Duration::ZERO, store.commit(vec![item]));
    let _ = given_up.await;
    let answer = submit(&store, first).await;
    assert_eq!(answer, Submitted::Same);
    assert_eq!(load(&store, "order:1").await.entries.len(), 1);
}
