//! How sagas end, and what of it their submitter sees.

use amends::{Call, Failure, Idempotency, Outcome, Refused, Saga, Status, Step};

use crate::support::{Order, Reserved, Seen, in_memory, started};

fn order_saga(seen: &Seen) -> Saga<Order> {
    let (reserving, releasing, charging, refunding) =
        (seen.clone(), seen.clone(), seen.clone(), seen.clone());
    let reserve = Step::new("reserve")
        .action(move |_: Call, order: Order| {
            let seen = reserving.clone();
            async move {
                seen.note(format!("reserve {}", order.sku));
                Ok(Reserved { reservation: order.qty + 100 })
            }
        })
        .compensation(move |_: Call, order: Order, fact: Reserved| {
            let seen = releasing.clone();
            async move {
                seen.note(format!("release {} {}", order.sku, fact.reservation));
                Ok(())
            }
        })
        .idempotency(Idempotency::Replay)
        .reaches("RESERVED");
    let charge = Step::new("charge")
        .action(move |call: Call, order: Order| {
            let seen = charging.clone();
            async move {
                let earlier: Reserved = call.fact("reserve")?;
                if order.sku == "gold" {
                    return Err(Failure::rejected("card declined"));
                }
                seen.note(format!("charge for {}", earlier.reservation));
                Ok("charge-1".to_owned())
            }
        })
        .compensation(move |call: Call, _: Order, charge: String| {
            let seen = refunding.clone();
            async move {
                seen.note(format!("refund {charge} of {}", call.fact::<Reserved>("reserve")?.reservation));
                Ok(())
            }
        })
        .idempotency(Idempotency::Replay);
    let ship = Step::new("ship")
        .action(|_: Call, order: Order| async move {
            if order.sku == "lead" { Err(Failure::rejected("too heavy")) } else { Ok(()) }
        })
        .idempotency(Idempotency::Replay)
        .pivot();
    Saga::builder("order", 1).claim("order:${id}").step(reserve).step(charge).step(ship).build().unwrap()
}

#[tokio::test]
async fn facts_are_typed_and_reach_later_steps_and_the_submitter() {
    let seen = Seen::default();
    let orders = order_saga(&seen);
    assert!(orders.warnings().is_empty(), "{:?}", orders.warnings());
    let amends = started(&orders).await;
    let order = amends.submit(&orders, "order:1", &Order::of("A-1", 2)).await.unwrap();
    assert_eq!(order.is_new(), Some(true));
    let Outcome::Completed(facts) = order.outcome().await.unwrap() else { panic!() };
    assert_eq!(facts.get::<Reserved>("reserve").unwrap(), Reserved { reservation: 102 });
    assert_eq!(facts.get::<String>("charge").unwrap(), "charge-1");
    facts.get::<()>("ship").unwrap();
    assert!(facts.get::<u32>("charge").unwrap_err().to_string().contains("not of the type"));
    assert!(facts.get::<u32>("pack").is_err());
    assert_eq!(seen.all(), ["reserve A-1", "charge for 102"]);
}

#[tokio::test]
async fn a_refusal_undoes_what_was_done_in_reverse_with_its_facts() {
    let seen = Seen::default();
    let orders = order_saga(&seen);
    let amends = started(&orders).await;
    let order = amends.submit(&orders, "order:1", &Order::of("lead", 2)).await.unwrap();
    assert_eq!(order.outcome().await.unwrap(), Outcome::Compensated { reason: "ship: too heavy".into() });
    let expected = ["reserve lead", "charge for 102", "refund charge-1 of 102", "release lead 102"];
    assert_eq!(seen.all(), expected);

    let order = amends.submit(&orders, "order:2", &Order::of("gold", 3)).await.unwrap();
    assert_eq!(
        order.outcome().await.unwrap(),
        Outcome::Compensated { reason: "charge: card declined".into() }
    );
    assert_eq!(seen.all()[4..], ["reserve gold", "release gold 103"], "what was refused is not undone");
}

#[tokio::test]
async fn the_same_id_is_the_same_saga_and_another_input_is_refused() {
    let seen = Seen::default();
    let orders = order_saga(&seen);
    let amends = started(&orders).await;
    let first = amends.submit(&orders, "order:1", &Order::of("A-1", 2)).await.unwrap();
    let _ = first.outcome().await.unwrap();
    let again = amends.submit(&orders, "order:1", &Order::of("A-1", 2)).await.unwrap();
    assert_eq!(again.is_new(), Some(false));
    assert!(matches!(again.outcome().await.unwrap(), Outcome::Completed(_)));
    assert_eq!(seen.count("reserve A-1"), 1);
    let other = amends.submit(&orders, "order:1", &Order::of("A-1", 3)).await.unwrap_err();
    assert!(matches!(other, Refused::InputConflict(_)), "{other:?}");
    assert!(matches!(
        amends.submit(&orders, "", &Order::of("A-1", 3)).await.unwrap_err(),
        Refused::Malformed(_)
    ));
    let nobody = amends.handle(&orders, "order:9").unwrap();
    assert!(matches!(nobody.outcome().await.unwrap_err(), Refused::UnknownSaga(_)));
}

#[tokio::test]
async fn what_is_cancelled_is_undone() {
    let seen = Seen::default();
    let (noting, undoing) = (seen.clone(), seen.clone());
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let waiting = gate.clone();
    let saga: Saga<()> = Saga::builder("slow", 1)
        .step(
            Step::new("first")
                .action(|_: Call, ()| async { Ok(7) })
                .compensation(move |_: Call, (), fact: u8| {
                    undoing.note(format!("undo {fact}"));
                    async { Ok(()) }
                })
                .idempotency(Idempotency::Replay),
        )
        .step(
            Step::new("second")
                .action(move |_: Call, ()| {
                    noting.note("second");
                    let gate = waiting.clone();
                    async move {
                        gate.notified().await;
                        Ok(())
                    }
                })
                .compensation(|_: Call, (), ()| async { Ok(()) })
                .idempotency(Idempotency::Replay),
        )
        .build()
        .unwrap();
    let amends = in_memory().who("till").saga(&saga).start().await.unwrap();
    let handle = amends.submit(&saga, "slow:1", &()).await.unwrap();
    seen.until("second").await;
    assert_eq!(handle.outcome_within(std::time::Duration::from_millis(1)).await.unwrap(), None);
    handle.cancel("changed my mind").await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Compensating);
    gate.notify_one();
    let expected = Outcome::Compensated { reason: "cancelled by till: changed my mind".into() };
    assert_eq!(handle.outcome().await.unwrap(), expected);
    assert_eq!(seen.count("undo 7"), 1);
}
