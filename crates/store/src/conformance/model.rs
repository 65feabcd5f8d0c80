//! Random histories: a store answers as the reference store does, whatever it is asked in whichever order.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use amends_core::Time;

use super::history::{CALLS, Call, Kind, Part, Random, Rows, STATUSES, index};
use super::samples::*;
use crate::{
    Advance, Advanced, Due, Holder, Item, ListFilter, Memory, NodeLease, Outcome, Row, Store, StoredEntry,
    Submission, Submitted,
};

/// Histories of one run, each from its own seed.
const SEEDS: u64 = 8;

/// One call after the other is made to both stores; their answers are compared.
pub async fn random_histories_are_answered_as_by_the_reference(store: Arc<dyn Store>) {
    // All histories share one store, each with sagas of its own: what earlier ones left is there, and must not disturb.
    let (mut tested, mut reference) = (Side::new(store), Side::new(Arc::new(Memory::new())));
    let mut answers = String::new();
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut history = Vec::new();
        for nth in 0..CALLS {
            let call = Call::random(&mut random, seed, nth);
            history.push(format!("{call:?}"));
            let expected = reference.make(&call).await;
            let found = tested.make(&call).await;
            assert_eq!(found, expected, "seed {seed}, call {nth}, after\n{}", history.join("\n"));
            answers.push_str(&found);
        }
    }
    // A history in which nothing happens proves nothing.
    for word in
        ["created", "Same", "Different", "held: ", "Committed", "Conflict", "1 of ", "Ok(true)", "Ok(false)"]
    {
        let times = answers.matches(word).count();
        assert!(times >= 10, "{word:?} was answered only {times} times");
    }
}

/// A store with its own numbers for what the histories name.
struct Side {
    store: Arc<dyn Store>,
    leases: BTreeMap<u64, NodeLease>,
    epochs: Vec<u64>,
    rowids: BTreeMap<String, u64>,
    mails: Vec<u64>,
}

impl Side {
    fn new(store: Arc<dyn Store>) -> Self {
        let (leases, rowids) = (BTreeMap::new(), BTreeMap::new());
        Self { store, leases, epochs: Vec::new(), rowids, mails: Vec::new() }
    }

    /// Makes the call; gives the answer, without the store's own numbers.
    async fn make(&mut self, call: &Call) -> String {
        let at = now();
        let store = Arc::clone(&self.store);
        match &call.kind {
            Kind::Commit(parts) => self.commit(call, parts).await,
            // Which of equals come first is the store's choice; how many, and that all come in the end, is not.
            Kind::ClaimDue { node, limit } => {
                let lease = self.lease(*node).await;
                let first = store.claim_due(&lease, at, *limit).await.expect("the store answers");
                let rest = store.claim_due(&lease, at, 1_000).await.expect("the store answers");
                counted(first, rest)
            }
            Kind::TakeOver { node, limit } => {
                let lease = self.lease(*node).await;
                let first = store.take_over(&lease, at, *limit).await.expect("the store answers");
                let rest = store.take_over(&lease, at, 1_000).await.expect("the store answers");
                counted(first, rest)
            }
            Kind::Claim { node, saga } => {
                let lease = self.lease(*node).await;
                show(&store.claim(&lease, &id(&call.id(*saga)), at).await)
            }
            Kind::Join { node } => {
                self.join(*node).await;
                String::new()
            }
            Kind::Renew { node } => {
                let lease = self.lease(*node).await;
                show(&store.renew(&lease, TTL_MS, at).await.map(|renewed| renewed.is_some()))
            }
            Kind::Leave { node } => {
                let lease = self.lease(*node).await;
                show(&store.leave(&lease).await)
            }
            Kind::Post { saga, input } => {
                let input = format!("input {input}");
                let posted = store.post(&id(&call.id(*saga)), &input, input.as_bytes(), at).await;
                let mail = posted.expect("the store answers");
                self.mails.extend(mail);
                // Whether it is an earlier one again.
                show(&mail.map(|mail| self.mails.iter().position(|known| *known == mail)))
            }
            Kind::Prune { limit } => {
                let first = store.prune(in_ms(-HOUR_MS), *limit).await.expect("the store answers");
                let rest = store.prune(in_ms(-HOUR_MS), 100).await.expect("the store answers");
                show(&(first, rest))
            }
            Kind::Read { saga } => self.read(&call.id(*saga)).await,
            Kind::Count => self.count().await,
            Kind::List { status, limit } => self.list(*status, *limit).await,
        }
    }

