//! The definitions in `examples/`: each is without problems and warnings, and says what it is meant to say.

use amends_core::Definition;
use amends_core::definition::StepKind;

use crate::{checked, lines};

fn example(text: &str) -> std::sync::Arc<Definition> {
    let checked = checked(text);
    assert!(checked.warnings.is_empty(), "{}", lines(&checked.warnings));
    checked.definition
}

fn kinds(definition: &Definition) -> Vec<(&str, StepKind)> {
    definition.steps.iter().map(|step| (step.name.as_str(), step.kind)).collect()
}

use StepKind::{Compensatable, Pivot, Retriable};

#[test]
fn order_fulfilment_holds_the_order_and_refunds() {
    let order = example(include_str!("../../../../examples/order-fulfilment.toml"));
    assert_eq!(kinds(&order), [("reserve", Compensatable), ("charge", Compensatable), ("confirm", Pivot)]);
    assert_eq!(order.claims.len(), 1);
    assert!(order.steps[1].compensation.as_ref().is_some_and(|refund| refund.query.is_some()));
}

#[test]
fn money_transfer_has_a_point_of_no_return() {
    let transfer = example(include_str!("../../../../examples/money-transfer.toml"));
    let steps =
        [("check", Compensatable), ("debit", Compensatable), ("credit", Pivot), ("notify", Retriable)];
    assert_eq!(kinds(&transfer), steps);
    assert_eq!(transfer.claims.len(), 2);
}

#[test]
fn travel_booking_has_three_branches_and_a_join() {
    let travel = example(include_str!("../../../../examples/travel-booking.toml"));
    let before: Vec<usize> = travel.steps.iter().map(|step| step.after.len()).collect();
    assert_eq!(before, [0, 0, 0, 3, 1]);
    assert_eq!(travel.pivot(), Some(3));
}
