//! The workload: which orders there are, what business refuses of them, and which of them people cancel.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Draw;

/// The time-out of every operation in the definitions.
pub const TIMEOUT: Duration = Duration::from_millis(400);

/// The definitions: an order of three steps, an express order with branches and a pivot, and a gift order whose participant
/// knows no keys.
pub const DEFINITIONS: [&str; 3] = [
    include_str!("definitions/order.toml"),
    include_str!("definitions/express.toml"),
    include_str!("definitions/gift.toml"),
];

/// Of the orders that meet a fault of their own, how many (in hundredths) are refused by each participant; the others are
/// cancelled by people.
const REFUSED_BY_EACH: u32 = 22;
/// How long at most people think before they cancel: long enough to come too late at times.
const SECOND_THOUGHTS_MS: u32 = 1_500;

/// One order.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The saga's id.
    pub id: String,
    /// The definition.
    pub saga: &'static str,
    /// The saga's input.
    pub input: Value,
    /// Somebody cancels it this long after it was accepted.
    pub cancelled_after: Option<Duration>,
}

/// The orders of a run. `tag` tells the ids of this run from those of others in the same store. `fault_rate`: the share of orders
/// that business refuses or people cancel.
#[must_use]
pub fn orders(seed: u64, tag: &str, count: u32, fault_rate: f64) -> Vec<Order> {
    (0..count).map(|n| order(seed, tag, n, fault_rate)).collect()
}

/// Order number `n` of a run, as [`orders`] draws it.
#[must_use]
pub fn order(seed: u64, tag: &str, n: u32, fault_rate: f64) -> Order {
    let mut draw = Draw::new(seed, &format!("order {n}"));
    let saga = match draw.below(100) {
        0..45 => "demo-order",
        45..80 => "demo-express-order",
        _ => "demo-gift-order",
    };
    let (mut sku, mut card, mut address, mut cancelled_after) =
        ("teapot", "4000-0001", "Harbour Street 7", None);
    let amount = 10 + draw.below(990);
    let qty = 1 + draw.below(5);
    if draw.happens(fault_rate) {
        match draw.below(100) / REFUSED_BY_EACH {
            0 => sku = "sold-out",
            1 => card = "blocked",
            2 => address = "nowhere",
            _ => cancelled_after = Some(Duration::from_millis(draw.below(SECOND_THOUGHTS_MS).into())),
        }
    }
    let input = json!({ "sku": sku, "qty": qty, "amount": amount, "card": card, "address": address });
    Order { id: format!("demo-{tag}-{n:06}"), saga, input, cancelled_after }
}

#[cfg(test)]
mod tests {
    use amends_core::definition;

    use super::*;

    #[test]
    fn definitions_are_valid_and_may_need_no_person() {
        for text in DEFINITIONS {
            let checked = definition::from_toml(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
            assert!(checked.warnings.is_empty(), "{:#?}", checked.warnings);
            for step in &checked.definition.steps {
                for operation in [&step.action, &step.compensation].into_iter().flatten() {
                    assert_eq!(u128::from(operation.timeout_ms), TIMEOUT.as_millis());
                }
            }
        }
    }

    #[test]
    fn a_seed_makes_the_same_orders_of_every_kind() {
        let some = orders(1, "t", 500, 0.2);
        assert_eq!(some, orders(1, "t", 500, 0.2));
        assert_ne!(some, orders(2, "t", 500, 0.2));
        let count = |is: &dyn Fn(&Order) -> bool| some.iter().filter(|order| is(order)).count();
        for saga in ["demo-order", "demo-express-order", "demo-gift-order"] {
            assert!(count(&|order| order.saga == saga) > 50, "{saga}");
        }
        assert!(count(&|order| order.cancelled_after.is_some()) > 10);
        for (field, value) in [("sku", "sold-out"), ("card", "blocked"), ("address", "nowhere")] {
            assert!(count(&|order| order.input[field] == value) > 5, "{value}");
        }
    }

    #[test]
    fn without_faults_nothing_is_refused() {
        let fine = |order: &Order| order.cancelled_after.is_none() && order.input["sku"] == "teapot";
        assert!(orders(1, "t", 500, 0.0).iter().all(fine));
    }
}
