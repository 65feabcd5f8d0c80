//! What happens when a call arrives at a participant.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Answer, Definition, Evidence, OpKind, OpRef, SagaId, Time};
use serde_json::Value;
use tokio::time::sleep;

use super::answers::{Meaning, QueryMeaning, answer, operation, query_answer};
use super::books::{Arrival, Dealt, Wish};
use super::does::Does;
use crate::callers::report;
use crate::event::Event;
use crate::options::Manners;
use crate::sabotage::Sabotage;
use crate::sim::Sim;

/// A request on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) definition: Arc<Definition>,
    pub(crate) op: OpRef,
    pub(crate) saga: SagaId,
    pub(crate) key: String,
    pub(crate) action_key: Option<String>,
    pub(crate) is_query: bool,
    pub(crate) timeout_ms: u64,
    pub(crate) sent_at: Time,
}

impl Message {
    fn arrival(&self, now: Time) -> Arrival<'_> {
        Arrival {
            definition: &self.definition,
            op: self.op,
            saga: &self.saga,
            key: &self.key,
            action_key: self.action_key.as_deref(),
            sent_at: self.sent_at,
            now,
        }
    }

    /// A refusal of it would need a person.
    fn goes_on(&self) -> bool {
        let past_pivot =
            self.definition.steps[self.op.step].kind == amends_core::definition::StepKind::Retriable;
        past_pivot || self.op.kind == OpKind::Compensation
    }
}

impl Sim {
    /// What happens to the next call.
    pub(crate) fn manners(&self, message: &Message) -> Does {
        let calm = self.is_calm();
        let state = &mut *self.state();
        let dice = &mut state.dice.participants;
        let does = match &self.options.manners {
            Manners::Scripted(script) => {
                let step = &message.definition.steps[message.op.step].name;
                script.next(step, message.op.kind, message.is_query)
            }
            Manners::Drawn(_) if calm => match self.options.sabotage {
                Some(Sabotage::ParticipantStaysDown) if message.op.step == 0 => Does::CannotBeReached,
                _ => Does::Works,
            },
            Manners::Drawn(habits) if message.is_query => habits.draw_for_query(dice, message.timeout_ms),
            Manners::Drawn(habits) => habits.draw(dice, message.timeout_ms, message.goes_on()),
        };
        *state.tally.manners.entry(does.name()).or_default() += 1;
        does
    }

    /// A call arrives. `None`: nobody will ever hear its answer.
    pub(crate) fn arrive(self: &Arc<Self>, message: &Message, does: Does) -> Option<Answer> {
        if message.is_query { self.asked(message, does) } else { self.called(message, does) }
    }

    fn called(self: &Arc<Self>, message: &Message, does: Does) -> Option<Answer> {
        let wish = match does {
            Does::IsBusy => return Some(self.in_words(message, self.busy())),
            Does::IsMisconfigured => return Some(self.in_words(message, Meaning::NotAllowed)),
            Does::FailsBefore => return Some(self.in_words(message, Meaning::Failed)),
            Does::Refuses => Wish::Refuse,
            Does::Accepts(time) => Wish::Accept(time),
            Does::Works
            | Does::CannotBeReached
            | Does::IsHeldBack
            | Does::NeverGetsIt
            | Does::LosesAnswer
            | Does::GetsItLate(_)
            | Does::FailsAfter
            | Does::AnswersBadly
            | Does::TakesItsTime(_) => Wish::CarryOut,
        };
        let meaning = match (does, self.deal(message, wish).meaning) {
            (Does::FailsAfter, _) => Meaning::Failed,
            (Does::AnswersBadly, Meaning::Done(_)) => Meaning::Unreadable,
            (_, meaning) => meaning,
        };
        let answer = self.in_words(message, meaning);
        if does.loses_its_answer() { None } else { Some(answer) }
    }

    /// Too busy, and sometimes able to say for how long.
    fn busy(&self) -> Meaning {
        let mut state = self.state();
        let dice = &mut state.dice.participants;
        Meaning::Busy(if dice.chance(0.5) { Some(dice.within(0..=3_000)) } else { None })
    }

