//! Sagas begun by inserts of other programs, in transactions of their own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amends_core::json;
use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::Fixture;
use amends_store::conformance::intake::Caller;
use amends_store::conformance::samples::*;
use amends_store::{Arrival, Intake, Retention as _, Submission, Submitted, Verdict, Work as _};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use tempfile::TempDir;

const INSERT: &str = "INSERT INTO amends_submission (saga, id, input) VALUES (?1, ?2, ?3)";

struct Program(Mutex<Connection>);

#[async_trait]
impl Caller for Program {
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String> {
        insert(&self.0.lock().unwrap(), saga, id, input)
    }

    fn names_what(&self) -> bool {
        false
    }
}

fn insert(conn: &Connection, saga: &str, id: &str, input: &str) -> Result<(), String> {
    conn.execute(INSERT, params![saga, id, input]).map(drop).map_err(|e| e.to_string())
}

/// As any program opens it: with the library's defaults, and a time-out.
fn connect(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(60)).unwrap();
    conn
}

fn open() -> (TempDir, Arc<SqliteStore>, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let store = Arc::new(SqliteStore::open(&path, Options::default()).unwrap());
    let conn = connect(&path);
    (folder, store, conn)
}

async fn make() -> (Fixture, Arc<dyn Caller>) {
    let (folder, store, conn) = open();
    (Fixture::new(store, folder), Arc::new(Program(Mutex::new(conn))))
}

amends_store::intake_suite!(make);

/// A program in another language, with the SQLite that the system has.
struct Python(Mutex<(Child, BufReader<ChildStdout>)>);

/// Answers each line, a JSON array of three texts, by a line: empty, or what the database says.
const PROGRAM: &str = "
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for line in sys.stdin:
    try:
        db.execute('INSERT INTO amends_submission (saga, id, input) VALUES (?, ?, ?)', json.loads(line))
        print('', flush=True)
    except sqlite3.Error as error:
        print(repr(error), flush=True)
";

