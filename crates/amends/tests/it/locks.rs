//! Locks whose release needs proof, on the embedded store and rusqlite's transactions.

use std::time::Duration;

use amends::locks::{AcquireError, LeaseOver, Locks, Lost, ReleaseOutcome, Report, Reported};
use amends::{Amends, Call, CommitFailed, Idempotency, Outcome, Refused, Saga, Step, SubmitError, submit_in};
use amends_store::locks::Because;
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{file, quick};

const TTL: Duration = Duration::from_secs(60);

struct World {
    amends: Amends,
    saga: Saga<u32>,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let (folder, url) = file();
        let step = Step::new("act").action(|_: Call, n: u32| async move { Ok(n) }).without_effect();
        let saga = Saga::builder("order", 1)
            .claim("stock:${input}")
            .step(step.idempotency(Idempotency::Replay))
            .build()
            .unwrap();
        let amends = Amends::builder(url).who("shop").saga(&saga).tune(quick).start().await.unwrap();
        let world = Self { amends, saga, path: folder.path().join("orders.db"), _folder: folder };
        world.connect().execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY) STRICT").unwrap();
        world
    }

    fn locks(&self) -> &Locks {
        self.amends.locks()
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    fn orders(&self) -> i64 {
        self.connect().query_row("SELECT count(*) FROM orders", (), |row| row.get(0)).unwrap()
    }

    /// Whether a saga was submitted, taken up or not.
    async fn is_there(&self, id: &str) -> bool {
        let sql = "SELECT count(*) FROM amends_submission WHERE id = ?1";
        let waiting: i64 = self.connect().query_row(sql, [id], |row| row.get(0)).unwrap();
        let known = self.amends.engine().saga(&amends::SagaId::new(id).unwrap()).await;
        waiting > 0 || !matches!(known, Err(Refused::UnknownSaga(_)))
    }

    /// Somebody else gets the lock.
    fn steal(&self, name: &str) {
        let sql = "UPDATE lock SET token = token + 1, owner = 'somebody else' WHERE name = ?1";
        assert_eq!(self.connect().execute(sql, [name]).unwrap(), 1);
    }
}

fn begin(connection: &mut Connection) -> rusqlite::Transaction<'_> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute("INSERT INTO orders VALUES ('1')", ()).unwrap();
    tx
}

fn last(locks: &Locks) -> Option<Reported> {
    locks.reports().pop().map(|report: Report| report.what)
}

#[tokio::test]
async fn business_rows_and_saga_are_committed_together_and_then_the_lock_goes() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    assert!(held.token() > 0 && held.check().is_ok() && held.left() > Duration::ZERO);
    let mut pending = held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap();
    pending.tx().execute("INSERT INTO orders VALUES ('2')", ()).unwrap();
    let covered = pending.commit().unwrap();
    let busy = world.locks().acquire("order:1", TTL).await.unwrap_err();
    assert!(matches!(&busy, AcquireError::Busy(by) if by.label == "shop"), "{busy}");
    assert_eq!((covered.name(), covered.saga().as_str()), ("order:1", "order:1"));
    let token = covered.token();
    let (result, released) = covered.release_after(Err::<(), _>("the mail server is away")).await;
    assert_eq!(result, Err("the mail server is away"), "whatever becomes of the release");
    assert!(matches!(released, ReleaseOutcome::Released));
    assert_eq!(world.orders(), 2);

    let view = world.locks().show("order:1").await.unwrap();
    let release = view.last_release.unwrap();
    assert!(view.held.is_none());
    assert_eq!((release.token, release.outcome.as_str()), (token, "released"));
    assert_eq!(release.because, Because::Saga(amends::SagaId::new("order:1").unwrap()));
    assert_eq!(last(world.locks()), Some(Reported::Release("released")));

    let handle = world.amends.handle(&world.saga, "order:1").unwrap();
    let outcome = handle.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_claim_covers_a_lock_too_and_nothing_else_does() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("stock:7", TTL).await.unwrap();
    let not = held.submit_in(begin(&mut connection), &world.saga, "order:1", &8).unwrap_err();
    assert!(matches!(&not.error, SubmitError::NotCovered { lock, .. } if lock == "stock:7"), "{not}");
    assert_eq!(world.orders(), 0, "it has been rolled back");
    let pending = not.held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap();
    let _ = pending.commit().unwrap().release().await;
    assert!(world.is_there("order:1").await);
}

