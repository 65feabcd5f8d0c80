//! Looking at sagas, and waiting for them.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{SagaId, Status, status};
use amends_store::{Cursor, DeadGroup, Error, Kind, ListFilter, Page, Row, Stats};
use tokio::time::{Instant, sleep, timeout_at};

use crate::meter::Limit;
use crate::node::Node;
use crate::saga::{Notable as _, saga_of, unregistered};
use crate::{Engine, JournalPage, Refused, View};

impl Engine {
    /// A saga as it is now: in memory if it is in flight here, else as its journal makes it.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], or the store's.
    pub async fn saga(&self, id: &SagaId) -> Result<View, Refused> {
        self.node().view(id).await
    }

    /// As [`Engine::saga`], for who has just committed it in an SQL transaction of their own: what waits to be taken up is looked for at once, and
    /// waited for as long as `at_most`.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], also if it takes longer, or the store's.
    pub async fn saga_soon(&self, id: &SagaId, at_most: Duration) -> Result<View, Refused> {
        let node = self.node();
        let until = Instant::now() + at_most;
        loop {
            match node.view(id).await {
                Err(Refused::UnknownSaga(_)) if node.store.intake().is_some() && Instant::now() < until => {
                    node.intake_now.notify_one();
                    sleep(SOON_LOOK).await;
                }
                answer => return answer,
            }
        }
    }

    /// Waits until a saga has ended, or is unknown or dead, but no longer than `at_most`; then gives it as it is.
    ///
    /// A saga in flight here wakes whoever waits; one that is parked or another node's is looked at now and then.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], [`Refused::Overloaded`] if too many wait already, or the store's.
    pub async fn wait(&self, id: &SagaId, at_most: Duration) -> Result<View, Refused> {
        let node = self.node();
        let until = Instant::now() + at_most;
        loop {
            // Joined before looking: what happens after the look is told.
            let mut ticket = node.waiters.join(id).ok_or_else(|| node.refuse(Limit::Waiters))?;
            let view = node.view(id).await?;
            if is_at_rest(&view) || Instant::now() >= until {
                return Ok(view);
            }
            // Somebody else may move it if it is not here.
            let look = if node.sagas.get(id).is_some() {
                until
            } else {
                until.min(Instant::now() + node.config.times.poll_every)
            };
            if let Ok(Ok(saga)) = timeout_at(look, &mut ticket.told).await {
                return Ok(View::Whole(saga));
            }
        }
    }

    /// Up to `limit` entries of a journal after number `after`, oldest first.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], or the store's.
    pub async fn journal(&self, id: &SagaId, after: u64, limit: usize) -> Result<JournalPage, Refused> {
        let node = self.node();
        let limit = limit.max(1);
        let mut entries = node.store.entries(id, after, limit + 1).await.map_err(Refused::Store)?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        let seen = node.sagas.get(id).and_then(|cell| cell.seen());
        let definition = match seen {
            Some(saga) => Some(saga.definition.clone()),
            None => {
                let row = node.row(id).await?;
                // Without its definition the journal can still be shown, with numbers for names.
                let known = node.definition_by_digest(&row.digest).await.ok().flatten();
                known.map(|known| known.definition.clone())
            }
        };
        Ok(JournalPage { entries, definition, more })
    }

    /// A page of the list of sagas, newest first. It may lag behind the journals of sagas in flight.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(
        &self,
        filter: &ListFilter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, Refused> {
        self.node().store.page(filter, cursor, limit).await.map_err(Refused::Store)
    }

    /// Dead sagas by what they died of, largest group first.
    ///
    /// # Errors
    /// The store's.
    pub async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Refused> {
        self.node().store.dead_groups(limit).await.map_err(Refused::Store)
    }

    /// Counts over all sagas of the store.
    ///
    /// # Errors
    /// The store's.
    pub async fn stats(&self) -> Result<Stats, Refused> {
        let node = self.node();
        node.store.stats(node.now()).await.map_err(Refused::Store)
    }
}

fn is_at_rest(view: &View) -> bool {
    match view {
        View::Whole(saga) => status::status(saga).needs_attention_or_ended(),
        View::Row { row, .. } => {
            Status::parse(&row.status).is_none_or(|status| status.needs_attention_or_ended())
        }
    }
}

impl Node {
    /// A saga as it is now.
    pub(crate) async fn view(&self, id: &SagaId) -> Result<View, Refused> {
        // What is in memory under a lapsed lease may be behind.
        let here = self.sagas.get(id).filter(|_| self.lease().holds());
        if let Some(saga) = here.and_then(|cell| cell.seen()) {
            return Ok(View::Whole(saga));
        }
        let stored = self.store.load(id).await.map_err(Refused::Store)?;
        let stored = stored.ok_or_else(|| Refused::UnknownSaga(id.clone()))?;
        if stored.row.ended_at.is_some() && stored.entries.len() as u64 != stored.row.seq {
            let why = "retention has removed its journal".to_owned();
            return Ok(View::Row { row: Box::new(stored.row), why });
        }
        let known = match self.definition_by_digest(&stored.row.digest).await {
            Ok(Some(known)) => known,
            Ok(None) => return Ok(View::Row { why: unregistered(&stored.row), row: Box::new(stored.row) }),
            Err(Error { kind: Kind::Corrupt, message }) => {
                return Ok(View::Row { row: Box::new(stored.row), why: message });
            }
            Err(error) => return Err(Refused::Store(error)),
        };
        Ok(match saga_of(&known, &stored.entries) {
            Ok(saga) => View::Whole(Arc::new(saga)),
            Err(why) => {
                View::Row { row: Box::new(stored.row), why: format!("its journal cannot be read: {why}") }
            }
        })
    }

    async fn row(&self, id: &SagaId) -> Result<Row, Refused> {
        self.store.row(id).await.map_err(Refused::Store)?.ok_or_else(|| Refused::UnknownSaga(id.clone()))
    }

    /// Repeats a call that may be repeated without harm while its answer is lost, a few times.
    pub(crate) async fn again<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for _ in 0..LOST_MAX {
            match call().await {
                Err(Error { kind: Kind::Indeterminate, .. }) => {
                    sleep(self.random.spread(self.config.times.backoff_first)).await
                }
                answer => return answer,
            }
        }
        call().await
    }
}

/// How often a saga is looked for that is just being taken up: about as long as a commit takes.
const SOON_LOOK: Duration = Duration::from_millis(20);

/// How many lost answers in a row are asked for again while somebody waits.
const LOST_MAX: usize = 3;
