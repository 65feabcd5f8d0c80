//! A store that went back in time: nothing is written to it until people have accepted that.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use amends_redis::{RedisStore, StoreOptions};
use amends_store::conformance::samples::*;
use amends_store::{
    Advanced, Health as _, Item, Journal as _, Kind, Nodes as _, Outcome, Submitted, Work as _,
};
use amends_testbed::redis::Redis;

use crate::store_support::Way;

fn options(data: &Path) -> StoreOptions {
    StoreOptions { data: Some(data.to_owned()), wait: None }
}

async fn open(url: &str, data: &Path) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(url, options(data)).await.unwrap())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Nothing may be written, claimed or joined; the alarm names the remedy.
async fn is_paused(store: &RedisStore) {
    let refused = match commit(store, Item::Submit(submission(row("late"), &[]))).await {
        Outcome::Failed(error) => error,
        other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
    };
    assert!(
        matches!(refused.kind, Kind::Unwritable | Kind::Indeterminate | Kind::Unavailable),
        "{refused:?}"
    );
    for _ in 0..1_200 {
        if store.health().is_err_and(|error| error.message.contains("--accept-loss")) {
            break;
        }
        // A connection that broke is noticed by a call.
        let _ = commit(store, Item::Submit(submission(row("later"), &[]))).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let alarm = store.health().unwrap_err();
    assert!(alarm.message.contains("lost data") && alarm.message.contains("--accept-loss"), "{alarm}");
    assert!(store.join("n9", TTL_MS, now()).await.is_err());
    for text in ["late", "later"] {
        assert_eq!(store.load(&id(text)).await.unwrap(), None, "{text}");
    }
}

async fn until_well(store: &RedisStore) {
    for _ in 0..1_200 {
        if store.health().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", store.health());
}

#[tokio::test]
async fn a_snapshot_put_back_is_noticed_and_accepted_by_people_only() {
    let (mut server, state, snapshot) =
        (Redis::start().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&server.url(), state.path()).await;
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&lease), &["a"])).await;
    server.kill();
    copy(server.folder(), snapshot.path());
    server.restart().unwrap();
    // The first call finds the connection gone.
    let _ = store.next_due().await;
    assert_eq!(step(&*store, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    store.renew(&lease, TTL_MS, now()).await.unwrap().unwrap();

    server.kill();
    server.forget_data().unwrap();
    copy(snapshot.path(), server.folder());
    server.restart().unwrap();
    is_paused(&store).await;
    let closed = RedisStore::open(&server.url(), options(state.path())).await.unwrap_err();
    assert_eq!(closed.kind, Kind::Refused);
    assert!(closed.message.contains("--accept-loss"), "{closed}");

    let accept =
        async |reason| RedisStore::accept_loss(&server.url(), options(state.path()), reason, "me").await;
    assert_eq!(accept(" ").await.unwrap_err().kind, Kind::Refused);
    let epoch = accept("restored the snapshot of 3 o'clock").await.unwrap();
    assert_eq!(epoch, 2);
    assert_eq!(accept("again").await.unwrap_err().kind, Kind::Refused);

    // What the node has in memory must not be written: it stands on what is gone.
    until_well(&store).await;
    match commit(&*store, Item::Advance(advance("order:1", rowid, 1, 1))).await {
        Outcome::Failed(error) => assert_eq!(error.kind, Kind::Unavailable),
        other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
    }
    assert!(!store.renew(&lease, TTL_MS, now()).await.is_ok_and(|renewed| renewed.is_some()));
    let anew = join(&*store, "n1").await;
    assert!(anew.epoch > lease.epoch);
    let loss = store.loss().unwrap();
    assert_eq!((loss.number, loss.rowid_max), (2, rowid));
    assert_eq!(store.take_over(&anew, now(), 10).await.unwrap().len(), 1);
    assert_eq!(step(&*store, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    let next = submit(&*store, submission(row("order:2"), &[])).await;
    assert!(matches!(next, Submitted::Created(number) if number > rowid + 1_000), "{next:?}");
    open(&server.url(), state.path()).await;
}

#[tokio::test]
async fn a_fail_over_that_lost_writes_is_noticed_also_when_others_have_written_since() {
    let mut primary = Redis::start().unwrap();
    let replica = primary.replica().unwrap();
    let way = Way::to(primary.port()).await;
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&way.url(), one.path()).await;
    create(&*store, submission(row("order:1"), &[])).await;
    primary.ask(&["WAIT", "1", "5000"]).unwrap();
    replica.promote().unwrap();
    for nth in 0..5 {
        create(&*store, submission(row(&format!("lost:{nth}")), &[])).await;
    }
    primary.kill();
    way.turn_to(replica.port());
    // A node that knew nothing of the lost writes works on, far beyond them.
    let other = open(&replica.url(), two.path()).await;
    for nth in 0..20 {
        create(&*other, submission(row(&format!("new:{nth}")), &[])).await;
    }
    is_paused(&store).await;
}

#[tokio::test]
async fn a_fail_over_that_lost_nothing_goes_on() {
    let mut primary = Redis::start().unwrap();
    let replica = primary.replica().unwrap();
    let way = Way::to(primary.port()).await;
    let state = tempfile::tempdir().unwrap();
    let store = open(&format!("{}?wait=1&wait_timeout=4s", way.url()), state.path()).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    replica.promote().unwrap();
    primary.kill();
    way.turn_to(replica.port());
    let plain = open(&way.url(), state.path()).await;
    assert_eq!(step(&*plain, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    plain.health().unwrap();
}

#[tokio::test]
async fn an_emptied_server_is_noticed() {
    let (server, state) = (Redis::start().unwrap(), tempfile::tempdir().unwrap());
    let store = open(&server.url(), state.path()).await;
    create(&*store, submission(row("order:1"), &[])).await;
    server.ask(&["FLUSHALL"]).unwrap();
    is_paused(&store).await;
    assert!(RedisStore::open(&server.url(), options(state.path())).await.is_err());
    RedisStore::accept_loss(&server.url(), options(state.path()), "flushed by mistake", "me").await.unwrap();
    let fresh = open(&server.url(), state.path()).await;
    create(&*fresh, submission(row("order:1"), &[])).await;
}
