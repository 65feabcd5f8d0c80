//! Sample sagas, and calls that fail the test when the store fails.

use std::time::{SystemTime, UNIX_EPOCH};

use amends_core::{SagaId, Time};

use crate::{
    Advance, Advanced, Holder, Item, NodeLease, Outcome, Row, Store, Stored, StoredEntry, Submission,
    Submitted,
};

/// An hour, in milliseconds: what is due in an hour is not due while a test runs.
pub const HOUR_MS: i64 = 3_600_000;

/// A lease that does not lapse while a test runs.
pub const TTL_MS: u64 = 3_600_000;

/// The time of the real clock.
///
/// # Panics
/// If the clock stands before 1970.
#[must_use]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Time(i64::try_from(since.as_millis()).expect("the clock is before the year 292,000,000"))
}

/// The time `ms` milliseconds from now; negative: ago.
#[must_use]
pub fn in_ms(ms: i64) -> Time {
    Time(now().0 + ms)
}

/// A saga id.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn id(text: &str) -> SagaId {
    SagaId::new(text).expect("a sample id is a valid one")
}

/// An entry.
#[must_use]
pub fn entry(seq: u64) -> StoredEntry {
    StoredEntry {
        seq,
        at: Time(1_000 + seq.cast_signed()),
        keep: false,
        body: format!("entry {seq}").into_bytes(),
    }
}

/// The row of a running saga that is nobody's and never due by itself.
#[must_use]
pub fn row(text: &str) -> Row {
    Row {
        rowid: 0,
        id: id(text),
        saga: "order".to_owned(),
        definition_version: 1,
        digest: "d1".to_owned(),
        status: "running".to_owned(),
        business_state: "INIT".to_owned(),
        seq: 1,
        step: None,
        operation: None,
        error_class: None,
        reason: None,
        contradictions: 0,
        overdue: false,
        created_at: Time(1_000),
        updated_at: Time(1_000),
        ended_at: None,
        due_at: None,
        owner: None,
    }
}

/// Variations of a sample row.
pub trait Vary {
    /// The same, owned by a node.
    #[must_use]
    fn owned(self, lease: &NodeLease) -> Self;

    /// The same, nobody's, and due then.
    #[must_use]
    fn due(self, at: Time) -> Self;

    /// The same, with a status.
    #[must_use]
    fn status(self, status: &str) -> Self;

    /// The same, ended and nobody's.
    #[must_use]
    fn ended(self, at: Time) -> Self;
}

impl Vary for Row {
    fn owned(self, lease: &NodeLease) -> Self {
        Self { owner: Some((lease.node.clone(), lease.epoch)), ..self }
    }

    fn due(self, at: Time) -> Self {
        Self { owner: None, due_at: Some(at), ..self }
    }

    fn status(self, status: &str) -> Self {
        Self { status: status.to_owned(), ..self }
    }

    fn ended(self, at: Time) -> Self {
        Self { status: "completed".to_owned(), ended_at: Some(at), due_at: None, owner: None, ..self }
    }
}

/// A submission with one entry. Its nonce is 1.
#[must_use]
pub fn submission(row: Row, claims: &[&str]) -> Submission {
    Submission {
        fingerprint: format!("fingerprint of {}", row.id),
        row,
        entries: vec![entry(1)],
        claims: claims.iter().map(|&claim| claim.to_owned()).collect(),
        nonce: 1,
    }
}

/// An advance of as many entries after `after`, with a nonce of its own for its place, and nothing else.
#[must_use]
pub fn advance(text: &str, rowid: u64, after: u64, entries: u64) -> Advance {
    Advance {
        id: id(text),
        rowid,
        after,
        entries: (1..=entries).map(|nth| entry(after + nth)).collect(),
        row: None,
        release_claims: false,
        take_claims: Vec::new(),
        mail: Vec::new(),
        nonce: after.wrapping_add(1_000),
    }
}

/// An advance that ends a saga after `after`.
#[must_use]
pub fn end(text: &str, rowid: u64, after: u64, at: Time) -> Advance {
    Advance { row: Some(row(text).ended(at)), release_claims: true, ..advance(text, rowid, after, 1) }
}

/// An answer that must be to a submission.
///
/// # Panics
/// If it is another.
pub fn submitted(outcome: Outcome) -> Submitted {
    match outcome {
        Outcome::Submitted(answer) => answer,
        Outcome::Advanced(_) | Outcome::Failed(_) => panic!("no answer to a submission: {outcome:?}"),
    }
}

/// An answer that must be to an advance.
///
/// # Panics
/// If it is another.
pub fn advanced(outcome: Outcome) -> Advanced {
    match outcome {
        Outcome::Advanced(answer) => answer,
        Outcome::Submitted(_) | Outcome::Failed(_) => panic!("no answer to an advance: {outcome:?}"),
    }
}

/// The holder of a claim that a submission met.
///
/// # Panics
/// If it met none.
pub fn held(answer: Submitted) -> Holder {
    match answer {
        Submitted::Held(holder) => *holder,
        Submitted::Created(_) | Submitted::Same | Submitted::Different => panic!("not held: {answer:?}"),
    }
}

/// Commits one item.
///
/// # Panics
/// If there is not one answer.
pub async fn commit(store: &dyn Store, item: Item) -> Outcome {
    let mut outcomes = store.commit(vec![item]).await;
    assert_eq!(outcomes.len(), 1, "one answer an item");
    outcomes.remove(0)
}

/// Submits a saga.
pub async fn submit(store: &dyn Store, submission: Submission) -> Submitted {
    submitted(commit(store, Item::Submit(submission)).await)
}

/// Submits a saga that must be new, and gives its number.
///
/// # Panics
/// If it is not new.
pub async fn create(store: &dyn Store, submission: Submission) -> u64 {
    match submit(store, submission).await {
        Submitted::Created(rowid) => rowid,
        other @ (Submitted::Same | Submitted::Different | Submitted::Held(_)) => {
            panic!("not created: {other:?}")
        }
    }
}

/// Moves a saga.
pub async fn step(store: &dyn Store, advance: Advance) -> Advanced {
    advanced(commit(store, Item::Advance(advance)).await)
}

/// Loads a saga that must be there.
///
/// # Panics
/// If it is not.
pub async fn load(store: &dyn Store, text: &str) -> Stored {
    store.load(&id(text)).await.expect("the store answers").expect("the saga is there")
}

/// The numbers of a saga's entries.
pub async fn seqs(store: &dyn Store, text: &str) -> Vec<u64> {
    load(store, text).await.entries.iter().map(|entry| entry.seq).collect()
}

/// Begins a lease that does not lapse while a test runs.
///
/// # Panics
/// If the store fails.
pub async fn join(store: &dyn Store, node: &str) -> NodeLease {
    store.join(node, TTL_MS, now()).await.expect("the store answers")
}

/// Claims what is due, and gives its ids in order.
///
/// # Panics
/// If the store fails.
pub async fn claim_due(store: &dyn Store, lease: &NodeLease, limit: usize) -> Vec<String> {
    let due = store.claim_due(lease, now(), limit).await.expect("the store answers");
    due.into_iter().map(|due| due.id.to_string()).collect()
}
