//! Claims: taken all or none, released by the end (rule 13).

use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Item, Row, Store, Submission, Submitted};

/// The refusal names who holds what since when, and nothing of the refused submission stays.
pub async fn a_held_claim_is_refused_with_its_holder(store: Arc<dyn Store>) {
    let first = Row { step: Some("charge".to_owned()), ..row("order:1").status("unknown") };
    let rowid = create(&*store, submission(first.clone(), &["a", "b"])).await;

    let holder = held(submit(&*store, submission(row("order:2"), &["free", "b"])).await);
    assert_eq!((holder.claim.as_str(), &holder.saga, holder.since), ("b", &id("order:1"), first.created_at));
    assert_eq!(holder.row, Row { rowid, ..first });
    assert_eq!(store.load(&id("order:2")).await.unwrap(), None);
    create(&*store, submission(row("order:3"), &["free"])).await;
    // It may be submitted again, once the claim is free.
    step(&*store, end("order:1", rowid, 1, now())).await;
    create(&*store, submission(row("order:2"), &["a", "b"])).await;
}

/// Also within one batch.
pub async fn the_first_of_a_batch_wins(store: Arc<dyn Store>) {
    let batch = ["order:1", "order:2", "order:3"].map(|text| Item::Submit(submission(row(text), &["a"])));
    let mut answers = store.commit(batch.to_vec()).await.into_iter().map(submitted);
    assert!(matches!(answers.next(), Some(Submitted::Created(_))));
    for answer in answers {
        assert_eq!(held(answer).saga, id("order:1"));
    }
}

/// What an earlier item of a batch releases, a later one takes.
pub async fn released_claims_can_be_taken_in_the_same_batch(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &["a", "b"])).await;
    let batch = vec![
        Item::Advance(end("order:1", rowid, 1, now())),
        Item::Submit(submission(row("order:2"), &["b", "a"])),
    ];
    let mut outcomes = store.commit(batch).await;
    assert!(matches!(submitted(outcomes.remove(1)), Submitted::Created(_)));
    assert_eq!(held(submit(&*store, submission(row("order:3"), &["a"])).await).saga, id("order:2"));
}

/// A saga that waits for its claims takes them later: all, or none and nothing is written.
pub async fn an_accepting_saga_takes_all_or_none(store: Arc<dyn Store>) {
    let holder = create(&*store, submission(row("order:1"), &["b"])).await;
    let rowid = create(&*store, submission(row("order:2").status("accepting"), &[])).await;
    let accept = Advance {
        take_claims: vec!["a".to_owned(), "b".to_owned()],
        row: Some(row("order:2")),
        ..advance("order:2", rowid, 1, 1)
    };
    match step(&*store, accept.clone()).await {
        Advanced::Held(held) => assert_eq!((held.claim.as_str(), &held.saga), ("b", &id("order:1"))),
        other @ (Advanced::Committed | Advanced::Conflict) => panic!("{other:?}"),
    }
    let waiting = load(&*store, "order:2").await;
    assert_eq!((waiting.row.status.as_str(), waiting.entries.len()), ("accepting", 1));
    let third = create(&*store, submission(row("order:3"), &["a"])).await;

    for (text, rowid) in [("order:1", holder), ("order:3", third)] {
        step(&*store, end(text, rowid, 1, now())).await;
    }
    let at = accept.at();
    assert_eq!(step(&*store, accept).await, Advanced::Committed);
    for claim in ["a", "b"] {
        let holder = held(submit(&*store, submission(row("order:4"), &[claim])).await);
        assert_eq!((holder.saga, holder.since), (id("order:2"), at));
    }
}

/// What was decided on a claim that was not got must not be written either.
pub async fn what_stands_on_a_held_claim_conflicts(store: Arc<dyn Store>) {
    create(&*store, submission(row("order:1"), &["a"])).await;
    let rowid = create(&*store, submission(row("order:2"), &[])).await;
    let accept = Advance { take_claims: vec!["a".to_owned()], ..advance("order:2", rowid, 1, 1) };
    let batch = vec![Item::Advance(accept), Item::Advance(advance("order:2", rowid, 1, 1))];
    let mut answers = store.commit(batch).await.into_iter().map(advanced);
    assert!(matches!(answers.next(), Some(Advanced::Held(_))));
    assert_eq!(answers.next(), Some(Advanced::Conflict));
    assert_eq!(seqs(&*store, "order:2").await, [1]);
}

/// A claim is its saga's, however often it names it.
pub async fn a_saga_may_name_a_claim_twice_and_again(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &["a", "b", "a"])).await;
    let again =
        Advance { take_claims: vec!["a".to_owned(), "c".to_owned()], ..advance("order:1", rowid, 1, 1) };
    assert_eq!(step(&*store, again).await, Advanced::Committed);
    let holder = held(submit(&*store, submission(row("order:2"), &["a"])).await);
    assert_eq!(holder.since, row("order:1").created_at, "it has held it since it took it first");
    step(&*store, end("order:1", rowid, 2, now())).await;
    create(&*store, submission(row("order:2"), &["a", "b", "c"])).await;
}

/// No case, no blanks and no patterns are folded.
pub async fn names_of_claims_are_compared_byte_by_byte(store: Arc<dyn Store>) {
    let names = ["key", "Key", "key ", " key", "k_y", "k%", "ké", "ke\u{301}", "'; --", "\"", "🔑"];
    for (nth, name) in names.into_iter().enumerate() {
        create(&*store, submission(row(&format!("order:{nth}")), &[name])).await;
    }
    for (nth, name) in names.into_iter().enumerate() {
        let again = Submission { nonce: 2, ..submission(row("again"), &[name]) };
        assert_eq!(held(submit(&*store, again).await).saga, id(&format!("order:{nth}")), "{name:?}");
    }
}
