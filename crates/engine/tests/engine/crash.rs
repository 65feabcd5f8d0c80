//! Crashes, lost answers and fencing at every commit of a run: the same end, and each effect once.

use std::sync::atomic::Ordering;

use amends_core::{OpKind, Status};
use amends_store::Kind;

use crate::support::*;

/// A run with the trouble that its participants make, its end, and what is carried out by then.
struct Story {
    name: &'static str,
    trouble: fn(&Participants),
    end: Status,
    effects: &'static [&'static str],
}

const STORIES: [Story; 4] = [
    Story {
        name: "all goes well",
        trouble: |_| {},
        end: Status::Completed,
        effects: &["reserve action", "charge action", "confirm action"],
    },
    Story {
        name: "the last step is refused",
        trouble: |p| p.next("confirm", std::iter::repeat_n(Does::Refuses, 8)),
        end: Status::Compensated,
        effects: &["reserve action", "charge action", "charge compensation", "reserve compensation"],
    },
    Story {
        name: "a charge is carried out without an answer",
        trouble: |p| p.next("charge", [Does::WorksSilently]),
        end: Status::Completed,
        effects: &["reserve action", "charge action", "confirm action"],
    },
    Story {
        name: "a refund is carried out without an answer",
        trouble: |p| {
            p.next("confirm", std::iter::repeat_n(Does::Refuses, 8));
            p.next_of("charge", OpKind::Compensation, false, [Does::WorksSilently]);
        },
        end: Status::Compensated,
        effects: &["reserve action", "charge action", "charge compensation", "reserve compensation"],
    },
];

impl Story {
    async fn ends_well(&self, world: &World, saga: &std::sync::Arc<amends_core::Saga>, what: &str) {
        let name = self.name;
        assert_eq!(status_of(saga), self.end, "{name}, {what}");
        assert_eq!(world.participants.effects(), self.effects, "{name}, {what}");
        assert!(world.participants.doubled().is_empty(), "{name}, {what}");
        let row = world.row("o1").await;
        assert_eq!((row.status.as_str(), row.owner), (self.end.as_str(), None), "{name}, {what}");
    }
}

/// Runs a story with a fault at the n-th commit; false if the story has no n-th commit.
async fn run_with(story: &Story, nth: usize, fault: Fault, next_node: &str) -> bool {
    let world = World::new();
    (story.trouble)(&world.participants);
    let engine = world.engine_for(ORDER).await;
    world.store.at_commit(move |n, _| (n == nth).then_some(fault));
    let first = tokio::spawn({
        let engine = engine.clone();
        async move { engine.submit(order("o1")).await.map(|_| ()) }
    });
    let mut ended = false;
    until("crash or end", async || {
        ended = world.memory_has_ended("o1").await;
        ended || world.store.crashed.load(Ordering::SeqCst)
    })
    .await;
    if ended && !world.store.crashed.load(Ordering::SeqCst) {
        return false;
    }
    engine.crash();
    drop(engine);
    first.abort();

    world.store.no_faults();
    let engine = world.engine_with(config(next_node)).await;
    let saga = run(&engine, order("o1")).await;
    story.ends_well(&world, &saga, &format!("{fault:?} at commit {nth}, then node {next_node}")).await;
    true
}

