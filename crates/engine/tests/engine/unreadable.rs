//! A stored entry that cannot be read parks that saga alone.

use std::sync::Arc;

use amends_core::{By, Person, PersonAction, Status};
use amends_engine::{Refused, View};
use amends_store::{Item, Journal as _, Row, StoredEntry, Submission};

use crate::support::*;

async fn plant_with(world: &World, like: &str, id: &str, body: Vec<u8>, digest: Option<&str>) {
    let (row, entries) = (world.row(like).await, world.journal(like).await);
    let row = Row {
        id: saga_id(id),
        rowid: 0,
        owner: None,
        due_at: Some(world.now()),
        ended_at: None,
        digest: digest.map_or(row.digest.clone(), str::to_owned),
        status: "running".into(),
        ..row
    };
    let entries = vec![StoredEntry { body, ..entries[0].clone() }];
    let item = Submission { row, entries, claims: Vec::new(), fingerprint: id.to_owned(), nonce: 1 };
    world.memory.commit(vec![Item::Submit(item)]).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_parked_visible_and_the_others_go_on() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("good")).await;
    let submitted = world.journal("good").await[0].body.clone();
    plant_with(&world, "good", "garbled", b"{\"submitted\":".to_vec(), None).await;
    plant_with(&world, "good", "future", b"{\"teleported\":{}}".to_vec(), None).await;
    plant_with(&world, "good", "orphan", submitted, Some("no-such-digest")).await;
    submit(&engine, order("other")).await;

    for id in ["garbled", "future", "orphan"] {
        until("it is dead", async || world.row(id).await.status == "dead").await;
        let row = world.row(id).await;
        assert_eq!(
            (row.owner, row.due_at, row.error_class.as_deref()),
            (None, None, Some("unreadable")),
            "{id}"
        );
        let View::Row { row, why } = engine.wait(&saga_id(id), LONG).await.expect("its row") else {
            panic!("{id}")
        };
        assert!(row.reason.is_some() && !why.is_empty(), "{id}");
    }
    assert_eq!(status_of(&rest(&engine, "other").await), Status::Completed);
    assert_eq!(engine.metrics().unreadable, 3);
    assert_eq!(engine.dead_groups(10).await.expect("groups")[0].count, 3);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_acts_on_it_is_told() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("good")).await;
    plant_with(&world, "good", "garbled", b"?".to_vec(), None).await;
    until("it is dead", async || world.row("garbled").await.status == "dead").await;
    let person = Person {
        by: By { who: "ann".into(), reason: String::new() },
        version: None,
        action: PersonAction::Cancel,
    };
    let refused = engine.act(&saga_id("garbled"), person).await.expect_err("it cannot be read");
    assert!(
        matches!(&refused, Refused::Core { detail, .. } if detail.contains("cannot be read")),
        "{refused:?}"
    );
    let before = world.store.loads.load(std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(
        world.store.loads.load(std::sync::atomic::Ordering::SeqCst),
        before,
        "it is not looked at again and again"
    );
}

/// Two versions on one store: the newer one writes entries that the older one does not know.
#[tokio::test(start_paused = true)]
async fn what_a_newer_version_wrote_is_parked_by_the_older_one_and_taken_up_by_the_newer() {
    let world = World::new();
    let newer = world.engine_for(ORDER).await;
    let slowly = || Does::WorksAfter(std::time::Duration::from_millis(2_500));
    world.participants.next("charge", [Does::WorksSilently, slowly()]);
    world.participants.next("confirm", [slowly()]);
    submit(&newer, order("asked")).await;
    until("it is asked about", async || world.kinds("asked").await.contains(&"asked")).await;
    submit(&newer, order("plain")).await;
    let charges = || world.participants.calls().iter().filter(|call| *call == "charge action").count();
    until("the other one is charging", async || charges() == 2).await;
    newer.crash();

    let eyes = Arc::new(Faulty::older_than(world.memory.clone(), "asked"));
    let older = world.engine_on(amends_engine::Config::new("older", 3), eyes.clone()).await;
    until("the older node has parked it", async || world.row("asked").await.status == "dead").await;
    let row = world.row("asked").await;
    let reason = row.reason.unwrap_or_default();
    assert!(reason.contains("newer version") && reason.contains("takes the saga up by itself"), "{reason}");
    assert_eq!((row.owner, row.due_at), (None, None));
    // Of this one it has seen nothing that it does not know, whatever comes later.
    until("the older node goes on with the rest", async || {
        world.kinds("plain").await.contains(&"taken_over")
    })
    .await;
    assert_ne!(world.row("plain").await.error_class.as_deref(), Some("unreadable"));
    let looked = eyes.loads.load(std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert!(
        eyes.loads.load(std::sync::atomic::Ordering::SeqCst) <= looked + 2,
        "it is read in vain again and again"
    );
    assert_eq!(world.row("asked").await.status, "dead");
    assert!(!world.kinds("asked").await.contains(&"taken_over"), "the older node has written to it");

    // A newer node comes back beside the older one.
    let newer = world.engine_with(amends_engine::Config::new("newer", 4)).await;
    for id in ["asked", "plain"] {
        assert_eq!(status_of(&rest(&newer, id).await), Status::Completed, "{id}");
    }
    assert!(world.participants.doubled().is_empty());
    assert_eq!(world.participants.effects().len(), 6);
    drop(older);
}

/// The one that could not read it was slow to say so: another node, which can, has it by now.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_a_saga_does_not_take_it_from_one_that_can() {
    let world = World::new();
    let newer = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksSilently]);
    world.participants.next("confirm", [Does::WorksAfter(std::time::Duration::from_millis(2_500))]);
    submit(&newer, order("o1")).await;
    until("it is asked about", async || world.kinds("o1").await.contains(&"asked")).await;
    newer.crash();
    let eyes = Arc::new(Faulty::older_than(world.memory.clone(), "asked"));
    // Just before the older node parks it, a newer one has moved it.
    let (memory, rowid) = (world.memory.clone(), world.row("o1").await.rowid);
    let seq = world.journal("o1").await.len() as u64;
    eyes.at_commit(move |n, _| {
        if n == 1 {
            let memory = memory.clone();
            let entry =
                amends_core::EntryKind::TakenOver { epoch: 99, lapsed: true, busy: true, next: Vec::new() };
            let entry = amends_core::Entry { seq: seq + 1, at: amends_core::Time(1), kind: entry };
            let moved = amends_store::Advance {
                id: saga_id("o1"),
                rowid,
                after: seq,
                entries: vec![StoredEntry::encode(&entry)],
                row: None,
                release_claims: false,
                take_claims: Vec::new(),
                mail: Vec::new(),
                nonce: 5,
            };
            tokio::spawn(async move { memory.commit(vec![Item::Advance(moved)]).await });
        }
        None
    });
    let older = world.engine_on(amends_engine::Config::new("older", 3), eyes.clone()).await;
    until("the older node wants to park it", async || eyes.commits() > 0).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_ne!(world.row("o1").await.status, "dead");
    older.crash();
}
