//! One thing happens: the world changes, the machine decides, and what it decided is judged.
//!
//! # Time
//!
//! Every decision is made at the same time, [`NOW`], and every operation has a clock of its own: when its next time has come, its
//! times are moved into the past, and those of the others stay where they are. Two operations can so be in any order that
//! their timers and answers allow, and in some that real clocks would not bring about; no rule compares the times of two operations, so
//! what can become of each is the same. It keeps the number of states small: where one operation stands does not depend on how long
//! another has waited.

use amends_core::answer::{Outcome, QueryOutcome};
use amends_core::definition::Idempotency;
use amends_core::{
    By, Effect, Entry, EntryKind, Evidence, Input, OpKind, OpRef, ParkReason, Person, PersonAction, Phase,
    Saga,
};
use serde_json::Value;

use crate::guarantee::Guarantee;
use crate::machine::Machine;
use crate::moves::{Before, Move, Own, QueryReply, Reply};
use crate::scene::{AT_NOW, NOW, Scene};
use crate::state::State;
use crate::world::Verdict;

/// The epoch of a node that has not had the saga before: larger than the numbers that nodes are given.
const NEW_NODE: u64 = 1_000;

/// What came of a move.
pub(crate) struct Turn {
    /// The state it leads to, not yet in its normal form.
    pub(crate) after: State,
    pub(crate) entries: Vec<Entry>,
    pub(crate) effects: Vec<Effect>,
}

/// Lets a move happen. `None`: the machine refused it, and nothing has changed.
pub(crate) fn turn(scene: &Scene, machine: &dyn Machine, state: &State, happens: &Move) -> Option<Turn> {
    let mut then = state.clone();
    let mut carried_out_in_flight = None;
    let input = match *happens {
        Move::Claims { taken } => Input::Claimed { held_by: (!taken).then(|| "saga:2".to_owned()) },
        Move::Answer { op, before, reply } => answer(scene, &mut then, op, before, reply),
        Move::Ask { op, before, reply, slow } => ask(scene, &mut then, op, before, reply, slow),
        Move::Wait { op } => {
            pass_until_due(&mut then, op);
            Input::Tick
        }
        Move::Callback { op, done } => {
            if done && then.world(op).effects == 0 && then.saga.op(op).is_calling() {
                carried_out_in_flight = Some(op);
            }
            callback(scene, &mut then, op, done)
        }
        Move::Statement { op, done } => statement(scene, &mut then, op, done),
        Move::Cancel => Input::Person(Person {
            by: By { who: "somebody".into(), reason: String::new() },
            version: None,
            action: PersonAction::Cancel,
        }),
        Move::Deadline => {
            then.saga.deadline_at = Some(NOW);
            Input::Tick
        }
        Move::Crash { to } => {
            for op in &scene.ops {
                if then.saga.op(*op).is_calling() {
                    then.world_mut(*op).send(0);
                }
            }
            Input::TakeOver { epoch: to.unwrap_or(NEW_NODE), lapsed: true }
        }
    };
    let decision = machine.decide(&then.saga, &input, AT_NOW).ok()?;
    let before = std::mem::replace(&mut then.saga, decision.after);
    for op in &scene.ops {
        watch(&before, &mut then, *op, carried_out_in_flight == Some(*op), &input);
    }
    for entry in &decision.entries {
        count(&before, &mut then, entry);
    }
    Some(Turn { after: then, entries: decision.entries, effects: decision.effects })
}

/// Moves the clock of one operation.
pub(crate) fn pass(state: &mut State, op: OpRef, ms: i64) {
    if ms <= 0 {
        return;
    }
    state.world_mut(op).left_at -= ms;
    let known = state.op_mut(op);
    for time in [&mut known.first_send_at, &mut known.verify_since].into_iter().flatten() {
        time.0 -= ms;
    }
    known.quiet_since.0 -= ms;
    for (_, since) in &mut known.quiet_before {
        since.0 -= ms;
    }
    if let Some((since, _)) = &mut known.parked {
        since.0 -= ms;
    }
    match &mut known.phase {
        Phase::Send { due, .. }
        | Phase::Ask { due, .. }
        | Phase::Verify { due }
        | Phase::Parked { due, .. } => {
            due.0 -= ms;
        }
        Phase::InProgress { due, until, .. } => {
            due.0 -= ms;
            until.0 -= ms;
        }
        Phase::Idle | Phase::Calling | Phase::Dead { .. } => {}
    }
}