#[tokio::test]
async fn what_is_rolled_back_leaves_nothing_to_recover() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    let held = held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap().roll_back();
    assert!(!world.is_there("order:1").await && world.orders() == 0);
    let (result, outcome) = held.abandon_after("sold out", "sold\nout").await;
    assert!(matches!(outcome, ReleaseOutcome::Released) && result == "sold out");
    let release = world.locks().show("order:1").await.unwrap().last_release.unwrap();
    assert_eq!(release.because, Because::Abandon("sold out".into()));
}

#[tokio::test]
async fn a_lock_that_somebody_else_has_lets_nothing_be_committed() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    let token = held.token();
    world.steal("order:1");
    assert!(held.check().is_ok(), "its holder does not know");
    let not = held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap_err();
    assert!(matches!(not.error, SubmitError::LockLost { token: lost } if lost == token), "{not}");
    assert!(!world.is_there("order:1").await && world.orders() == 0);
    let outcome = not.held.abandon("lost it").await;
    assert!(matches!(outcome, ReleaseOutcome::LeaseLost(Lost::Taken)), "{outcome}");
    assert!(world.locks().show("order:1").await.unwrap().held.is_some(), "the other one has it still");
}

#[tokio::test]
async fn a_lock_that_is_kept_elsewhere_is_checked_by_the_resource_or_not_used() {
    let (world, elsewhere) = (World::new().await, World::new().await);
    let mut connection = world.connect();
    let held = elsewhere.locks().acquire("order:1", TTL).await.unwrap();
    let not = held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap_err();
    assert!(matches!(not.error, SubmitError::LockLost { .. }), "{not}");
    let held = not.held.fenced_by_resource();
    let covered =
        held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap().commit().unwrap();
    assert!(matches!(covered.release().await, ReleaseOutcome::Released));
    assert!(world.is_there("order:1").await && !elsewhere.is_there("order:1").await);
}

#[tokio::test]
async fn a_lease_that_has_passed_is_not_begun_with() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", Duration::from_millis(100)).await.unwrap();
    assert!(matches!(held.over().await, LeaseOver::Passed));
    assert!(held.renew_if_needed().await.is_err(), "what is over stays over");
    let not = held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap_err();
    assert!(matches!(not.error, SubmitError::LeaseOver(LeaseOver::Passed)), "{not}");
    assert_eq!(world.orders(), 0);
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_does_not_take_the_saga_with_it() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    let tx = begin(&mut connection);
    tx.execute_batch("SAVEPOINT before").unwrap();
    let mut pending = held.submit_in(tx, &world.saga, "order:1", &7).unwrap();
    pending.tx().execute_batch("ROLLBACK TO before").unwrap();
    let covered = pending.commit().unwrap();
    assert!(world.is_there("order:1").await, "a proof is a saga that is there");
    let _ = covered.release().await;
}

#[tokio::test]
async fn a_release_that_fails_does_not_replace_the_result() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    let covered =
        held.submit_in(begin(&mut connection), &world.saga, "order:1", &7).unwrap().commit().unwrap();
    world.steal("order:1");
    let (result, outcome) = covered.release_after(Err::<(), _>("declined")).await;
    assert_eq!(result, Err("declined"));
    assert!(matches!(outcome, ReleaseOutcome::LeaseLost(Lost::Taken)), "{outcome}");
    let release = world.locks().show("order:1").await.unwrap().last_release.unwrap();
    assert_eq!(release.outcome, "lease_lost");
    assert_eq!(last(world.locks()), Some(Reported::Release("lease_lost")));
}

