//! Journal entries as people read them.

use amends_core::answer::{Outcome, QueryOutcome};
use amends_core::{By, Definition, Entry, EntryKind, OpRef, ParkReason, Phase, Settled, UndoReason};
use amends_store::StoredEntry;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Stamp;

/// One entry. Members after `by` are left out where they do not apply to its kind.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = JournalEntry)]
pub(crate) struct JournalDto {
    /// Its number within the saga, from 1.
    seq: u64,
    /// When it was decided.
    at: Stamp,
    /// What happened: `submitted`, `accepted`, `accept_refused`, `taken_over`, `sending`, `held`, `answered`, `asked`,
    /// `waited`, `unrenderable`, `settled`, `hinted`, `contradiction`, `undoing`, `undo_pending`, `undo_refused`,
    /// `overdue`, `retry`, `skipped`, `stuck`, `completed`, `compensated` or `resolved`; `unreadable` if this version
    /// cannot read it.
    kind: &'static str,
    /// The step it speaks of.
    step: Option<String>,
    /// `action` or `compensation`.
    operation: Option<&'static str>,
    /// Number of the attempt.
    attempt: Option<u32>,
    /// Who asked for it: the name of a token, or `anonymous`. Null: amends itself.
    by: Option<String>,
    /// Why, in the words of the person or the participant.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What an answer meant: `done`, `rejected`, `not_executed`, `misconfigured`, `in_progress`, `unknown`, `never_seen`,
    /// `sealed` or `no_answer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// What a successful operation answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    fact: Option<Value>,
    /// The participant's number for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    serial: Option<Value>,
    /// The answer settled the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    settles: Option<bool>,
    /// The answer proved that nothing sent so far was or will be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    void: Option<bool>,
    /// A query's "never seen" was said expressly.
    #[serde(skip_serializing_if = "Option::is_none")]
    express: Option<bool>,
    /// How long the call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
    /// How long the participant asked to wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The wait before it, in milliseconds of the retry budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    /// What the operation does next: `send`, `ask`, `verify`, `wait` or `dead`; left out if nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
    /// When it does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Stamp>,
    /// `taken_over`: what each operation that was under way does next.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<Vec<TakenOver>>,
    /// `sending`: fingerprint of the request. `submitted`: digest of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// `sending`: to settle an unknown outcome; uses no attempt and no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    verifying: Option<bool>,
    /// The epoch of the node's lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// `submitted`: the resources claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<Vec<String>>,
    /// `submitted`: when it is undone unless past the pivot.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at: Option<Stamp>,
    /// `accept_refused`: which saga holds a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<String>,
    /// `unrenderable`: the path missing in a fact.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Where evidence came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// `contradiction`: what the evidence says.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    /// `contradiction`: what was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<String>,
    /// `undoing`, `undo_pending`: `rejected`, `exhausted`, `cancel` or `deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'static str>,
    /// `retry`: the rules on idempotency and key life were lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    /// `retry`: under a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_key: Option<bool>,
    /// `resolved`: what was left, a line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Vec<String>>,
}

/// What an operation that was under way at a take-over does next.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JournalTakenOver)]
pub(crate) struct TakenOver {
    step: String,
    operation: &'static str,
    next: Option<&'static str>,
    due_at: Option<Stamp>,
}

/// A page of a journal, oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Journal)]
pub(crate) struct JournalList {
    pub(crate) items: Vec<JournalDto>,
    /// The cursor of the next page; null on the last.
    pub(crate) next: Option<String>,
}

impl JournalDto {
    /// Converts; `definition` names the steps.
    pub(crate) fn new(stored: &StoredEntry, definition: Option<&Definition>) -> Self {
        match stored.decode() {
            Ok(entry) => Self::of(entry, definition),
            Err(reason) => Self {
                seq: stored.seq,
                at: Stamp(stored.at),
                kind: "unreadable",
                reason: Some(reason),
                ..Self::default()
            },
        }
    }

