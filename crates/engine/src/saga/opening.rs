//! How a saga comes into memory: begun here, or read from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use amends_core::{Entry, Problem, Saga, Status, replay};
use amends_store::{Advance, Error, Mail, Row, Stored, StoredEntry, Submission};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::driver::{Driver, Flow, Gone};
use super::settle::Rest;
use super::{Begin, Cell, MailAnswer, Message, Opening, Started};
use crate::definitions::Known;
use crate::lease::Lease;
use crate::node::Node;
use crate::persist::{Begun, Written};
use crate::{Refused, row};

type Opened = Result<Driver, (Gone, mpsc::Receiver<Message>)>;

pub(super) async fn open(
    node: Arc<Node>,
    cell: Arc<Cell>,
    lease: Arc<Lease>,
    inbox: mpsc::Receiver<Message>,
    opening: Opening,
) -> Opened {
    let door = Door { node, cell, lease, inbox };
    match opening {
        Opening::Begin(begin) => door.begin(*begin).await,
        // Boxed: the others are rare, and every saga's stay would be as large as theirs.
        Opening::Claimed(place) => Box::pin(door.read(place, From::Nobody)).await,
        Opening::TakenOver(place) => Box::pin(door.read(place, From::Lapsed)).await,
        Opening::Woken => Box::pin(door.claim(From::Waiting)).await,
        Opening::Recover => Box::pin(door.claim(From::Crash)).await,
    }
}

/// What there is before there is a saga.
struct Door {
    node: Arc<Node>,
    cell: Arc<Cell>,
    lease: Arc<Lease>,
    inbox: mpsc::Receiver<Message>,
}

/// Where a saga that is read comes from.
#[derive(Clone, Copy)]
enum From {
    /// It was let go in order.
    Nobody,
    /// The node that had it stopped.
    Lapsed,
    /// It waits for claims, let go in order, and is to try now.
    Waiting,
    /// It was lost from memory here, with whatever was in flight.
    Crash,
}

