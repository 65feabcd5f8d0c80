//! Retention (rule 14): ids stay for ever, journals and payloads do not.

use std::sync::Arc;

use amends_core::Time;

use super::samples::*;
use crate::{Advance, Advanced, Store, StoredEntry, Submission};

/// A saga that ended at `at`, with three entries of which the second is kept.
async fn ended(store: &dyn Store, text: &str, at: Time) -> u64 {
    let kept = StoredEntry { keep: true, ..entry(2) };
    let rowid =
        create(store, Submission { entries: vec![entry(1), kept], ..submission(row(text), &[]) }).await;
    assert_eq!(step(store, end(text, rowid, 2, at)).await, Advanced::Committed);
    rowid
}

/// Up to the limit a call, until none is left; what ended later, or not at all, is not touched.
pub async fn journals_of_ended_sagas_go_in_batches(store: Arc<dyn Store>) {
    let (old, young) = (in_ms(-2 * HOUR_MS), in_ms(-10));
    for nth in 0..5 {
        ended(&*store, &format!("old:{nth}"), old).await;
    }
    ended(&*store, "young", young).await;
    create(&*store, submission(row("open"), &[])).await;
    let before = in_ms(-HOUR_MS);
    let mut pruned = Vec::new();
    loop {
        let count = store.prune(before, 2).await.unwrap();
        pruned.push(count);
        if count == 0 {
            break;
        }
    }
    assert_eq!(pruned, [2, 2, 1, 0]);
    for nth in 0..5 {
        assert_eq!(seqs(&*store, &format!("old:{nth}")).await, [2]);
    }
    assert_eq!(seqs(&*store, "young").await, [1, 2, 3]);
    assert_eq!(seqs(&*store, "open").await, [1]);
}

/// Kept entries stay as they were, and the row still tells how it ended and which entry was the last.
pub async fn what_people_did_stays(store: Arc<dyn Store>) {
    let at = in_ms(-10);
    ended(&*store, "order:1", at).await;
    let before = load(&*store, "order:1").await;
    assert_eq!(store.prune(now(), 10).await.unwrap(), 1);
    let after = load(&*store, "order:1").await;
    assert_eq!(after.row, before.row);
    assert_eq!((after.row.seq, after.row.ended_at), (3, Some(at)));
    assert_eq!(after.entries, before.entries[1..2]);
    assert_eq!(store.wrote(&id("order:1"), 1, 1).await.unwrap(), None);
    assert_eq!(store.wrote(&id("order:1"), 2, 1).await.unwrap(), Some(true));
}

/// An ended saga that somebody holds, or that has mail, may need its journal.
pub async fn sagas_in_use_are_left_alone(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    ended(&*store, "held", in_ms(-10)).await;
    assert!(store.claim(&lease, &id("held"), now()).await.unwrap());
    ended(&*store, "mail", in_ms(-10)).await;
    store.post(&id("mail"), "m1", b"", now()).await.unwrap();
    assert_eq!(store.prune(now(), 10).await.unwrap(), 0);
    assert_eq!(seqs(&*store, "held").await, [1, 2, 3]);
    assert_eq!(seqs(&*store, "mail").await, [1, 2, 3]);
}

/// Evidence may still arrive; it is numbered on, and is subject to retention itself.
pub async fn a_pruned_saga_can_be_moved_on(store: Arc<dyn Store>) {
    let rowid = ended(&*store, "order:1", in_ms(-10)).await;
    // What came after the end, without its row being written, counts as the last entry too.
    assert_eq!(step(&*store, advance("order:1", rowid, 3, 1)).await, Advanced::Committed);
    store.prune(now(), 10).await.unwrap();
    assert_eq!(load(&*store, "order:1").await.row.seq, 4);
    assert_eq!(step(&*store, advance("order:1", rowid, 2, 1)).await, Advanced::Conflict);
    let ended = load(&*store, "order:1").await.row;
    let contradiction = Advance {
        entries: vec![StoredEntry { keep: true, ..entry(5) }, entry(6)],
        row: Some(ended),
        ..advance("order:1", rowid, 4, 0)
    };
    assert_eq!(step(&*store, contradiction).await, Advanced::Committed);
    assert_eq!(seqs(&*store, "order:1").await, [2, 5, 6]);
    assert_eq!(store.prune(now(), 10).await.unwrap(), 1);
    assert_eq!(seqs(&*store, "order:1").await, [2, 5]);
    assert_eq!(load(&*store, "order:1").await.row.seq, 6);
    assert_eq!(store.prune(now(), 10).await.unwrap(), 0);
}

/// Answered before that time; what waits stays, and numbers are not given again.
pub async fn answered_mail_goes(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let mut mails = Vec::new();
    for input in ["answered", "waits"] {
        let posted = store.post(&id("order:1"), input, b"", in_ms(-10)).await.unwrap();
        mails.push(posted.expect("the saga is there"));
    }
    step(&*store, Advance { mail: vec![(mails[0], b"ok".to_vec())], ..advance("order:1", rowid, 1, 1) })
        .await;
    assert_eq!(store.prune(in_ms(-HOUR_MS), 10).await.unwrap(), 0);
    assert_eq!(store.prune(now(), 10).await.unwrap(), 1);
    assert_eq!(store.answer(mails[0]).await.unwrap(), None);
    assert_eq!(store.waiting(&id("order:1"), 10).await.unwrap().len(), 1);
    let next = store.post(&id("order:1"), "answered", b"", now()).await.unwrap().unwrap();
    assert!(next > mails[1]);
}
