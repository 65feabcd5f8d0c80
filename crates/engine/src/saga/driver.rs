//! The loop of one saga.

use std::collections::VecDeque;
use std::sync::Arc;

use amends_core::definition::check_input;
use amends_core::{CallId, Decision, Input, Saga, Status, Time, decide, wanted};
use amends_store::Mail;
use tokio::sync::{mpsc, oneshot};

use super::calls::Calls;
use super::mail::decode_input;
use super::settle::{Carried, Step};
use super::timer::Timer;
use super::{Cell, MailAnswer, Message, Reply};
use crate::Refused;
use crate::definitions::Known;
use crate::lease::Lease;
use crate::node::Node;
use crate::submit::is_same;

/// Drives one saga: nobody else moves it as long as this lives and the lease holds.
pub(super) struct Driver {
    pub(super) node: Arc<Node>,
    pub(super) cell: Arc<Cell>,
    pub(super) lease: Arc<Lease>,
    pub(super) inbox: mpsc::Receiver<Message>,
    pub(super) known: Arc<Known>,
    pub(super) rowid: u64,
    /// As of its last commit.
    pub(super) saga: Arc<Saga>,
    /// Its status in the list row, as last written.
    pub(super) listed: Status,
    pub(super) ended_at: Option<Time>,
    pub(super) calls: Calls,
    /// The call whose end is being decided on: it must not be wanted again.
    pub(super) ending: Option<CallId>,
    pub(super) mails: VecDeque<Mail>,
    /// There may be more than was read.
    pub(super) more_mail: bool,
    pub(super) timer: Timer,
    /// It waits for its claims, and is to take them now.
    pub(super) claims_wanted: bool,
}

/// How a stay in memory ended.
pub(super) enum Gone {
    /// In order: it is nobody's now, or was never this node's.
    Parked,
    /// It had to be dropped: another node has it, or something is wrong.
    Lost,
}

/// What comes after a step.
#[must_use]
pub(super) enum Flow {
    /// It stays in memory.
    Stay,
    /// It has been let go.
    Leave,
    /// It must be dropped, and not be acted on.
    Lost,
}

/// What happens to a saga.
enum Happened {
    Told(Message),
    Called(super::calls::Ended),
    Due,
    Claims,
    Mail(Mail),
}

impl Driver {
    #[allow(clippy::too_many_arguments, reason = "called in one place, with what was just read")]
    pub(super) fn new(
        node: Arc<Node>,
        cell: Arc<Cell>,
        lease: Arc<Lease>,
        inbox: mpsc::Receiver<Message>,
        known: Arc<Known>,
        saga: Saga,
        rowid: u64,
        listed: Status,
        ended_at: Option<Time>,
    ) -> Self {
        let saga = Arc::new(saga);
        cell.show(&saga);
        Self {
            node,
            cell,
            lease,
            inbox,
            known,
            rowid,
            saga,
            listed,
            ended_at,
            calls: Calls::default(),
            ending: None,
            mails: VecDeque::new(),
            more_mail: false,
            timer: Timer::default(),
            claims_wanted: false,
        }
    }

    pub(super) fn into_inbox(self) -> mpsc::Receiver<Message> {
        self.inbox
    }

    /// Drives it until it leaves memory.
    pub(super) async fn drive(&mut self) -> Gone {
        loop {
            let flow = match self.next().await {
                Happened::Told(message) => self.told(message).await,
                Happened::Called(ended) => self.called(ended).await,
                Happened::Due => self.tick().await,
                Happened::Claims => self.accept().await,
                Happened::Mail(mail) => self.open_mail(mail).await,
            };
            match flow {
                Flow::Stay => {}
                Flow::Leave => return Gone::Parked,
                Flow::Lost => return Gone::Lost,
            }
        }
    }

    async fn next(&mut self) -> Happened {
        if let Some(mail) = self.mails.pop_front() {
            return Happened::Mail(mail);
        }
        if std::mem::take(&mut self.claims_wanted) {
            return Happened::Claims;
        }
        tokio::select! {
            biased;
            Some(message) = self.inbox.recv() => Happened::Told(message),
            ended = self.calls.next(), if self.calls.any() => Happened::Called(ended),
            () = self.timer.rings(), if self.timer.is_set() => Happened::Due,
        }
    }

    async fn told(&mut self, message: Message) -> Flow {
        match message {
            Message::Input { input, reply } => self.take(&input, Some(reply)).await,
            Message::Submitted { name, input, reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(if is_same(&self.saga, &name, &input) {
                    Reply::Done(self.saga.clone())
                } else {
                    Reply::Refused(Refused::InputConflict(self.saga.id.clone()))
                });
                self.look_up().await
            }
            Message::Mail => {
                self.more_mail = true;
                self.look_up().await
            }
            Message::ClaimsFree => self.claims_free().await,
            Message::Stop => self.look_up().await,
        }
    }

    async fn called(&mut self, ended: super::calls::Ended) -> Flow {
        // Without a lease nothing was sent, and nothing may be decided either.
        let Some(input) = ended.input else { return Flow::Lost };
        self.ending = Some(ended.call);
        let flow = self.take(&input, None).await;
        self.ending = None;
        flow
    }

    /// Decides an input and lives by what was decided.
    pub(super) async fn take(&mut self, input: &Input, reply: Option<oneshot::Sender<Reply>>) -> Flow {
        if !self.lease.holds() {
            answer(reply, Reply::Gone);
            return Flow::Lost;
        }
        match decide(&self.saga, input, self.node.deciding()) {
            Ok(decision) => {
                let carried = self.carry_out(Step::of(decision)).await;
                let flow = carried.flow();
                answer(
                    reply,
                    if matches!(flow, Flow::Lost) { Reply::Gone } else { Reply::Done(self.saga.clone()) },
                );
                flow
            }
            Err(refusal) => {
                let refused = Refused::Core { problem: refusal.problem, detail: refusal.detail };
                answer(reply, Reply::Refused(refused));
                self.look_up().await
            }
        }
    }

