//! A saga in memory: one task drives it, others reach it through its cell.
//!
//! The loop is the same for every saga: input → decide → commit the entries → only then run the effects. The task holds the
//! saga by itself, so that nothing needs a lock, and its calls are futures of its own, so that ending the task ends them.

mod calls;
mod driver;
mod mail;
mod opening;
mod presence;
mod settle;
mod timer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_core::{Decision, Input, Saga, SagaId};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

pub(crate) use mail::{MailAnswer, decode_answer, encode_input};
pub(crate) use opening::{saga_of, unregistered};
pub(crate) use settle::Notable;

use crate::Refused;
use crate::definitions::Known;
use crate::lease::Lease;
use crate::node::Node;

/// What others see of a saga in memory.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) id: SagaId,
    /// It was begun here, and has not left memory since.
    pub(crate) begun_here: bool,
    inbox: mpsc::Sender<Message>,
    /// As of its last commit; `None` while it is being opened.
    seen: Mutex<Option<Arc<Saga>>>,
    /// The store made it this node's while it was here: it was on its way out, and must come back.
    claimed: AtomicBool,
}

/// What others tell a saga in memory.
#[derive(Debug)]
pub(crate) enum Message {
    /// Decide this.
    Input {
        /// The input.
        input: Box<Input>,
        /// Where the answer goes.
        reply: oneshot::Sender<Reply>,
    },
    /// Somebody submits it again.
    Submitted {
        /// The definition's name.
        name: String,
        /// The input.
        input: Arc<Value>,
        /// Where the answer goes.
        reply: oneshot::Sender<Reply>,
    },
    /// There is mail.
    Mail,
    /// Who held a claim that it waits for has ended (rule 13).
    ClaimsFree,
    /// The node stops: look up.
    Stop,
}

/// The answer to a [`Message`].
#[derive(Debug)]
pub(crate) enum Reply {
    /// Done, and durable; or nothing had to be done.
    Done(Arc<Saga>),
    /// Refused; nothing has changed.
    Refused(Refused),
    /// It is not in memory any more, and nothing was done: ask elsewhere.
    Gone,
}

/// How a saga comes into memory.
pub(crate) enum Opening {
    /// It is new.
    Begin(Box<Begin>),
    /// The store made it this node's; it was nobody's, let go in order. The place is for reading it, and is free once it is read.
    Claimed(Option<OwnedSemaphorePermit>),
    /// The store made it this node's; the node that had it stopped.
    TakenOver(Option<OwnedSemaphorePermit>),
    /// It waits for a claim that somebody who has ended held; if it is nobody's, it tries to take it now.
    Woken,
    /// It was lost from memory here; if it is still this node's, or nobody's, it goes on as after a crash.
    Recover,
}

/// A saga to be begun.
pub(crate) struct Begin {
    pub(crate) known: Arc<Known>,
    pub(crate) decision: Decision,
    pub(crate) claims: Vec<String>,
    pub(crate) fingerprint: String,
    pub(crate) reply: oneshot::Sender<Started>,
}

/// What became of a [`Begin`].
pub(crate) enum Started {
    /// It is new.
    Created(Arc<Saga>),
    /// It existed, and is not in memory here.
    Known,
    /// Refused; nothing was written.
    Refused(Refused),
}

impl Cell {
    /// Its state as of its last commit.
    pub(crate) fn seen(&self) -> Option<Arc<Saga>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn show(&self, saga: &Arc<Saga>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(saga.clone());
    }

    /// Puts a message into its inbox, if it is there and has room.
    pub(crate) fn tell(&self, message: Message) -> Result<(), mpsc::error::TrySendError<Message>> {
        self.inbox.try_send(message)
    }

    /// Puts a message into its inbox, waiting for room up to `at_most`.
    pub(crate) async fn ask(
        &self,
        message: Message,
        at_most: Duration,
    ) -> Result<(), mpsc::error::SendTimeoutError<Message>> {
        self.inbox.send_timeout(message, at_most).await
    }
}

/// Brings a saga into memory, unless it is there; then it comes back, with what was not used.
pub(crate) fn open(
    node: &Arc<Node>,
    id: &SagaId,
    lease: Arc<Lease>,
    opening: Opening,
) -> Result<(), (Arc<Cell>, Opening)> {
    if node.is_halted() {
        return Ok(());
    }
    let begun_here = matches!(opening, Opening::Begin(_));
    let claimed = matches!(opening, Opening::Claimed(_) | Opening::TakenOver(_));
    let mut opening = Some(opening);
    let make = || {
        let (inbox, messages) = mpsc::channel(node.config.limits.inbox_max.max(1));
        let cell = Cell {
            id: id.clone(),
            begun_here,
            inbox,
            seen: Mutex::new(None),
            claimed: AtomicBool::new(false),
        };
        let cell = Arc::new(cell);
        let opening = opening.take().expect("invariant: made once");
        let task = tokio::spawn(presence::live(node.clone(), cell.clone(), lease, messages, opening));
        (cell, task.abort_handle())
    };
    let met = |cell: &Cell| {
        if claimed {
            cell.claimed.store(true, Ordering::SeqCst);
        }
    };
    match node.sagas.enter(id, make, met) {
        Ok(()) => Ok(()),
        Err(cell) => Err((cell, opening.expect("invariant: not used where another is there"))),
    }
}
