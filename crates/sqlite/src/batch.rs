//! A batch of items, as part of the writer's transaction.

use std::collections::HashSet;
use std::sync::Arc;

use amends_store::{Advanced, Error, Item, Kind, Outcome};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::advance::advance;
use crate::health::Health;
use crate::submit::submit;
use crate::writer::{Job, Tx};

/// The batch of one `commit`, with its answers so far.
pub(crate) struct Batch {
    items: Vec<Item>,
    outcomes: Vec<Outcome>,
    /// Sagas of which an item was not committed. What was decided on top of it must not be committed either, even
    /// where somebody else's entries have made the numbers fit.
    lost: HashSet<u64>,
    health: Arc<Health>,
    reply: oneshot::Sender<Vec<Outcome>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Batch {
    pub(crate) fn new(items: Vec<Item>, health: Arc<Health>, reply: oneshot::Sender<Vec<Outcome>>) -> Self {
        Self {
            outcomes: Vec::with_capacity(items.len()),
            items,
            lost: HashSet::new(),
            health,
            reply,
            permit: None,
        }
    }

    fn outcome(&self, item: &Item, tx: &mut Tx<'_>) -> rusqlite::Result<Outcome> {
        if let Err(error) = item.check() {
            return Ok(Outcome::Failed(error));
        }
        Ok(match item {
            Item::Submit(submission) => match self.health.takes_work() {
                Ok(()) => Outcome::Submitted(submit(tx, submission)?),
                Err(error) => Outcome::Failed(error),
            },
            Item::Advance(item) if self.lost.contains(&item.rowid) => Outcome::Advanced(Advanced::Conflict),
            Item::Advance(item) => Outcome::Advanced(advance(tx, item)?),
        })
    }

    fn answer_part(&mut self, part: usize, outcome: Outcome) {
        // What an earlier run, that was undone, said of this part and those after it is void.
        self.outcomes.truncate(part);
        match (&self.items[part], &outcome) {
            (Item::Submit(_), _) | (Item::Advance(_), Outcome::Advanced(Advanced::Committed)) => {}
            (Item::Advance(item), _) => {
                self.lost.insert(item.rowid);
            }
        }
        self.outcomes.push(outcome);
    }
}

impl Job for Batch {
    fn parts(&self) -> usize {
        self.items.len()
    }

    fn run(&mut self, part: usize, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        if part == 0 {
            self.lost.clear();
        }
        let outcome = self.outcome(&self.items[part], tx)?;
        self.answer_part(part, outcome);
        Ok(())
    }

    fn fail(&mut self, part: usize, error: Error) {
        let error = match error.kind {
            Kind::Corrupt => about(&self.items[part], &error),
            Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable | Kind::Refused => error,
        };
        self.answer_part(part, Outcome::Failed(error));
    }

    fn answer(self: Box<Self>) {
        let _ = self.reply.send(self.outcomes);
    }

    fn keep(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }
}

/// Says which saga a damaged page concerns.
fn about(item: &Item, error: &Error) -> Error {
    let id = match item {
        Item::Submit(submission) => &submission.row.id,
        Item::Advance(advance) => &advance.id,
    };
    Error::new(error.kind, format!("saga {id}: {}", error.message))
}