    async fn tick(&mut self) -> Flow {
        if !self.lease.holds() {
            return Flow::Lost;
        }
        let decision = decided(decide(&self.saga, &Input::Tick, self.node.deciding()));
        let idle = decision.entries.is_empty();
        self.carry_out(Step { idle_tick: idle, ..Step::of(decision) }).await.flow()
    }

    /// Fences the former owner. The row is written with it: what that one wrote last may have made the saga nobody's again.
    pub(super) async fn take_over(&mut self, epoch: u64, lapsed: bool) -> Flow {
        if !self.lease.holds() {
            return Flow::Lost;
        }
        let input = Input::TakeOver { epoch, lapsed };
        let decision = self.with_loss(decided(decide(&self.saga, &input, self.node.deciding())));
        self.carry_out(Step { with_row: true, ..Step::of(decision) }).await.flow()
    }

    /// Where the store lost data, and people accepted that, a saga that was there then may have gone further than its journal says. It is
    /// written with the take-over, before anything is sent.
    fn with_loss(&self, mut taken_over: Decision) -> Decision {
        let saga = &taken_over.after;
        let loss =
            self.node.store.loss().filter(|loss| self.rowid <= loss.rowid_max && saga.loss < loss.number);
        if let Some(loss) = loss {
            let lost = decided(decide(saga, &Input::Lost { loss: loss.number }, self.node.deciding()));
            taken_over.entries.extend(lost.entries);
            (taken_over.after, taken_over.effects) = (lost.after, lost.effects);
        }
        taken_over
    }

    /// Somebody who held a claim that it waits for has ended: it tries at once, rather than when its timer rings.
    pub(super) async fn claims_free(&mut self) -> Flow {
        let waits = self.saga.accepting.is_some() && self.saga.stuck.is_none() && self.saga.ended.is_none();
        if waits && !self.node.is_stopping() { self.accept().await } else { self.look_up().await }
    }

    /// Takes the claims of a saga that waits for them (rule 13): they are taken with the entry that says so, or not at all.
    async fn accept(&mut self) -> Flow {
        if !self.lease.holds() {
            return Flow::Lost;
        }
        let fits = check_input(&self.saga.definition, &self.saga.id, &self.saga.input);
        let input = match fits {
            Ok(_) => Input::Claimed { held_by: None },
            Err(missing) => {
                Input::Unfit { reason: format!("its input does not fit its definition: {missing}") }
            }
        };
        let take_claims = matches!(input, Input::Claimed { .. });
        let decision = decided(decide(&self.saga, &input, self.node.deciding()));
        match self.carry_out(Step { take_claims, ..Step::of(decision) }).await {
            Carried::Flow(flow) => flow,
            Carried::Held(holder) => {
                let input = Input::Claimed { held_by: Some(holder.saga.as_str().to_owned()) };
                let decision = decided(decide(&self.saga, &input, self.node.deciding()));
                // Known before it may be let go: the holder may end at any moment.
                self.node.holders.wait(&holder.saga, &self.saga.id);
                self.carry_out(Step::of(decision)).await.flow()
            }
        }
    }

    /// Nothing was decided: looks whether it may rest, or has something to do.
    pub(super) async fn look_up(&mut self) -> Flow {
        if !self.lease.holds() {
            return Flow::Lost;
        }
        if self.more_mail && self.mails.is_empty() {
            self.more_mail = false;
            let max = self.node.config.limits.mail_batch_max;
            match self.node.insist(|| self.node.store.waiting(&self.saga.id, max)).await {
                Ok(mails) => self.has_mail(mails.into()),
                Err(error) => tracing::error!(saga = %self.saga.id, "its mail cannot be read: {error}"),
            }
        }
        let step = Step::of(self.nothing_decided());
        self.carry_out(step).await.flow()
    }

    fn nothing_decided(&self) -> Decision {
        let effects = wanted(&self.saga, self.node.now());
        Decision { entries: Vec::new(), after: (*self.saga).clone(), effects }
    }

    pub(super) fn has_mail(&mut self, mails: VecDeque<Mail>) {
        self.more_mail = mails.len() >= self.node.config.limits.mail_batch_max;
        self.mails = mails;
    }

    /// Decides the input of a mail; its answer is written with what it led to, all or none.
    async fn open_mail(&mut self, mail: Mail) -> Flow {
        let decided = match decode_input(&mail.body) {
            Ok(input) => decide(&self.saga, &input, self.node.deciding())
                .map_err(|refusal| MailAnswer::refused(refusal.problem, refusal.detail)),
            Err(why) => Err(MailAnswer::refused(amends_core::Problem::Malformed, why)),
        };
        let (decision, answer) = match decided {
            Ok(decision) => (decision, MailAnswer::Done),
            Err(refused) => (self.nothing_decided(), refused),
        };
        let step = Step { mail: Some((mail.id, answer.encode())), ..Step::of(decision) };
        match self.carry_out(step).await.flow() {
            Flow::Stay if self.mails.is_empty() => self.look_up().await,
            flow @ (Flow::Stay | Flow::Leave | Flow::Lost) => flow,
        }
    }
}

fn answer(reply: Option<oneshot::Sender<Reply>>, with: Reply) {
    if let Some(reply) = reply {
        // Whoever asked may have gone; what was decided stands.
        let _ = reply.send(with);
    }
}

/// Only people can be refused (`decide`'s contract).
fn decided(decision: Result<Decision, amends_core::Refusal>) -> Decision {
    decision.expect("invariant: the core refuses only people")
}
