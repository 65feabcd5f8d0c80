//! Due work of nobody.

use std::sync::Arc;

use amends_core::Time;

use super::samples::*;
use crate::{Advance, NodeLease, Store};

/// Longest due first, and no more than asked for; what is left stays due.
pub async fn the_longest_due_come_first_up_to_the_limit(store: Arc<dyn Store>) {
    for (text, ago) in [("c", 10), ("a", 30_000), ("d", 5), ("b", 20_000)] {
        create(&*store, submission(row(text).due(in_ms(-ago)), &[])).await;
    }
    let lease = join(&*store, "n1").await;
    assert_eq!(claim_due(&*store, &lease, 0).await, Vec::<String>::new());
    assert_eq!(claim_due(&*store, &lease, 2).await, ["a", "b"]);
    assert_eq!(claim_due(&*store, &lease, 10).await, ["c", "d"]);
    assert_eq!(claim_due(&*store, &lease, 10).await, Vec::<String>::new());
    let owned = load(&*store, "a").await.row;
    assert_eq!(owned.owner, Some(("n1".to_owned(), lease.epoch)));
}

/// Neither somebody's sagas, nor those due later, nor those never due.
pub async fn what_is_owned_or_not_due_is_left_alone(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    let owned = crate::Row { due_at: Some(in_ms(-10)), ..row("owned").owned(&one) };
    create(&*store, submission(owned, &[])).await;
    create(&*store, submission(row("later").due(in_ms(HOUR_MS)), &[])).await;
    create(&*store, submission(row("never"), &[])).await;
    create(&*store, submission(row("due").due(in_ms(-10)), &[])).await;
    assert_eq!(claim_due(&*store, &two, 10).await, ["due"]);
    assert_eq!(claim_due(&*store, &one, 10).await, Vec::<String>::new());
}

/// Parked by its owner, it is due when its last row says, and then anybody's.
pub async fn a_parked_saga_is_due_when_its_row_says(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    let rowid = create(&*store, submission(row("order:1").owned(&one), &[])).await;
    let park =
        |after, at| Advance { row: Some(row("order:1").due(at)), ..advance("order:1", rowid, after, 1) };
    step(&*store, park(1, in_ms(HOUR_MS))).await;
    assert_eq!(claim_due(&*store, &two, 10).await, Vec::<String>::new());
    step(&*store, park(2, in_ms(-1))).await;
    assert_eq!(claim_due(&*store, &two, 10).await, ["order:1"]);
}

/// The earliest counts; owned sagas do not.
pub async fn the_next_due_time_is_of_nobodys_sagas(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let next = async || store.next_due().await.unwrap();
    assert_eq!(next().await, None);
    let owned = crate::Row { due_at: Some(Time(1)), ..row("owned").owned(&lease) };
    create(&*store, submission(owned, &[])).await;
    create(&*store, submission(row("never"), &[])).await;
    assert_eq!(next().await, None);
    let (soon, late) = (in_ms(-10), in_ms(HOUR_MS));
    create(&*store, submission(row("late").due(late), &[])).await;
    create(&*store, submission(row("soon").due(soon), &[])).await;
    assert_eq!(next().await, Some(soon));
    assert_eq!(claim_due(&*store, &lease, 1).await, ["soon"]);
    assert_eq!(next().await, Some(late));
}

/// True when it is this node's afterwards, also for the second time; false when it is another's, or nowhere.
pub async fn one_saga_can_be_claimed_by_its_id(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    create(&*store, submission(row("parked").due(in_ms(HOUR_MS)), &[])).await;
    create(&*store, submission(row("never"), &[])).await;
    let claim = async |lease: &NodeLease, text: &str| store.claim(lease, &id(text), now()).await.unwrap();
    for text in ["parked", "never"] {
        assert!(claim(&one, text).await, "{text}");
        assert!(claim(&one, text).await, "{text} again");
        assert!(!claim(&two, text).await, "{text} by another");
        assert_eq!(load(&*store, text).await.row.owner, Some(("n1".to_owned(), one.epoch)));
    }
    assert!(!claim(&one, "nowhere").await);
}

/// A node that has not noticed yet that its lease is over gets nothing new.
pub async fn a_lease_that_is_over_claims_nothing(store: Arc<dyn Store>) {
    let old = join(&*store, "n1").await;
    create(&*store, submission(row("owned").owned(&old), &[])).await;
    create(&*store, submission(row("due").due(in_ms(-10)), &[])).await;
    let new = join(&*store, "n1").await;
    assert_eq!(claim_due(&*store, &old, 10).await, Vec::<String>::new());
    assert_eq!(store.take_over(&old, now(), 10).await.unwrap(), []);
    assert!(!store.claim(&old, &id("due"), now()).await.unwrap());
    assert_eq!(claim_due(&*store, &new, 10).await, ["due"]);
}
