//! Inputs for sagas that somebody else owns.

use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Due, Store};

async fn post(store: &dyn Store, text: &str, input: &str) -> u64 {
    let mail = store.post(&id(text), input, input.as_bytes(), now()).await.expect("the store answers");
    mail.expect("the saga is there")
}

/// However late it would have been due, or never.
pub async fn mail_makes_a_parked_saga_due_at_once(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    create(&*store, submission(row("later").due(in_ms(HOUR_MS)), &[])).await;
    create(&*store, submission(row("never").status("dead"), &[])).await;
    create(&*store, submission(row("without"), &[])).await;
    let posted = now();
    post(&*store, "later", "m1").await;
    post(&*store, "never", "m1").await;
    assert!(store.next_due().await.unwrap().is_some_and(|due| due >= posted && due <= now()));
    let mut due = claim_due(&*store, &lease, 10).await;
    due.sort_unstable();
    assert_eq!(due, ["later", "never"]);
    assert_eq!(store.post(&id("nowhere"), "m1", b"", now()).await.unwrap(), None);
}

/// Its owner answers and lets it go; then it rests again.
pub async fn mail_wakes_an_ended_saga_and_its_answer_lets_it_rest(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    step(&*store, end("order:1", rowid, 1, now())).await;
    let ended = load(&*store, "order:1").await.row;
    assert_eq!(claim_due(&*store, &lease, 10).await, Vec::<String>::new());

    let mail = post(&*store, "order:1", "late answer").await;
    assert_eq!(claim_due(&*store, &lease, 10).await, ["order:1"]);
    let written_back = Advance {
        row: Some(ended.clone()),
        mail: vec![(mail, b"nothing moved".to_vec())],
        ..advance("order:1", rowid, 2, 0)
    };
    assert_eq!(step(&*store, written_back).await, Advanced::Committed);
    assert_eq!(load(&*store, "order:1").await.row, ended);
    assert_eq!(claim_due(&*store, &lease, 10).await, Vec::<String>::new());
    assert_eq!(store.answer(mail).await.unwrap().as_deref(), Some(&b"nothing moved"[..]));
}

/// It is not due, but its owner is told.
pub async fn mail_of_an_owned_saga_is_its_owners(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    let first = create(&*store, submission(row("order:1").owned(&one), &[])).await;
    let second = create(&*store, submission(row("order:2").owned(&one), &[])).await;
    create(&*store, submission(row("order:3").owned(&one), &[])).await;
    post(&*store, "order:2", "m1").await;
    let mail = post(&*store, "order:1", "m1").await;
    post(&*store, "order:1", "m2").await;

    assert_eq!(claim_due(&*store, &two, 10).await, Vec::<String>::new());
    assert_eq!(store.mine(&two, 10).await.unwrap(), []);
    let mine = [Due { id: id("order:1"), rowid: first }, Due { id: id("order:2"), rowid: second }];
    assert_eq!(store.mine(&one, 10).await.unwrap(), mine);
    assert_eq!(store.mine(&one, 1).await.unwrap().len(), 1);
    let answers = Advance {
        mail: vec![(mail, b"ok".to_vec()), (mail + 1, b"ok".to_vec())],
        ..advance("order:1", first, 1, 1)
    };
    assert_eq!(step(&*store, answers).await, Advanced::Committed);
    assert_eq!(store.mine(&one, 10).await.unwrap(), mine[1..]);
}

/// The same input again has the first one's number, also after its answer; for another saga it is another input.
pub async fn one_input_is_posted_once(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    create(&*store, submission(row("order:2"), &[])).await;
    let first = post(&*store, "order:1", "event 7").await;
    assert_eq!(post(&*store, "order:1", "event 7").await, first);
    assert_ne!(post(&*store, "order:2", "event 7").await, first);
    assert_ne!(post(&*store, "order:1", "event 7 ").await, first);
    assert_eq!(store.waiting(&id("order:1"), 10).await.unwrap().len(), 2);

    step(&*store, Advance { mail: vec![(first, b"done".to_vec())], ..advance("order:1", rowid, 1, 1) }).await;
    assert_eq!(post(&*store, "order:1", "event 7").await, first);
    assert_eq!(store.answer(first).await.unwrap().as_deref(), Some(&b"done"[..]));
}

