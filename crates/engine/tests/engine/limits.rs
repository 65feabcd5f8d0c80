//! Every limit holds, and says so.

use std::time::Duration;

use amends_core::Status;
use amends_engine::{Config, Limits, Refused};

use crate::support::*;

fn limited(limits: Limits) -> Config {
    Config { limits, ..config("a") }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_sagas_in_memory_submissions_are_refused_and_nothing_else() {
    let world = World::new();
    let limits = Limits { sagas_max: 3, sagas_and_due_max: 6, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::WorksAfter(Duration::from_secs(2)), 3));
    for n in 0..3 {
        submit(&engine, order(&format!("o{n}"))).await;
    }
    let refused = engine.submit(order("o3")).await.expect_err("too many");
    assert!(
        matches!(refused, Refused::Overloaded { what: "sagas in memory", retry_after_ms: 1.. }),
        "{refused:?}"
    );
    assert_eq!(engine.metrics().refusals["sagas in memory"], 1);
    let unknown = engine.saga(&saga_id("o3")).await.expect_err("nothing was kept");
    assert!(matches!(unknown, Refused::UnknownSaga(_)));
    for n in 0..3 {
        assert_eq!(status_of(&rest(&engine, &format!("o{n}")).await), Status::Completed);
    }
    assert!(submit(&engine, order("o3")).await.created);
}

#[tokio::test(start_paused = true)]
async fn due_work_is_claimed_only_as_fast_as_there_is_room() {
    let world = World::new();
    let limits =
        Limits { sagas_max: 4, sagas_and_due_max: 8, openings_max: 4, due_batch_max: 4, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::Misconfigured, 40));
    for n in 0..40 {
        until("there is room", async || engine.gauges().sagas < 4).await;
        submit(&engine, order(&format!("o{n}"))).await;
    }
    until("all are parked", async || engine.gauges().sagas == 0).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::WorksAfter(Duration::from_secs(1)), 40));
    let mut most = 0;
    until("all have ended", async || {
        most = most.max(engine.gauges().sagas);
        world.participants.effects().len() == 120
    })
    .await;
    assert!((1..=4).contains(&most), "{most} in memory");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_due_work_keeps_no_submission_from_its_turn() {
    let world = World::new();
    let limits = Limits { sagas_max: 4, sagas_and_due_max: 8, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::Misconfigured, 12));
    for n in 0..12 {
        until("there is room", async || engine.gauges().sagas < 4).await;
        submit(&engine, order(&format!("o{n}"))).await;
    }
    until("all are parked", async || engine.gauges().sagas == 0).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::WorksAfter(Duration::from_secs(2)), 12));
    until("they are back", async || engine.gauges().sagas == 4).await;
    assert_eq!(engine.gauges().begun, 0);
    assert!(submit(&engine, order("another")).await.created);
    assert_eq!((engine.gauges().sagas, engine.gauges().begun), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_has_at_most_as_many_items_as_the_limit() {
    let world = World::new();
    let limits = Limits { commit_batch_max: 3, commits_in_flight_max: 1, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    world.store.at_commit({
        let most = most.clone();
        move |_, items| {
            most.fetch_max(items.len(), std::sync::atomic::Ordering::SeqCst);
            None
        }
    });
    complete_at_once(&engine, 20).await;
    assert_eq!(most.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_spread_evenly_over_the_commits_in_flight() {
    let world = World::new();
    let limits = Limits { commits_in_flight_max: 2, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    let sizes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    world.store.at_commit({
        let sizes = sizes.clone();
        move |_, items| {
            sizes.lock().expect("no panic").push(items.len());
            None
        }
    });
    complete_at_once(&engine, 20).await;
    let sizes = sizes.lock().expect("no panic").clone();
    assert!(sizes.iter().all(|size| *size <= 10), "a commit took more than its part: {sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn many_who_submit_at_once_what_has_ended_are_all_told_so() {
    let world = World::new();
    let engine = world.engine().await;
    register(&engine, ORDER).await;
    run(&engine, order("o")).await;
    until("it has left memory", async || engine.gauges().sagas == 0).await;
    let again: Vec<_> = (0..50)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.submit(order("o")).await.map(|started| started.created) })
        })
        .collect();
    for one in again {
        assert!(!one.await.expect("no panic").expect("it is known, and nothing is too much"));
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_commit_queue_submissions_are_refused() {
    let world = World::new();
    let limits = Limits { commit_queue_max: 2, ..Limits::default() };
    let engine = world.engine_with(limited(limits)).await;
    register(&engine, ORDER).await;
    // Nothing is answered any more: what is handed in waits.
    world.store.at_commit(|_, _| Some(Fault::CrashesBefore));
    let waiting: Vec<_> = (0..2)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.submit(order(&format!("o{n}"))).await.map(|_| ()) })
        })
        .collect();
    until("both wait", async || engine.gauges().commit_queue == 2).await;
    let refused = engine.submit(order("o2")).await.expect_err("too many");
    assert!(matches!(refused, Refused::Overloaded { what: "commit queue", .. }), "{refused:?}");
    for one in waiting {
        let refused = one.await.expect("no panic").expect_err("nobody answers");
        assert!(
            matches!(&refused, Refused::Store(e) if e.kind == amends_store::Kind::Indeterminate),
            "{refused:?}"
        );
    }
}
