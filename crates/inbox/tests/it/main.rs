//! The rules, the races and the faults, on each database.

mod mysql;
mod page;
mod postgres;
mod prune;
mod race;
mod rules;
mod sqlite;
mod waiting;
mod world;

/// The tests that every database passes, each on one of its own.
macro_rules! suite {
    ($make:ident) => {
        crate::suite!($make;
            rules: a_key_is_carried_out_once_and_answers_the_same,
            rules: a_key_with_another_request_is_refused_and_nothing_runs,
            rules: a_refusal_is_kept_and_what_it_wrote_is_not,
            rules: an_effect_that_fails_leaves_nothing,
            rules: an_action_is_undone_once_with_its_fact,
            rules: undoing_what_never_ran_makes_sure_it_never_will,
            rules: what_was_refused_needs_no_undoing,
            rules: undoing_may_be_refused_and_tried_under_another_key,
            rules: a_key_belongs_to_one_operation_and_one_action,
            rules: keys_are_compared_byte_by_byte,
            rules: an_answer_that_cannot_be_kept_keeps_nothing,
            rules: a_record_committed_unfinished_is_told_and_never_run_again,
            waiting: a_second_call_waits_for_the_first_and_gets_its_answer,
            waiting: undoing_waits_for_the_action_and_undoes_it,
            waiting: undoing_what_rolls_back_meanwhile_makes_a_tombstone,
            waiting: undoing_under_two_keys_at_once_happens_once,
            prune: records_are_forgotten_when_their_time_is_over_and_not_before,
            prune: a_call_to_undo_prolongs_the_record_of_the_action,
        );
    };
    ($make:ident; $($module:ident: $name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::$module::$name(&$make().await).await;
            }
        )*
    };
}
use suite;
