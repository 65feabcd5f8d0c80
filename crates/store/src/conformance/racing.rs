//! Many callers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Item, NodeLease, Store, Submission, Submitted};

/// Callers that run at once.
const CALLERS: u64 = 16;

/// Runs one call for each number, all at once, and gives their answers in order.
async fn at_once<T, F>(call: impl Fn(u64) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let calls: Vec<_> = (0..CALLERS).map(|nth| tokio::spawn(call(nth))).collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("a caller panicked"));
    }
    answers
}

/// Of many that decided on the same entry, one is written, and its nonce tells which.
pub async fn one_of_many_advances_wins(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    for after in 1..=20 {
        let answers = at_once(|nth| {
            let store = Arc::clone(&store);
            let moved = Advance { nonce: nth, ..advance("order:1", rowid, after, 1) };
            async move { step(&*store, moved).await }
        });
        let answers = answers.await;
        let won: Vec<u64> =
            (0..).zip(&answers).filter(|(_, a)| **a == Advanced::Committed).map(|(nth, _)| nth).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert_eq!(store.wrote(&id("order:1"), after + 1, won[0]).await.unwrap(), Some(true));
    }
    assert_eq!(seqs(&*store, "order:1").await.len(), 21);
}

/// Of many that submit the same id, one creates it, and those with another input are told so.
pub async fn one_of_many_submissions_creates(store: Arc<dyn Store>) {
    for round in 0..10 {
        let text = format!("order:{round}");
        let answers = at_once(|nth| {
            let store = Arc::clone(&store);
            let fingerprint = (nth % 2).to_string();
            let submission = Submission { fingerprint, nonce: nth, ..submission(row(&text), &["a"]) };
            async move { submit(&*store, submission).await }
        });
        let answers = answers.await;
        let created: Vec<usize> =
            (0..answers.len()).filter(|&n| matches!(answers[n], Submitted::Created(_))).collect();
        let [created] = created[..] else { panic!("{answers:?}") };
        for (nth, answer) in answers.iter().enumerate().filter(|(nth, _)| *nth != created) {
            let same = nth % 2 == created % 2;
            assert_eq!(
                *answer,
                if same { Submitted::Same } else { Submitted::Different },
                "{nth} of {answers:?}"
            );
        }
        let rowid = load(&*store, &text).await.row.rowid;
        step(&*store, end(&text, rowid, 1, now())).await;
    }
}

/// Whoever was created has all its claims alone; whoever was not has none, and was told of one that did.
pub async fn claims_are_taken_all_or_none(store: Arc<dyn Store>) {
    const NAMES: u64 = 6;
    for round in 0..10 {
        let claims = |nth: u64| {
            // Two of a ring, in changing order, so that everyone is in the way of two others.
            let mut claims = [nth % NAMES, (nth + 1) % NAMES].map(|n| format!("resource:{n}"));
            claims.rotate_left(usize::from(nth % 4 < 2));
            claims
        };
        let text = |nth: u64| format!("order:{round}:{nth}");
        let answers = at_once(|nth| {
            let store = Arc::clone(&store);
            let submission = Submission { claims: claims(nth).to_vec(), ..submission(row(&text(nth)), &[]) };
            async move { submit(&*store, submission).await }
        });
        let answers: Vec<(u64, Submitted)> = (0..).zip(answers.await).collect();
        let mut holders = BTreeMap::new();
        for (nth, answer) in &answers {
            if let Submitted::Created(rowid) = answer {
                for claim in claims(*nth) {
                    assert_eq!(holders.insert(claim, text(*nth)), None, "{answers:?}");
                }
                assert!(*rowid > 0);
            }
        }
        assert!(!holders.is_empty(), "somebody must get through");
        for (nth, answer) in answers {
            match answer {
                Submitted::Created(rowid) => {
                    assert_eq!(step(&*store, end(&text(nth), rowid, 1, now())).await, Advanced::Committed);
                }
                Submitted::Held(holder) => {
                    assert_eq!(holders.get(&holder.claim), Some(&holder.saga.to_string()));
                    assert!(claims(nth).contains(&holder.claim));
                    assert_eq!(store.load(&id(&text(nth))).await.unwrap(), None);
                }
                Submitted::Same | Submitted::Different => panic!("{answer:?}"),
            }
        }
        // All are free again.
        let all: Vec<String> = (0..NAMES).map(|n| format!("resource:{n}")).collect();
        let last = format!("order:{round}:all");
        let rowid = create(&*store, Submission { claims: all, ..submission(row(&last), &[]) }).await;
        step(&*store, end(&last, rowid, 1, now())).await;
    }
}

