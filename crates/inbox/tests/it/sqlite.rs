//! SQLite, each call on a connection of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use amends_inbox::{Action, Answer, Begun, Compensation, Error, Found, Key, Outcome, sqlite};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::race::{Effects, race};
use crate::world::{
    Repeats, Script, World, action_of, compensation_of, done, end, records, repeated, story, undone,
};

#[derive(Clone)]
struct Lite {
    folder: Arc<TempDir>,
    behavior: TransactionBehavior,
    repeats: Repeats,
}

async fn make() -> Lite {
    with(TransactionBehavior::Immediate)
}

fn with(behavior: TransactionBehavior) -> Lite {
    let world =
        Lite { folder: Arc::new(tempfile::tempdir().unwrap()), behavior, repeats: Repeats::default() };
    let connection = world.open();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    sqlite::install(&connection).unwrap();
    sqlite::install(&connection).unwrap();
    let tables = "CREATE TABLE story (id INTEGER PRIMARY KEY, what TEXT NOT NULL);
        CREATE TABLE stock (id INTEGER PRIMARY KEY, left_over INTEGER NOT NULL);
        INSERT INTO stock VALUES (1, 1000);";
    connection.execute_batch(tables).unwrap();
    world
}

fn write(db: &Connection, what: &str, key: &Key, change: i64) -> rusqlite::Result<()> {
    db.execute("INSERT INTO story (what) VALUES (?)", [format!("{what} {key}")])?;
    db.execute("UPDATE stock SET left_over = left_over + ? WHERE id = 1", [change])?;
    Ok(())
}

impl Lite {
    fn open(&self) -> Connection {
        let connection = Connection::open(self.folder.path().join("participant.db")).unwrap();
        // Longer than any test: who waits gets its turn.
        connection.busy_timeout(Duration::from_secs(300)).unwrap();
        connection.pragma_update(None, "synchronous", "off").unwrap();
        connection
    }

    fn act_once(&self, action: &Action, script: &Script) -> Result<Answer, Error> {
        let mut connection = self.open();
        let tx = connection.transaction_with_behavior(self.behavior)?;
        let answer = match sqlite::action(&tx, action)? {
            Begun::Answered(answer) => answer,
            Begun::First(ticket) => {
                write(&tx, "act", action.key(), -1)?;
                sqlite::settle(&tx, ticket, Handle::current().block_on(end(script))?)?
            }
        };
        tx.commit()?;
        Ok(answer)
    }

    fn undo_once(&self, compensation: &Compensation, script: &Script) -> Result<Answer, Error> {
        let mut connection = self.open();
        let tx = connection.transaction_with_behavior(self.behavior)?;
        let answer = match sqlite::compensation(&tx, compensation)? {
            Begun::Answered(answer) => answer,
            Begun::First(ticket) => {
                assert!(!ticket.fact().is_null());
                write(&tx, "undo", compensation.action_key(), 1)?;
                sqlite::settle(&tx, ticket, Handle::current().block_on(end(script))?)?
            }
        };
        tx.commit()?;
        Ok(answer)
    }
}

/// Runs what waits for the database where it keeps nobody else waiting.
async fn aside<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(body).await.unwrap()
}

impl World for Lite {
    async fn act(&self, action: Action, script: Script) -> Result<Answer, Error> {
        repeated(&self.repeats, || {
            let (world, action, script) = (self.clone(), action.clone(), script.clone());
            aside(move || world.act_once(&action, &script))
        })
        .await
    }

    async fn undo(&self, compensation: Compensation, script: Script) -> Result<Answer, Error> {
        repeated(&self.repeats, || {
            let (world, compensation, script) = (self.clone(), compensation.clone(), script.clone());
            aside(move || world.undo_once(&compensation, &script))
        })
        .await
    }

    async fn query(&self, key: Key) -> Result<Found, Error> {
        let world = self.clone();
        aside(move || sqlite::query(&world.open(), &key)).await
    }

    async fn forget(&self, limit: u16) -> u64 {
        let world = self.clone();
        aside(move || sqlite::forget(&world.open(), limit).unwrap()).await
    }

    async fn ask(&self, sql: String) -> Vec<String> {
        let connection = self.open();
        let mut statement = connection.prepare(&sql).unwrap();
        let text = |row: &rusqlite::Row<'_>| {
            Ok(match row.get::<_, rusqlite::types::Value>(0)? {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => format!("{other:?}"),
            })
        };
        statement.query_map([], text).unwrap().map(Result::unwrap).collect()
    }

    async fn age(&self, seconds: u32) {
        self.open().execute("UPDATE amends_inbox SET keep_until = keep_until - ?", [seconds]).unwrap();
    }

    async fn somebody_waits(&self) {
        // A waiter is nothing but a process that asks again: it cannot be seen.
    }
}

crate::suite!(make);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_in_immediate_transactions() {
    race(&make().await, Effects::SomeFail).await;
    let world = make().await;
    race(&world, Effects::AllSucceed).await;
    assert_eq!(world.repeats.load(Ordering::Relaxed), 0, "waiting is enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_in_deferred_transactions() {
    race(&with(TransactionBehavior::Deferred), Effects::SomeFail).await;
}

#[tokio::test]
async fn a_process_that_ends_before_the_commit_leaves_nothing() {
    let world = make().await;
    let mut connection = world.open();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let Begun::First(ticket) = sqlite::action(&tx, &action_of("a")).unwrap() else { panic!() };
    write(&tx, "act", ticket.key(), -1).unwrap();
    sqlite::settle(&tx, ticket, Outcome::Done(Value::Null)).unwrap();
    drop(tx);
    drop(connection);
    assert_eq!((records(&world).await, story(&world, "a").await.len()), (0, 0));
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());
    assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), undone());
}

#[tokio::test]
async fn a_transaction_that_read_before_another_wrote_is_told_to_try_again() {
    let world = with(TransactionBehavior::Deferred);
    let mut connection = world.open();
    let tx: Transaction<'_> = connection.transaction().unwrap();
    tx.query_row("SELECT left_over FROM stock", [], |row| row.get::<_, i64>(0)).unwrap();
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    let late = sqlite::action(&tx, &action_of("b")).unwrap_err();
    assert_eq!((late.status(), late.is_retryable()), (425, true), "{late}");
}