impl World {
    async fn memory_has_ended(&self, id: &str) -> bool {
        use amends_store::Lists as _;
        let row = self.memory.row(&saga_id(id)).await.expect("memory answers");
        row.is_some_and(|row| row.ended_at.is_some())
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_changes_nothing_about_the_end() {
    for story in &STORIES {
        for fault in [Fault::CrashesBefore, Fault::CrashesAfter] {
            for next_node in ["a", "b"] {
                let mut nth = 1;
                while run_with(story, nth, fault, next_node).await {
                    nth += 1;
                }
                assert!(nth > 4, "{}: every commit was met, {nth}", story.name);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_crashes_of_one_saga_change_nothing_about_its_end() {
    for story in &STORIES {
        let world = World::new();
        (story.trouble)(&world.participants);
        let mut engine = world.engine_for(ORDER).await;
        // Some lives end before they get anywhere: take-over, query and permission to send are commits too.
        for life in 1..=40 {
            world.store.crashed.store(false, Ordering::SeqCst);
            world.store.at_commit(move |n, _| (n == 3 + life % 4).then_some(Fault::CrashesAfter));
            // A submission that was lost is made again, by whoever made it.
            let submitted = tokio::spawn({
                let engine = engine.clone();
                async move { engine.submit(order("o1")).await.map(|_| ()) }
            });
            let mut ended = false;
            until("crash or end", async || {
                ended = world.memory_has_ended("o1").await;
                ended || world.store.crashed.load(Ordering::SeqCst)
            })
            .await;
            engine.crash();
            submitted.abort();
            if ended {
                break;
            }
            assert!(life < 40, "{}: it gets nowhere", story.name);
            engine = world.engine().await;
        }
        world.store.no_faults();
        let engine = world.engine().await;
        let saga = rest(&engine, "o1").await;
        story.ends_well(&world, &saga, "many crashes").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_or_failed_commit_answer_changes_nothing() {
    let faults = [
        Fault::LosesAnswer,
        Fault::LosesBoth,
        Fault::LandsLate,
        Fault::Fails(Kind::Unavailable),
        Fault::Fails(Kind::Unwritable),
    ];
    for story in &STORIES {
        for fault in faults {
            for nth in 1..=12 {
                let world = World::new();
                (story.trouble)(&world.participants);
                let engine = world.engine_for(ORDER).await;
                world.store.at_commit(move |n, _| (n == nth).then_some(fault));
                match engine.submit(order("o1")).await {
                    Ok(started) => assert!(started.created),
                    // What failed for certain is said at once, and may be tried again.
                    Err(_) if nth == 1 => assert!(submit(&engine, order("o1")).await.created),
                    Err(refused) => panic!("{refused:?}"),
                }
                let saga = rest(&engine, "o1").await;
                until("it left memory", async || engine.gauges().sagas == 0).await;
                story.ends_well(&world, &saga, &format!("{fault:?} at commit {nth}")).await;
                assert_eq!(
                    engine.metrics().fenced,
                    0,
                    "{fault:?} at commit {nth}: its own write is nobody else's"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_kills_its_engine_three_times_is_put_before_a_person() {
    let world = World::new();
    let mut engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", [Does::WorksAfter(std::time::Duration::from_secs(2))]);
    submit(&engine, order("o1")).await;
    for _ in 0..3 {
        engine.crash();
        // Whenever it is opened it has something to do, and each time that is the end of its engine.
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        world.store.crashed.store(false, Ordering::SeqCst);
        world.store.at_commit(|n, _| (n == 1).then_some(Fault::CrashesAfter));
        engine = world.engine().await;
        until("it crashed", async || world.store.crashed.load(Ordering::SeqCst)).await;
    }
    engine.crash();
    world.store.no_faults();
    let engine = world.engine().await;
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Dead);
    assert_eq!(world.kinds("o1").await, ["submitted", "taken_over", "taken_over", "taken_over", "stuck"]);
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    assert_eq!(world.row("o1").await.status, "dead");
}

#[tokio::test(start_paused = true)]
async fn a_saga_whose_task_panics_goes_on_as_after_a_crash_and_alone() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(std::time::Duration::from_secs(1)), Does::Panics]);
    submit(&engine, order("o1")).await;
    submit(&engine, order("o2")).await;
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert_eq!(status_of(&rest(&engine, "o2").await), Status::Completed);
    assert!(!world.kinds("o1").await.contains(&"taken_over"));
    assert!(world.kinds("o2").await.contains(&"taken_over"));
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_brings_its_task_down_again_and_again_is_put_before_a_person() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    register(&engine, ORDER).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::Panics, 9));
    world.participants.next_of("reserve", OpKind::Action, true, std::iter::repeat_n(Does::Panics, 9));
    submit(&engine, order("o1")).await;
    let saga = rest(&engine, "o1").await;
    assert!(matches!(status_of(&saga), Status::Unknown | Status::Dead), "{:?}", status_of(&saga));
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_on_an_older_state_is_dropped_and_decided_anew() {
    use amends_core::{Entry, EntryKind};
    use amends_store::{Advance, Item, Journal as _, StoredEntry};

    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(std::time::Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    // Another entry comes first, whoever wrote it.
    let entry = Entry { seq: 3, at: world.now(), kind: EntryKind::Overdue };
    let foreign = Advance {
        id: saga_id("o1"),
        rowid: world.row("o1").await.rowid,
        after: 2,
        entries: vec![StoredEntry::encode(&entry)],
        row: None,
        release_claims: false,
        take_claims: Vec::new(),
        mail: Vec::new(),
        nonce: 77,
    };
    world.memory.commit(vec![Item::Advance(foreign)]).await;
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert_eq!(world.kinds("o1").await[..4], ["submitted", "answered", "overdue", "taken_over"]);
    assert_eq!(engine.metrics().fenced, 1);
    assert!(world.participants.doubled().is_empty());
}
