//! Several nodes on one store.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{By, Evidence, Person, PersonAction, Problem, Status};
use amends_engine::Refused;
use serde_json::json;

use crate::support::*;

fn cancel() -> Person {
    Person {
        by: By { who: "ann".into(), reason: "second thoughts".into() },
        version: None,
        action: PersonAction::Cancel,
    }
}

#[tokio::test(start_paused = true)]
async fn three_nodes_share_the_work_and_each_effect_happens_once() {
    let world = World::new();
    let mut engines = Vec::new();
    for node in ["a", "b", "c"] {
        let store = Arc::new(Faulty::new(world.memory.clone()));
        engines.push(world.engine_on(amends_engine::Config::new(node, node.len() as u64 + 7), store).await);
    }
    register(&engines[0], ORDER).await;
    world.participants.next("charge", std::iter::repeat_n(Does::Misconfigured, 60));
    for n in 0..90 {
        submit(&engines[n % 3], order(&format!("o{n}"))).await;
    }
    for n in 0..90 {
        // Each is watched from a node that did not begin it.
        let saga = rest(&engines[(n + 1) % 3], &format!("o{n}")).await;
        assert_eq!(status_of(&saga), Status::Completed, "o{n}");
    }
    assert_eq!(world.participants.effects().len(), 270);
    assert!(world.participants.doubled().is_empty());
    assert!(engines.iter().all(|engine| engine.metrics().fenced == 0));
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_when_the_lease_has_lapsed() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    world.participants.next("charge", std::iter::repeat_n(Does::WorksSilently, 1));
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    engine.crash();
    let crashed = world.now();
    assert_eq!(status_of(&rest(&other, "o1").await), Status::Completed);
    assert!(world.now() >= crashed.plus_ms(5_000), "not before the lease was over");
    assert!(world.kinds("o1").await.contains(&"taken_over"));
    assert!(world.participants.doubled().is_empty());
    assert_eq!(other.metrics().take_overs, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_suspended_past_its_lease_sends_and_writes_nothing() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::ChecksLeaseAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is about to charge", async || world.participants.calls().len() == 2).await;
    world.clock.suspend(60_000);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(world.participants.effects(), ["reserve action"]);
    // It joins anew, and goes on as after a crash.
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert!(world.kinds("o1").await.contains(&"taken_over"));
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_answered_after_the_lease_lapsed_is_not_decided_on() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    // Answered before the node has noticed that it was suspended.
    world.participants.next("charge", [Does::WorksAfter(Duration::from_millis(500))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    world.clock.suspend(60_000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.kinds("o1").await, ["submitted", "answered"]);
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert_eq!(world.kinds("o1").await[2], "taken_over");
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_suspended_while_another_took_over_is_fenced() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_millis(2_500))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    world.clock.suspend(60_000);
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    assert_eq!(status_of(&rest(&other, "o1").await), Status::Completed);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.participants.doubled().is_empty());
    assert_eq!(world.participants.effects().len(), 3);
    assert_eq!(engine.gauges().sagas, 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_former_owner_wrote_last_does_not_take_the_saga_from_the_next() {
    use amends_store::{Advance, Item, Journal as _};

    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(2))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    engine.crash();
    // The former owner lets it go just before the next one's take-over is written.
    let row = amends_store::Row { owner: None, due_at: Some(world.now()), ..world.row("o1").await };
    let late = Advance {
        id: saga_id("o1"),
        rowid: row.rowid,
        after: 2,
        entries: Vec::new(),
        row: Some(row),
        release_claims: false,
        take_claims: Vec::new(),
        mail: Vec::new(),
        nonce: 5,
    };
    let memory = world.memory.clone();
    world.store.at_commit(move |n, _| {
        if n == 1 {
            let (memory, late) = (memory.clone(), late.clone());
            tokio::spawn(async move { memory.commit(vec![Item::Advance(late)]).await });
        }
        None
    });
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(2))]);
    let engine = world.engine().await;
    until("it is charging again", async || world.participants.calls().len() == 3).await;
    assert_eq!(world.row("o1").await.owner.map(|(node, _)| node).as_deref(), Some("a"));
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert_eq!(world.kinds("o1").await.iter().filter(|kind| **kind == "taken_over").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_person_at_one_node_reaches_a_saga_at_another() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_millis(2_800))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    let view = other.act(&saga_id("o1"), cancel()).await;
    assert_eq!(whole(view).direction, amends_core::Direction::Undo);
    assert_eq!(status_of(&rest(&other, "o1").await), Status::Compensated);

    let refused = other.act(&saga_id("o1"), cancel()).await;
    let refused = refused.map(|_| ()).err();
    assert!(
        refused.is_none() || matches!(refused, Some(Refused::Core { problem: Problem::WrongState, .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_at_one_node_reaches_a_saga_at_another() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_millis(2_800))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    let done = Evidence::Done { fact: json!({ "serial": 2 }) };
    other.callback("o1:charge:action", "e1", done).await.expect("taken");
    until("it is settled", async || world.kinds("o1").await.contains(&"settled")).await;
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
}

/// On real threads and real time, where whatever can overlap does.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_real_threads_nodes_that_come_and_go_lose_and_double_nothing() {
    let world = World::new();
    let lively = |node: &str, seed| {
        let mut config = amends_engine::Config::new(node, seed);
        config.times.lease_ttl = Duration::from_secs(3);
        config.times.lease_margin = Duration::from_millis(300);
        config.times.take_over_every = Duration::from_millis(50);
        config.times.poll_every = Duration::from_millis(20);
        config.times.backoff_max = Duration::from_millis(100);
        config
    };
    let mut engines = Vec::new();
    for (n, node) in ["a", "b", "c"].into_iter().enumerate() {
        let store = Arc::new(Faulty::new(world.memory.clone()));
        engines.push(world.engine_on(lively(node, n as u64), store).await);
    }
    register(&engines[0], ORDER).await;
    world.participants.next("charge", std::iter::repeat_n(Does::IsBusy, 20));
    for n in 0..300 {
        // A node that has just lost its lease refuses; whoever submits tries again.
        let engine = &engines[n % 3];
        while engine.submit(order(&format!("o{n}"))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if n % 60 == 59 {
            let dead = n / 60 % 3;
            engines[dead].crash();
            let store = Arc::new(Faulty::new(world.memory.clone()));
            engines[dead] = world.engine_on(lively(["a", "b", "c"][dead], 100 + n as u64), store).await;
        }
    }
    for n in 0..300 {
        let saga = rest(&engines[n % 3], &format!("o{n}")).await;
        assert_eq!(status_of(&saga), Status::Completed, "o{n}: {:?}", world.kinds(&format!("o{n}")).await);
    }
    assert_eq!(world.participants.effects().len(), 900);
    assert!(world.participants.doubled().is_empty());
}
