//! What participants remember: they keep exactly what their definition declares, and no more.
//!
//! Legal, and done here: under `none` a repeat happens again; under `effect` a repeat is answered with anything; what was refused
//! may be carried out by a later attempt, unless a query has said that it never will; keys are forgotten after `key_ttl`; "never
//! seen" is said of what is on its way. Not legal, and never done: more than that.

use std::collections::BTreeMap;
use std::time::Duration;

use amends_core::definition::{Idempotency, Operation};
use amends_core::{Definition, OpKind, OpRef, SagaId, Time};
use serde_json::{Value, json};

use super::answers::{Meaning, QueryMeaning, fact, operation};
use super::does::LATE_MAX_MS;
use crate::dice::Dice;
use crate::ledger::Effect;
use crate::sabotage::Sabotage;

/// A key is remembered for this much longer than declared: a message may have been sent at the end of the key's life, and takes
/// its time to arrive. (Assumed by the semantics: a message on the wire lives shorter than `key_ttl`.)
const REMEMBERED_LONGER_MS: u64 = 2 * LATE_MAX_MS;

/// Everything that all participants know.
#[derive(Debug, Default)]
pub(crate) struct Books {
    records: BTreeMap<String, Record>,
    serial_last: u64,
}

#[derive(Debug)]
struct Record {
    since: Time,
    state: State,
    /// Nothing more will be carried out under this key.
    sealed: bool,
    /// The last call under this key was refused.
    refused: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Nothing was carried out, and nothing promised.
    Unseen,
    /// Accepted, not finished.
    Pending,
    /// Carried out.
    Done(Value),
    /// Refused, and that is the answer to every repeat.
    Refused,
    /// Its compensation came first.
    Tombstone,
}

/// A call as it arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) op: OpRef,
    pub(crate) saga: &'a SagaId,
    pub(crate) key: &'a str,
    /// The key of the action that a fenced compensation undoes.
    pub(crate) action_key: Option<&'a str>,
    pub(crate) sent_at: Time,
    pub(crate) now: Time,
}

/// What the participant would like to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Carry it out.
    CarryOut,
    /// Refuse it.
    Refuse,
    /// Accept it, and carry it out after this time.
    Accept(Duration),
}

/// What became of a call.
#[derive(Debug)]
pub(crate) struct Dealt {
    pub(crate) meaning: Meaning,
    /// What was carried out.
    pub(crate) effect: Option<Effect>,
    /// It was accepted, and is to be finished after this time.
    pub(crate) finish_in: Option<Duration>,
}

impl Dealt {
    fn says(meaning: Meaning) -> Self {
        Self { meaning, effect: None, finish_in: None }
    }
}

impl Arrival<'_> {
    fn operation(&self) -> &Operation {
        operation(self.definition, self.op)
    }

    fn effect(&self) -> Effect {
        Effect {
            at: self.now,
            saga: self.saga.clone(),
            step: self.op.step,
            kind: self.op.kind,
            key: self.key.to_owned(),
        }
    }
}

impl Books {
    /// A call that performs an operation.
    pub(crate) fn perform(
        &mut self,
        arrival: &Arrival<'_>,
        wish: Wish,
        dice: &mut Dice,
        sabotage: Option<Sabotage>,
    ) -> Dealt {
        let operation = arrival.operation();
        self.forget(arrival.key, arrival.now, operation.key_ttl_ms);
        let record = self.record(arrival.key, arrival.now);
        let sealed = record.sealed;
        let state = match (&record.state, sabotage) {
            (State::Tombstone, Some(Sabotage::ParticipantForgetsTombstones)) => State::Unseen,
            (State::Done(_), Some(Sabotage::ParticipantForgetsKeys)) => State::Unseen,
            (state, _) => state.clone(),
        };
        let expired = operation.seals_after_ms.is_some_and(|ms| arrival.now.since_ms(arrival.sent_at) >= ms);
        match state {
            State::Tombstone | State::Refused => Dealt::says(Meaning::Refused { explicit: true }),
            State::Unseen if sealed || expired => Dealt::says(Meaning::Refused { explicit: true }),
            State::Done(_) if expired && operation.idempotency == Idempotency::None => {
                Dealt::says(Meaning::Refused { explicit: true })
            }
            State::Unseen => self.fresh(arrival, wish, dice),
            State::Pending => match operation.idempotency {
                Idempotency::None => self.carry_out(arrival, Value::Null),
                Idempotency::Effect | Idempotency::Replay if dice.chance(0.7) => {
                    Dealt::says(Meaning::Accepted(self.serial()))
                }
                Idempotency::Effect | Idempotency::Replay => Dealt::says(Meaning::Failed),
            },
            State::Done(fact) => match operation.idempotency {
                Idempotency::None => self.carry_out(arrival, Value::Null),
                Idempotency::Replay => Dealt::says(Meaning::Done(fact)),
                // It happens once, whatever is answered.
                Idempotency::Effect => Dealt::says(match dice.below(6) {
                    0 => Meaning::Refused { explicit: true },
                    1 => Meaning::Refused { explicit: false },
                    2 => Meaning::Failed,
                    _ => Meaning::Done(fact),
                }),
            },
        }
    }