    async fn join(&mut self, node: u64) -> NodeLease {
        let lease = join(&*self.store, &format!("n{node}")).await;
        self.leases.insert(node, lease.clone());
        self.epochs.push(lease.epoch);
        lease
    }

    async fn lease(&mut self, node: u64) -> NodeLease {
        match self.leases.get(&node) {
            Some(lease) => lease.clone(),
            None => self.join(node).await,
        }
    }

    async fn commit(&mut self, call: &Call, parts: &[Part]) -> String {
        let mut batch = Vec::new();
        for (place, part) in (0..).zip(parts) {
            batch.push(self.item(call, place, part).await);
        }
        let outcomes = self.store.commit(batch.clone()).await;
        let mut answers = Vec::new();
        for (item, outcome) in batch.iter().zip(outcomes) {
            if let (Item::Submit(submission), Outcome::Submitted(Submitted::Created(rowid))) =
                (item, &outcome)
            {
                self.rowids.insert(submission.row.id.to_string(), *rowid);
            }
            answers.push(self.answer(outcome));
        }
        answers.join(", ")
    }

    async fn item(&mut self, call: &Call, place: u64, part: &Part) -> Item {
        let nonce = call.nth * 10 + place;
        let claims = |claims: &[u64]| -> Vec<String> {
            claims.iter().map(|claim| format!("{}:claim {claim}", call.seed)).collect()
        };
        match part {
            Part::Submit { saga, fingerprint, claims: wanted, row } => Item::Submit(Submission {
                row: self.row(call, *saga, row).await,
                entries: vec![entry(1)],
                claims: claims(wanted),
                fingerprint: fingerprint.to_string(),
                nonce,
            }),
            Part::Advance { saga, off, entries, row, release, take, mail } => {
                let text = call.id(*saga);
                let stored = self.store.load(&id(&text)).await.expect("the store answers");
                let last = stored.map_or(1, |stored| stored.row.seq).cast_signed();
                let after = (last + off).max(0).cast_unsigned();
                let row = match row {
                    Some(row) => Some(self.row(call, *saga, row).await),
                    None => None,
                };
                let entries =
                    (after + 1..=after + entries).map(|seq| StoredEntry { keep: seq % 3 == 0, ..entry(seq) });
                let mail = mail.and_then(|mail| self.mails.get(index(mail)).copied());
                Item::Advance(Advance {
                    id: id(&text),
                    rowid: self.rowids.get(&text).copied().unwrap_or(u64::from(u32::MAX)),
                    after,
                    entries: entries.collect(),
                    row,
                    release_claims: *release,
                    take_claims: claims(take),
                    mail: mail
                        .map(|mail| (mail, format!("answer {nonce}").into_bytes()))
                        .into_iter()
                        .collect(),
                    nonce,
                })
            }
        }
    }

    async fn row(&mut self, call: &Call, saga: u64, decided: &Rows) -> Row {
        let status = STATUSES[decided.status];
        let owner = match decided.owner {
            Some(node) => Some(self.lease(node).await),
            None => None,
        };
        // Sagas arrive in the order of these times.
        let created_at = Time(i64::try_from(call.seed * CALLS + call.nth).expect("a small number"));
        Row {
            step: Some(format!("step {}", decided.status)),
            contradictions: decided.contradictions,
            created_at,
            updated_at: created_at,
            ended_at: (status == "completed")
                .then(|| if saga.is_multiple_of(2) { Time(1) } else { in_ms(0) }),
            due_at: decided.due.map(|past| if past { Time(created_at.0) } else { in_ms(HOUR_MS) }),
            owner: owner.map(|lease| (lease.node, lease.epoch)),
            ..row(&call.id(saga)).status(status)
        }
    }

