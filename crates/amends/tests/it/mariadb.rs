//! Sagas and locks in sqlx's transactions, on a MariaDB server.

use std::time::Duration;

use amends::locks::ReleaseOutcome;
use amends::{Amends, Call, CommitFailed, Idempotency, Outcome, Saga, Step, SubmitError, submit_in};
use amends_testbed::mariadb::MariaDb;
use sqlx::{Connection as _, MySql, MySqlConnection, Transaction};

use crate::cut::{Cut, CuttingProxy};
use crate::support::quick;

const TTL: Duration = Duration::from_secs(600);

struct World {
    server: MariaDb,
    amends: Amends,
    saga: Saga<u32>,
}

impl World {
    async fn new() -> Self {
        let server = tokio::task::spawn_blocking(|| MariaDb::start().unwrap()).await.unwrap();
        let step = Step::new("act").action(|_: Call, n: u32| async move { Ok(n) }).without_effect();
        let saga = Saga::builder("order", 1).step(step.idempotency(Idempotency::Replay)).build().unwrap();
        let amends = Amends::builder(server.url()).saga(&saga).tune(quick).start().await.unwrap();
        server.ask("CREATE TABLE orders (id VARCHAR(20) PRIMARY KEY)").unwrap();
        Self { server, amends, saga }
    }

    fn orders(&self) -> String {
        self.server.ask("SELECT COUNT(*) FROM orders").unwrap().trim().to_owned()
    }

    async fn is_there(&self, id: &str) -> bool {
        let id = amends::SagaId::new(id).unwrap();
        self.amends.engine().saga_soon(&id, Duration::from_millis(100)).await.is_ok()
    }
}

async fn begin(connection: &mut MySqlConnection) -> Transaction<'_, MySql> {
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('1')").execute(&mut *tx).await.unwrap();
    tx
}

#[tokio::test]
async fn business_rows_and_saga_are_committed_together_and_then_the_lock_goes() {
    let world = World::new().await;
    let mut connection = MySqlConnection::connect(&world.server.url()).await.unwrap();
    let held = world.amends.locks().acquire("order:ü", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:ü", &7).await.unwrap();
    let held = pending.roll_back().await;
    assert!(!world.is_there("order:ü").await && world.orders() == "0");

    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:ü", &7).await.unwrap();
    let covered = pending.commit().await.unwrap();
    let (result, outcome) = covered.release_after(Err::<(), _>("declined")).await;
    assert_eq!(result, Err("declined"));
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
    assert_eq!(world.orders(), "1");
    let handle = world.amends.handle(&world.saga, "order:ü").unwrap();
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Completed(_)));

    let mut tx = connection.begin().await.unwrap();
    submit_in(&mut tx, &world.saga, "order:ü", &7).await.unwrap();
    let other = submit_in(&mut tx, &world.saga, "order:ü", &8).await.unwrap_err();
    assert!(matches!(&other, SubmitError::Refused { id, .. } if id.as_str() == "order:ü"), "{other}");
}

#[tokio::test]
async fn a_lock_that_somebody_else_has_lets_nothing_be_committed() {
    let world = World::new().await;
    let mut connection = MySqlConnection::connect(&world.server.url()).await.unwrap();
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    world.server.ask("UPDATE amends_lock SET token = token + 1, owner = 'somebody'").unwrap();
    let not = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap_err();
    assert!(matches!(not.error, SubmitError::LockLost { .. }), "{not}");
    assert!(!world.is_there("order:1").await && world.orders() == "0");
    let outcome = not.held.abandon("lost it").await;
    assert!(matches!(outcome, ReleaseOutcome::LeaseLost(_)), "{outcome}");

    let held = world.amends.locks().acquire("order:2", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:2", &7).await.unwrap();
    let steal =
        "SET innodb_lock_wait_timeout = 1; UPDATE amends_lock SET token = token + 1 WHERE name = 'order:2'";
    assert!(world.server.ask(steal).unwrap_err().to_string().contains("Lock wait timeout"));
    let _ = pending.commit().await.unwrap().release().await;
}

#[tokio::test]
async fn a_user_that_may_call_two_procedures_needs_nothing_else_and_may_work_in_another_database() {
    let world = World::new().await;
    world
        .server
        .ask(
            "CREATE USER shop@'%' IDENTIFIED BY 'shop'; CREATE DATABASE shop; GRANT ALL ON shop.* TO shop@'%';
             CREATE TABLE shop.orders (id VARCHAR(20) PRIMARY KEY);
             GRANT EXECUTE ON PROCEDURE amends.amends_submit TO shop@'%';
             GRANT EXECUTE ON PROCEDURE amends.amends_check_lock TO shop@'%'",
        )
        .unwrap();
    let url = format!("mysql://shop:shop@127.0.0.1:{}/shop", world.server.port());
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let held = world.amends.locks().acquire("order:1", TTL).await.unwrap();
    let pending = held.submit_in(begin(&mut connection).await, &world.saga, "order:1", &7).await.unwrap();
    assert!(matches!(pending.commit().await.unwrap().release().await, ReleaseOutcome::Released));
    assert_eq!(world.server.ask("SELECT COUNT(*) FROM shop.orders").unwrap().trim(), "1");
    assert!(world.amends.handle(&world.saga, "order:1").unwrap().view().await.is_ok());
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_neither_releases_nor_abandons() {
    let world = World::new().await;
    for (n, cut) in [Cut::BeforeTheServer, Cut::AfterTheServer].into_iter().enumerate() {
        let proxy = CuttingProxy::start(world.server.port(), b"COMMIT", cut).await;
        let url = format!("mysql://amends:amends@127.0.0.1:{}/amends?ssl-mode=disabled", proxy.port());
        let mut connection = MySqlConnection::connect(&url).await.unwrap();
        let lock = format!("order:{n}");
        let held = world.amends.locks().acquire(&lock, TTL).await.unwrap();
        let tx = connection.begin().await.unwrap();
        let pending = held.submit_in(tx, &world.saga, lock.as_str(), &7).await.unwrap();
        let CommitFailed::Unknown(unsure) = pending.commit().await.unwrap_err() else { panic!("{cut:?}") };
        assert_eq!((unsure.saga.as_str(), &unsure.lock), (lock.as_str(), &lock));
        assert!(
            world.amends.locks().show(&lock).await.unwrap().held.is_some(),
            "{cut:?}: it lapses by itself"
        );
        match cut {
            Cut::BeforeTheServer => assert!(!world.is_there(&lock).await),
            Cut::AfterTheServer => while !world.is_there(&lock).await {},
        }
    }
}
