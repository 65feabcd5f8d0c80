//! `apply`: the only way in which a saga changes. Live run, recovery, exploration and tests all come through here.
//!
//! It holds no policy: what an operation does next is written in the entry. What follows from the entries by
//! definition — whose turn it is, what is undone — is derived here, so that it needs no entry of its own.

use std::sync::Arc;

use crate::answer::{Outcome, QueryOutcome};
use crate::definition::{Definition, Idempotency, Operation, StepKind};
use crate::saga::{Accepting, Direction, Knowledge, OpState, Phase, Saga, Settled, StepState};
use crate::{Entry, EntryKind, OpKind, OpRef, Time};

/// A journal that cannot be this definition's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There are no entries.
    #[error("the journal is empty")]
    Empty,
    /// The first entry is not `submitted`, or a later one is.
    #[error("entry {0} cannot stand there: `submitted` is the first entry and only that")]
    Misplaced(u64),
    /// A number is missing or doubled.
    #[error("entry {found} follows entry {after}")]
    Gap {
        /// The entry before.
        after: u64,
        /// The entry found.
        found: u64,
    },
    /// It names a step or operation that the definition does not have.
    #[error("entry {0} names an operation that the definition does not have")]
    UnknownOperation(u64),
    /// It is pinned to another definition.
    #[error("the journal is pinned to definition {pinned}, not to {given}")]
    OtherDefinition {
        /// Digest in the journal.
        pinned: String,
        /// Digest given.
        given: String,
    },
}

/// Makes a saga of its whole journal.
///
/// # Errors
/// [`Unreadable`] if the entries are not a journal of this definition; the saga must then be parked, visible.
pub fn replay(definition: Arc<Definition>, entries: &[Entry]) -> Result<Saga, Unreadable> {
    let (first, rest) = entries.split_first().ok_or(Unreadable::Empty)?;
    let mut saga = begin(definition, first)?;
    for entry in rest {
        apply(&mut saga, entry)?;
    }
    Ok(saga)
}

/// Makes a saga of its first entry.
pub(crate) fn begin(definition: Arc<Definition>, entry: &Entry) -> Result<Saga, Unreadable> {
    let EntryKind::Submitted { id, digest, input, claims, deadline_at, accepting, trace, epoch, who: _ } =
        &entry.kind
    else {
        return Err(Unreadable::Misplaced(entry.seq));
    };
    if entry.seq != 1 {
        return Err(Unreadable::Gap { after: 0, found: entry.seq });
    }
    if *digest != definition.digest {
        return Err(Unreadable::OtherDefinition { pinned: digest.clone(), given: definition.digest.clone() });
    }
    let step = StepState {
        started: false,
        done: false,
        skipped: false,
        undone: false,
        action: OpState::new(),
        compensation: OpState::new(),
    };
    let mut saga = Saga {
        steps: vec![step; definition.steps.len()],
        definition,
        id: id.clone(),
        input: Arc::new(input.clone()),
        claims: Arc::new(claims.clone()),
        trace: trace.as_deref().map(Arc::from),
        seq: 1,
        created_at: entry.at,
        updated_at: entry.at,
        deadline_at: *deadline_at,
        accepting: accepting.then_some(Accepting { due: entry.at, refused: 0 }),
        direction: Direction::Forward,
        undo: None,
        undo_pending: None,
        overdue: false,
        reached: None,
        last_done: None,
        ended: None,
        stuck: None,
        epoch: *epoch,
        take_overs_in_a_row: 0,
        contradictions: Vec::new(),
    };
    derive(&mut saga, entry.at);
    Ok(saga)
}

/// Applies the next entry.
///
/// # Errors
/// [`Unreadable`] if it is not the next one, or names an operation that is not there. The saga is then unchanged.
pub fn apply(saga: &mut Saga, entry: &Entry) -> Result<(), Unreadable> {
    if entry.seq != saga.seq + 1 {
        return Err(Unreadable::Gap { after: saga.seq, found: entry.seq });
    }
    check_operations(saga, entry)?;
    saga.seq = entry.seq;
    saga.updated_at = entry.at;
    if !matches!(entry.kind, EntryKind::TakenOver { .. }) {
        saga.take_overs_in_a_row = 0;
    }
    change(saga, entry);
    derive(saga, entry.at);
    Ok(())
}