#[async_trait]
impl Caller for Python {
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String> {
        let mut child = self.0.lock().unwrap();
        let line = serde_json::to_string(&[saga, id, input]).unwrap();
        writeln!(child.0.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        child.1.read_line(&mut answer).unwrap();
        match answer.trim() {
            "" => Ok(()),
            error => Err(error.to_owned()),
        }
    }

    fn names_what(&self) -> bool {
        false
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let child = &mut self.0.lock().unwrap().0;
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

mod of_another_process {
    use super::*;

    async fn make() -> (Fixture, Arc<dyn Caller>) {
        let (folder, store, _conn) = open();
        let path = folder.path().join("amends.db");
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().expect("python3 is needed: apt-get install python3");
        let answers = BufReader::new(child.stdout.take().unwrap());
        (Fixture::new(store, folder), Arc::new(Python(Mutex::new((child, answers)))))
    }

    amends_store::intake_suite!(make);
}

fn intake(store: &SqliteStore) -> &dyn Intake {
    store.intake().unwrap()
}

async fn take(store: &SqliteStore) -> Vec<Arrival> {
    intake(store).take(now(), 60_000, 100).await.unwrap()
}

#[tokio::test]
async fn what_is_rolled_back_never_was_and_what_is_committed_outlives_everybody() {
    let (folder, store, mut conn) = open();
    conn.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)", []).unwrap();
    let begin = |conn: &mut Connection, text: &str| {
        conn.execute("INSERT INTO orders VALUES (?1)", [text]).unwrap();
        insert(conn, "order", text, "{}").unwrap();
    };
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    begin(&mut conn, "order:1");
    conn.execute_batch("ROLLBACK").unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    begin(&mut conn, "order:2");
    assert!(insert(&conn, "order", "order:2", "[]").unwrap_err().contains("another definition or input"));
    conn.execute_batch("ROLLBACK").unwrap();
    assert_eq!(take(&store).await, []);
    // The engine is not there at all while it is committed.
    drop(store);
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    begin(&mut conn, "order:3");
    conn.execute_batch("COMMIT").unwrap();
    drop(conn);
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    let ids: Vec<String> = take(&store).await.into_iter().map(|arrival| arrival.id).collect();
    assert_eq!(ids, ["order:3"]);
    // What it had taken is there again at once when the next one opens the file.
    drop(store);
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    assert_eq!(take(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_wait_for_a_callers_open_transaction() {
    let (_folder, store, conn) = open();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    insert(&conn, "order", "order:1", "{}").unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move { create(&*store, submission(row("order:2"), &[])).await }
    });
    // It reads meanwhile, and sees nothing of what is not committed.
    assert_eq!(intake(&store).backlog().await.unwrap().waiting, 0);
    assert!(!writing.is_finished());
    conn.execute_batch("COMMIT").unwrap();
    writing.await.unwrap();
    assert_eq!(take(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_and_engine_write_at_once_and_nothing_is_lost() {
    let (folder, store, _conn) = open();
    let path = folder.path().join("amends.db");
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let path = path.clone();
            std::thread::spawn(move || {
                let conn = connect(&path);
                for nth in 0..25 {
                    insert(&conn, "order", &format!("order:{caller}:{nth}"), "{}").unwrap();
                }
            })
        })
        .collect();
    for nth in 0..50 {
        create(&*store, submission(row(&format!("own:{nth}")), &[])).await;
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(take(&store).await.len(), 100);
}

/// What one program wrote wrongly keeps no other waiting.
#[tokio::test]
async fn what_is_no_text_is_refused_alone() {
    let (_folder, store, conn) = open();
    conn.execute(
        "INSERT INTO amends_submission (saga, id, input) VALUES ('order', CAST(x'ff41' AS TEXT), '{}')",
        [],
    )
    .unwrap();
    insert(&conn, "order", "order:1", "{}").unwrap();
    assert_eq!(take(&store).await.len(), 1);
    let backlog = intake(&store).backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.refused), (1, 1));
    assert!(backlog.example.unwrap().1.contains("no UTF-8"));
}

/// Retention has removed what it would be compared with: the row waits, and the engine compares.
#[tokio::test]
async fn after_retention_the_engine_decides() {
    let (_folder, store, conn) = open();
    let input = serde_json::json!({ "sku": "tea" });
    let made = Submission {
        fingerprint: json::fingerprint("order", &input),
        ..submission(row("order:1").ended(amends_core::Time(1)), &[])
    };
    create(&*store, made.clone()).await;
    assert_eq!(store.prune(now(), 10).await.unwrap(), 1);
    assert!(insert(&conn, "refund", "order:1", "{}").is_err(), "the name is still known");
    insert(&conn, "order", "order:1", "{\"sku\": \"tea\"}").unwrap();
    let arrival = take(&store).await.remove(0);
    assert_eq!(submit(&*store, made).await, Submitted::Same);
    intake(&store).settle(now(), vec![(arrival.number, Verdict::Adopted)]).await.unwrap();
    insert(&conn, "order", "order:1", "[]").unwrap();
    let other = Submission {
        fingerprint: json::fingerprint("order", &serde_json::json!([])),
        ..submission(row("order:1"), &[])
    };
    assert_eq!(submit(&*store, other).await, Submitted::Different);
}

#[tokio::test]
async fn characters_that_would_cut_a_text_are_refused() {
    let (_folder, store, conn) = open();
    assert!(insert(&conn, "order", "order:1", r#"{"a":"x\u0000"}"#).unwrap_err().contains("u0000"));
    assert!(insert(&conn, "order", "order:1", r#"{"a":"\\\u0000"}"#).is_err());
    insert(&conn, "order", "order:1", r#"{"a":"x\\u0000"}"#).unwrap();
    insert(&conn, "order", "order:3", r#"{"a":"x"}"#).unwrap();
    assert!(insert(&conn, "order", "order:3", r#"{"a":"x\u0000y"}"#).is_err(), "it is not the same");
    // One that came by the API is told apart from what is left of it.
    let input = serde_json::json!({ "a": "x\0y" });
    let kind = amends_core::EntryKind::Submitted {
        id: id("order:2"),
        digest: "d1".to_owned(),
        input: input.clone(),
        claims: Vec::new(),
        deadline_at: None,
        accepting: false,
        trace: None,
        epoch: 1,
        who: "api".to_owned(),
    };
    let entry = amends_core::Entry { seq: 1, at: amends_core::Time(1), kind };
    let entries = vec![amends_store::StoredEntry::encode(&entry)];
    create(&*store, Submission { entries, ..submission(row("order:2"), &[]) }).await;
    assert!(insert(&conn, "order", "order:2", r#"{"a":"x"}"#).unwrap_err().contains("another"));
    assert_eq!(take(&store).await.len(), 2);
}
