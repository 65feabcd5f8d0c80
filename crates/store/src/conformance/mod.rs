//! What every store must pass: reusable tests, one area a file, and the macro that runs them all on a store.
//!
//! A backend's own tests hold one line, `amends_store::conformance_suite!(make)`, where `make` is an `async fn` that
//! gives a [`Fixture`] with an empty store. All times are taken from the real clock, and a lease ends by being left, taken anew
//! or waited for: a store that uses its server's clock passes as well as one that uses the caller's.

pub mod advance;
pub mod claims;
pub mod crossing;
pub mod definitions;
pub mod due;
pub mod flaky;
mod history;
pub mod ids;
pub mod indeterminate;
pub mod intake;
pub mod lists;
pub mod locks;
pub mod mailbox;
pub mod model;
pub mod nodes;
pub mod racing;
pub mod retention;
pub mod samples;
pub mod submit;

use std::any::Any;
use std::sync::Arc;

use crate::Store;

pub use flaky::{Call, Fault, Faults, Flaky, Script};

/// An empty store, and what has to live as long as it, such as a temporary folder.
pub struct Fixture {
    store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl Fixture {
    /// A store, and what is dropped after it.
    pub fn new(store: Arc<dyn Store>, keep: impl Any + Send) -> Self {
        Self { store, _keep: Box::new(keep) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}

/// Makes a `#[tokio::test]` of every function of the suite. `$make` is an `async fn` that gives a
/// [`Fixture`](crate::conformance::Fixture) with an empty store.
///
/// The crate that uses it needs `tokio` with the features `macros`, `rt-multi-thread` and `time`.
#[macro_export]
macro_rules! conformance_suite {
    ($make:ident) => {
        $crate::conformance_tests! { $make;
            submit {
                a_saga_is_there_with_row_entries_and_claims
                sagas_are_numbered_in_order_of_arrival
                a_second_submission_is_the_same_or_different
                it_stays_the_same_or_different_after_the_end_and_after_retention
                whose_id_it_is_comes_before_claims
                a_batch_with_one_id_twice_creates_it_once
                a_submission_numbered_wrongly_is_refused_alone
                a_batch_is_answered_in_its_order
            }
            advance {
                entries_are_appended_and_read_in_pages
                a_gap_and_a_stale_write_conflict
                an_unknown_saga_conflicts
                the_second_of_a_batch_stands_on_the_first
                what_stands_on_a_conflict_conflicts_too
                what_stands_on_a_refused_item_conflicts_too
                one_failing_item_leaves_the_others
                an_advance_without_entries_checks_what_is_last
                a_row_never_changes_what_was_submitted
                bodies_and_nonces_of_any_kind_come_back
                a_saga_that_cannot_be_read_is_parked
            }
            claims {
                a_held_claim_is_refused_with_its_holder
                the_first_of_a_batch_wins
                released_claims_can_be_taken_in_the_same_batch
                an_accepting_saga_takes_all_or_none
                what_stands_on_a_held_claim_conflicts
                a_saga_may_name_a_claim_twice_and_again
                names_of_claims_are_compared_byte_by_byte
            }
            due {
                the_longest_due_come_first_up_to_the_limit
                what_is_owned_or_not_due_is_left_alone
                a_parked_saga_is_due_when_its_row_says
                the_next_due_time_is_of_nobodys_sagas
                one_saga_can_be_claimed_by_its_id
                a_lease_that_is_over_claims_nothing
            }
            nodes {
                epochs_grow_over_all_nodes
                a_lease_is_renewed_until_it_ends
                a_lease_lapses_with_time
                a_live_nodes_sagas_are_not_taken_over
                sagas_are_taken_over_in_batches
                earlier_epochs_of_a_node_are_taken_over
                a_former_owner_is_fenced
                one_saga_of_a_lapsed_node_can_be_claimed
            }
            mailbox {
                mail_makes_a_parked_saga_due_at_once
                mail_wakes_an_ended_saga_and_its_answer_lets_it_rest
                mail_of_an_owned_saga_is_its_owners
                one_input_is_posted_once
                mail_waits_in_order_until_it_is_answered
                a_saga_let_go_with_mail_is_due_at_once
                the_first_answer_stands
                a_conflict_answers_nothing
            }
            definitions {
                a_definition_is_registered_once_and_for_all
                the_highest_version_is_found_by_name
                definitions_are_listed_in_pages
            }
            lists {
                pages_are_newest_first_and_stable
                filters_hold_together
                text_is_found_literally
                dead_sagas_are_grouped
                counts_follow_every_change
                a_row_is_found_by_its_id
                a_new_store_is_empty_and_well
            }
            retention {
                journals_of_ended_sagas_go_in_batches
                what_people_did_stays
                sagas_in_use_are_left_alone
                a_pruned_saga_can_be_moved_on
                answered_mail_goes
            }
            ids {
                ids_are_compared_byte_by_byte
                numbers_of_nothing_find_nothing
                the_longest_id_fits
            }
            indeterminate {
                a_lost_answer_is_told_by_its_nonce
                a_rivals_entry_is_told_by_its_nonce
                trying_again_after_a_lost_answer_changes_nothing
                nothing_was_written_before
            }
            model {
                random_histories_are_answered_as_by_the_reference
            }
            racing {
                one_of_many_advances_wins
                one_of_many_submissions_creates
                claims_are_taken_all_or_none
                no_saga_is_claimed_twice
                no_saga_is_taken_over_twice
                batches_of_many_callers_all_arrive
                mail_posted_while_its_saga_is_let_go_wakes_it
            }
        }
    };
}

/// Makes the tests that [`conformance_suite!`] lists.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($make:ident; $($area:ident { $($name:ident)+ })+) => {
        $(
            mod $area {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        let fixture = super::$make().await;
                        $crate::conformance::$area::$name(fixture.store()).await;
                    }
                )+
            }
        )+
    };
}
