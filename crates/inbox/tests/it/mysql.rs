//! MariaDB, which stands for MySQL as well.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use amends_inbox::{Action, Answer, Begun, Compensation, Error, Found, Key, Outcome, mysql};
use amends_testbed::mariadb::MariaDb;
use serde_json::Value;
use sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, Transaction};

use crate::race::{Effects, race, race_a_server_that_dies};
use crate::world::{
    Gate, Repeats, Script, World, action_of, compensation_of, done, end, nothing_to_undo, records, repeated,
    sqlx_world, story, undone,
};

#[derive(Clone)]
struct Maria {
    pool: MySqlPool,
    server: Arc<Mutex<MariaDb>>,
    repeats: Repeats,
}

async fn make() -> Maria {
    with("READ COMMITTED").await
}

async fn with(isolation: &'static str) -> Maria {
    let server = MariaDb::with(&[("innodb-flush-log-at-trx-commit", "2")]).unwrap();
    let options = MySqlPoolOptions::new().max_connections(64).after_connect(move |connection, _| {
        Box::pin(async move {
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}");
            sqlx::raw_sql(AssertSqlSafe(set)).execute(connection).await?;
            Ok(())
        })
    });
    let pool = options.connect(&server.url()).await.unwrap();
    mysql::install(&pool).await.unwrap();
    for sql in [
        "CREATE TABLE story (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(700) CHARACTER SET utf8mb4 NOT NULL)",
        "CREATE TABLE stock (id BIGINT PRIMARY KEY, left_over BIGINT NOT NULL)",
        "INSERT INTO stock VALUES (1, 1000)",
    ] {
        pool.execute(sql).await.unwrap();
    }
    Maria { pool, server: Arc::new(Mutex::new(server)), repeats: Repeats::default() }
}

async fn write(db: &mut MySqlConnection, what: &str, key: &Key, change: i64) -> Result<(), sqlx::Error> {
    let line = format!("{what} {key}");
    sqlx::query("INSERT INTO story (what) VALUES (?)").bind(line).execute(&mut *db).await?;
    let stock = "UPDATE stock SET left_over = left_over + ? WHERE id = 1";
    sqlx::query(stock).bind(change).execute(db).await?;
    Ok(())
}

impl Maria {
    async fn ask_it(&self, sql: String) -> Vec<String> {
        let answer = self.server.lock().unwrap().ask(&sql).unwrap();
        answer.lines().map(str::to_owned).collect()
    }

    async fn age_it(&self, seconds: u32) {
        let age = "UPDATE amends_inbox SET keep_until = keep_until - INTERVAL ? SECOND";
        sqlx::query(age).bind(seconds).execute(&self.pool).await.unwrap();
    }

    async fn wait_for_a_waiter(&self) {
        self.wait_for_waiters(1).await;
    }

    async fn wait_for_waiters(&self, count: u32) {
        let waiting = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        while self.server.lock().unwrap().ask(waiting).unwrap().parse::<u32>().unwrap() < count {
            tokio::task::yield_now().await;
        }
    }
}

sqlx_world!(Maria, mysql);
crate::suite!(make);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_at_read_committed() {
    race(&make().await, Effects::SomeFail).await;
    let world = make().await;
    race(&world, Effects::AllSucceed).await;
    assert_eq!(world.repeats.load(Ordering::Relaxed), 0, "nobody is ended for a deadlock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_at_repeatable_read() {
    race(&with("REPEATABLE READ").await, Effects::SomeFail).await;
    let world = with("REPEATABLE READ").await;
    race(&world, Effects::AllSucceed).await;
    assert_eq!(world.repeats.load(Ordering::Relaxed), 0, "nobody is ended for a deadlock");
}

/// Those that waited for what rolled back may lock each other out: whoever is ended for it is told that it may try again, and the others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_waited_for_one_that_rolled_back_get_through() {
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        let world = with(isolation).await;
        let gate = Gate::new(true);
        let first = {
            let (world, gate) = (world.clone(), gate.clone());
            tokio::spawn(async move { world.act_once(&action_of("a"), &Script::Wait(gate)).await })
        };
        gate.entered.notified().await;
        let others: Vec<_> = (0..8)
            .map(|_| {
                let world = world.clone();
                tokio::spawn(async move { world.act(action_of("a"), Script::Succeed).await })
            })
            .collect();
        world.wait_for_waiters(8).await;
        gate.open();
        first.await.unwrap().unwrap_err();
        for other in others {
            assert_eq!(other.await.unwrap().unwrap(), done());
        }
        assert_eq!(story(&world, "a").await, ["act a:slot:action"]);
    }
}

