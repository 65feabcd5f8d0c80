//! Damaged pages: found, named, and in nobody else's way.

use std::path::Path;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::{
    Vary as _, advance, advanced, create, id, in_ms, join, load, now, row, submission,
};
use amends_store::{
    Advance, Advanced, Error, Health as _, Item, Journal as _, Kind, Lists as _, Outcome, Row, StoredEntry,
    Submission, Work as _,
};

/// Stands in the page to be damaged, which it fills.
const MARK: &[u8] = b"this page will be damaged";

/// SQLite's pages.
const PAGE_BYTES: usize = 4_096;

/// What nearly fills a page, so that there is no room for anything else on it.
fn long_text(mark: &[u8]) -> String {
    String::from_utf8(mark.repeat(3_500 / mark.len())).unwrap()
}

/// Breaks the head of every page that has the mark.
fn damage(path: &Path) {
    // Rewrites the file, so that nothing is left of what was moved from page to page.
    rusqlite::Connection::open(path).unwrap().execute_batch("VACUUM").unwrap();
    let mut file = std::fs::read(path).unwrap();
    let mut damaged = 0;
    for page in file.chunks_mut(PAGE_BYTES).filter(|page| page.windows(MARK.len()).any(|bytes| bytes == MARK))
    {
        page[..8].fill(0xff);
        damaged += 1;
    }
    assert_eq!(damaged, 1);
    std::fs::write(path, file).unwrap();
}

/// Opens a store without looking through its file, as a large one is.
fn open_unchecked(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options { check_bytes_max: 0, ..Options::default() }).unwrap()
}

/// A saga that fills a page by its row or by its journal.
fn long(text: &str, mark: &[u8], in_row: bool) -> Submission {
    let short = submission(row(text), &[]);
    if in_row {
        return Submission { row: Row { reason: Some(long_text(mark)), ..row(text) }, ..short };
    }
    let entry = StoredEntry { seq: 1, at: now(), keep: false, body: long_text(mark).into_bytes() };
    Submission { entries: vec![entry], ..short }
}

/// A store with sagas that are due, one that is `good`, and one that is `bad`: a page of its row or of its journal, on
/// which nothing else is, is damaged. Gives the numbers of the bad and of the good one.
async fn damaged(path: &Path, in_row: bool) -> (u64, u64) {
    let store = SqliteStore::open(path, Options::default()).unwrap();
    let good = create(&store, submission(row("good"), &[])).await;
    create(&store, long("before", b"this is not", in_row)).await;
    let bad = create(&store, long("bad", MARK, in_row)).await;
    create(&store, long("after", b"this is not", in_row)).await;
    for nth in 0..50 {
        create(&store, submission(row(&format!("other:{nth}")).due(in_ms(-10)), &[])).await;
    }
    drop(store);
    damage(path);
    (bad, good)
}

fn is_corrupt(error: &Error, path: &Path) {
    assert_eq!(error.kind, Kind::Corrupt, "{error}");
    assert!(error.message.contains(path.to_str().unwrap()) && error.message.contains("backup"), "{error}");
}

#[tokio::test]
async fn a_small_file_is_looked_through_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    damaged(&path, false).await;
    let error = SqliteStore::open(&path, Options::default()).unwrap_err();
    is_corrupt(&error, &path);
}

#[tokio::test]
async fn a_damaged_journal_concerns_its_saga_and_stops_new_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let (_, good) = damaged(&path, false).await;
    let store = open_unchecked(&path);
    let lease = join(&store, "n1").await;
    store.health().unwrap();
    assert_eq!(load(&store, "good").await.entries.len(), 1);

    let error = store.load(&id("bad")).await.unwrap_err();
    is_corrupt(&error, &path);
    assert!(error.message.contains("saga bad"), "{error}");
    // No new work is taken from now on.
    is_corrupt(&store.health().unwrap_err(), &path);
    is_corrupt(&store.claim_due(&lease, now(), 10).await.unwrap_err(), &path);
    is_corrupt(&store.take_over(&lease, now(), 10).await.unwrap_err(), &path);
    is_corrupt(&store.claim(&lease, &id("good"), now()).await.unwrap_err(), &path);
    // What is in flight is written, in one batch with what is not.
    let batch = vec![Item::Submit(submission(row("new"), &[])), Item::Advance(advance("good", good, 1, 1))];
    let outcomes = store.commit(batch).await;
    assert!(matches!(&outcomes[0], Outcome::Failed(error) if error.kind == Kind::Corrupt), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Outcome::Advanced(Advanced::Committed)), "{outcomes:?}");
    assert_eq!(load(&store, "good").await.entries.len(), 2);
}

#[tokio::test]
async fn a_damaged_row_fails_its_item_and_no_other_of_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let (bad, good) = damaged(&path, true).await;
    let store = open_unchecked(&path);
    let with_row = |text: &str, rowid| Advance {
        row: Some(row(text).status("unknown").due(now())),
        ..advance(text, rowid, 1, 1)
    };
    let batch = vec![
        Item::Advance(with_row("good", good)),
        Item::Advance(with_row("bad", bad)),
        Item::Advance(advance("bad", bad, 2, 1)),
        Item::Advance(advance("good", good, 2, 1)),
    ];
    let outcomes = store.commit(batch).await;
    assert!(
        matches!(&outcomes[1], Outcome::Failed(error) if error.kind == Kind::Corrupt && error.message.contains("saga bad")),
        "{outcomes:?}"
    );
    let answers: Vec<Advanced> = [0, 2, 3].map(|nth| advanced(outcomes[nth].clone())).to_vec();
    assert_eq!(answers, [Advanced::Committed, Advanced::Conflict, Advanced::Committed]);
    assert_eq!(load(&store, "good").await.entries.len(), 3);
    // What was undone together with the bad one is not counted twice.
    let open = store.stats(now()).await.unwrap().open;
    assert_eq!(
        open,
        [("running", 53), ("unknown", 1)].map(|(word, n)| (word.to_owned(), "order".to_owned(), n))
    );
    is_corrupt(&store.health().unwrap_err(), &path);
}