    async fn read(&self, text: &str) -> String {
        let stored = self.store.load(&id(text)).await.expect("the store answers");
        let listed = self.store.row(&id(text)).await.expect("the store answers").is_some();
        let waiting = self.store.waiting(&id(text), 10).await.expect("the store answers");
        let page = self.store.entries(&id(text), 2, 2).await.expect("the store answers");
        let mut nonces = Vec::new();
        for seq in 1..6 {
            nonces.push(self.store.wrote(&id(text), seq, seq).await.expect("the store answers"));
        }
        let mut answers = Vec::new();
        for mail in &self.mails {
            answers.push(self.store.answer(*mail).await.expect("the store answers"));
        }
        let stored = stored.map(|stored| (self.neutral(&stored.row), stored.entries));
        let waiting: Vec<(String, Vec<u8>)> =
            waiting.into_iter().map(|mail| (mail.input_id, mail.body)).collect();
        show(&(stored, listed, waiting, page, nonces, answers))
    }

    async fn count(&self) -> String {
        let stats = self.store.stats(now()).await.expect("the store answers");
        let due = self.store.next_due().await.expect("the store answers").map(in_time);
        let groups = self.store.dead_groups(10).await.expect("the store answers");
        let mut mine = Vec::new();
        for lease in self.leases.values() {
            mine.push(names(self.store.mine(lease, 1_000).await.expect("the store answers")));
        }
        let oldest_due = stats.oldest_due.map(in_time);
        show(&(
            stats.open,
            stats.ended,
            stats.oldest_open,
            stats.due,
            oldest_due,
            stats.contradictions,
            due,
            groups,
            mine,
        ))
    }

    async fn list(&self, status: Option<usize>, limit: usize) -> String {
        let status = status.map(|status| STATUSES[status].to_owned()).into_iter().collect();
        let filter = ListFilter { status, ..ListFilter::default() };
        let (mut cursor, mut rows) = (None, Vec::new());
        loop {
            let page = self.store.page(&filter, cursor, limit).await.expect("the store answers");
            // What is in flight may have newer entries than its row says.
            rows.extend(page.rows.iter().map(|row| Row { seq: 0, ..self.neutral(row) }));
            cursor = page.next;
            if cursor.is_none() {
                return show(&rows);
            }
        }
    }

    fn answer(&self, outcome: Outcome) -> String {
        let held = |holder: &Holder| {
            let row = Row { seq: 0, ..self.neutral(&holder.row) };
            format!("held: {} by {} since {:?}, {row:?}", holder.claim, holder.saga, holder.since)
        };
        match outcome {
            Outcome::Submitted(Submitted::Created(_)) => "created".to_owned(),
            Outcome::Submitted(Submitted::Held(holder)) | Outcome::Advanced(Advanced::Held(holder)) => {
                held(&holder)
            }
            Outcome::Submitted(other @ (Submitted::Same | Submitted::Different)) => show(&other),
            Outcome::Advanced(other @ (Advanced::Committed | Advanced::Conflict)) => show(&other),
            Outcome::Failed(error) => show(&error.kind),
        }
    }

    /// A row without the store's own numbers and without exact times of the real clock.
    fn neutral(&self, row: &Row) -> Row {
        let owner = row.owner.clone().map(|(node, epoch)| {
            let place = self.epochs.iter().position(|known| *known == epoch);
            (node, u64::try_from(place.expect("an owner's epoch is known")).expect("a small number"))
        });
        let rough = |at: Time| Time(in_time(at).into());
        Row {
            rowid: 0,
            owner,
            due_at: row.due_at.map(rough),
            ended_at: row.ended_at.map(rough),
            ..row.clone()
        }
    }
}

/// Whether a time has come.
fn in_time(at: Time) -> bool {
    at <= now()
}

/// How many came first, and who came in all.
fn counted(first: Vec<Due>, rest: Vec<Due>) -> String {
    format!("{} of {}", first.len(), names(first.into_iter().chain(rest)))
}

fn names(due: impl IntoIterator<Item = Due>) -> String {
    let mut names: Vec<String> = due.into_iter().map(|due| due.id.to_string()).collect();
    names.sort_unstable();
    names.join(" ")
}

fn show(answer: &impl Debug) -> String {
    format!("{answer:?}")
}
