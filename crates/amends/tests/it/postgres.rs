//! Sagas and locks in sqlx's transactions, on a PostgreSQL server.

use std::time::Duration;

use amends::locks::{ReleaseOutcome, Reported};
use amends::{Amends, Call, CommitFailed, Idempotency, Outcome, Refused, Saga, Step, SubmitError, submit_in};
use amends_testbed::postgres::Postgres;
use sqlx::{Connection as _, PgConnection, Postgres as Db, Transaction};

use crate::cut::{Cut, CuttingProxy};
use crate::support::quick;

const TTL: Duration = Duration::from_secs(600);

struct World {
    server: Postgres,
    amends: Amends,
    saga: Saga<u32>,
}

impl World {
    async fn new() -> Self {
        let server = tokio::task::spawn_blocking(|| Postgres::start().unwrap()).await.unwrap();
        let step = Step::new("act").action(|_: Call, n: u32| async move { Ok(n) }).without_effect();
        let saga = Saga::builder("order", 1).step(step.idempotency(Idempotency::Replay)).build().unwrap();
        let amends = Amends::builder(server.url()).saga(&saga).tune(quick).start().await.unwrap();
        server.ask("CREATE TABLE orders (id text PRIMARY KEY)").unwrap();
        Self { server, amends, saga }
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.server.url()).await.unwrap()
    }

    fn orders(&self) -> String {
        self.server.ask("SELECT count(*) FROM orders").unwrap()
    }

    async fn is_there(&self, id: &str) -> bool {
        let waiting =
            self.server.ask(&format!("SELECT count(*) FROM amends.submission WHERE id = '{id}'")).unwrap();
        let known = self.amends.engine().saga(&amends::SagaId::new(id).unwrap()).await;
        waiting != "0" || !matches!(known, Err(Refused::UnknownSaga(_)))
    }

    fn last_report(&self) -> Option<Reported> {
        self.amends.locks().reports().pop().map(|report| report.what)
    }

    async fn is_held(&self, name: &str) -> bool {
        self.amends.locks().show(name).await.unwrap().held.is_some()
    }
}

async fn begin(connection: &mut PgConnection) -> Transaction<'_, Db> {
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('1')").execute(&mut *tx).await.unwrap();
    tx
}

#[tokio::test]
async fn business_rows_and_saga_are_committed_together_and_then_the_lock_goes() {
    let world = World::new().await;
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    assert!(!world.is_there("order:1").await, "it is not committed yet");
    let covered = pending.commit().await.unwrap();
    let (result, outcome) = covered.release_after(Err::<(), _>("declined")).await;
    assert_eq!(result, Err("declined"));
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
    let handle = world.amends.handle(&world.saga, "order:1").unwrap();
    let outcome = handle.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");

    // The same again, after it ended, is the same saga.
    let mut tx = connection.begin().await.unwrap();
    submit_in(&mut tx, &world.saga, "order:1", &7).await.unwrap();
    let other = submit_in(&mut tx, &world.saga, "order:1", &8).await.unwrap_err();
    assert!(matches!(&other, SubmitError::Refused { id, .. } if id.as_str() == "order:1"), "{other}");
}

