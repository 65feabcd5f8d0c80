//! Planted bugs: what each checker must catch. They live here, in front of and behind the real engine, never in it.

/// A bug that is planted into a run, to see whether the checkers notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sabotage {
    /// The store acknowledges some advances without writing them.
    StoreDropsCommit,
    /// The store acknowledges some submissions without writing them.
    StoreForgetsSubmission,
    /// The store takes claims that others hold.
    StoreIgnoresClaims,
    /// The store keeps the claims of sagas that have ended.
    StoreKeepsClaims,
    /// The store writes an advance whatever came before it.
    StoreIgnoresSeq,
    /// The store says of any submission whose id it knows that it is the same.
    StoreTakesAnyInput,
    /// The store puts an entry behind the one that ends a saga.
    StoreWritesAfterEnd,
    /// Retention removes what has not been kept for long enough.
    StorePrunesEarly,
    /// Retention never removes anything.
    StoreNeverPrunes,
    /// The store forgets when parked sagas are due.
    StoreForgetsDue,
    /// The store gives changed entries when a saga is read.
    StoreMisreads,
    /// The store answers mail by itself, as if it had been dealt with.
    StoreAnswersMail,
    /// The store acknowledges mail that it loses.
    StoreDropsMail,
    /// The clock that leases are measured on stands still.
    LeaseLastsForEver,
    /// What carries out calls sends each request twice.
    CallerSendsTwice,
    /// What carries out calls sends an attempt that nobody has allowed.
    CallerSendsAhead,
    /// What carries out calls says that actions are done, and sends some of them never.
    CallerPretends,
    /// What carries out calls takes silence for a refusal.
    CallerGuesses,
    /// What carries out calls says at once that a compensation is done, and sends it much later.
    CallerUndoesLater,
    /// What carries out calls panics.
    CallerPanics,
    /// Participants carry a repeat out again, whatever they declare.
    ParticipantForgetsKeys,
    /// Participants say that something is undone, and undo nothing.
    ParticipantFakesUndo,
    /// Participants carry out actions after their tombstone.
    ParticipantForgetsTombstones,
    /// Participants never come back once they had a fault.
    ParticipantStaysDown,
    /// Sagas are held against a stricter retry policy than the one that is registered.
    StricterPolicy,
}
