//! A crash and every other fault, once, at each call of the store's ports: of the examples, and of a saga that is undone.

use amends_core::Status;
use amends_sim::{Does, End, World};

const EXAMPLES: [(&str, &str); 3] = [
    ("order", include_str!("../../../examples/order-fulfilment.toml")),
    ("transfer", include_str!("../../../examples/money-transfer.toml")),
    ("travel", include_str!("../../../examples/travel-booking.toml")),
];

fn world(name: &str) -> World {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == name).expect("an example");
    World::new(text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn each(world: &World, expected: Status) -> Vec<End> {
    let ends = world.every_fault_at_every_call().unwrap_or_else(|broken| panic!("{broken}"));
    assert!(ends.len() > 100, "only {} runs", ends.len());
    for end in &ends {
        assert_eq!(end.status(), expected, "{end}\n{}", end.lines().join("\n"));
    }
    ends
}

#[test]
fn an_order_completes_whatever_the_store_does() {
    for end in each(&world("order"), Status::Completed) {
        assert_eq!(end.effects(), ["reserve action", "charge action", "confirm action"], "{end}");
    }
}

#[test]
fn a_refused_order_is_undone_whatever_the_store_does() {
    for end in each(&world("order").refuses("confirm"), Status::Compensated) {
        let effects = ["reserve action", "charge action", "charge compensation", "reserve compensation"];
        assert_eq!(end.effects(), effects, "{end}");
    }
}

#[test]
fn a_transfer_between_nodes_completes_whatever_the_store_does() {
    each(&world("transfer").nodes(2), Status::Completed);
}

#[test]
fn parallel_bookings_are_undone_whatever_the_store_does() {
    for end in each(&world("travel").refuses("car"), Status::Compensated) {
        assert_eq!(end.done("flight"), end.undone("flight"), "{end}");
        assert_eq!(end.done("hotel"), end.undone("hotel"), "{end}");
    }
}

#[test]
fn a_lost_answer_and_a_crash_after_any_write_charge_once() {
    let world = world("order").action("charge", [Does::LosesAnswer]).query("charge", [Does::FailsBefore; 2]);
    let both = [world.crash_after_every_write(), world.crash_before_every_write(), world.lose_every_answer()];
    for end in both.into_iter().flat_map(|ends| ends.unwrap_or_else(|broken| panic!("{broken}"))) {
        assert_eq!((end.status(), end.done("charge")), (Status::Completed, 1), "{end}");
    }
}
