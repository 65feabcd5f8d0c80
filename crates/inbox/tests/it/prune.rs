//! How long records are kept.

use std::time::Duration;

use amends_inbox::{Found, Keep};

use crate::world::{Script, World, action_of, compensation_of, key, records, too_late};

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn records_are_forgotten_when_their_time_is_over_and_not_before(world: &impl World) {
    let keep = Keep::at_least(DAY, DAY);
    let kept_s = keep.as_secs();
    for saga in ["a", "b", "c"] {
        world.act(action_of(saga).keep(keep), Script::Succeed).await.unwrap();
    }
    world.undo(compensation_of("late").keep(keep), Script::Succeed).await.unwrap();
    world.act(action_of("long"), Script::Succeed).await.unwrap();
    assert_eq!(records(world).await, 6);
    world.age(kept_s - 600).await;
    assert_eq!(world.forget(100).await, 0);
    assert_eq!(world.act(action_of("late"), Script::Succeed).await.unwrap(), too_late());
    world.age(1_200).await;
    assert_eq!(world.forget(2).await, 2, "in batches");
    assert_eq!(world.forget(100).await, 3);
    assert_eq!(records(world).await, 1);
    assert_eq!(world.query(key("a:slot:action")).await.unwrap(), Found::NeverSeen);
    assert_ne!(world.query(key("long:slot:action")).await.unwrap(), Found::NeverSeen);
}

pub(crate) async fn a_call_to_undo_prolongs_the_record_of_the_action(world: &impl World) {
    let keep = Keep::at_least(DAY, DAY);
    world.act(action_of("a").keep(keep), Script::Succeed).await.unwrap();
    world.age(keep.as_secs() - 600).await;
    world.undo(compensation_of("a").keep(keep), Script::Refuse).await.unwrap();
    world.age(1_200).await;
    assert_eq!(world.forget(100).await, 0);
    // It can still be found by the next one that is to undo it; a shorter time takes nothing away.
    let shorter = Keep::at_least(Duration::ZERO, Duration::ZERO);
    world.undo(compensation_of("a").keep(shorter), Script::Succeed).await.unwrap();
    world.age(keep.as_secs() - 3_600).await;
    assert_eq!(world.forget(100).await, 0);
    assert_eq!(records(world).await, 2);
}
