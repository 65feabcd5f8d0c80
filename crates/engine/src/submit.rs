//! Submissions.

use std::sync::Arc;

use amends_core::definition::check_input;
use amends_core::template::{Missing, Why};
use amends_core::{Saga, SagaId, Submission, json};
use amends_store::{Error, Kind};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::definitions::Known;
use crate::meter::Limit;
use crate::node::Node;
use crate::saga::{self, Begin, Cell, Message, Opening, Reply};
use crate::{Engine, Refused, Start, Started, View};

/// How often a submission meets a saga that is just leaving memory before it gives up: each time means that the saga was let
/// go between two looks, so that more than a few in a row do not happen.
const TRIES_MAX: usize = 8;

impl Engine {
    /// Begins a saga. When it returns it is durable, and goes on whether or not anybody waits.
    ///
    /// The same again, with the same definition name and input, gives the same saga, also after it ended (rule 14). Dropped
    /// before it returns, the saga may or may not have begun: submit it again.
    ///
    /// # Errors
    /// [`Refused`]; nothing was written, except that after [`Kind::Indeterminate`] the outcome is not known yet.
    pub async fn submit(&self, start: Start) -> Result<Started, Refused> {
        let node = self.node();
        node.accepts_submissions()?;
        let Start { saga, version, id, input, trace, who } = start;
        let known = node.definition_by_name(&saga, version).await.map_err(Refused::Store)?;
        let known = known.ok_or_else(|| Refused::UnknownDefinition(definition_words(&saga, version)))?;
        if !json::can_be_kept(&input) {
            return Err(Refused::Malformed(format!(
                "the input is nested more than {} deep, or has a member name that is reserved",
                json::DEPTH_MAX
            )));
        }
        let claims = check_input(&known.definition, &id, &input).map_err(missing)?;
        let epoch = node.lease().epoch();
        let submission = Submission { id, input, accepting: false, trace, epoch, who };
        node.start(known, submission, claims).await
    }
}

impl Node {
    /// Begins a saga of what was looked at. `claims`: the definition's, as far as the input has them.
    pub(crate) async fn start(
        self: &Arc<Self>,
        known: Arc<Known>,
        submission: Submission,
        claims: Vec<String>,
    ) -> Result<Started, Refused> {
        let id = submission.id.clone();
        let fingerprint = json::fingerprint(&known.definition.name, &submission.input);
        let decision =
            amends_core::submit(known.definition.clone(), submission, claims.clone(), self.deciding());
        let (reply, answered) = oneshot::channel();
        let begin = Begin { known, decision, claims, fingerprint, reply };
        match timeout(self.config.times.answer_max, self.enter(&id, begin, answered)).await {
            Ok(started) => started,
            Err(_) => Err(unconfirmed(&id)),
        }
    }

    /// Whether a submission may be taken now.
    fn accepts_submissions(&self) -> Result<(), Refused> {
        if self.is_stopping() {
            return Err(self.refuse(Limit::Stopping));
        }
        self.store.health().map_err(Refused::Store)?;
        if !self.lease().holds() {
            let message =
                "the node's lease has lapsed, and it takes nothing before the store has let it join again";
            return Err(Refused::Store(Error::new(Kind::Unavailable, message)));
        }
        if self.sagas.begun() >= self.config.limits.sagas_max {
            return Err(self.refuse(Limit::Sagas));
        }
        if self.committer.is_full() {
            return Err(self.refuse(Limit::CommitQueue));
        }
        Ok(())
    }

    /// Brings a new saga into memory, or asks the one of this id that is there.
    async fn enter(
        self: &Arc<Self>,
        id: &SagaId,
        begin: Begin,
        answered: oneshot::Receiver<saga::Started>,
    ) -> Result<Started, Refused> {
        let mut opening = Opening::Begin(Box::new(begin));
        for _ in 0..TRIES_MAX {
            let (cell, begin) = match saga::open(self, id, self.lease(), opening) {
                Ok(()) => return self.started(id, answered.await).await,
                Err((cell, Opening::Begin(begin))) => (cell, begin),
                Err((_, Opening::Claimed(_) | Opening::TakenOver(_) | Opening::Woken | Opening::Recover)) => {
                    unreachable!("invariant: what was not used comes back")
                }
            };
            match self.ask_again(&cell, &begin.decision.after).await? {
                Some(saga) => return Ok(Started { view: View::Whole(saga), created: false }),
                None => match self.stored(id, &begin.decision.after).await? {
                    Some(saga) => return Ok(Started { view: View::Whole(saga), created: false }),
                    None => opening = Opening::Begin(begin),
                },
            }
        }
        Err(self.refuse(Limit::Inbox))
    }