#[tokio::test]
async fn a_failed_statement_is_no_commit_although_the_server_says_nothing() {
    let world = World::new().await;
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let mut pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    let twice = sqlx::query("INSERT INTO orders VALUES ('1')").execute(&mut **pending.tx()).await;
    assert!(twice.is_err(), "from here on a COMMIT rolls back, and is answered without an error");
    let CommitFailed::RolledBack(not) = pending.commit().await.unwrap_err() else { panic!() };
    assert!(!world.is_there("order:1").await && world.orders() == "0", "{not}");
    assert!(matches!(not.held.abandon("rolled back").await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_transaction_within_another_one_proves_nothing() {
    let world = World::new().await;
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let mut outer = begin(&mut connection).await;
    let inner = outer.begin().await.unwrap();
    let not = held.submit_in(inner, &world.saga, "order:1", &7).await.unwrap_err();
    assert!(matches!(not.error, SubmitError::Nested), "{not}");
    let mut inner = outer.begin().await.unwrap();
    submit_in(&mut inner, &world.saga, "order:1", &7).await.unwrap();
    inner.commit().await.unwrap();
    let pending = not.held.submit_in(outer, &world.saga, "order:1", &7).await.unwrap();
    let _ = pending.commit().await.unwrap().release().await;
    assert!(world.is_there("order:1").await && world.orders() == "1");
}

#[tokio::test]
async fn a_commit_that_the_server_refuses_is_rolled_back() {
    let world = World::new().await;
    world
        .server
        .ask("ALTER TABLE orders ADD parent text REFERENCES orders DEFERRABLE INITIALLY DEFERRED")
        .unwrap();
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let mut pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('2', 'nobody')").execute(&mut **pending.tx()).await.unwrap();
    let CommitFailed::RolledBack(not) = pending.commit().await.unwrap_err() else { panic!() };
    assert!(not.to_string().contains("foreign key"), "{not}");
    assert!(!world.is_there("order:1").await && world.orders() == "0");
    assert!(matches!(not.held.abandon("rolled back").await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_lock_that_somebody_else_has_lets_nothing_be_committed_and_one_that_is_checked_is_not_taken_meanwhile()
 {
    let world = World::new().await;
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    world.server.ask("UPDATE amends.lock SET token = token + 1, owner = 'somebody'").unwrap();
    let not = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap_err();
    assert!(matches!(not.error, SubmitError::LockLost { .. }), "{not}");
    assert!(!world.is_there("order:1").await && world.orders() == "0");
    let outcome = not.held.abandon("lost it").await;
    assert!(matches!(outcome, ReleaseOutcome::LeaseLost(_)), "{outcome}");

    let held = world.amends.locks().acquire("order:2", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:2", &7).await.unwrap();
    let steal = "SET lock_timeout = '50ms'; UPDATE amends.lock SET token = token + 1 WHERE name = 'order:2'";
    assert!(world.server.ask(steal).unwrap_err().to_string().contains("lock timeout"));
    let _ = pending.commit().await.unwrap().release().await;
}

#[tokio::test]
async fn a_role_that_has_been_granted_two_functions_needs_nothing_else() {
    let world = World::new().await;
    world
        .server
        .ask(
            "CREATE ROLE shop LOGIN; GRANT USAGE ON SCHEMA amends TO shop; GRANT INSERT ON orders TO shop;
             GRANT EXECUTE ON FUNCTION amends.submit(text, text, json), amends.check_lock(text, bigint) TO shop",
        )
        .unwrap();
    let url = format!("postgres://shop@127.0.0.1:{}/postgres", world.server.port());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    assert!(matches!(pending.commit().await.unwrap().release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_neither_releases_nor_abandons() {
    let world = World::new().await;
    for (n, cut) in [Cut::BeforeTheServer, Cut::AfterTheServer].into_iter().enumerate() {
        let proxy = CuttingProxy::start(world.server.port(), b"COMMIT", cut).await;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", proxy.port());
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let lock = format!("order:{n}");
        let held = world.amends.locks().acquire(&lock, TTL).await.unwrap();
        let tx = connection.begin().await.unwrap();
        let pending = held.submit_in(tx, &world.saga, lock.as_str(), &7).await.unwrap();
        let CommitFailed::Unknown(unsure) = pending.commit().await.unwrap_err() else { panic!("{cut:?}") };
        assert_eq!((unsure.saga.as_str(), &unsure.lock), (lock.as_str(), &lock));
        assert!(world.is_held(&lock).await, "{cut:?}: it lapses by itself");
        assert_eq!(world.last_report(), Some(Reported::CommitUnknown));
        match cut {
            Cut::BeforeTheServer => assert!(!world.is_there(&lock).await),
            Cut::AfterTheServer => {
                while !world.is_there(&lock).await {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_release_that_reaches_nobody_does_not_replace_the_result() {
    let mut world = World::new().await;
    let mut connection = world.connect().await;
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    let covered = pending.commit().await.unwrap();
    world.server.kill();
    let (result, outcome) = covered.release_after(Err::<(), _>("declined")).await;
    assert_eq!(result, Err("declined"));
    assert!(matches!(outcome, ReleaseOutcome::Unreachable(_)), "{outcome}");
    assert_eq!(world.last_report(), Some(Reported::Release("unreachable")));
    world.server.restart().unwrap();
    assert!(world.is_there("order:1").await);
}