    fn deal(self: &Arc<Self>, message: &Message, wish: Wish) -> Dealt {
        let now = self.now();
        if self.options.sabotage == Some(Sabotage::ParticipantFakesUndo)
            && message.op.kind == OpKind::Compensation
            && self.chance(0)
        {
            let state = &mut *self.state();
            let mut dealt =
                state.books.perform(&message.arrival(now), wish, &mut state.dice.participants, None);
            dealt.effect = None;
            return dealt;
        }
        let mut dealt = {
            let state = &mut *self.state();
            let dice = &mut state.dice.participants;
            state.books.perform(&message.arrival(now), wish, dice, self.options.sabotage)
        };
        if let Some(effect) = dealt.effect.take() {
            self.record(&Event::Happened(effect));
        }
        if let Some(time) = dealt.finish_in.take() {
            self.finish_later(message.clone(), time);
        } else {
            self.report_sometimes(message, &dealt.meaning);
        }
        dealt
    }

    /// What was accepted is finished after a while, and reported.
    fn finish_later(self: &Arc<Self>, message: Message, time: Duration) {
        let (sim, under_way) = (self.clone(), self.under_way());
        tokio::spawn(async move {
            sleep(time).await;
            let now = sim.now();
            let refuse = {
                let calm = sim.is_calm() || message.goes_on();
                let mut state = sim.state();
                state.dice.participants.chance(0.2) && !calm
            };
            let dealt = sim.state().books.finish(&message.arrival(now), refuse);
            if let Some(mut dealt) = dealt {
                if let Some(effect) = dealt.effect.take() {
                    sim.record(&Event::Happened(effect));
                }
                report(&sim, &message, evidence(&dealt.meaning));
            }
            drop(under_way);
        });
    }

    /// Some participants report what they have answered already.
    fn report_sometimes(self: &Arc<Self>, message: &Message, meaning: &Meaning) {
        let reports = {
            let mut state = self.state();
            state.dice.participants.chance(self.options.callers.report)
        };
        // What one attempt was refused is no news about the operation where a later one may be carried out.
        let is_news = matches!(meaning, Meaning::Done(_));
        if reports && is_news {
            report(self, message, evidence(meaning));
        }
    }

    fn in_words(&self, message: &Message, meaning: Meaning) -> Answer {
        let mut state = self.state();
        let dice = &mut state.dice.participants;
        let operation = operation(&message.definition, message.op);
        answer(operation, &meaning, dice)
            .or_else(|| answer(operation, &Meaning::Failed, dice))
            .unwrap_or_else(|| Answer::Lost("the connection was lost".into()))
    }

    fn asked(self: &Arc<Self>, message: &Message, does: Does) -> Option<Answer> {
        let operation = operation(&message.definition, message.op);
        let query = operation.query.as_ref().expect("invariant: only queries that there are are asked");
        let now = self.now();
        let mut state = self.state();
        let state = &mut *state;
        let dice = &mut state.dice.participants;
        match does {
            Does::LosesAnswer | Does::GetsItLate(_) => return None,
            Does::IsBusy
            | Does::IsMisconfigured
            | Does::FailsBefore
            | Does::FailsAfter
            | Does::Refuses
            | Does::AnswersBadly
            | Does::Accepts(_) => return query_answer(operation, query, &QueryMeaning::Failed, dice),
            Does::Works
            | Does::CannotBeReached
            | Does::IsHeldBack
            | Does::NeverGetsIt
            | Does::TakesItsTime(_) => {}
        }
        let drawn = matches!(self.options.manners, Manners::Drawn(_));
        let mut meaning = state.books.query(&message.arrival(now), drawn, dice);
        // Now and then a participant makes sure that what it has not seen never happens, and says so.
        let drawn = drawn && !self.is_calm();
        if meaning == QueryMeaning::NeverSeen && drawn && dice.chance(0.05) {
            let sealed = if dice.chance(0.5) { QueryMeaning::Sealed } else { QueryMeaning::Refused };
            if !message.goes_on() && query_answer(operation, query, &sealed, dice).is_some() {
                meaning = sealed;
            }
        }
        if matches!(meaning, QueryMeaning::Sealed | QueryMeaning::Refused) {
            state.books.seal(&message.key, now);
        }
        query_answer(operation, query, &meaning, dice)
            .or_else(|| query_answer(operation, query, &QueryMeaning::Failed, dice))
    }
}

fn evidence(meaning: &Meaning) -> Evidence {
    match meaning {
        Meaning::Done(fact) => Evidence::Done { fact: fact.clone() },
        Meaning::Refused { explicit } => {
            Evidence::Rejected { reason: "sold out".into(), explicit: *explicit }
        }
        Meaning::Busy(_)
        | Meaning::Accepted(_)
        | Meaning::NotAllowed
        | Meaning::Failed
        | Meaning::Unreadable => Evidence::Done { fact: Value::Null },
    }
}