fn check_operations(saga: &Saga, entry: &Entry) -> Result<(), Unreadable> {
    if matches!(entry.kind, EntryKind::Submitted { .. }) {
        return Err(Unreadable::Misplaced(entry.seq));
    }
    let mut named: Vec<OpRef> = entry.kind.op().into_iter().collect();
    if let EntryKind::TakenOver { next, .. } = &entry.kind {
        named.extend(next.iter().map(|(op, _)| *op));
    }
    if let EntryKind::Undoing { reason, .. } | EntryKind::UndoPending { reason, .. } = &entry.kind {
        named.extend(reason.op());
    }
    let step_is_unknown = matches!(entry.kind, EntryKind::Skipped { step, .. } if step >= saga.steps.len());
    if step_is_unknown || named.into_iter().any(|op| saga.operation(op).is_none()) {
        return Err(Unreadable::UnknownOperation(entry.seq));
    }
    Ok(())
}

fn change(saga: &mut Saga, entry: &Entry) {
    let at = entry.at;
    match &entry.kind {
        EntryKind::Submitted { .. } => {}
        EntryKind::Accepted => saga.accepting = None,
        EntryKind::AcceptRefused { due, .. } => {
            let refused = saga.accepting.as_ref().map_or(0, |accepting| accepting.refused);
            saga.accepting = Some(Accepting { due: *due, refused: refused + 1 });
        }
        EntryKind::TakenOver { epoch, next } => taken_over(saga, *epoch, next, at),
        EntryKind::Sending { op, attempt, verifying, waited_ms, .. } => {
            sending(saga.op_mut(*op), *attempt, *verifying, *waited_ms, at);
        }
        EntryKind::Held { op, next, .. } => {
            let state = saga.op_mut(*op);
            not_sent(state);
            go(state, next.clone(), at);
        }
        EntryKind::Answered { op, outcome, settles, took_ms, next, .. } => {
            answered(saga.op_mut(*op), outcome, *settles, *took_ms, at);
            go(saga.op_mut(*op), next.clone(), at);
        }
        EntryKind::Asked { op, outcome, void, next } => {
            asked(saga.op_mut(*op), outcome, *void);
            go(saga.op_mut(*op), next.clone(), at);
        }
        EntryKind::Waited { op, next } => go(saga.op_mut(*op), next.clone(), at),
        EntryKind::Unrenderable { op, path } => {
            let state = saga.op_mut(*op);
            if state.is_calling() {
                not_sent(state);
            }
            let reason = format!("its request needs `{path}`, which is not there");
            state.error_class = Some("missing-fact".into());
            state.reason = Some(reason.clone());
            go(state, Phase::Dead { reason }, at);
        }
        EntryKind::Settled { op, settled, by, .. } => {
            let state = saga.op_mut(*op);
            state.settled = Some(settled.clone());
            go(state, Phase::Idle, at);
            if by.is_some() {
                people_took_it_on(saga, at);
            }
        }
        EntryKind::Hinted { op, said, serial, next } => {
            let state = saga.op_mut(*op);
            state.reason = Some(said.clone());
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            go(state, next.clone(), at);
        }
        EntryKind::Contradiction { op, evidence, .. } => saga.contradictions.push((*op, evidence.clone())),
        EntryKind::Undoing { reason, by } => {
            saga.direction = Direction::Undo;
            saga.undo = Some((reason.clone(), by.clone()));
            saga.undo_pending = None;
            saga.accepting = None;
            begin_settling(saga, at);
        }
        EntryKind::UndoPending { reason, by } => saga.undo_pending = Some((reason.clone(), by.clone())),
        EntryKind::UndoRefused => saga.undo_pending = None,
        EntryKind::Overdue => saga.overdue = true,
        EntryKind::Retry { op, force, new_key, next, .. } => {
            retry(saga.op_mut(*op), *force, *new_key);
            go(saga.op_mut(*op), next.clone(), at);
            saga.stuck = None;
            people_took_it_on(saga, at);
        }
        EntryKind::Skipped { step, .. } => {
            saga.steps[*step].skipped = true;
            go(&mut saga.steps[*step].action, Phase::Idle, at);
            saga.stuck = None;
            people_took_it_on(saga, at);
        }
        EntryKind::Stuck { reason } => saga.stuck = Some(reason.clone()),
        EntryKind::Ended { how, .. } => saga.ended = Some(*how),
    }
}

