//! Moving sagas: (saga, seq) is the conditional transition.

use std::sync::Arc;

use amends_core::Time;

use super::samples::*;
use crate::{Advance, Advanced, Item, Kind, Outcome, Row, Store, StoredEntry, Submission};

/// Entries come back in their order, all or page by page.
pub async fn entries_are_appended_and_read_in_pages(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    assert_eq!(step(&*store, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    assert_eq!(step(&*store, advance("order:1", rowid, 2, 3)).await, Advanced::Committed);

    let stored = load(&*store, "order:1").await;
    assert_eq!(stored.entries, [1, 2, 3, 4, 5].map(entry));
    assert_eq!(stored.row.seq, 5, "a loaded row knows its last entry");
    for (after, limit, page) in
        [(0, 2, vec![1, 2]), (2, 2, vec![3, 4]), (4, 2, vec![5]), (5, 2, vec![]), (0, 0, vec![])]
    {
        let entries = store.entries(&id("order:1"), after, limit).await.unwrap();
        assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), page, "after {after}");
    }
    assert_eq!(store.entries(&id("order:2"), 0, 9).await.unwrap(), []);
}

/// Neither what is behind nor what is ahead can be written, and nothing of it is.
pub async fn a_gap_and_a_stale_write_conflict(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &["a"])).await;
    assert_eq!(step(&*store, advance("order:1", rowid, 1, 2)).await, Advanced::Committed);
    let before = load(&*store, "order:1").await;
    for after in [1, 2, 4, 1_000] {
        let moved =
            Advance { row: Some(row("order:1").status("dead")), ..advance("order:1", rowid, after, 1) };
        let moved = Advance { release_claims: true, take_claims: vec!["b".to_owned()], ..moved };
        assert_eq!(step(&*store, moved).await, Advanced::Conflict, "after {after}");
    }
    assert_eq!(load(&*store, "order:1").await, before);
    held(submit(&*store, submission(row("order:2"), &["a"])).await);
    create(&*store, submission(row("order:3"), &["b"])).await;
}

/// A number that no saga has, and one of another saga, move nothing.
pub async fn an_unknown_saga_conflicts(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    assert_eq!(step(&*store, advance("order:2", rowid + 1, 1, 1)).await, Advanced::Conflict);
    assert_eq!(seqs(&*store, "order:1").await, [1]);
}

/// Items of one saga take effect in their order.
pub async fn the_second_of_a_batch_stands_on_the_first(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let batch = (1..=3).map(|after| Item::Advance(advance("order:1", rowid, after, 1))).collect();
    for outcome in store.commit(batch).await {
        assert_eq!(advanced(outcome), Advanced::Committed);
    }
    assert_eq!(seqs(&*store, "order:1").await, [1, 2, 3, 4]);
}

/// What was decided on an entry that lost must not be written on the entry that won, although the numbers fit.
pub async fn what_stands_on_a_conflict_conflicts_too(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let other = create(&*store, submission(row("order:2"), &[])).await;
    assert_eq!(
        step(&*store, Advance { nonce: 77, ..advance("order:1", rowid, 1, 1) }).await,
        Advanced::Committed
    );
    let batch = vec![
        Item::Advance(advance("order:1", rowid, 1, 1)),
        Item::Advance(advance("order:2", other, 1, 1)),
        Item::Advance(advance("order:1", rowid, 2, 1)),
    ];
    let answers: Vec<Advanced> = store.commit(batch).await.into_iter().map(advanced).collect();
    assert_eq!(answers, [Advanced::Conflict, Advanced::Committed, Advanced::Conflict]);
    assert_eq!(seqs(&*store, "order:1").await, [1, 2]);
    // The next batch is decided anew.
    assert_eq!(step(&*store, advance("order:1", rowid, 2, 1)).await, Advanced::Committed);
}

/// The same for an item that was refused.
pub async fn what_stands_on_a_refused_item_conflicts_too(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let refused = Advance { entries: vec![entry(3)], ..advance("order:1", rowid, 1, 1) };
    let batch = vec![Item::Advance(refused), Item::Advance(advance("order:1", rowid, 1, 1))];
    let outcomes = store.commit(batch).await;
    assert!(matches!(&outcomes[0], Outcome::Failed(error) if error.kind == Kind::Refused), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Outcome::Advanced(Advanced::Conflict)), "{outcomes:?}");
    assert_eq!(seqs(&*store, "order:1").await, [1]);
}

