//! Lease locks in the store's file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::locks::LocksFixture;
use amends_store::locks::{Acquired, Ask, Because, Hold, KEEP_MS, LockName, Locks, Release, Ttl};
use async_trait::async_trait;
use rusqlite::Connection;

struct Fixture {
    store: Option<Arc<SqliteStore>>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn open(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path, Options::default()).unwrap())
}

#[async_trait]
impl LocksFixture for Fixture {
    fn locks(&self) -> Arc<dyn Locks> {
        self.store.clone().unwrap()
    }

    async fn reopen(&mut self) {
        let store = Arc::into_inner(self.store.take().unwrap());
        drop(store.expect("somebody still uses the store"));
        self.store = Some(open(&self.path));
    }
}

async fn make() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    Fixture { store: Some(open(&path)), path, _folder: folder }
}

amends_store::locks_suite!(make);

async fn take(store: &SqliteStore, name: &str) -> Hold {
    let ask = Ask::new(LockName::new(name).unwrap(), Ttl::from_ms(60_000).unwrap());
    match store.acquire(&ask).await.unwrap() {
        Acquired::Held(granted) => Hold { name: ask.name, owner: Some(ask.owner), token: granted.token },
        Acquired::Busy(busy) => panic!("{name} is busy: {busy:?}"),
    }
}

#[tokio::test]
async fn a_lock_nobody_used_for_a_week_is_forgotten_but_its_token_is_not() {
    let fixture = make().await;
    let store = open_store(&fixture);
    let beside = Connection::open(&fixture.path).unwrap();
    let rows = || beside.query_row("SELECT count(*) FROM lock", [], |row| row.get::<_, i64>(0)).unwrap();
    for n in 0..6 {
        take(&store, &format!("order:{n}")).await;
    }
    // A token that ran far ahead of the clock, which alone would not protect it.
    let ahead = i64::try_from(KEEP_MS).unwrap() * 100;
    let aged = "UPDATE lock SET expires_at = expires_at - ?1, token = token + ?2";
    beside.execute(aged, [i64::try_from(KEEP_MS).unwrap() - 3_600_000, ahead]).unwrap();
    take(&store, "new").await;
    assert_eq!(rows(), 7, "less than a week has passed");
    beside.execute("UPDATE lock SET expires_at = expires_at - 3700000 WHERE name <> 'new'", []).unwrap();
    let highest: i64 = beside.query_row("SELECT max(token) FROM lock", [], |row| row.get(0)).unwrap();
    // Each acquisition removes two and adds one at most.
    let mut last = 0;
    for n in 0..3 {
        last = take(&store, &format!("another:{n}")).await.token;
    }
    assert_eq!(rows(), 4);
    assert!(last > u64::try_from(ahead).unwrap());
    let again = take(&store, "order:5").await;
    assert!(again.token > u64::try_from(highest).unwrap(), "{} after {highest}", again.token);
}

fn open_store(fixture: &Fixture) -> Arc<SqliteStore> {
    fixture.store.clone().unwrap()
}

#[tokio::test]
async fn a_file_of_the_version_before_gets_locks() {
    let mut fixture = make().await;
    drop(fixture.store.take());
    let before = Connection::open(&fixture.path).unwrap();
    before
        .execute_batch("DROP TABLE amends_submission; DROP TABLE lock; DELETE FROM meta WHERE name = 'lock_floor'; PRAGMA user_version = 1")
        .unwrap();
    drop(before);
    let store = open(&fixture.path);
    let hold = take(&store, "a").await;
    let because = Because::abandon("a test").unwrap();
    assert_eq!(store.release(&hold, &because).await.unwrap(), Release::Released);
}
