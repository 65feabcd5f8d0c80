//! A stored entry that cannot be read parks that saga alone.

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