/// A deadline that passed before people moved a saga is theirs to judge; it must not undo their work at the next tick.
fn people_took_it_on(saga: &mut Saga, at: Time) {
    if saga.deadline_at.is_some_and(|deadline| deadline <= at) {
        saga.overdue = true;
    }
}

fn taken_over(saga: &mut Saga, epoch: u64, next: &[(OpRef, Phase)], at: Time) {
    saga.epoch = epoch;
    saga.take_overs_in_a_row += 1;
    for op in saga.ops().collect::<Vec<_>>() {
        let state = saga.op_mut(op);
        if state.open > 0 {
            state.quiet_since = at;
        }
    }
    for (op, phase) in next {
        let state = saga.op_mut(*op);
        state.reason = Some("the node that sent it stopped before the answer came".into());
        state.error_class = Some("unknown".into());
        go(state, phase.clone(), at);
    }
}

fn sending(state: &mut OpState, attempt: u32, verifying: bool, waited_ms: u64, at: Time) {
    if state.open > 0 {
        state.resends += 1;
    }
    state.forced = false;
    state.sends = attempt;
    state.open += 1;
    state.verifying = verifying;
    if !verifying {
        state.attempts += 1;
        state.budget_used_ms += waited_ms;
    }
    state.first_send_at.get_or_insert(at);
    state.quiet_since = at;
    go(state, Phase::Calling, at);
}

/// The attempt in flight was not sent at all: it counts for nothing.
fn not_sent(state: &mut OpState) {
    state.open = state.open.saturating_sub(1);
    if !state.verifying {
        state.attempts = state.attempts.saturating_sub(1);
    }
    if state.open == 0 {
        state.first_send_at = None;
    }
}

fn answered(state: &mut OpState, outcome: &Outcome, settles: bool, took_ms: u64, at: Time) {
    if !state.verifying {
        state.budget_used_ms += took_ms;
    }
    // The request cannot have left later than its answer came, nor than the call was given up.
    state.quiet_since = at;
    if !matches!(outcome, Outcome::Misconfigured { .. }) {
        state.parked = None;
    }
    match outcome {
        Outcome::Done { fact, serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            if settles {
                state.settled = Some(Settled::Done { fact: Arc::new(fact.clone()), serial: serial.clone() });
                state.reason = None;
                state.error_class = None;
            }
        }
        Outcome::Rejected { reason, .. } => {
            trouble(state, "rejected", reason);
            if settles {
                state.settled = Some(Settled::Rejected { reason: reason.clone() });
            }
        }
        Outcome::NotExecuted { reason, .. } => {
            state.open = state.open.saturating_sub(1);
            trouble(state, "unavailable", reason);
        }
        Outcome::Misconfigured { reason } => {
            not_sent(state);
            trouble(state, "configuration", reason);
        }
        Outcome::InProgress { serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
        }
        Outcome::Unknown { reason } => trouble(state, "unknown", reason),
    }
}

fn trouble(state: &mut OpState, class: &str, reason: &str) {
    state.error_class = Some(class.into());
    state.reason = Some(reason.into());
}

fn asked(state: &mut OpState, outcome: &QueryOutcome, void: bool) {
    state.asked += 1;
    match outcome {
        QueryOutcome::Done { fact, serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            if state.settled.is_none() {
                state.settled = Some(Settled::Done { fact: Arc::new(fact.clone()), serial: serial.clone() });
            }
        }
        QueryOutcome::Rejected { reason } => {
            trouble(state, "rejected", reason);
            if state.settled.is_none() {
                state.settled = Some(Settled::Rejected { reason: reason.clone() });
            }
        }
        QueryOutcome::Sealed => {
            if state.settled.is_none() {
                state.settled = Some(Settled::Sealed);
            }
        }
        QueryOutcome::InProgress { serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
        }
        QueryOutcome::NeverSeen { .. } => {
            if void {
                state.open = 0;
                state.resends = 0;
                state.verify_since = None;
                state.verified = 0;
            }
        }
        QueryOutcome::NoAnswer { reason } => {
            if state.reason.is_none() {
                state.reason = Some(format!("its query was not answered: {reason}"));
            }
        }
    }
}