/// Under REPEATABLE READ a transaction goes on seeing what there was when it first looked, but for what it reads with a lock.
#[tokio::test]
async fn a_transaction_that_looked_before_still_finds_what_was_stored_since() {
    let world = with("REPEATABLE READ").await;
    let mut early = world.pool.begin().await.unwrap();
    sqlx::query("SELECT left_over FROM stock").fetch_all(&mut *early).await.unwrap();
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    let Begun::Answered(answer) = mysql::action(&mut early, &action_of("a")).await.unwrap() else { panic!() };
    assert_eq!(answer, done());
    early.rollback().await.unwrap();

    let mut early = world.pool.begin().await.unwrap();
    sqlx::query("SELECT left_over FROM stock").fetch_all(&mut *early).await.unwrap();
    world.undo(compensation_of("a"), Script::Succeed).await.unwrap();
    let begun = mysql::compensation(&mut early, &compensation_of("a")).await.unwrap();
    assert!(matches!(begun, Begun::Answered(answer) if answer == undone()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_a_server_that_dies() {
    let world = make().await;
    race_a_server_that_dies(&world, || world.server.lock().unwrap().restart().unwrap()).await;
}

#[tokio::test]
async fn a_connection_that_is_cut_before_the_commit_leaves_nothing() {
    let world = make().await;
    let cut = async |mut tx: Transaction<'_, sqlx::MySql>| {
        let id: u64 = sqlx::query_scalar("SELECT CONNECTION_ID()").fetch_one(&mut *tx).await.unwrap();
        world.server.lock().unwrap().ask(&format!("KILL HARD CONNECTION {id}")).unwrap();
        let lost = Error::from(tx.commit().await.unwrap_err());
        assert_eq!(
            (lost.status(), lost.is_retryable()),
            (500, false),
            "who knows whether it committed: {lost}"
        );
    };
    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = mysql::action(&mut tx, &action_of("a")).await.unwrap() else { panic!() };
    write(&mut tx, "act", ticket.key(), -1).await.unwrap();
    mysql::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap();
    cut(tx).await;
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());
    assert_eq!((records(&world).await, story(&world, "a").await.len()), (1, 1));

    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = mysql::compensation(&mut tx, &compensation_of("a")).await.unwrap() else {
        panic!()
    };
    write(&mut tx, "undo", action_of("a").key(), 1).await.unwrap();
    mysql::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap();
    cut(tx).await;
    assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), undone());
    assert_eq!(story(&world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
}

#[tokio::test]
async fn a_lock_that_does_not_come_in_time_is_told_as_not_executed() {
    let world = make().await;
    let mut first = world.pool.begin().await.unwrap();
    let answered = mysql::compensation(&mut first, &compensation_of("a")).await.unwrap();
    assert!(matches!(answered, Begun::Answered(answer) if answer == nothing_to_undo()));
    let mut second = world.pool.begin().await.unwrap();
    second.execute("SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
    let late = mysql::action(&mut second, &action_of("a")).await.unwrap_err();
    assert_eq!((late.status(), late.is_retryable()), (425, true), "{late}");
}

/// Where the server cuts what is too long instead of refusing it, two long keys would become one.
#[tokio::test]
async fn a_key_that_is_too_long_is_refused_without_strict_mode_too() {
    let world = make().await;
    let insert = "SET SESSION sql_mode = ''; INSERT INTO amends_inbox (operation_key, operation, state, created_at, keep_until) \
         VALUES (REPEAT('k', 600), 'action', 'sealed', now(), now())";
    world.server.lock().unwrap().ask(insert).unwrap_err();
    assert_eq!(records(&world).await, 0);
}
