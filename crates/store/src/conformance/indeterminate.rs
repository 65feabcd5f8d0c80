//! Commits whose answer was lost, told apart by their nonces.

use std::sync::Arc;

use super::flaky::{Fault, Flaky, Script};
use super::samples::*;
use crate::{Advance, Advanced, Item, Kind, Outcome, Store, Submission, Submitted};

/// The store, with faults at its next commits.
fn flaky(store: &Arc<dyn Store>, faults: &[Fault]) -> Arc<dyn Store> {
    Arc::new(Flaky::new(Arc::clone(store), Arc::new(Script::new("commit", faults.iter().copied()))))
}

async fn kind(store: &dyn Store, item: Item) -> Kind {
    match commit(store, item).await {
        Outcome::Failed(error) => error.kind,
        other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("it was made to fail: {other:?}"),
    }
}

/// The entry is there, and it is one's own.
pub async fn a_lost_answer_is_told_by_its_nonce(store: Arc<dyn Store>) {
    let flaky = flaky(&store, &[Fault::AnswerLost, Fault::AnswerLost]);
    let submission = Submission { nonce: 41, ..submission(row("order:1"), &[]) };
    assert_eq!(kind(&*flaky, Item::Submit(submission)).await, Kind::Indeterminate);
    assert_eq!(flaky.wrote(&id("order:1"), 1, 41).await.unwrap(), Some(true));

    let rowid = load(&*flaky, "order:1").await.row.rowid;
    let moved = Advance { nonce: 42, ..advance("order:1", rowid, 1, 2) };
    assert_eq!(kind(&*flaky, Item::Advance(moved)).await, Kind::Indeterminate);
    for seq in [2, 3] {
        assert_eq!(flaky.wrote(&id("order:1"), seq, 42).await.unwrap(), Some(true), "entry {seq}");
        assert_eq!(flaky.wrote(&id("order:1"), seq, 41).await.unwrap(), Some(false), "entry {seq}");
    }
    assert_eq!(flaky.wrote(&id("order:1"), 4, 42).await.unwrap(), None);
}

/// The entry is there, and it is somebody else's.
pub async fn a_rivals_entry_is_told_by_its_nonce(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let flaky = flaky(&store, &[Fault::Before]);
    let mine = Advance { nonce: 42, ..advance("order:1", rowid, 1, 1) };
    assert_eq!(kind(&*flaky, Item::Advance(mine)).await, Kind::Unavailable);
    let rivals = Advance { nonce: 43, ..advance("order:1", rowid, 1, 1) };
    assert_eq!(step(&*store, rivals).await, Advanced::Committed);
    assert_eq!(flaky.wrote(&id("order:1"), 2, 42).await.unwrap(), Some(false));
    assert_eq!(flaky.wrote(&id("order:1"), 2, 43).await.unwrap(), Some(true));
}

/// Whoever tries again instead of asking meets what he wrote himself.
pub async fn trying_again_after_a_lost_answer_changes_nothing(store: Arc<dyn Store>) {
    let flaky = flaky(&store, &[Fault::AnswerLost, Fault::None, Fault::AnswerLost]);
    let first = submission(row("order:1"), &["a"]);
    kind(&*flaky, Item::Submit(first.clone())).await;
    assert_eq!(submit(&*flaky, first).await, Submitted::Same);
    let rowid = load(&*flaky, "order:1").await.row.rowid;
    let moved = advance("order:1", rowid, 1, 1);
    kind(&*flaky, Item::Advance(moved.clone())).await;
    assert_eq!(step(&*flaky, moved).await, Advanced::Conflict);
    assert_eq!(seqs(&*flaky, "order:1").await, [1, 2]);
}

/// There is no such entry, and the same write still can be made.
pub async fn nothing_was_written_before(store: Arc<dyn Store>) {
    let flaky = flaky(&store, &[Fault::Before]);
    let first = submission(row("order:1"), &["a"]);
    assert_eq!(kind(&*flaky, Item::Submit(first.clone())).await, Kind::Unavailable);
    assert_eq!(flaky.wrote(&id("order:1"), 1, first.nonce).await.unwrap(), None);
    create(&*flaky, first).await;
}