    async fn started(
        &self,
        id: &SagaId,
        started: Result<saga::Started, oneshot::error::RecvError>,
    ) -> Result<Started, Refused> {
        match started {
            Ok(saga::Started::Created(saga)) => Ok(Started { view: View::Whole(saga), created: true }),
            Ok(saga::Started::Known) => match self.view(id).await {
                Ok(view) => Ok(Started { view, created: false }),
                Err(refused) => Err(unread(id, refused)),
            },
            Ok(saga::Started::Refused(refused)) => Err(refused),
            // The engine lost its lease, or ended, while the submission was being written.
            Err(_) => Err(unconfirmed(id)),
        }
    }

    /// The saga of this id as it stands, if this submission is its own. `None`: there is none, or none that can be read; the store
    /// will say. Many who submit one saga at once would else ask the store one after the other, each while the others wait for it.
    async fn stored(&self, id: &SagaId, submitted: &Saga) -> Result<Option<Arc<Saga>>, Refused> {
        let Ok(View::Whole(saga)) = self.view(id).await else { return Ok(None) };
        if is_same(&saga, &submitted.definition.name, &submitted.input) {
            Ok(Some(saga))
        } else {
            Err(Refused::InputConflict(id.clone()))
        }
    }

    /// Asks a saga in memory whether this submission is its own. `None`: it has just left.
    async fn ask_again(&self, cell: &Cell, submitted: &Saga) -> Result<Option<Arc<Saga>>, Refused> {
        let (reply, answered) = oneshot::channel();
        let (name, input) = (submitted.definition.name.clone(), submitted.input.clone());
        match cell.ask(Message::Submitted { name, input, reply }, self.config.times.answer_max).await {
            Ok(()) => {}
            Err(SendTimeoutError::Timeout(_)) => return Err(self.refuse(Limit::Inbox)),
            Err(SendTimeoutError::Closed(_)) => {
                // It is between closing its inbox and leaving the registry: let it.
                tokio::task::yield_now().await;
                return Ok(None);
            }
        }
        match answered.await {
            Ok(Reply::Done(saga)) => Ok(Some(saga)),
            Ok(Reply::Refused(refused)) => Err(refused),
            Ok(Reply::Gone) | Err(_) => Ok(None),
        }
    }
}

/// Whether a saga is what a submission of its id says.
pub(crate) fn is_same(saga: &Saga, definition: &str, input: &serde_json::Value) -> bool {
    saga.definition.name == definition && json::same(&saga.input, input)
}

fn missing(missing: Missing) -> Refused {
    match missing.why {
        Why::Absent => Refused::MissingInput(missing.path),
        Why::Segment | Why::Header | Why::Claim | Why::Redis(_) => Refused::Malformed(missing.to_string()),
    }
}

fn definition_words(name: &str, version: Option<u64>) -> String {
    version.map_or_else(|| name.to_owned(), |version| format!("{name} version {version}"))
}

/// It is there, so what the store says of reading it must not be taken for a refusal of the submission.
fn unread(id: &SagaId, refused: Refused) -> Refused {
    let Refused::Store(Error { kind: Kind::Unavailable | Kind::Unwritable, message }) = refused else {
        return refused;
    };
    let message = format!(
        "{id} was known already, but cannot be read now ({message}): submit it again, with the same id"
    );
    Refused::Store(Error::new(Kind::Indeterminate, message))
}

fn unconfirmed(id: &SagaId) -> Refused {
    let message = format!(
        "the store has not confirmed {id}; whether it began is not known yet: submit it again, with the same id"
    );
    Refused::Store(Error::new(Kind::Indeterminate, message))
}