/// Oldest first, only its own, and no longer once answered.
pub async fn mail_waits_in_order_until_it_is_answered(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    create(&*store, submission(row("order:2"), &[])).await;
    for input in ["z", "a", "m"] {
        post(&*store, "order:1", input).await;
        post(&*store, "order:2", "other").await;
    }
    let waiting = store.waiting(&id("order:1"), 10).await.unwrap();
    let inputs: Vec<(&str, &[u8])> =
        waiting.iter().map(|mail| (mail.input_id.as_str(), &mail.body[..])).collect();
    assert_eq!(inputs, [("z", &b"z"[..]), ("a", b"a"), ("m", b"m")]);
    assert_eq!(store.waiting(&id("order:1"), 2).await.unwrap(), waiting[..2]);
    assert_eq!(store.answer(waiting[1].id).await.unwrap(), None);

    step(&*store, Advance { mail: vec![(waiting[0].id, vec![])], ..advance("order:1", rowid, 1, 1) }).await;
    assert_eq!(store.waiting(&id("order:1"), 10).await.unwrap(), waiting[1..]);
    assert_eq!(store.answer(waiting[0].id).await.unwrap(), Some(vec![]), "an empty answer is one");
    assert_eq!(store.waiting(&id("nowhere"), 10).await.unwrap(), []);
    assert_eq!(store.answer(u64::from(u32::MAX)).await.unwrap(), None);
}

/// Mail that arrives while its owner is letting it go must not wait for the next timer.
pub async fn a_saga_let_go_with_mail_is_due_at_once(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let mut rowids = Vec::new();
    for text in ["parked", "ended", "answered"] {
        rowids.push(create(&*store, submission(row(text).owned(&lease), &[])).await);
        post(&*store, text, "m1").await;
    }
    let later = in_ms(HOUR_MS);
    step(&*store, Advance { row: Some(row("parked").due(later)), ..advance("parked", rowids[0], 1, 1) })
        .await;
    step(&*store, end("ended", rowids[1], 1, now())).await;
    let mail = store.waiting(&id("answered"), 1).await.unwrap()[0].id;
    let answered = Advance {
        row: Some(row("answered").due(later)),
        mail: vec![(mail, b"ok".to_vec())],
        ..advance("answered", rowids[2], 1, 1)
    };
    step(&*store, answered).await;

    let mut due = claim_due(&*store, &lease, 10).await;
    due.sort_unstable();
    assert_eq!(due, ["ended", "parked"]);
    assert_eq!(store.next_due().await.unwrap(), Some(later));
}

/// Its poster may have read it already.
pub async fn the_first_answer_stands(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let other = create(&*store, submission(row("order:2"), &[])).await;
    let mail = post(&*store, "order:1", "m1").await;
    let answer = |text, rowid, after, answer: &str| Advance {
        mail: vec![(mail, answer.as_bytes().to_vec())],
        ..advance(text, rowid, after, 1)
    };
    step(&*store, answer("order:2", other, 1, "of another saga")).await;
    assert_eq!(store.answer(mail).await.unwrap(), None);
    step(&*store, answer("order:1", rowid, 1, "first")).await;
    step(&*store, answer("order:1", rowid, 2, "second")).await;
    assert_eq!(store.answer(mail).await.unwrap().as_deref(), Some(&b"first"[..]));
}

/// An answer is part of its item.
pub async fn a_conflict_answers_nothing(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let mail = post(&*store, "order:1", "m1").await;
    let stale = Advance { mail: vec![(mail, b"no".to_vec())], ..advance("order:1", rowid, 7, 1) };
    assert_eq!(step(&*store, stale).await, Advanced::Conflict);
    assert_eq!(store.answer(mail).await.unwrap(), None);
    assert_eq!(store.waiting(&id("order:1"), 10).await.unwrap().len(), 1);
}