    fn of(entry: Entry, definition: Option<&Definition>) -> Self {
        let op = entry.kind.op();
        let mut item = Self {
            seq: entry.seq,
            at: Stamp(entry.at),
            kind: entry.kind.name(),
            step: op.map(|op| step_name(op.step, definition)),
            operation: op.map(|op| op.kind.as_str()),
            ..Self::default()
        };
        if let Some(By { who, reason }) = entry.kind.by() {
            item.by = Some(who.clone());
            item.reason = Some(reason.clone()).filter(|reason| !reason.is_empty());
        }
        item.details(entry.kind, definition);
        item
    }

    fn details(&mut self, kind: EntryKind, definition: Option<&Definition>) {
        match kind {
            EntryKind::Submitted { digest, claims, deadline_at, epoch, who, .. } => {
                self.by = Some(who);
                self.digest = Some(digest);
                self.claims = Some(claims);
                self.deadline_at = deadline_at.map(Stamp);
                self.epoch = Some(epoch);
            }
            EntryKind::Accepted | EntryKind::UndoRefused | EntryKind::Overdue => {}
            EntryKind::AcceptRefused { held_by, due } => {
                self.held_by = Some(held_by);
                self.due_at = Some(Stamp(due));
            }
            EntryKind::TakenOver { epoch, lapsed: _, busy: _, next } => {
                self.epoch = Some(epoch);
                self.operations =
                    Some(next.iter().map(|(op, phase)| taken_over(*op, phase, definition)).collect());
            }
            EntryKind::Lost { loss, next } => {
                self.epoch = Some(loss);
                self.operations =
                    Some(next.iter().map(|(op, phase)| taken_over(*op, phase, definition)).collect());
            }
            EntryKind::Sending { attempt, digest, verifying, waited_ms, .. } => {
                self.attempt = Some(attempt);
                self.digest = Some(digest);
                self.verifying = Some(verifying);
                self.waited_ms = Some(waited_ms);
            }
            EntryKind::Held { attempt, next, .. } => {
                self.attempt = Some(attempt);
                self.next(&next);
            }
            EntryKind::Answered { attempt, outcome, settles, took_ms, next, .. } => {
                self.next(&next);
                self.attempt = Some(attempt);
                self.settles = Some(settles);
                self.took_ms = Some(took_ms);
                self.outcome(outcome);
            }
            EntryKind::Asked { outcome, void, next, .. } => {
                self.next(&next);
                self.void = Some(void);
                self.query_outcome(outcome);
            }
            EntryKind::Waited { next, .. } => self.next(&next),
            EntryKind::Unrenderable { path, .. } => self.path = Some(path),
            EntryKind::Settled { settled, source, .. } => {
                self.source = Some(source);
                self.settled(settled);
            }
            EntryKind::Hinted { said, serial, next, .. } => {
                self.next(&next);
                self.reason = Some(said);
                self.serial = serial;
            }
            EntryKind::Contradiction { evidence, known, source, .. } => {
                self.evidence = Some(evidence);
                self.known = Some(known);
                self.source = Some(source);
            }
            EntryKind::Undoing { reason, .. } | EntryKind::UndoPending { reason, .. } => {
                self.because(&reason, definition);
            }
            EntryKind::Retry { force, new_key, next, .. } => {
                // The person's reason stands; what was wrong before is in the entries before.
                self.next = phase_word(&next);
                self.due_at = phase_due(&next);
                self.force = Some(force);
                self.new_key = Some(new_key);
            }
            EntryKind::Skipped { step, .. } => self.step = Some(step_name(step, definition)),
            EntryKind::Stuck { reason } => self.reason = Some(reason),
            EntryKind::Ended { by, left, .. } => self.left = by.map(|_| left),
        }
    }

