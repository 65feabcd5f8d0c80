//! PostgreSQL.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use amends_inbox::{Action, Answer, Begun, Compensation, Error, Found, Key, Outcome, postgres};
use amends_testbed::postgres::Postgres;
use serde_json::Value;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, Transaction};

use crate::race::{Effects, race, race_a_server_that_dies};
use crate::world::{
    Repeats, Script, World, action_of, compensation_of, done, end, nothing_to_undo, records, repeated,
    sqlx_world, story, undone,
};

#[derive(Clone)]
struct Pg {
    pool: PgPool,
    server: Arc<Mutex<Postgres>>,
    repeats: Repeats,
}

async fn make() -> Pg {
    with("READ COMMITTED").await
}

async fn with(isolation: &'static str) -> Pg {
    let server = Postgres::with(&[("fsync", "off")]).unwrap();
    let options = PgPoolOptions::new().max_connections(64).after_connect(move |connection, _| {
        Box::pin(async move {
            let set = format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {isolation}");
            sqlx::raw_sql(AssertSqlSafe(set)).execute(connection).await?;
            Ok(())
        })
    });
    let pool = options.connect(&server.url()).await.unwrap();
    postgres::install(&pool).await.unwrap();
    for sql in [
        "CREATE TABLE story (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL)",
        "CREATE TABLE stock (id bigint PRIMARY KEY, left_over bigint NOT NULL)",
        "INSERT INTO stock VALUES (1, 1000)",
    ] {
        pool.execute(sql).await.unwrap();
    }
    Pg { pool, server: Arc::new(Mutex::new(server)), repeats: Repeats::default() }
}

async fn write(db: &mut PgConnection, what: &str, key: &Key, change: i64) -> Result<(), sqlx::Error> {
    let line = format!("{what} {key}");
    sqlx::query("INSERT INTO story (what) VALUES ($1)").bind(line).execute(&mut *db).await?;
    let stock = "UPDATE stock SET left_over = left_over + $1 WHERE id = 1";
    sqlx::query(stock).bind(change).execute(db).await?;
    Ok(())
}

impl Pg {
    async fn ask_it(&self, sql: String) -> Vec<String> {
        let answer = self.server.lock().unwrap().ask(&sql).unwrap();
        answer.lines().map(str::to_owned).collect()
    }

    async fn age_it(&self, seconds: u32) {
        let age = "UPDATE amends_inbox SET keep_until = keep_until - $1 * interval '1 second'";
        sqlx::query(age).bind(f64::from(seconds)).execute(&self.pool).await.unwrap();
    }

    async fn wait_for_a_waiter(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&self.pool).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

sqlx_world!(Pg, postgres);
crate::suite!(make);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_at_read_committed() {
    race(&make().await, Effects::SomeFail).await;
    let world = make().await;
    race(&world, Effects::AllSucceed).await;
    assert_eq!(world.repeats.load(Ordering::Relaxed), 0, "waiting is enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_at_repeatable_read() {
    race(&with("REPEATABLE READ").await, Effects::SomeFail).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_at_serializable() {
    race(&with("SERIALIZABLE").await, Effects::SomeFail).await;
}

#[tokio::test]
async fn installing_at_once_and_again_changes_nothing() {
    let world = make().await;
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    let others: Vec<_> = (0..8)
        .map(|_| {
            let pool = world.pool.clone();
            tokio::spawn(async move { postgres::install(&pool).await })
        })
        .collect();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(records(&world).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_race_a_server_that_dies() {
    let world = make().await;
    race_a_server_that_dies(&world, || world.server.lock().unwrap().restart().unwrap()).await;
}

#[tokio::test]
async fn a_connection_that_is_cut_before_the_commit_leaves_nothing() {
    let world = make().await;
    let cut = async |mut tx: Transaction<'_, sqlx::Postgres>| {
        let id: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
        world.server.lock().unwrap().ask(&format!("SELECT pg_terminate_backend({id}, 10000)")).unwrap();
        let lost = Error::from(tx.commit().await.unwrap_err());
        assert_eq!(
            (lost.status(), lost.is_retryable()),
            (500, false),
            "who knows whether it committed: {lost}"
        );
    };
    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = postgres::action(&mut tx, &action_of("a")).await.unwrap() else { panic!() };
    write(&mut tx, "act", ticket.key(), -1).await.unwrap();
    postgres::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap();
    cut(tx).await;
    assert_eq!((records(&world).await, story(&world, "a").await.len()), (0, 0));
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());

    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = postgres::compensation(&mut tx, &compensation_of("a")).await.unwrap() else {
        panic!()
    };
    write(&mut tx, "undo", action_of("a").key(), 1).await.unwrap();
    postgres::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap();
    cut(tx).await;
    assert_eq!(story(&world, "a").await, ["act a:slot:action"]);
    assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), undone());
    assert_eq!(story(&world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
}

#[tokio::test]
async fn a_lock_that_does_not_come_in_time_is_told_as_not_executed() {
    let world = make().await;
    let mut first = world.pool.begin().await.unwrap();
    let answered = postgres::compensation(&mut first, &compensation_of("a")).await.unwrap();
    assert!(matches!(answered, Begun::Answered(answer) if answer == nothing_to_undo()));
    let mut second = world.pool.begin().await.unwrap();
    second.execute("SET LOCAL lock_timeout = '10ms'").await.unwrap();
    let late = postgres::action(&mut second, &action_of("a")).await.unwrap_err();
    assert_eq!((late.status(), late.is_retryable()), (425, true), "{late}");
}

#[tokio::test]
async fn an_error_that_the_effect_hides_keeps_nothing() {
    let world = make().await;
    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = postgres::action(&mut tx, &action_of("a")).await.unwrap() else { panic!() };
    write(&mut tx, "act", ticket.key(), -1).await.unwrap();
    drop(tx.execute("SELECT 1 / 0").await);
    let failed = postgres::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap_err();
    assert_eq!(failed.status(), 500);
    drop(tx.commit().await);
    assert_eq!((records(&world).await, story(&world, "a").await.len()), (0, 0));
}

#[tokio::test]
async fn a_transaction_that_ended_below_its_ticket_settles_nothing() {
    let world = make().await;
    let mut tx = world.pool.begin().await.unwrap();
    let Begun::First(ticket) = postgres::action(&mut tx, &action_of("a")).await.unwrap() else { panic!() };
    tx.rollback().await.unwrap();
    let mut tx = world.pool.begin().await.unwrap();
    let gone = postgres::settle(&mut tx, ticket, Outcome::Done(Value::Null)).await.unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
}
