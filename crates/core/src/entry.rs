//! What is journalled. Entries are the only truth: a saga is what its entries, applied in order, make of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Outcome, QueryOutcome};
use crate::saga::{Ended, Phase};
use crate::{OpRef, SagaId, Time};

/// One line of a saga's journal. (saga, `seq`) is unique in a store: that is the conditional transition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1 without gaps.
    pub seq: u64,
    /// When it was decided, on the deciding node's clock.
    pub at: Time,
    /// What happened.
    pub kind: EntryKind,
}

/// Who asked for something, and why: with its entry, the audit record of a person's action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// Name of the token, or `anonymous` on a loopback server without tokens.
    pub who: String,
    /// The reason given; may be empty only for `cancel`.
    pub reason: String,
}

/// Why a saga is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoReason {
    /// An action was rejected, or sealed before it happened.
    Rejected(OpRef),
    /// An action's attempts or budget are over and none was executed.
    Exhausted(OpRef),
    /// Somebody cancelled it.
    Cancel,
    /// Its deadline passed.
    Deadline,
}

impl UndoReason {
    /// The operation that is the reason.
    #[must_use]
    pub fn op(&self) -> Option<OpRef> {
        match self {
            Self::Rejected(op) | Self::Exhausted(op) => Some(*op),
            Self::Cancel | Self::Deadline => None,
        }
    }
}

/// What can happen to a saga.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// It was submitted; always the first entry.
    Submitted {
        /// Its id.
        id: SagaId,
        /// The definition's digest.
        digest: String,
        /// What it was submitted with.
        input: Value,
        /// The resources it claims.
        claims: Vec<String>,
        /// When it is undone unless past the pivot.
        deadline_at: Option<Time>,
        /// Claims are not taken yet (submitted in a caller's transaction).
        accepting: bool,
        /// `traceparent` of the submission.
        trace: Option<String>,
        /// Epoch of the node that wrote it.
        epoch: u64,
        /// Who submitted it.
        who: String,
    },
    /// Its claims were taken, in the same commit.
    Accepted,
    /// Its claims were refused; tried again at `due`.
    AcceptRefused {
        /// Which saga holds one of them.
        held_by: String,
        /// When they are tried again.
        due: Time,
    },
    /// A node took it over: fences the former owner; every attempt in flight may have been executed.
    TakenOver {
        /// The new owner's epoch.
        epoch: u64,
        /// The former owner stopped while it had it; otherwise it had been let go in order, and was nobody's.
        lapsed: bool,
        /// Something of it was in flight or due then: it may be what stopped the former owner.
        busy: bool,
        /// What each operation that was in flight does next.
        next: Vec<(OpRef, Phase)>,
    },
    /// The store lost what it had acknowledged, and people accepted that: the journal may go on in a way that nobody knows. Every operation
    /// that is not settled counts as sent once more, before.
    Lost {
        /// Which loss: the store's epoch since then.
        loss: u64,
        /// What each operation does next that has to be settled at once.
        next: Vec<(OpRef, Phase)>,
    },
    /// An attempt is allowed to be sent.
    Sending {
        /// Which operation.
        op: OpRef,
        /// Its number.
        attempt: u32,
        /// Fingerprint of the request.
        digest: String,
        /// It is part of settling an unknown outcome, not a retry: uses no attempt and no budget.
        verifying: bool,
        /// Milliseconds of the budget that the wait before it used.
        waited_ms: u64,
    },
    /// An allowed attempt was not sent, for a reason that is not the operation's.
    Held {
        /// Which operation.
        op: OpRef,
        /// Number of the attempt that was not sent.
        attempt: u32,
        /// What happens next.
        next: Phase,
    },
    /// An attempt was answered.
    Answered {
        /// Which operation.
        op: OpRef,
        /// Number of the attempt.
        attempt: u32,
        /// What the answer means.
        outcome: Outcome,
        /// It settles the operation (a rejection may not, section 1).
        settles: bool,
        /// How long the call took, in milliseconds, at most its time-out.
        took_ms: u64,
        /// What happens next.
        next: Phase,
    },
    /// A query was answered.
    Asked {
        /// Which operation was asked about.
        op: OpRef,
        /// What the answer means.
        outcome: QueryOutcome,
        /// It proves that nothing sent so far was or will be executed (rule 6).
        void: bool,
        /// What happens next.
        next: Phase,
    },
    /// A wait of an operation is over without an answer.
    Waited {
        /// Which operation.
        op: OpRef,
        /// What happens next.
        next: Phase,
    },
    /// A request cannot be built: a path is missing in a fact.
    Unrenderable {
        /// Which operation.
        op: OpRef,
        /// The path that is missing.
        path: String,
    },
    /// Evidence other than the operation's own answers settled it.
    Settled {
        /// Which operation.
        op: OpRef,
        /// What it says.
        settled: crate::saga::Settled,
        /// Where it comes from: `callback`, `late answer`, `query`, `fence`, `statement`, `person`.
        source: String,
        /// The person, if one said so.
        by: Option<By>,
    },
    /// Evidence arrived that does not settle, but is a reason to ask at once.
    Hinted {
        /// Which operation.
        op: OpRef,
        /// What it said.
        said: String,
        /// A serial it carried.
        serial: Option<Value>,
        /// What happens next.
        next: Phase,
    },
    /// Evidence disagrees with what is known. Moves nothing.
    Contradiction {
        /// Which operation.
        op: OpRef,
        /// What the evidence says.
        evidence: String,
        /// What was known.
        known: String,
        /// Where the evidence comes from.
        source: String,
    },
    /// It turns round: every effect is to be undone.
    Undoing {
        /// Why.
        reason: UndoReason,
        /// Who asked for it.
        by: Option<By>,
    },
    /// A cancel or deadline waits for the pivot to be settled (rule 9).
    UndoPending {
        /// Which of the two.
        reason: UndoReason,
        /// Who asked for it.
        by: Option<By>,
    },
    /// The pivot is done: the pending cancel or deadline is refused.
    UndoRefused,
    /// The deadline passed after the pivot.
    Overdue,
    /// A person asked to try an operation again.
    Retry {
        /// Which operation.
        op: OpRef,
        /// Rules 2 and 11 were lifted.
        force: bool,
        /// Under a new key.
        new_key: bool,
        /// What happens next.
        next: Phase,
        /// Who, and why.
        by: By,
    },
    /// A person skipped a step.
    Skipped {
        /// Which step.
        step: usize,
        /// Who, and why.
        by: By,
    },
    /// It can go no further, although no operation says so.
    Stuck {
        /// Why.
        reason: String,
    },
    /// It ended; claims are released in the same commit.
    Ended {
        /// How.
        how: Ended,
        /// `resolved` only: who closed it, and why.
        by: Option<By>,
        /// `resolved` only: what was left, in plain words, a line each.
        left: Vec<String>,
    },
}

