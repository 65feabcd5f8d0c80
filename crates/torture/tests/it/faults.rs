use amends_torture::faults::{ALL, Fault, POSTGRES, REDIS, SHARED};
use amends_torture::store::StoreUrl;

fn happens(faults: &[Fault], store: &str, name: &str) {
    let fault = faults.iter().find(|fault| fault.name == name).unwrap();
    fault.run(&StoreUrl::parse(store).unwrap()).unwrap_or_else(|error| panic!("{error:?}"));
}

macro_rules! faults {
    ($faults:ident on $store:expr; $every:ident; $($name:ident)*) => {
        $(#[test]
        fn $name() {
            happens($faults, &$store, stringify!($name));
        })*

        #[test]
        fn $every() {
            let names: Vec<&str> = $faults.iter().map(|fault| fault.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

fn any_store() -> String {
    std::env::var("AMENDS_TORTURE_STORE").unwrap_or_else(|_| "sqlite:".to_owned())
}

faults! {
ALL on any_store();
every_named_fault_is_a_test;
reply_is_dropped_after_the_commit
connection_is_delayed
connection_is_reset
connection_is_half_open
connection_is_one_way
connection_is_refused
answer_is_cut_at_any_byte
killed_between_the_record_and_the_send
stopped_past_the_lease
wall_clock_jumps_an_hour
compensation_overtakes_the_action
compensation_of_what_never_ran
fifty_starts_of_one_id
fifty_starts_while_the_engine_dies
callbacks_come_five_times_and_reversed
callback_comes_before_the_answer
compensation_fails_for_ever
skip_races_retry
disk_is_full
disk_fails
file_is_read_only
hostile_definitions
hostile_ids_and_numbers
hostile_answers
definition_changes_mid_flight
cancel_races_the_last_success
}
#[test]
fn everything_that_waits_says_what_for() {
    let table = amends_torture::waiting::table();
    for waiting in amends_torture::waiting::ALL {
        assert!(!waiting.expected.is_empty() && table.contains(waiting.waits_for), "{waiting:?}");
    }
}

mod redis {
    use super::{REDIS, happens};

    faults! {
        REDIS on "redis:";
        every_fault_of_redis_is_a_test;
        redis_is_killed_and_stopped
        functions_are_flushed_under_load
        redis_runs_out_of_memory
        an_old_snapshot_is_restored
        a_replica_is_promoted
    }
}

mod postgres {
    use super::{SHARED, happens};

    faults! {
        SHARED on "postgres:";
        every_fault_of_nodes_that_share_a_database_is_a_test;
        database_is_killed_and_stopped
        answers_to_commits_are_lost
        any_node_answers_for_any_saga
        a_revived_node_loses_what_it_had
        a_newer_version_writes_what_this_one_does_not_know
    }

    mod alone {
        use super::super::{POSTGRES, happens};

        faults! {
            POSTGRES on "postgres:";
            every_fault_of_postgres_is_a_test;
            databases_disk_is_full
        }
    }
}

mod mariadb {
    use super::{SHARED, happens};

    faults! {
        SHARED on "mysql:";
        every_fault_of_nodes_that_share_a_database_is_a_test;
        database_is_killed_and_stopped
        answers_to_commits_are_lost
        any_node_answers_for_any_saga
        a_revived_node_loses_what_it_had
        a_newer_version_writes_what_this_one_does_not_know
    }
}