    fn fresh(&mut self, arrival: &Arrival<'_>, wish: Wish, dice: &mut Dice) -> Dealt {
        let operation = arrival.operation();
        let undone = if operation.fenced && arrival.op.kind == OpKind::Compensation {
            let action = arrival.action_key.expect("invariant: a fenced compensation names its action");
            match self.record(action, arrival.now).state {
                State::Pending if dice.chance(0.5) => return Dealt::says(Meaning::Busy(None)),
                State::Done(_) => json!(true),
                State::Pending | State::Unseen | State::Refused | State::Tombstone => {
                    self.record(action, arrival.now).state = State::Tombstone;
                    let fact = self.fact(arrival, json!(false));
                    self.record(arrival.key, arrival.now).state = State::Done(fact.clone());
                    return Dealt::says(Meaning::Done(fact));
                }
            }
        } else {
            Value::Null
        };
        match wish {
            Wish::CarryOut => self.carry_out(arrival, undone),
            Wish::Refuse => {
                // Where nothing else can tell that it was refused, it has to be said in so many words.
                let explicit = operation.query.is_none() || operation.fenced || dice.chance(0.7);
                let record = self.record(arrival.key, arrival.now);
                record.refused = true;
                if operation.idempotency == Idempotency::Replay {
                    record.state = State::Refused;
                }
                Dealt::says(Meaning::Refused { explicit })
            }
            Wish::Accept(time) => {
                self.record(arrival.key, arrival.now).state = State::Pending;
                let meaning = Meaning::Accepted(self.serial());
                Dealt { meaning, effect: None, finish_in: Some(time) }
            }
        }
    }

    fn carry_out(&mut self, arrival: &Arrival<'_>, undone: Value) -> Dealt {
        let fact = self.fact(arrival, undone);
        self.record(arrival.key, arrival.now).state = State::Done(fact.clone());
        Dealt { meaning: Meaning::Done(fact), effect: Some(arrival.effect()), finish_in: None }
    }

    /// What was accepted is finished now: carried out, or refused. `None`: its compensation came first.
    pub(crate) fn finish(&mut self, arrival: &Arrival<'_>, refuse: bool) -> Option<Dealt> {
        let record = self.record(arrival.key, arrival.now);
        match record.state {
            State::Pending if refuse => {
                (record.state, record.sealed) = (State::Refused, true);
                return Some(Dealt::says(Meaning::Refused { explicit: true }));
            }
            State::Pending => {}
            // Under `none` a repeat may have been carried out meanwhile: this is carried out too.
            State::Done(_) if arrival.operation().idempotency == Idempotency::None => {}
            State::Done(_) | State::Unseen | State::Refused | State::Tombstone => return None,
        }
        let fenced = arrival.operation().fenced && arrival.op.kind == OpKind::Compensation;
        Some(self.carry_out(arrival, if fenced { json!(true) } else { Value::Null }))
    }

    /// A query. `forgetful`: what was refused may be forgotten as if it had never been seen.
    pub(crate) fn query(&mut self, arrival: &Arrival<'_>, forgetful: bool, dice: &mut Dice) -> QueryMeaning {
        self.forget(arrival.key, arrival.now, arrival.operation().key_ttl_ms);
        let record = self.record(arrival.key, arrival.now);
        match &record.state {
            State::Pending => QueryMeaning::Pending,
            State::Done(fact) => QueryMeaning::Done(fact.clone()),
            State::Refused => QueryMeaning::Refused,
            State::Tombstone if dice.chance(0.5) => QueryMeaning::Sealed,
            State::Tombstone => QueryMeaning::Refused,
            State::Unseen if record.sealed => QueryMeaning::Refused,
            State::Unseen if record.refused && !(forgetful && dice.chance(0.5)) => QueryMeaning::Refused,
            State::Unseen => QueryMeaning::NeverSeen,
        }
    }

    /// Nothing more is carried out under a key of which nothing was, from here: what a query's "rejected" or "sealed" means, and
    /// what a person makes sure of. False: it is too late for that.
    pub(crate) fn seal(&mut self, key: &str, now: Time) -> bool {
        let record = self.record(key, now);
        match record.state {
            State::Unseen | State::Refused | State::Tombstone => {
                record.sealed = true;
                true
            }
            State::Pending | State::Done(_) => false,
        }
    }

    /// The fact of what was carried out under a key, for a person who asks.
    pub(crate) fn done(&self, key: &str) -> Option<&Value> {
        match &self.records.get(key)?.state {
            State::Done(fact) => Some(fact),
            State::Unseen | State::Pending | State::Refused | State::Tombstone => None,
        }
    }

    fn record(&mut self, key: &str, now: Time) -> &mut Record {
        self.records.entry(key.to_owned()).or_insert(Record {
            since: now,
            state: State::Unseen,
            sealed: false,
            refused: false,
        })
    }

    fn forget(&mut self, key: &str, now: Time, key_ttl_ms: u64) {
        let remembered_ms = key_ttl_ms.saturating_add(REMEMBERED_LONGER_MS);
        if self.records.get(key).is_some_and(|record| now.since_ms(record.since) > remembered_ms) {
            self.records.remove(key);
        }
    }

    fn serial(&mut self) -> Value {
        self.serial_last += 1;
        Value::String(format!("n{}", self.serial_last))
    }

    fn fact(&mut self, arrival: &Arrival<'_>, undone: Value) -> Value {
        self.serial_last += 1;
        let mut fact = fact(arrival.definition, arrival.op, self.serial_last);
        if let (Value::Object(members), false) = (&mut fact, undone.is_null()) {
            members.insert("undone".to_owned(), undone);
        }
        fact
    }
}
