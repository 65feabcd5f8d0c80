//! Rows that one call touches more than once, and those of journals that cannot be read.

use std::sync::Arc;

use amends_core::Time;
use amends_redis::{RedisStore, StoreOptions};
use amends_store::conformance::samples::*;
use amends_store::{
    Advanced, Item, Journal as _, ListFilter, Lists as _, Nodes as _, Outcome, Row, Submitted, Work as _,
};
use amends_testbed::redis::Redis;

async fn open(server: &Redis) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(&server.url(), StoreOptions::default()).await.unwrap())
}

/// Nobody does it so, for the number is not known yet; but no index may keep what is no more.
#[tokio::test]
async fn a_saga_submitted_and_ended_in_one_batch_stands_where_it_ended() {
    let server = Redis::start().unwrap();
    let store = open(&server).await;
    let lease = join(&*store, "n1").await;
    let mut moved = advance("order:1", 1, 1, 1);
    moved.row = Some(row("order:1").due(in_ms(-10)));
    let items = [
        Item::Submit(submission(row("order:1").owned(&lease), &["a"])),
        Item::Advance(moved),
        Item::Advance(end("order:1", 1, 2, Time(7))),
        Item::Submit(submission(row("order:2").owned(&lease), &["a"])),
    ];
    let outcomes: Vec<Outcome> = store.commit(items.to_vec()).await;
    let mut outcomes = outcomes.into_iter();
    assert_eq!(submitted(outcomes.next().unwrap()), Submitted::Created(1));
    assert_eq!(advanced(outcomes.next().unwrap()), Advanced::Committed);
    assert_eq!(advanced(outcomes.next().unwrap()), Advanced::Committed);
    assert_eq!(submitted(outcomes.next().unwrap()), Submitted::Created(2));

    let ended = load(&*store, "order:1").await;
    assert_eq!((ended.row.ended_at, ended.row.seq, ended.entries.len()), (Some(Time(7)), 3, 3));
    let page = store.page(&ListFilter::default(), None, 9).await.unwrap();
    assert_eq!(page.rows.iter().map(|row| row.rowid).collect::<Vec<_>>(), [2, 1]);
    let stats = store.stats(now()).await.unwrap();
    assert_eq!(stats.open.iter().map(|(_, _, count)| count).sum::<u64>(), 1, "{stats:?}");
    assert_eq!(stats.ended.iter().map(|(_, count)| count).sum::<u64>(), 1, "{stats:?}");
    assert_eq!(claim_due(&*store, &lease, 9).await, Vec::<String>::new());
    store.leave(&lease).await.unwrap();
    let other = join(&*store, "n2").await;
    assert_eq!(store.take_over(&other, now(), 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_parked_row_keeps_which_entry_was_the_last_when_it_was_written() {
    let server = Redis::start().unwrap();
    let store = open(&server).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    step(&*store, advance("order:1", rowid, 1, 1)).await;
    store.park(Row { rowid, seq: 99, ..row("order:1").status("dead") }).await.unwrap();
    let parked = store.row(&id("order:1")).await.unwrap().unwrap();
    assert_eq!((parked.status.as_str(), parked.seq), ("dead", 1));
    assert_eq!(load(&*store, "order:1").await.row.seq, 2);
}