/// Items are independent of each other.
pub async fn one_failing_item_leaves_the_others(store: Arc<dyn Store>) {
    let first = create(&*store, submission(row("order:1"), &["a"])).await;
    let batch = vec![
        Item::Submit(submission(row("order:2"), &["a"])),
        Item::Advance(advance("order:1", first, 5, 1)),
        Item::Submit(submission(row("order:3"), &["b"])),
        Item::Advance(Advance { entries: vec![entry(9)], ..advance("order:3", 999, 1, 1) }),
        Item::Submit(submission(row("order:4"), &[])),
    ];
    let outcomes = store.commit(batch).await;
    assert!(matches!(outcomes[3], Outcome::Failed(_)), "{outcomes:?}");
    assert_eq!(seqs(&*store, "order:1").await, [1]);
    assert_eq!(store.load(&id("order:2")).await.unwrap(), None);
    assert_eq!(seqs(&*store, "order:3").await, [1]);
    assert_eq!(seqs(&*store, "order:4").await, [1]);
}

/// A row alone is written only by who has seen the last entry.
pub async fn an_advance_without_entries_checks_what_is_last(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    step(&*store, advance("order:1", rowid, 1, 1)).await;
    let only_row = |after, reason: &str| Advance {
        row: Some(Row { reason: Some(reason.to_owned()), ..row("order:1") }),
        ..advance("order:1", rowid, after, 0)
    };
    assert_eq!(step(&*store, only_row(2, "current")).await, Advanced::Committed);
    for after in [1, 3] {
        assert_eq!(step(&*store, only_row(after, "stale")).await, Advanced::Conflict, "after {after}");
    }
    let stored = load(&*store, "order:1").await;
    assert_eq!((stored.row.reason.as_deref(), stored.row.seq), (Some("current"), 2));
}

/// Whatever a later row says of them: number, id, definition and time of submission stay.
pub async fn a_row_never_changes_what_was_submitted(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let changed = Row {
        rowid: 99,
        saga: "other".to_owned(),
        definition_version: 9,
        digest: "other".to_owned(),
        created_at: Time(9),
        business_state: "PAID".to_owned(),
        seq: 50,
        ..row("order:1")
    };
    let moved = Advance { row: Some(changed), ..advance("order:1", rowid, 1, 1) };
    assert_eq!(step(&*store, moved).await, Advanced::Committed);
    let stored = store.row(&id("order:1")).await.unwrap().unwrap();
    assert_eq!(stored, Row { rowid, business_state: "PAID".to_owned(), seq: 2, ..row("order:1") });
}

/// Bytes that are no text, none at all, and many.
pub async fn bodies_and_nonces_of_any_kind_come_back(store: Arc<dyn Store>) {
    let bodies = [vec![], (0..=255).collect(), vec![b'x'; 1 << 20]];
    let entries: Vec<StoredEntry> =
        (1..).zip(bodies).map(|(seq, body)| StoredEntry { body, at: Time(i64::MIN), ..entry(seq) }).collect();
    let large = Submission { entries: entries.clone(), nonce: u64::MAX, ..submission(row("order:1"), &[]) };
    create(&*store, large).await;
    assert_eq!(load(&*store, "order:1").await.entries, entries);
    assert_eq!(store.wrote(&id("order:1"), 1, u64::MAX).await.unwrap(), Some(true));
}

/// Its row alone is written, and it is nobody's; nothing makes it due by itself.
pub async fn a_saga_that_cannot_be_read_is_parked(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&lease), &["a"])).await;
    step(&*store, advance("order:1", rowid, 1, 1)).await;
    store.post(&id("order:1"), "m1", b"hello", now()).await.unwrap();
    let parked =
        Row { rowid, reason: Some("entry 2 cannot be read".to_owned()), ..row("order:1").status("dead") };
    store.park(parked.clone().owned(&lease)).await.unwrap();

    let stored = load(&*store, "order:1").await;
    assert_eq!(stored.row, Row { seq: 2, ..parked });
    assert_eq!(stored.entries.len(), 2);
    assert_eq!(claim_due(&*store, &lease, 9).await, Vec::<String>::new());
    held(submit(&*store, submission(row("order:2"), &["a"])).await);
}
