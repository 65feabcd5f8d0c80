//! The stores that no other module here opens.

use amends::{Amends, Call, Idempotency, Outcome, Saga, Step};
use amends_testbed::redis::Redis;

use crate::support::quick;

#[tokio::test]
async fn a_saga_runs_on_redis_and_locks_are_there() {
    let server = tokio::task::spawn_blocking(|| Redis::start().unwrap()).await.unwrap();
    let step = Step::new("act").action(|_: Call, n: u32| async move { Ok(n + 1) }).without_effect();
    let saga = Saga::builder("one", 1).step(step.idempotency(Idempotency::Replay)).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let amends = Amends::builder(server.url())
        .data_folder(folder.path())
        .saga(&saga)
        .tune(quick)
        .start()
        .await
        .unwrap();
    let held = amends.locks().acquire("one:1", std::time::Duration::from_secs(60)).await.unwrap();
    let handle = amends.submit(&saga, "one:1", &1).await.unwrap();
    let Outcome::Completed(facts) = handle.outcome().await.unwrap() else { panic!() };
    assert_eq!(facts.get::<u32>("act").unwrap(), 2);
    assert!(matches!(held.abandon("done").await, amends::locks::ReleaseOutcome::Released));
}