fn retry(state: &mut OpState, force: bool, new_key: bool) {
    state.attempts = 0;
    state.budget_used_ms = 0;
    state.resends = 0;
    state.verify_since = None;
    state.verified = 0;
    state.parked = None;
    state.settled = None;
    state.forced = force;
    if force {
        // Rule 11: past its life a key is only as good as a person's word; from here it counts as new.
        state.first_send_at = None;
    }
    if new_key {
        state.generation += 1;
        state.open = 0;
        state.first_send_at = None;
        state.serial = None;
    }
}

/// Moves an operation to its next phase, remembering what outlives a phase.
fn go(state: &mut OpState, next: Phase, at: Time) {
    match &next {
        Phase::Verify { .. } => {
            if state.verify_since.is_none() {
                state.verify_since = Some(at);
            } else {
                state.verified += 1;
            }
        }
        Phase::Parked { .. } => {
            state.parked = Some(state.parked.map_or((at, 0), |(since, n)| (since, n + 1)));
        }
        Phase::Idle
        | Phase::Calling
        | Phase::Send { .. }
        | Phase::Ask { .. }
        | Phase::InProgress { .. }
        | Phase::Dead { .. } => {}
    }
    state.phase = next;
}

/// When a saga turns round, what its actions still possible do next (rule 4): they are settled, at once.
fn begin_settling(saga: &mut Saga, at: Time) {
    for index in 0..saga.steps.len() {
        let op = OpRef::action(index);
        let Some(operation) = saga.operation(op).cloned() else { continue };
        let can_ask = saga.can_ask(op);
        let state = saga.op_mut(op);
        if state.knowledge() != Knowledge::Possible {
            continue;
        }
        let can_resend = operation.idempotency != Idempotency::None && !state.key_expired(&operation, at);
        match &state.phase {
            // With `seals_after` the query alone settles it: a resend would start the time anew.
            Phase::Send { .. } if operation.seals_after_ms.is_some() && can_ask => {
                state.phase = Phase::Ask { due: at, n: 0 }
            }
            Phase::Verify { .. } if can_ask || can_resend => state.phase = Phase::Verify { due: at },
            Phase::Dead { .. } if can_ask || can_resend => {
                state.verify_since = Some(at);
                state.verified = 0;
                state.phase = Phase::Verify { due: at };
            }
            Phase::Idle
            | Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => {}
        }
    }
}

/// Derives what follows from the state alone, until nothing more does.
fn derive(saga: &mut Saga, at: Time) {
    if saga.ended.is_some() || saga.accepting.is_some() || saga.stuck.is_some() {
        return;
    }
    let definition = saga.definition.clone();
    loop {
        let changed = match saga.direction {
            Direction::Forward => (0..saga.steps.len())
                .fold(false, |changed, step| forward(saga, &definition, step, at) | changed),
            Direction::Undo => (0..saga.steps.len())
                .rev()
                .fold(false, |changed, step| undo(saga, &definition, step, at) | changed),
        };
        if !changed {
            return;
        }
    }
}

fn forward(saga: &mut Saga, definition: &Definition, index: usize, at: Time) -> bool {
    let step = &definition.steps[index];
    let mut changed = false;
    if !saga.steps[index].started {
        if step.after.iter().any(|before| !saga.steps[*before].done) {
            return false;
        }
        saga.steps[index].started = true;
        changed = true;
        if let Some(action) = step.action.as_ref().filter(|_| !saga.steps[index].skipped) {
            enable(&mut saga.steps[index].action, action, at);
        }
    }
    let state = &mut saga.steps[index];
    if state.done {
        return changed;
    }
    let refused = match state.action.knowledge() {
        Knowledge::Rejected | Knowledge::Sealed => true,
        Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
    };
    if state.skipped || step.action.is_none() || state.action.knowledge() == Knowledge::Done {
        state.done = true;
        saga.last_done = Some(index);
        if let Some(reaches) = &step.reaches {
            saga.reached = Some(reaches.clone());
        }
        return true;
    }
    // After the pivot nothing is undone: a refusal there is a person's.
    if refused && step.kind == StepKind::Retriable && !matches!(state.action.phase, Phase::Dead { .. }) {
        state.action.phase = Phase::Dead { reason: refusal(&state.action) };
        return true;
    }
    changed
}

