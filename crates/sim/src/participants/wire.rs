//! The wire: what carries out a node's calls. A message on it lives by itself; the node that sent it may be long gone when it
//! arrives.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Answer, OpKind, OpRef};
use amends_participants::{Called, Caller, HeldReason, Outgoing};
use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::answers::{Meaning, answer, fact, operation};
use super::does::Does;
use super::service::Message;
use crate::event::Event;
use crate::nodes::Life;
use crate::sabotage::Sabotage;
use crate::sim::Sim;

/// A node's end of the wire.
pub(crate) struct Wire {
    sim: Arc<Sim>,
    life: Arc<Life>,
}

impl Wire {
    pub(crate) fn new(sim: Arc<Sim>, life: Arc<Life>) -> Self {
        Self { sim, life }
    }

    fn message(&self, outgoing: &Outgoing) -> Message {
        let request = &outgoing.request;
        let definition = self.sim.pinned(&outgoing.saga).expect("invariant: pinned before it was submitted");
        let step =
            definition.step(&request.step).expect("invariant: requests name steps of their definition");
        Message {
            op: OpRef { step, kind: request.operation },
            definition,
            saga: outgoing.saga.clone(),
            key: request.key.as_str().to_owned(),
            action_key: request.action_key.as_ref().map(|key| key.as_str().to_owned()),
            is_query: request.is_query,
            timeout_ms: request.timeout_ms,
            sent_at: self.sim.now(),
        }
    }

    fn latency(&self) -> Duration {
        let mut state = self.sim.state();
        let longest = if state.dice.wire.chance(0.1) { 40 } else { 3 };
        state.dice.wire.ms(0..=longest)
    }

    fn sent(&self, message: &Message, epoch: u64, attempt: u32) {
        self.sim.record(&Event::Sent {
            life: self.life.id,
            epoch,
            saga: message.saga.clone(),
            op: message.op,
            key: message.key.clone(),
            attempt,
            is_query: message.is_query,
        });
    }

    /// Puts a message on the wire, and gives what its answer will come through.
    fn put(&self, message: Message, does: Does) -> oneshot::Receiver<Answer> {
        let (reply, answered) = oneshot::channel();
        let there = if let Does::GetsItLate(time) = does { time } else { self.latency() };
        let back = if let Does::TakesItsTime(time) = does { time } else { self.latency() };
        let cut = self.sim.state().dice.wire.chance(0.3);
        let (sim, under_way) = (self.sim.clone(), self.sim.under_way());
        tokio::spawn(async move {
            if does == Does::NeverGetsIt {
                drop(under_way);
                if !cut {
                    sleep(Duration::from_millis(message.timeout_ms) + there).await;
                }
                return;
            }
            sleep(there).await;
            let answer = sim.arrive(&message, does);
            drop(under_way);
            sleep(back).await;
            match answer {
                // Whoever waited may have gone.
                Some(answer) => drop(reply.send(answer)),
                // Lost with its connection, or in silence.
                None if cut => drop(reply),
                None => sleep(Duration::from_millis(message.timeout_ms)).await,
            }
        });
        answered
    }

    /// Sends a message, and waits for what becomes of it.
    async fn send(&self, outgoing: &Outgoing, message: Message, does: Does) -> Answer {
        let attempt = outgoing.request.attempt;
        self.sent(&message, outgoing.epoch, attempt);
        let timeout_ms = message.timeout_ms;
        let perform = !message.is_query;
        match self.sim.options.sabotage {
            Some(Sabotage::CallerSendsTwice) if perform => {
                self.sent(&message, outgoing.epoch, attempt);
                drop(self.put(message.clone(), does));
            }
            Some(Sabotage::CallerSendsAhead) if perform => {
                self.sent(&message, outgoing.epoch, attempt + 1);
                drop(self.put(message.clone(), does));
            }
            Some(Sabotage::CallerUndoesLater) if perform && message.op.kind == OpKind::Compensation => {
                // How late differs, so that what was sent first may happen last.
                let late = self.sim.state().dice.wire.ms(1..=20_000);
                drop(self.put(message.clone(), Does::GetsItLate(late)));
                return self.pretend(&message);
            }
            _ => {}
        }
        let answered = self.put(message, does);
        match timeout(Duration::from_millis(timeout_ms), answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Answer::Lost("the connection was lost".into()),
            Err(_) => Answer::Lost("no answer within the time-out".into()),
        }
    }

    /// An answer that says that all is done.
    fn pretend(&self, message: &Message) -> Answer {
        let mut fact = fact(&message.definition, message.op, 7_777);
        if let (Value::Object(members), OpKind::Compensation) = (&mut fact, message.op.kind) {
            members.insert("undone".to_owned(), Value::Bool(true));
        }
        let mut state = self.sim.state();
        let operation = operation(&message.definition, message.op);
        let answer = answer(operation, &Meaning::Done(fact), &mut state.dice.wire);
        answer.unwrap_or_else(|| Answer::Lost("there are no words for done".into()))
    }
}

#[async_trait]
impl Caller for Wire {
    async fn call(&self, outgoing: Outgoing) -> Called {
        self.life.pass().await;
        let message = self.message(&outgoing);
        let does = self.sim.manners(&message);
        let perform = !message.is_query;
        match self.sim.options.sabotage {
            Some(Sabotage::CallerPanics) if self.sim.chance(3) => panic!("planted"),
            Some(Sabotage::CallerPretends)
                if perform && message.op.kind == OpKind::Action && self.sim.chance(1) =>
            {
                return Called::Answered { answer: self.pretend(&message), took_ms: 1 };
            }
            _ => {}
        }
        if does == Does::IsHeldBack {
            let mut state = self.sim.state();
            let breaker = state.dice.wire.chance(0.5);
            let reason = if breaker { HeldReason::BreakerOpen } else { HeldReason::LimitFull };
            return Called::Held { reason, retry_in_ms: state.dice.wire.within(0..=5_000) };
        }
        if does == Does::CannotBeReached {
            let answer = Answer::NotSent("the connection was refused".into());
            return Called::Answered { answer, took_ms: 0 };
        }
        // Connecting takes its time; the lease is looked at right before the first byte leaves.
        let connecting = self.latency();
        sleep(connecting).await;
        self.life.pass().await;
        if !(outgoing.lease)() {
            return Called::LeaseLost;
        }
        let begun = Instant::now();
        let message = Message { sent_at: self.sim.now(), ..message };
        let guessed = self.sim.options.sabotage == Some(Sabotage::CallerGuesses) && perform;
        let answer = self.send(&outgoing, message.clone(), does).await;
        self.life.pass().await;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).min(message.timeout_ms);
        let answer = match answer {
            Answer::Lost(_) if guessed => Answer::Response {
                status: 422,
                retry_after_ms: None,
                body: br#"{"outcome": "rejected"}"#.to_vec(),
            },
            answer => answer,
        };
        Called::Answered { answer, took_ms }
    }
}
