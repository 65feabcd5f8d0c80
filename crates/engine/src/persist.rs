//! Writing until it is known what became of it. Nothing else is done with a saga while one of these runs.

use std::future::Future;
use std::time::Duration;

use amends_core::SagaId;
use amends_store::{Advance, Advanced, Error, Holder, Item, Kind, Outcome, Submission, Submitted};

use crate::node::Node;

/// What became of an [`Advance`].
pub(crate) enum Written {
    /// It stands.
    Yes,
    /// Another write came first, or the store is not this node's to write: the saga must be dropped from memory.
    Fenced,
    /// A claim is held; nothing was written.
    Held(Box<Holder>),
}

/// What became of a [`Submission`].
pub(crate) enum Begun {
    /// It is new, under this number.
    Created(u64),
    /// It existed.
    Same,
    /// It existed, with other content.
    Different,
    /// A claim is held; nothing was written.
    Held(Box<Holder>),
    /// Nothing was written.
    Failed(Error),
}

/// The pauses between the tries of one store call: doubling up to a limit, spread.
pub(crate) struct Backoff<'a> {
    node: &'a Node,
    next: Duration,
}

impl<'a> Backoff<'a> {
    pub(crate) fn new(node: &'a Node) -> Self {
        Self { node, next: node.config.times.backoff_first }
    }

    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.node.random.spread(self.next)).await;
        self.next = (self.next * 2).min(self.node.config.times.backoff_max);
    }
}

impl Node {
    /// Writes an advance: tries again while the store takes nothing, and after a lost answer reads what stands.
    ///
    /// `advance` makes the item anew for each try, so that the usual first one costs no copy. It must make the same one.
    pub(crate) async fn advance(&self, advance: impl Fn() -> Advance) -> Written {
        let mut backoff = Backoff::new(self);
        loop {
            let item = advance();
            let (first, nonce) = (item.entries.first().map(|entry| entry.seq), item.nonce);
            match self.committer.commit(Item::Advance(item)).await {
                Outcome::Advanced(Advanced::Committed) => return Written::Yes,
                Outcome::Advanced(Advanced::Held(holder)) => return Written::Held(holder),
                // It may be this very write that came first, if an earlier try of it was written after all.
                Outcome::Advanced(Advanced::Conflict) => {
                    let Some(seq) = first else { return Written::Fenced };
                    return match self.wrote(&advance().id, seq, nonce).await {
                        Some(true) => Written::Yes,
                        Some(false) | None => Written::Fenced,
                    };
                }
                Outcome::Submitted(_) => unreachable!("invariant: a store answers an advance as an advance"),
                Outcome::Failed(error) => match error.kind {
                    Kind::Indeterminate => {
                        if self.advance_stands(&advance(), first).await {
                            return Written::Yes;
                        }
                    }
                    Kind::Unavailable | Kind::Unwritable => backoff.pause().await,
                    Kind::Corrupt | Kind::Refused => {
                        tracing::error!(saga = %advance().id, "it cannot be written and is left alone: {error}");
                        return Written::Fenced;
                    }
                },
            }
        }
    }

    /// After a lost answer: whether the write stands. False: it does not, and may be tried again with the same nonce. (If it
    /// is only on its way still, the next try meets it as a conflict and looks again.)
    async fn advance_stands(&self, advance: &Advance, first: Option<u64>) -> bool {
        match first {
            Some(seq) => self.wrote(&advance.id, seq, advance.nonce).await == Some(true),
            None => match &advance.row {
                // Letting a saga go twice could take it from whoever has claimed it since.
                Some(row) if row.owner.is_none() => {
                    let stands = self.insist(|| self.store.row(&advance.id)).await;
                    !stands.is_ok_and(|row| row.is_some_and(|row| self.lease().owns(&row)))
                }
                // Answers to mails and a row of its own: the same again changes nothing.
                Some(_) | None => false,
            },
        }
    }

    /// Writes a submission. Where nothing can be written it says so at once: somebody waits for the answer.
    pub(crate) async fn begin(&self, submission: impl Fn() -> Submission) -> Begun {
        let mut lost = false;
        loop {
            let item = submission();
            let (id, nonce) = (item.row.id.clone(), item.nonce);
            let outcome = self.committer.commit(Item::Submit(item)).await;
            let begun = match outcome {
                Outcome::Submitted(Submitted::Created(rowid)) => return Begun::Created(rowid),
                Outcome::Submitted(Submitted::Same) => Begun::Same,
                Outcome::Submitted(Submitted::Different) => Begun::Different,
                Outcome::Submitted(Submitted::Held(holder)) => Begun::Held(holder),
                Outcome::Advanced(_) => {
                    unreachable!("invariant: a store answers a submission as a submission")
                }
                Outcome::Failed(error) => match error.kind {
                    Kind::Indeterminate => {
                        lost = true;
                        if self.wrote(&id, 1, nonce).await == Some(true) {
                            return self.created(&id).await;
                        }
                        continue;
                    }
                    Kind::Unavailable | Kind::Unwritable if lost => {
                        // Whether the lost one stands may only be seen later: its answer is still owed.
                        Backoff::new(self).pause().await;
                        continue;
                    }
                    Kind::Unavailable | Kind::Unwritable | Kind::Corrupt | Kind::Refused => {
                        return Begun::Failed(error);
                    }
                },
            };
            // What exists, or holds the claims, may be this very write, committed after its answer was lost.
            if lost && self.wrote(&id, 1, nonce).await == Some(true) {
                return self.created(&id).await;
            }
            return begun;
        }
    }

    async fn created(&self, id: &SagaId) -> Begun {
        match self.insist(|| self.store.row(id)).await {
            Ok(Some(row)) => Begun::Created(row.rowid),
            Ok(None) => Begun::Failed(Error::new(Kind::Corrupt, format!("{id} has a journal but no row"))),
            Err(error) => Begun::Failed(error),
        }
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Option<bool> {
        match self.insist(|| self.store.wrote(id, seq, nonce)).await {
            Ok(wrote) => wrote,
            Err(error) => {
                tracing::error!(saga = %id, "whose entry {seq} is cannot be read: {error}");
                Some(false)
            }
        }
    }

    /// Repeats a store call until the store answers it.
    ///
    /// # Errors
    /// What no repetition cures: [`Kind::Corrupt`] and [`Kind::Refused`].
    pub(crate) async fn insist<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut backoff = Backoff::new(self);
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => match error.kind {
                    Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable => backoff.pause().await,
                    Kind::Corrupt | Kind::Refused => return Err(error),
                },
            }
        }
    }
}