/// Every due saga becomes one node's.
pub async fn no_saga_is_claimed_twice(store: Arc<dyn Store>) {
    for nth in 0..60 {
        create(&*store, submission(row(&format!("order:{nth}")).due(in_ms(-10)), &[])).await;
    }
    let leases = leases(&*store).await;
    let claimed = at_once(|nth| {
        let (store, lease) = (Arc::clone(&store), leases[index(nth)].clone());
        async move { claim_due(&*store, &lease, 7).await }
    });
    check_once_each(&*store, &leases, claimed.await).await;
}

/// Every saga of a lapsed node becomes one other's.
pub async fn no_saga_is_taken_over_twice(store: Arc<dyn Store>) {
    let gone = join(&*store, "gone").await;
    for nth in 0..60 {
        create(&*store, submission(row(&format!("order:{nth}")).owned(&gone), &[])).await;
    }
    store.leave(&gone).await.unwrap();
    let leases = leases(&*store).await;
    let taken = at_once(|nth| {
        let (store, lease) = (Arc::clone(&store), leases[index(nth)].clone());
        async move {
            let taken = store.take_over(&lease, now(), 7).await.expect("the store answers");
            taken.into_iter().map(|due| due.id.to_string()).collect()
        }
    });
    check_once_each(&*store, &leases, taken.await).await;
}

async fn leases(store: &dyn Store) -> Vec<NodeLease> {
    let mut leases = Vec::new();
    for nth in 0..CALLERS {
        leases.push(join(store, &format!("n{nth}")).await);
    }
    leases
}

fn index(nth: u64) -> usize {
    usize::try_from(nth).expect("a small number")
}

/// All sixty were got, each by one node, which is its owner now.
async fn check_once_each(store: &dyn Store, leases: &[NodeLease], got: Vec<Vec<String>>) {
    let mut seen = BTreeSet::new();
    for (lease, ids) in leases.iter().zip(got) {
        assert!(ids.len() <= 7);
        for text in ids {
            let owner = load(store, &text).await.row.owner;
            assert_eq!(owner, Some((lease.node.clone(), lease.epoch)), "{text}");
            assert!(seen.insert(text));
        }
    }
    assert_eq!(seen.len(), 60);
}

/// Nobody's items are mixed up with another's, however they are grouped.
pub async fn batches_of_many_callers_all_arrive(store: Arc<dyn Store>) {
    let done = at_once(|nth| {
        let store = Arc::clone(&store);
        async move {
            for round in 0..10 {
                let texts: Vec<String> = (0..=nth).map(|n| format!("{nth}:{round}:{n}")).collect();
                let batch = texts.iter().map(|text| Item::Submit(submission(row(text), &[text]))).collect();
                let mut moves = Vec::new();
                for (text, outcome) in texts.iter().zip(store.commit(batch).await) {
                    match submitted(outcome) {
                        Submitted::Created(rowid) => moves.push(Item::Advance(end(text, rowid, 1, now()))),
                        other @ (Submitted::Same | Submitted::Different | Submitted::Held(_)) => {
                            panic!("{other:?}")
                        }
                    }
                }
                for outcome in store.commit(moves).await {
                    assert_eq!(advanced(outcome), Advanced::Committed);
                }
            }
        }
    });
    done.await;
    let total = 10 * (1..=CALLERS).sum::<u64>();
    assert_eq!(store.stats(now()).await.unwrap().ended, [("completed".to_owned(), total)]);
}

/// Whichever of the two comes first: who lets a saga go sees its mail, or who posts sees that it is nobody's.
pub async fn mail_posted_while_its_saga_is_let_go_wakes_it(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    for nth in 0..100 {
        let text = format!("order:{nth}");
        let rowid = create(&*store, submission(row(&text).owned(&lease), &[])).await;
        let let_go = Advance { row: Some(row(&text)), ..advance(&text, rowid, 1, 1) };
        let letting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { step(&*store, let_go).await }
        });
        store.post(&id(&text), "input", b"stop", now()).await.unwrap().unwrap();
        assert_eq!(letting.await.unwrap(), Advanced::Committed);
        let row = load(&*store, &text).await.row;
        assert!(row.owner.is_none() && row.due_at.is_some(), "{row:?}");
    }
}