#[tokio::test]
async fn one_at_a_time_has_a_lock_that_many_wait_for() {
    let world = World::new().await;
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let workers = (0..8).map(|_| {
        let (locks, inside) = (world.locks().clone(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                let held = locks.acquire_within("order:1", TTL, TTL).await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                assert!(matches!(held.abandon("counted").await, ReleaseOutcome::Released));
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let _held = world.locks().acquire("order:1", TTL).await.unwrap();
    let busy = world.locks().acquire_within("order:1", TTL, Duration::from_millis(30)).await.unwrap_err();
    assert!(matches!(busy, AcquireError::Busy(_)), "{busy}");
}

#[tokio::test]
async fn what_is_dropped_is_not_released_and_says_where_it_was() {
    let world = World::new().await;
    let mut connection = world.connect();
    let is_held = async |name: &str| world.locks().show(name).await.unwrap().held.is_some();

    drop(world.locks().acquire("order:1", TTL).await.unwrap());
    assert!(is_held("order:1").await);
    assert_eq!(last(world.locks()), Some(Reported::DroppedHeld));

    let held = world.locks().acquire("order:2", TTL).await.unwrap();
    drop(held.submit_in(begin(&mut connection), &world.saga, "order:2", &7).unwrap());
    assert!(is_held("order:2").await && world.orders() == 0);
    assert!(!world.is_there("order:2").await);
    assert_eq!(last(world.locks()), Some(Reported::DroppedPending));

    let held = world.locks().acquire("order:3", TTL).await.unwrap();
    drop(held.submit_in(begin(&mut connection), &world.saga, "order:3", &7).unwrap().commit().unwrap());
    assert!(is_held("order:3").await && world.is_there("order:3").await);
    assert_eq!(last(world.locks()), Some(Reported::DroppedCovered));

    let held = world.locks().acquire("order:4", TTL).await.unwrap();
    world.connect().execute_batch("DELETE FROM orders").unwrap();
    drop(held.submit_in(begin(&mut connection), &world.saga, "order:4", &7).unwrap().roll_back());
    assert_eq!(last(world.locks()), Some(Reported::DroppedHeld), "rolled back it is held, and no more");
}

#[tokio::test]
async fn a_transaction_that_commits_when_dropped_is_rolled_back_all_the_same() {
    let world = World::new().await;
    let mut connection = world.connect();
    let held = world.locks().acquire("order:1", TTL).await.unwrap();
    let mut tx = begin(&mut connection);
    tx.set_drop_behavior(rusqlite::DropBehavior::Commit);
    let mut pending = held.submit_in(tx, &world.saga, "order:1", &7).unwrap();
    pending.tx().set_drop_behavior(rusqlite::DropBehavior::Commit);
    // As if it had been stolen, which nobody else could do while this transaction is open.
    assert_eq!(pending.tx().execute("UPDATE lock SET token = token + 1", ()).unwrap(), 1);
    let CommitFailed::RolledBack(not) = pending.commit().unwrap_err() else { panic!() };
    assert!(matches!(not.error, SubmitError::LockLost { .. }), "{not}");
    assert_eq!(world.orders(), 0);
    assert!(!world.is_there("order:1").await);
}

#[tokio::test]
async fn without_a_lock_a_saga_is_submitted_by_itself() {
    let world = World::new().await;
    let mut connection = world.connect();
    let mut tx = begin(&mut connection);
    submit_in(&mut tx, &world.saga, "order:1", &7).unwrap();
    submit_in(&mut tx, &world.saga, "order:1", &7).unwrap();
    let other = submit_in(&mut tx, &world.saga, "order:1", &8).unwrap_err();
    assert!(matches!(other, SubmitError::Refused { .. }) && other.to_string().contains("another"), "{other}");
    assert!(matches!(submit_in(&mut tx, &world.saga, "", &8).unwrap_err(), SubmitError::Unfit(_)));
    drop(tx);
    assert!(!world.is_there("order:1").await, "rolled back it never was");
    let mut tx = begin(&mut connection);
    submit_in(&mut tx, &world.saga, "order:1", &7).unwrap();
    tx.commit().unwrap();
    assert!(world.is_there("order:1").await);
}