fn refusal(state: &OpState) -> String {
    match &state.settled {
        Some(Settled::Rejected { reason }) => format!("refused: {reason}"),
        Some(Settled::Sealed) => "it will never be executed under this key".into(),
        Some(Settled::Done { .. }) | None => "refused".into(),
    }
}

fn undo(saga: &mut Saga, definition: &Definition, index: usize, at: Time) -> bool {
    let step = &definition.steps[index];
    if saga.steps[index].undone {
        return false;
    }
    let mut changed = stop_waiting_to_send(&mut saga.steps[index].action);
    if step.dependants.iter().any(|after| !saga.steps[*after].undone) {
        return changed;
    }
    let state = &mut saga.steps[index];
    let nothing_to_undo = !state.started || state.skipped || step.action.is_none() || step.effect_none;
    let over = nothing_to_undo
        || match state.action.knowledge() {
            Knowledge::Unsent => !state.action.is_calling(),
            Knowledge::Rejected | Knowledge::Sealed => true,
            Knowledge::Possible | Knowledge::Done => state.compensation.knowledge() == Knowledge::Done,
        };
    if over {
        state.undone = true;
        if !state.action.is_calling() {
            state.action.phase = Phase::Idle;
        }
        state.compensation.phase = Phase::Idle;
        return true;
    }
    let Some(compensation) = &step.compensation else { return changed };
    let wanted = match state.action.knowledge() {
        Knowledge::Done => true,
        // Rule 4: the fence answers for an action whose outcome is not known, once its calls in flight have ended.
        Knowledge::Possible => compensation.fenced && !state.action.is_calling(),
        Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => false,
    };
    if wanted && !state.compensation.enabled {
        enable(&mut state.compensation, compensation, at);
        if !state.action.is_calling() {
            state.action.phase = Phase::Idle;
        }
        changed = true;
    }
    let refused = match state.compensation.knowledge() {
        Knowledge::Rejected | Knowledge::Sealed => true,
        Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
    };
    if refused && !matches!(state.compensation.phase, Phase::Dead { .. }) {
        state.compensation.phase = Phase::Dead { reason: refusal(&state.compensation) };
        changed = true;
    }
    changed
}

/// While undoing, an action that was not sent is not sent any more.
fn stop_waiting_to_send(state: &mut OpState) -> bool {
    let waiting = matches!(state.phase, Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. });
    if waiting && state.knowledge() == Knowledge::Unsent {
        state.phase = Phase::Idle;
        return true;
    }
    false
}

/// Enables an operation: from here its key, payload and facts are fixed (rule 5), and unless it needs an entry of its
/// own, its first send is allowed (rule 1).
fn enable(state: &mut OpState, operation: &Operation, at: Time) {
    state.enabled = true;
    if operation.first_send_is_implied() {
        state.sends += 1;
        state.open = 1;
        state.attempts = 1;
        state.first_send_at = Some(at);
        state.quiet_since = at;
        state.verifying = false;
        state.phase = Phase::Calling;
    } else {
        state.phase = Phase::Send { due: at, waited_ms: 0, verifying: false };
    }
}

impl Saga {
    /// Whether every call that performs an operation of this kind has ended.
    #[must_use]
    pub fn nothing_in_flight(&self) -> bool {
        !self.is_calling()
    }

    /// Whether the direction is undo, or the saga waits for the pivot to turn (rule 9).
    #[must_use]
    pub fn is_settling(&self, op: OpRef) -> bool {
        match (self.direction, op.kind) {
            (Direction::Undo, OpKind::Action) => true,
            (Direction::Forward, OpKind::Action) => {
                self.undo_pending.is_some() && self.definition.pivot() == Some(op.step)
            }
            (Direction::Undo | Direction::Forward, OpKind::Compensation) => false,
        }
    }
}