fn pass_until_due(state: &mut State, op: OpRef) {
    if let Some(due) = state.due(op) {
        pass(state, op, due.0 - NOW.0);
    }
}

fn answer(scene: &Scene, state: &mut State, op: OpRef, before: Before, reply: Reply) -> Input {
    let attempt = state.saga.op(op).sends;
    let mut took_ms = 0;
    happened_before(scene, state, op, before);
    let outcome = match reply {
        Reply::Arrives(verdict) => arrives(scene, state, op, verdict),
        Reply::Lost => {
            took_ms = scene.operation(op).timeout_ms;
            pass(state, op, i64::try_from(took_ms).unwrap_or(i64::MAX));
            state.world_mut(op).send(0);
            Outcome::Unknown { reason: String::new() }
        }
        Reply::Unreachable => Outcome::NotExecuted { reason: String::new(), retry_after_ms: None },
        Reply::Busy => {
            let retry_after_ms = Some(scene.operation(op).retry.budget_ms);
            Outcome::NotExecuted { reason: String::new(), retry_after_ms }
        }
        Reply::Intercepted => Outcome::Rejected { reason: String::new(), explicit: false },
        Reply::InProgress => {
            state.world_mut(op).send(0);
            Outcome::InProgress { serial: scene.plan(op).serial.clone() }
        }
        Reply::Held => {
            return Input::Held { op, attempt, reason: ParkReason::BreakerOpen, retry_in_ms: 5_000 };
        }
        Reply::Misconfigured => Outcome::Misconfigured { reason: String::new() },
    };
    Input::Answered { op, attempt, outcome, took_ms }
}

fn happened_before(scene: &Scene, state: &mut State, op: OpRef, before: Before) {
    if before.action {
        let action = state.world_mut(OpRef::action(op.step));
        action.arrived();
        action.accept();
    }
    match before.own {
        Own::Nothing => {}
        Own::CarriedOut => {
            state.world_mut(op).arrived();
            carry_out(scene, state, op);
        }
        Own::Refused => {
            state.world_mut(op).arrived();
            state.world_mut(op).refuse();
        }
    }
}

/// A message is carried out; a fence undoes what there is to undo, and remembers.
fn carry_out(scene: &Scene, state: &mut State, op: OpRef) {
    if op.kind == OpKind::Compensation && scene.operation(op).fenced {
        let promise = scene.promise(op);
        let action = state.world_mut(OpRef::action(op.step));
        let there_is = action.effects > 0;
        promise.lean_on(Guarantee::Fenced);
        action.tombstone |= promise.keeps_fence;
        state.world_mut(op).undone.get_or_insert(there_is);
    }
    state.world_mut(op).accept();
}

fn arrives(scene: &Scene, state: &mut State, op: OpRef, verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Accepts => {
            carry_out(scene, state, op);
            done(scene, state, op)
        }
        Verdict::Repeats => done(scene, state, op),
        Verdict::Refuses => {
            state.world_mut(op).refuse();
            Outcome::Rejected { reason: String::new(), explicit: true }
        }
        Verdict::RejectsRepeat => Outcome::Rejected { reason: String::new(), explicit: true },
        Verdict::BalksAtRepeat => Outcome::Unknown { reason: String::new() },
    }
}

fn done(scene: &Scene, state: &State, op: OpRef) -> Outcome {
    Outcome::Done { fact: fact(scene, state, op), serial: scene.plan(op).serial.clone() }
}

/// What an operation answers that was carried out; a fenced compensation also says whether it undid anything.
fn fact(scene: &Scene, state: &State, op: OpRef) -> Value {
    let mut fact = (*scene.plan(op).fact).clone();
    if let (Some(undone), Value::Object(members)) = (state.world(op).undone, &mut fact) {
        members.insert("undone".into(), Value::Bool(undone));
    }
    fact
}

