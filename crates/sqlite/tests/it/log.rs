//! The write-ahead log: grouped commits, and its length.

use std::sync::Arc;
use std::time::Duration;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::{create, load, row, submission};
use amends_store::{Health as _, Item, Journal as _, StoredEntry, Submission};

fn gauge(store: &SqliteStore, name: &str) -> u64 {
    store.gauges().iter().find(|gauge| gauge.name == name).unwrap().value
}

#[tokio::test]
async fn a_batch_is_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    let before = gauge(&store, "commits_total");
    let batch = (0..100).map(|nth| Item::Submit(submission(row(&format!("order:{nth}")), &[]))).collect();
    assert_eq!(store.commit(batch).await.len(), 100);
    assert_eq!(gauge(&store, "commits_total"), before + 1);
    assert_eq!(gauge(&store, "commit_items_total"), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_log_is_copied_and_begins_again_while_writes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let options = Options { checkpoint_pages: 200, ..Options::default() };
    let store = Arc::new(SqliteStore::open(&path, options).unwrap());
    let large = |text: &str| {
        let entry = StoredEntry { seq: 1, at: Default::default(), keep: false, body: vec![b'x'; 100_000] };
        Submission { entries: vec![entry], ..submission(row(text), &[]) }
    };
    // Each writes about 25 pages. It has begun again when it is shorter than it was.
    let (mut longest, mut nth) = (0, 0);
    loop {
        create(&*store, large(&format!("order:{nth}"))).await;
        nth += 1;
        let pages = gauge(&store, "wal_pages");
        if pages < longest {
            break;
        }
        longest = pages;
        assert!(nth < 20_000, "the log only grows: {pages} pages");
    }
    assert!(longest >= 200, "{longest} pages were no reason to copy");
    for nth in [0, nth / 2, nth - 1] {
        assert_eq!(load(&*store, &format!("order:{nth}")).await.entries[0].body.len(), 100_000);
    }
}

#[tokio::test]
async fn an_idle_store_gives_the_logs_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let options = Options { idle_interval: Duration::from_millis(20), ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let entry = StoredEntry { seq: 1, at: Default::default(), keep: false, body: vec![b'x'; 2_000_000] };
    create(&store, Submission { entries: vec![entry.clone()], ..submission(row("order:1"), &[]) }).await;
    while store.wal_bytes() > 0 || gauge(&store, "wal_pages") > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(load(&store, "order:1").await.entries, [entry]);
    // It begins anew.
    create(&store, submission(row("order:2"), &[])).await;
    assert!(store.wal_bytes() > 0);
}

#[tokio::test]
async fn reads_go_on_while_a_reader_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let store = SqliteStore::open(&path, Options { checkpoint_pages: 20, ..Options::default() }).unwrap();
    create(&store, submission(row("order:0"), &[])).await;
    // Somebody else's read, such as a backup, that stays open.
    let other = rusqlite::Connection::open(&path).unwrap();
    let open = other.unchecked_transaction().unwrap();
    let seen: i64 = open.query_row("SELECT count(*) FROM saga", [], |row| row.get(0)).unwrap();
    for nth in 1..100 {
        create(&store, submission(row(&format!("order:{nth}")), &[])).await;
    }
    assert_eq!(open.query_row("SELECT count(*) FROM saga", [], |row| row.get::<_, i64>(0)).unwrap(), seen);
    assert!(gauge(&store, "wal_pages") > 20, "it cannot begin again meanwhile");
    store.health().unwrap();
    open.commit().unwrap();
    for nth in 100.. {
        create(&store, submission(row(&format!("order:{nth}")), &[])).await;
        if gauge(&store, "wal_pages") < 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(nth < 20_000, "the log only grows");
    }
}
