//! Each checker catches the bug that is planted for it: an oracle that never fires proves nothing.

use amends_sim::{Sabotage, run_sabotaged};

/// So many worlds have to be enough: a bug that shows itself less often would hide in a run of continuous integration.
const SEEDS: u64 = 240;

fn is_caught(sabotage: Sabotage, invariant: &str) {
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        let report = run_sabotaged(seed, sabotage);
        if report.violations.iter().any(|violation| violation.invariant == invariant) {
            return;
        }
        others.extend(report.violations);
    }
    panic!("{sabotage:?} is not caught by `{invariant}` in {SEEDS} worlds; caught were {others:?}");
}

macro_rules! planted {
    ($($name:ident: $sabotage:ident is caught by $invariant:literal;)*) => {
        $(#[test]
        fn $name() {
            is_caught(Sabotage::$sabotage, $invariant);
        })*
    };
}

planted! {
    completed_misses_an_effect: CallerPretends is caught by "completed";
    compensated_leaves_an_effect: ParticipantFakesUndo is caught by "compensated";
    late_action_after_its_tombstone: ParticipantForgetsTombstones is caught by "compensated";
    repeat_has_a_second_effect: ParticipantForgetsKeys is caught by "once";
    undone_what_had_not_happened: CallerPretends is caught by "guess";
    silence_taken_for_refusal: CallerGuesses is caught by "belief";
    silence_taken_for_refusal_contradicts: CallerGuesses is caught by "contradiction";
    undone_before_what_builds_on_it: CallerUndoesLater is caught by "undo order";
    undone_after_the_point_of_no_return: CallerGuesses is caught by "pivot";
    written_after_the_end: StoreWritesAfterEnd is caught by "terminal";
    acknowledged_commit_dropped: StoreDropsCommit is caught by "journal";
    shown_otherwise_than_written: StoreMisreads is caught by "views";
    acknowledged_submission_forgotten: StoreForgetsSubmission is caught by "acknowledged";
    another_input_taken_for_the_same: StoreTakesAnyInput is caught by "identity";
    acknowledged_action_lost: StoreAnswersMail is caught by "people";
    claim_held_twice: StoreIgnoresClaims is caught by "claims";
    claim_never_released: StoreKeepsClaims is caught by "claims";
    sent_after_the_lease: LeaseLastsForEver is caught by "owner";
    written_by_a_former_owner: StoreIgnoresSeq is caught by "writer";
    sent_before_it_was_durable: CallerSendsAhead is caught by "persist";
    sent_twice_by_the_caller: CallerSendsTwice is caught by "attempts";
    policy_not_kept: StricterPolicy is caught by "budget";
    removed_too_early: StorePrunesEarly is caught by "retention";
    never_removed: StoreNeverPrunes is caught by "retention";
    report_lost: StoreDropsMail is caught by "reports";
    parked_and_forgotten: StoreForgetsDue is caught by "liveness";
    participant_that_never_comes_back: ParticipantStaysDown is caught by "liveness";
    engine_that_panics: CallerPanics is caught by "panics";
}
