//! What people and participants tell a saga, wherever it is: in memory here, owned by another node, parked, or ended.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Definition, Evidence, Input, OpKind, OpRef, Person, Problem, SagaId, parse_key};
use amends_store::{Error, Kind};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::meter::Limit;
use crate::node::Node;
use crate::saga::{self, Message, Opening, Reply, decode_answer, encode_input};
use crate::{Engine, Refused, View};

/// The most bytes of a callback's event id.
pub const EVENT_ID_BYTES_MAX: usize = 256;

/// The first and the longest pause between two looks for the answer to a mail.
const ANSWER_LOOK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

impl Engine {
    /// Lets a person act on a saga (rule 15). When it returns, what was done is durable.
    ///
    /// # Errors
    /// [`Refused`]; nothing was changed, except that after [`Kind::Indeterminate`] it is not known yet whether it was done: look
    /// at the saga before trying again.
    pub async fn act(&self, id: &SagaId, person: Person) -> Result<View, Refused> {
        let node = self.node();
        let input = Input::Person(person);
        if let Asked::Done(view) = node.ask_here(id, &input).await? {
            return Ok(view);
        }
        let mail = node.post(id, &format!("person:{:016x}", node.random.next()), &input).await?;
        node.fetch(id).await;
        node.answered(id, mail).await?;
        node.view(id).await
    }

    /// Takes in what a participant says of the operation with this key. Durable when it returns: in the saga's journal, or in its
    /// mailbox. `event_id` is the participant's for this message; the same again is harmless.
    ///
    /// # Errors
    /// [`Refused`]: no such saga or operation, or the store cannot take it; then the participant must send it again.
    pub async fn callback(&self, key: &str, event_id: &str, evidence: Evidence) -> Result<(), Refused> {
        let node = self.node();
        if event_id.is_empty() || event_id.len() > EVENT_ID_BYTES_MAX {
            let words =
                format!("an event id has 1 to {EVENT_ID_BYTES_MAX} bytes, this one has {}", event_id.len());
            return Err(Refused::Malformed(words));
        }
        let Some((id, step, kind, generation)) = parse_key(key) else {
            let words =
                format!("`{key}` is no key of an operation: {{saga id}}:{{step}}:action or :compensation");
            return Err(Refused::Malformed(words));
        };
        let definition = node.definition_of(&id).await?;
        let op = operation(&definition, step, kind)?;
        let input = Input::Evidence { op, generation, evidence, source: "callback".to_owned() };
        match node.ask_here(&id, &input).await {
            Ok(Asked::Done(_)) => return Ok(()),
            // A mailbox takes what a busy saga does not.
            Ok(Asked::NotHere) | Err(Refused::Overloaded { .. }) => {}
            Err(refused) => return Err(refused),
        }
        node.post(&id, &format!("callback:{key}:{event_id}"), &input).await?;
        node.due_now.notify_one();
        Ok(())
    }
}

/// What became of asking a saga in memory.
enum Asked {
    Done(View),
    NotHere,
}

fn operation(definition: &Definition, step: &str, kind: OpKind) -> Result<OpRef, Refused> {
    let unknown = |detail: String| Refused::Core { problem: Problem::UnknownStep, detail };
    let index =
        definition.step(step).ok_or_else(|| unknown(format!("{} has no step `{step}`", definition.name)))?;
    let (op, there) = match kind {
        OpKind::Action => (OpRef::action(index), definition.steps[index].action.is_some()),
        OpKind::Compensation => (OpRef::compensation(index), definition.steps[index].compensation.is_some()),
    };
    if there {
        Ok(op)
    } else {
        Err(unknown(format!("step `{step}` of {} has no {}", definition.name, kind.as_str())))
    }
}

impl Node {
    /// Asks the saga, if it is in memory here.
    async fn ask_here(&self, id: &SagaId, input: &Input) -> Result<Asked, Refused> {
        let Some(cell) = self.sagas.get(id) else { return Ok(Asked::NotHere) };
        let (reply, answered) = oneshot::channel();
        let message = Message::Input { input: Box::new(input.clone()), reply };
        match cell.ask(message, self.config.times.answer_max).await {
            Ok(()) => {}
            Err(SendTimeoutError::Timeout(_)) => return Err(self.refuse(Limit::Inbox)),
            Err(SendTimeoutError::Closed(_)) => return Ok(Asked::NotHere),
        }
        match timeout(self.config.times.answer_max, answered).await {
            Ok(Ok(Reply::Done(saga))) => Ok(Asked::Done(View::Whole(saga))),
            Ok(Ok(Reply::Refused(refused))) => Err(refused),
            Ok(Ok(Reply::Gone)) => Ok(Asked::NotHere),
            Ok(Err(_)) | Err(_) => Err(unconfirmed(id)),
        }
    }

    /// The definition of a saga, wherever it is.
    async fn definition_of(&self, id: &SagaId) -> Result<Arc<Definition>, Refused> {
        if let Some(saga) = self.sagas.get(id).and_then(|cell| cell.seen()) {
            return Ok(saga.definition.clone());
        }
        let row = self
            .store
            .row(id)
            .await
            .map_err(Refused::Store)?
            .ok_or_else(|| Refused::UnknownSaga(id.clone()))?;
        match self.definition_by_digest(&row.digest).await.map_err(Refused::Store)? {
            Some(known) => Ok(known.definition.clone()),
            None => Err(Refused::Store(Error::new(Kind::Corrupt, saga::unregistered(&row)))),
        }
    }

    /// Posts an input. Posting it again is no second input, so a lost answer is asked for again.
    async fn post(&self, id: &SagaId, input_id: &str, input: &Input) -> Result<u64, Refused> {
        let body = encode_input(input);
        let posted = self.again(|| self.store.post(id, input_id, &body, self.now())).await;
        posted.map_err(Refused::Store)?.ok_or_else(|| Refused::UnknownSaga(id.clone()))
    }

    /// Makes a saga with mail this node's if it can be, so that a person does not wait behind what else is due. Otherwise whoever
    /// owns it finds the mail by itself.
    async fn fetch(self: &Arc<Self>, id: &SagaId) {
        let lease = self.lease();
        match self.store.claim(&lease.stored(), id, self.now()).await {
            Ok(true) => {
                if let Err((cell, _)) = saga::open(self, id, lease, Opening::Claimed(None)) {
                    // A full inbox: it looks into its mailbox when the scheduler tells it.
                    drop(cell.tell(Message::Mail));
                }
            }
            Ok(false) => {}
            // It is due by its mail, so it is found all the same.
            Err(error) => {
                tracing::warn!(saga = %id, "it cannot be claimed to read its mail at once: {error}")
            }
        }
    }

    /// Waits for the answer to a mail.
    async fn answered(&self, id: &SagaId, mail: u64) -> Result<(), Refused> {
        let look = async {
            let (mut pause, longest) = ANSWER_LOOK;
            loop {
                // A store that cannot be read now is asked again: the mail is there, and will be answered.
                if let Ok(Some(answer)) = self.store.answer(mail).await {
                    return decode_answer(&answer);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        };
        timeout(self.config.times.answer_max, look).await.unwrap_or_else(|_| Err(unconfirmed(id)))
    }
}

fn unconfirmed(id: &SagaId) -> Refused {
    let message =
        format!("{id} has been told, but has not confirmed in time; look at it before you try again");
    Refused::Store(Error::new(Kind::Indeterminate, message))
}
