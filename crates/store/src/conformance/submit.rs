//! Beginning sagas (rules 13 and 14).

use std::sync::Arc;

use amends_core::Time;

use super::samples::*;
use crate::{Advanced, Item, Kind, Outcome, Row, Store, StoredEntry, Submission, Submitted};

/// What was submitted is what is loaded.
pub async fn a_saga_is_there_with_row_entries_and_claims(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let full = Row {
        definition_version: 7,
        step: Some("charge".to_owned()),
        operation: Some("action".to_owned()),
        error_class: Some("refused".to_owned()),
        reason: Some("it was \"refused\"; twice".to_owned()),
        contradictions: 3,
        overdue: true,
        updated_at: Time(2_000),
        due_at: Some(Time(-5)),
        ..row("order:1").owned(&lease)
    };
    let kept = StoredEntry { keep: true, ..entry(2) };
    let submission = Submission { entries: vec![entry(1), kept.clone()], ..submission(full.clone(), &["a"]) };
    let rowid = create(&*store, submission).await;

    let stored = load(&*store, "order:1").await;
    assert_eq!(stored.row, Row { rowid, seq: 2, ..full });
    assert_eq!(stored.entries, vec![entry(1), kept]);
    assert_eq!(store.row(&id("order:1")).await.unwrap(), Some(stored.row));
    assert_eq!(store.load(&id("order:2")).await.unwrap(), None);
    assert_eq!(store.row(&id("order:2")).await.unwrap(), None);
}

/// Numbers grow, never 0, within a batch and between batches.
pub async fn sagas_are_numbered_in_order_of_arrival(store: Arc<dyn Store>) {
    let mut rowids = vec![create(&*store, submission(row("z"), &[])).await];
    let batch = ["b", "a"].map(|text| Item::Submit(submission(row(text), &[])));
    for outcome in store.commit(batch.to_vec()).await {
        match submitted(outcome) {
            Submitted::Created(rowid) => rowids.push(rowid),
            other @ (Submitted::Same | Submitted::Different | Submitted::Held(_)) => panic!("{other:?}"),
        }
    }
    assert!(rowids[0] > 0 && rowids.is_sorted_by(|a, b| a < b), "{rowids:?}");
}

/// Same fingerprint: the same saga. Another one: refused, and nothing of it is kept.
pub async fn a_second_submission_is_the_same_or_different(store: Arc<dyn Store>) {
    let first = submission(row("order:1"), &["a"]);
    create(&*store, first.clone()).await;
    let before = load(&*store, "order:1").await;

    assert_eq!(submit(&*store, Submission { nonce: 2, ..first.clone() }).await, Submitted::Same);
    let other =
        Submission { fingerprint: "other".to_owned(), ..submission(row("order:1").status("dead"), &["b"]) };
    assert_eq!(submit(&*store, other).await, Submitted::Different);

    assert_eq!(load(&*store, "order:1").await, before);
    create(&*store, submission(row("order:2"), &["b"])).await;
}

/// The id is never free again.
pub async fn it_stays_the_same_or_different_after_the_end_and_after_retention(store: Arc<dyn Store>) {
    let first = submission(row("order:1"), &["a"]);
    let rowid = create(&*store, first.clone()).await;
    let other = Submission { fingerprint: "other".to_owned(), ..first.clone() };
    assert_eq!(step(&*store, end("order:1", rowid, 1, Time(5_000))).await, Advanced::Committed);
    assert_eq!(submit(&*store, first.clone()).await, Submitted::Same);
    assert_eq!(submit(&*store, other.clone()).await, Submitted::Different);

    assert_eq!(store.prune(now(), 10).await.unwrap(), 1);
    assert_eq!(submit(&*store, first).await, Submitted::Same);
    assert_eq!(submit(&*store, other).await, Submitted::Different);
    assert_eq!(seqs(&*store, "order:1").await, Vec::<u64>::new());
}

/// A submission repeated by a caller who lost the answer must not meet its own claims, or a stranger's.
pub async fn whose_id_it_is_comes_before_claims(store: Arc<dyn Store>) {
    let first = submission(row("order:1"), &["a"]);
    create(&*store, first.clone()).await;
    create(&*store, submission(row("order:2"), &["b"])).await;
    assert_eq!(submit(&*store, first).await, Submitted::Same);
    let other = Submission { fingerprint: "other".to_owned(), ..submission(row("order:1"), &["b"]) };
    assert_eq!(submit(&*store, other).await, Submitted::Different);
}

/// The first creates it, also within one batch.
pub async fn a_batch_with_one_id_twice_creates_it_once(store: Arc<dyn Store>) {
    let first = submission(row("order:1"), &[]);
    let other = Submission { fingerprint: "other".to_owned(), ..first.clone() };
    let batch = vec![Item::Submit(first.clone()), Item::Submit(first), Item::Submit(other)];
    let answers: Vec<Submitted> = store.commit(batch).await.into_iter().map(submitted).collect();
    assert!(
        matches!(&answers[..], [Submitted::Created(_), Submitted::Same, Submitted::Different]),
        "{answers:?}"
    );
    assert_eq!(seqs(&*store, "order:1").await, [1]);
}

/// A fault of the caller: refused, and the others of its batch are not.
pub async fn a_submission_numbered_wrongly_is_refused_alone(store: Arc<dyn Store>) {
    let wrong = [vec![entry(2)], vec![entry(1), entry(3)], vec![entry(0)], vec![]];
    for (nth, entries) in wrong.into_iter().enumerate() {
        let (bad, good) = (format!("bad:{nth}"), format!("good:{nth}"));
        let submission_bad = Submission { entries, ..submission(row(&bad), &["a"]) };
        let batch = vec![Item::Submit(submission_bad), Item::Submit(submission(row(&good), &[]))];
        let outcomes = store.commit(batch).await;
        assert!(
            matches!(&outcomes[0], Outcome::Failed(error) if error.kind == Kind::Refused),
            "{outcomes:?}"
        );
        assert!(matches!(&outcomes[1], Outcome::Submitted(Submitted::Created(_))), "{outcomes:?}");
        assert_eq!(store.load(&id(&bad)).await.unwrap(), None);
    }
    create(&*store, submission(row("order:1"), &["a"])).await;
}

/// Answers stand where their items stood; an empty batch has none.
pub async fn a_batch_is_answered_in_its_order(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:0"), &[])).await;
    let batch = vec![
        Item::Submit(submission(row("order:0"), &[])),
        Item::Advance(advance("order:0", rowid, 1, 1)),
        Item::Submit(submission(row("order:1"), &[])),
        Item::Advance(advance("order:0", rowid, 1, 1)),
    ];
    let outcomes = store.commit(batch).await;
    assert!(matches!(outcomes[0], Outcome::Submitted(Submitted::Same)), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Advanced(Advanced::Committed)), "{outcomes:?}");
    assert!(matches!(outcomes[2], Outcome::Submitted(Submitted::Created(_))), "{outcomes:?}");
    assert!(matches!(outcomes[3], Outcome::Advanced(Advanced::Conflict)), "{outcomes:?}");
    assert_eq!(outcomes.len(), 4);
    assert_eq!(store.commit(Vec::new()).await.len(), 0);
}