impl EntryKind {
    /// The `kind` shown in the journal.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Submitted { .. } => "submitted",
            Self::Accepted => "accepted",
            Self::AcceptRefused { .. } => "accept_refused",
            Self::TakenOver { .. } => "taken_over",
            Self::Lost { .. } => "lost",
            Self::Sending { .. } => "sending",
            Self::Held { .. } => "held",
            Self::Answered { .. } => "answered",
            Self::Asked { .. } => "asked",
            Self::Waited { .. } => "waited",
            Self::Unrenderable { .. } => "unrenderable",
            Self::Settled { .. } => "settled",
            Self::Hinted { .. } => "hinted",
            Self::Contradiction { .. } => "contradiction",
            Self::Undoing { .. } => "undoing",
            Self::UndoPending { .. } => "undo_pending",
            Self::UndoRefused => "undo_refused",
            Self::Overdue => "overdue",
            Self::Retry { .. } => "retry",
            Self::Skipped { .. } => "skipped",
            Self::Stuck { .. } => "stuck",
            Self::Ended { how, .. } => match how {
                Ended::Completed => "completed",
                Ended::Compensated => "compensated",
                Ended::Resolved => "resolved",
            },
        }
    }

    /// The operation it speaks of.
    #[must_use]
    pub fn op(&self) -> Option<OpRef> {
        match self {
            Self::Sending { op, .. }
            | Self::Held { op, .. }
            | Self::Answered { op, .. }
            | Self::Asked { op, .. }
            | Self::Waited { op, .. }
            | Self::Unrenderable { op, .. }
            | Self::Settled { op, .. }
            | Self::Hinted { op, .. }
            | Self::Contradiction { op, .. }
            | Self::Retry { op, .. } => Some(*op),
            Self::Submitted { .. }
            | Self::Accepted
            | Self::AcceptRefused { .. }
            | Self::TakenOver { .. }
            | Self::Lost { .. }
            | Self::Undoing { .. }
            | Self::UndoPending { .. }
            | Self::UndoRefused
            | Self::Overdue
            | Self::Skipped { .. }
            | Self::Stuck { .. }
            | Self::Ended { .. } => None,
        }
    }

    /// The person behind it.
    #[must_use]
    pub fn by(&self) -> Option<&By> {
        match self {
            Self::Settled { by, .. }
            | Self::Undoing { by, .. }
            | Self::UndoPending { by, .. }
            | Self::Ended { by, .. } => by.as_ref(),
            Self::Retry { by, .. } | Self::Skipped { by, .. } => Some(by),
            Self::Submitted { .. }
            | Self::Accepted
            | Self::AcceptRefused { .. }
            | Self::TakenOver { .. }
            | Self::Lost { .. }
            | Self::Sending { .. }
            | Self::Held { .. }
            | Self::Answered { .. }
            | Self::Asked { .. }
            | Self::Waited { .. }
            | Self::Unrenderable { .. }
            | Self::Hinted { .. }
            | Self::Contradiction { .. }
            | Self::UndoRefused
            | Self::Overdue
            | Self::Stuck { .. } => None,
        }
    }

    /// Retention keeps it after a saga's journal is gone: people's entries and contradictions (rule 14).
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.by().is_some() || matches!(self, Self::Contradiction { .. })
    }
}