/// What a stored saga turned out to be.
enum Read {
    /// Whole.
    Whole { known: Arc<Known>, saga: Box<Saga> },
    /// It ended, and retention removed its journal.
    Pruned,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl Door {
    fn shut(self, gone: Gone) -> Opened {
        Err((gone, self.inbox))
    }

    fn driver(self, known: Arc<Known>, saga: Saga, row: &Row) -> Driver {
        let listed = Status::parse(&row.status).unwrap_or(Status::Running);
        Driver::new(
            self.node,
            self.cell,
            self.lease,
            self.inbox,
            known,
            saga,
            row.rowid,
            listed,
            row.ended_at,
        )
    }

    async fn begin(self, begin: Begin) -> Opened {
        let Begin { known, decision, claims, fingerprint, reply } = begin;
        let rest = Rest::of_new(&self.node, &decision);
        let row =
            row::of(&decision.after, 0, rest.owner(&self.node, &self.lease), None, decision.after.updated_at);
        let nonce = self.node.random.next();
        let submission = || Submission {
            row: row.clone(),
            entries: decision.entries.iter().map(StoredEntry::encode).collect(),
            claims: if decision.after.ended.is_some() || decision.after.accepting.is_some() {
                Vec::new()
            } else {
                claims.clone()
            },
            fingerprint: fingerprint.clone(),
            nonce,
        };
        let refused = match self.node.begin(submission).await {
            Begun::Created(rowid) => {
                known.meter.started.add();
                let row = Row { rowid, ..row };
                let mut driver = self.driver(known, decision.after, &row);
                // Whoever submitted it may have gone: it goes on all the same.
                let _ = reply.send(Started::Created(driver.begun()));
                return match driver.live_by(&decision.effects, rest, false) {
                    Flow::Stay => Ok(driver),
                    Flow::Leave => Err((Gone::Parked, driver.into_inbox())),
                    Flow::Lost => Err((Gone::Lost, driver.into_inbox())),
                };
            }
            Begun::Same => Started::Known,
            Begun::Different => Started::Refused(Refused::InputConflict(self.cell.id.clone())),
            Begun::Held(holder) => Started::Refused(Refused::ClaimHeld(holder)),
            Begun::Failed(error) => Started::Refused(Refused::Store(error)),
        };
        let _ = reply.send(refused);
        self.shut(Gone::Parked)
    }

    /// Reads it, if the store makes it this node's.
    async fn claim(self, from: From) -> Opened {
        let lease = self.lease.stored();
        let claim = || self.node.store.claim(&lease, &self.cell.id, self.node.now());
        match self.node.insist(claim).await {
            Ok(true) => self.read(None, from).await,
            Ok(false) | Err(_) => self.shut(Gone::Parked),
        }
    }

    async fn read(self, place: Option<OwnedSemaphorePermit>, from: From) -> Opened {
        let id = self.cell.id.clone();
        let stored = match self.node.insist(|| self.node.store.load(&id)).await {
            Ok(Some(stored)) if self.lease.owns(&stored.row) => stored,
            Ok(Some(_) | None) => return self.shut(Gone::Parked),
            Err(error) => return self.unloadable(&error).await,
        };
        let mails = match self.mails().await {
            Ok(mails) => mails,
            Err(error) => return self.unloadable(&error).await,
        };
        match self.make(&stored).await {
            Read::Whole { known, saga } => {
                let row = stored.row;
                let mut driver = self.driver(known, *saga, &row);
                driver.has_mail(mails);
                let flow = driver.settle_in(from).await;
                drop(place);
                match flow {
                    Flow::Stay => Ok(driver),
                    Flow::Leave => Err((Gone::Parked, driver.into_inbox())),
                    Flow::Lost => Err((Gone::Lost, driver.into_inbox())),
                }
            }
            Read::Pruned => {
                let row = Row { owner: None, due_at: None, ..stored.row };
                let why = "it ended, and retention has removed its journal";
                self.let_go(row, &mails, MailAnswer::refused(Problem::WrongState, why)).await
            }
            Read::Unreadable(reason) => {
                tracing::error!(saga = %id, "its journal cannot be read; it is parked as dead: {reason}");
                self.node.meter.unreadable.add();
                let why = format!("its journal cannot be read: {reason}");
                let row = row::unreadable(stored.row, why.clone(), self.node.now());
                self.let_go(row, &mails, MailAnswer::refused(Problem::WrongState, why)).await
            }
        }
    }

    async fn mails(&self) -> Result<VecDeque<Mail>, Error> {
        let max = self.node.config.limits.mail_batch_max;
        self.node.insist(|| self.node.store.waiting(&self.cell.id, max)).await.map(VecDeque::from)
    }

    async fn make(&self, stored: &Stored) -> Read {
        if stored.row.ended_at.is_some() && stored.entries.len() as u64 != stored.row.seq {
            return Read::Pruned;
        }
        let known = match self.node.insist(|| self.node.definition_by_digest(&stored.row.digest)).await {
            Ok(Some(known)) => known,
            Ok(None) => return Read::Unreadable(unregistered(&stored.row)),
            Err(error) => return Read::Unreadable(error.message),
        };
        match saga_of(&known, &stored.entries) {
            Ok(saga) => Read::Whole { known, saga: Box::new(saga) },
            Err(reason) => Read::Unreadable(reason),
        }
    }

    /// Nobody's again, its mails answered alike. Not if another node has moved it meanwhile: that one may be able to read it.
    async fn let_go(self, row: Row, mails: &VecDeque<Mail>, answer: MailAnswer) -> Opened {
        let nonce = self.node.random.next();
        let advance = || Advance {
            id: self.cell.id.clone(),
            rowid: row.rowid,
            after: row.seq,
            entries: Vec::new(),
            row: Some(row.clone()),
            release_claims: false,
            take_claims: Vec::new(),
            mail: mails.iter().map(|mail| (mail.id, answer.encode())).collect(),
            nonce,
        };
        match self.node.advance(advance).await {
            Written::Yes => self.shut(Gone::Parked),
            Written::Fenced | Written::Held(_) => self.shut(Gone::Lost),
        }
    }

    /// The store itself says that something of it cannot be read, so that not even its row may be trusted.
    async fn unloadable(self, error: &Error) -> Opened {
        tracing::error!(saga = %self.cell.id, "it cannot be read from the store: {error}");
        self.node.meter.unreadable.add();
        if let Ok(Some(row)) = self.node.store.row(&self.cell.id).await
            && self.lease.owns(&row)
        {
            let row = row::unreadable(row, error.message.clone(), self.node.now());
            if let Err(error) = self.node.store.park(row).await {
                tracing::error!(saga = %self.cell.id, "it cannot be parked: {error}");
            }
        }
        self.shut(Gone::Parked)
    }
}

/// Makes a saga of its stored journal.
///
/// # Errors
/// In plain words, if this version cannot read it.
pub(crate) fn saga_of(known: &Known, entries: &[StoredEntry]) -> Result<Saga, String> {
    let entries = entries.iter().map(StoredEntry::decode).collect::<Result<Vec<Entry>, _>>()?;
    replay(known.definition.clone(), &entries).map_err(|unreadable| unreadable.to_string())
}

/// What is said of a saga whose definition is not there.
pub(crate) fn unregistered(row: &Row) -> String {
    format!(
        "its definition {} version {} (digest {}) is not registered",
        row.saga, row.definition_version, row.digest
    )
}

impl Driver {
    /// Begins to drive a saga that was read: under another epoch than its journal's it is taken over first.
    async fn settle_in(&mut self, from: From) -> Flow {
        let epoch = self.lease.epoch();
        let (forced, lapsed) = match from {
            From::Nobody | From::Waiting => (false, false),
            From::Lapsed => (false, true),
            From::Crash => (true, true),
        };
        if self.saga.ended.is_none() && (forced || self.saga.epoch != epoch) {
            self.node.meter.take_overs.add();
            return self.take_over(epoch, lapsed).await;
        }
        match from {
            From::Waiting => self.claims_free().await,
            From::Nobody | From::Lapsed | From::Crash => self.look_up().await,
        }
    }
}
