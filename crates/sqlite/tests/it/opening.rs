//! Opening a file: whose it is, what is in it, and who may.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::{Vary as _, create, join, load, now, row, submission};
use amends_store::{Error, Health as _, Kind, Work as _};
use rusqlite::Connection;

use crate::child;

fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Options::default())
}

#[track_caller]
fn refused(path: &Path, kind: Kind, words: &[&str]) {
    let error = open(path).expect_err("it must not be opened");
    assert_eq!(error.kind, kind, "{error}");
    for word in words.iter().copied().chain([path.to_str().unwrap()]) {
        assert!(error.message.contains(word), "{word:?} is missing in: {error}");
    }
}

#[tokio::test]
async fn what_was_written_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let store = open(&path).unwrap();
    let lease = join(&store, "a node that is killed").await;
    create(&store, submission(row("order:1").owned(&lease), &["a"])).await;
    let before = load(&store, "order:1").await;
    drop(store);

    let store = open(&path).unwrap();
    assert_eq!(load(&store, "order:1").await, before);
    // Its process is gone, whatever its lease says: nobody waits for it.
    let lease = join(&store, "another node").await;
    assert_eq!(store.take_over(&lease, now(), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_second_engine_is_refused_while_the_first_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let first = open(&path).unwrap();
    refused(&path, Kind::Refused, &["in use", &std::process::id().to_string(), "stop that one"]);
    create(&first, submission(row("order:1"), &[])).await;
    drop(first);
    load(&open(&path).unwrap(), "order:1").await;
}

#[test]
fn a_link_to_the_file_is_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("amends.db"), folder.path().join("link.db"));
    let first = open(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(open(&link).unwrap_err().kind, Kind::Refused);
    drop(first);
    drop(open(&link).unwrap());
}

#[test]
fn tables_of_a_newer_version_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    drop(open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    refused(&path, Kind::Refused, &["version 99", "newer program"]);
    let version: i32 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    Connection::open(&database).unwrap().execute_batch("CREATE TABLE customer (name TEXT)").unwrap();
    refused(&database, Kind::Refused, &["something else"]);
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "these are the notes of somebody").unwrap();
    refused(&text, Kind::Refused, &["no SQLite database"]);
    assert_eq!(std::fs::read(&text).unwrap(), b"these are the notes of somebody");
    refused(&folder.path().join("missing/amends.db"), Kind::Unwritable, &["folder must exist"]);
    std::fs::create_dir(folder.path().join("unlockable.db.lock")).unwrap();
    refused(
        &folder.path().join("unlockable.db"),
        Kind::Unwritable,
        &["unlockable.db.lock", "must be writable"],
    );
}

#[test]
fn an_empty_file_becomes_a_store() {
    let file = tempfile::NamedTempFile::new().unwrap();
    drop(open(file.path()).unwrap());
    drop(open(file.path()).unwrap());
}

#[tokio::test]
async fn nobody_else_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("amends.db")).unwrap();
    create(&store, submission(row("order:1"), &[])).await;
    let mut files = Vec::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
        files.push(file.file_name().into_string().unwrap());
    }
    files.sort_unstable();
    assert_eq!(files, ["amends.db", "amends.db-shm", "amends.db-wal", "amends.db.lock"]);
}

#[test]
fn a_read_only_file_is_refused_with_its_remedy() {
    if let Some(folder) = child::folder() {
        refused(&folder.join("amends.db"), Kind::Unwritable, &["cannot be written", "permissions"]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    drop(open(&path).unwrap());
    std::fs::remove_file(folder.path().join("amends.db.lock")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    // Permissions mean nothing to root, so that an ordinary user has to try; who must reach the program to run it.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = folder.path().join("program");
    std::fs::copy(child::program(), &program).unwrap();
    let mut tried = Command::new(&program);
    child::run(&mut tried, "opening::a_read_only_file_is_refused_with_its_remedy", folder.path());
    if child::is_root(folder.path()) {
        tried.uid(65_534);
    }
    let tried = tried.output().unwrap();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
    assert!(String::from_utf8_lossy(&tried.stdout).contains("1 passed"));
}

#[tokio::test]
async fn it_shows_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("amends.db")).unwrap();
    create(&store, submission(row("order:1"), &[])).await;
    let gauges = store.gauges();
    for name in ["wal_bytes", "wal_pages", "commits_total", "commit_items_total"] {
        let gauge = gauges.iter().find(|gauge| gauge.name == name).unwrap();
        assert!(gauge.value > 0 && !gauge.help.is_empty(), "{gauge:?}");
    }
    assert!(store.wal_bytes() > 0);
}