    fn next(&mut self, phase: &Phase) {
        self.next = phase_word(phase);
        self.due_at = phase_due(phase);
        if let Phase::Dead { reason } | Phase::Parked { reason: ParkReason::Configuration(reason), .. } =
            phase
        {
            self.reason = Some(reason.clone());
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done { fact, serial } => {
                self.outcome = Some("done");
                self.fact = Some(fact);
                self.serial = serial;
            }
            Outcome::Rejected { reason, .. } => self.said("rejected", Some(reason)),
            Outcome::NotExecuted { reason, retry_after_ms } => {
                self.said("not_executed", Some(reason));
                self.retry_after_ms = retry_after_ms;
            }
            Outcome::Misconfigured { reason } => self.said("misconfigured", Some(reason)),
            Outcome::InProgress { serial } => {
                self.outcome = Some("in_progress");
                self.serial = serial;
            }
            Outcome::Unknown { reason } => self.said("unknown", Some(reason)),
        }
    }

    fn query_outcome(&mut self, outcome: QueryOutcome) {
        match outcome {
            QueryOutcome::Done { fact, serial } => {
                self.outcome = Some("done");
                self.fact = Some(fact);
                self.serial = serial;
            }
            QueryOutcome::Rejected { reason } => self.said("rejected", Some(reason)),
            QueryOutcome::InProgress { serial } => {
                self.outcome = Some("in_progress");
                self.serial = serial;
            }
            QueryOutcome::NeverSeen { express } => {
                self.outcome = Some("never_seen");
                self.express = Some(express);
            }
            QueryOutcome::Sealed => self.said("sealed", None),
            QueryOutcome::NoAnswer { reason } => self.said("no_answer", Some(reason)),
        }
    }

    fn settled(&mut self, settled: Settled) {
        match settled {
            Settled::Done { fact, serial } => {
                self.outcome = Some("done");
                self.fact = Some(Value::clone(&fact));
                self.serial = serial;
            }
            Settled::Rejected { reason } => self.said("rejected", Some(reason)),
            Settled::Sealed => self.said("sealed", None),
        }
    }

    /// What a participant said. A person's own words, and why an operation died, come first.
    fn said(&mut self, outcome: &'static str, reason: Option<String>) {
        self.outcome = Some(outcome);
        self.reason = self.reason.take().or(reason);
    }

    fn because(&mut self, reason: &UndoReason, definition: Option<&Definition>) {
        self.because = Some(match reason {
            UndoReason::Rejected(_) => "rejected",
            UndoReason::Exhausted(_) => "exhausted",
            UndoReason::Cancel => "cancel",
            UndoReason::Deadline => "deadline",
        });
        if let UndoReason::Rejected(op) | UndoReason::Exhausted(op) = reason {
            self.step = Some(step_name(op.step, definition));
            self.operation = Some(op.kind.as_str());
        }
    }
}

fn taken_over(op: OpRef, phase: &Phase, definition: Option<&Definition>) -> TakenOver {
    TakenOver {
        step: step_name(op.step, definition),
        operation: op.kind.as_str(),
        next: phase_word(phase),
        due_at: phase_due(phase),
    }
}

/// The step's name; its number if the definition is gone.
fn step_name(step: usize, definition: Option<&Definition>) -> String {
    let known = definition.and_then(|definition| definition.steps.get(step));
    known.map_or_else(|| format!("#{step}"), |step| step.name.clone())
}

fn phase_word(phase: &Phase) -> Option<&'static str> {
    match phase {
        Phase::Idle => None,
        Phase::Calling | Phase::Send { .. } => Some("send"),
        Phase::Ask { .. } => Some("ask"),
        Phase::InProgress { .. } | Phase::Parked { .. } => Some("wait"),
        Phase::Verify { .. } => Some("verify"),
        Phase::Dead { .. } => Some("dead"),
    }
}

fn phase_due(phase: &Phase) -> Option<Stamp> {
    match phase {
        Phase::Idle | Phase::Calling | Phase::Dead { .. } => None,
        Phase::Send { due, .. }
        | Phase::Ask { due, .. }
        | Phase::InProgress { due, .. }
        | Phase::Verify { due, .. }
        | Phase::Parked { due, .. } => Some(Stamp(*due)),
    }
}