fn ask(scene: &Scene, state: &mut State, op: OpRef, before: Before, reply: QueryReply, slow: bool) -> Input {
    pass_until_due(state, op);
    happened_before(scene, state, op, before);
    let promise = scene.promise(op);
    let serial = scene.plan(op).serial.clone();
    if before.own == Own::Nothing {
        promise.not_arrived(state.world_mut(op));
    }
    let outcome = match reply {
        QueryReply::Done => QueryOutcome::Done { fact: fact(scene, state, op), serial },
        QueryReply::Rejected => {
            state.world_mut(op).bound = promise.rejected_binds;
            QueryOutcome::Rejected { reason: String::new() }
        }
        QueryReply::Sealed => QueryOutcome::Sealed,
        QueryReply::InProgress => QueryOutcome::InProgress { serial },
        QueryReply::NeverSeen => {
            QueryOutcome::NeverSeen { express: scene.operation(op).seals_after_ms.is_some() }
        }
        QueryReply::NeverSeenFalsely => QueryOutcome::NeverSeen { express: true },
        QueryReply::Nothing => QueryOutcome::NoAnswer { reason: String::new() },
    };
    if slow {
        let timeout_ms = scene.operation(op).query.as_ref().map_or(0, |query| query.timeout_ms);
        pass(state, op, i64::try_from(timeout_ms).unwrap_or(i64::MAX));
    }
    Input::Asked { op, n: state.saga.op(op).asked, outcome }
}

fn callback(scene: &Scene, state: &mut State, op: OpRef, done: bool) -> Input {
    let evidence = if done {
        if state.world(op).effects == 0 {
            if !state.saga.op(op).is_calling() {
                state.world_mut(op).arrived();
            }
            carry_out(scene, state, op);
        }
        Evidence::Done { fact: fact(scene, state, op) }
    } else {
        let replays = scene.promise(op).idempotency == Idempotency::Replay;
        let world = state.world_mut(op);
        world.stale_refusal = false;
        if replays {
            // Whoever has refused a message gives that answer to all others, too.
            world.refuse();
        }
        Evidence::Rejected { reason: String::new(), explicit: true }
    };
    Input::Evidence { op, generation: 1, evidence, source: "callback".into() }
}

fn statement(scene: &Scene, state: &mut State, op: OpRef, done: bool) -> Input {
    let evidence = if done {
        if state.world(op).effects == 0 {
            state.world_mut(op).arrived();
            carry_out(scene, state, op);
        }
        Evidence::Done { fact: fact(scene, state, op) }
    } else {
        // A complete statement covers the time: what it does not have never happens.
        state.world_mut(op).on_wire = 0;
        Evidence::Sealed
    };
    Input::Evidence { op, generation: 1, evidence, source: "statement".into() }
}

/// Watches the wire: a call that nobody waits for any more may still arrive; a new attempt is counted.
fn watch(before: &Saga, state: &mut State, op: OpRef, was_carried_out: bool, input: &Input) {
    let (was, is) = (before.op(op), state.saga.op(op));
    let is_new = is.is_calling() && (!was.is_calling() || is.sends != was.sends);
    let ended_by_input = match input {
        Input::Answered { op: of, .. } | Input::Held { op: of, .. } => *of == op,
        Input::TakeOver { .. } | Input::Lost { .. } => true,
        Input::Tick
        | Input::Asked { .. }
        | Input::Evidence { .. }
        | Input::Claimed { .. }
        | Input::Unfit { .. }
        | Input::Person(_) => false,
    };
    let is_orphan = was.is_calling() && !ended_by_input && (!is.is_calling() || is_new);
    let counts = is_new && !is.verifying;
    let world = state.world_mut(op);
    if is_orphan && !was_carried_out {
        world.send(0);
    }
    if counts {
        world.attempts += 1;
    }
}

/// Keeps count of the retry policy by the journal.
fn count(before: &Saga, state: &mut State, entry: &Entry) {
    match &entry.kind {
        EntryKind::Sending { op, verifying: false, waited_ms, .. } => {
            state.world_mut(*op).spent_ms += waited_ms;
        }
        EntryKind::Answered { op, outcome, took_ms, .. } if !before.op(*op).verifying => {
            let world = state.world_mut(*op);
            if matches!(outcome, Outcome::Misconfigured { .. }) {
                world.attempts = world.attempts.saturating_sub(1);
            } else {
                world.spent_ms += took_ms;
            }
        }
        EntryKind::Held { op, .. } if !before.op(*op).verifying => {
            let world = state.world_mut(*op);
            world.attempts = world.attempts.saturating_sub(1);
        }
        _ => {}
    }
}
