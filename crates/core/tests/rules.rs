//! The rules of the machine, as tables of text: one file a rule, its number in the test's name.
//!
//! A file holds one or more definitions and tables. A row is `input | status | entries | wanted`; the last three columns are what the
//! machine answers. `UPDATE_TABLES=1 cargo nextest run -p amends-core` rewrites them: read the difference against the rule before keeping it.

mod support;

use support::table::check;

macro_rules! rules {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_table_is_run() {
            let names = [$(stringify!($name)),*];
            for file in std::fs::read_dir(support::table::folder()).expect("the folder of tables is there") {
                let file = file.expect("it can be read").path();
                let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
                assert!(names.contains(&stem.as_str()), "{stem} is not in the list of rules");
            }
        }
    };
}

rules! {
    rule_01_after_a_loss,
    rule_01_persist_then_act,
    rule_02_forward_may_act_on_unknown,
    rule_03_unknown_going_forward,
    rule_04_unknown_while_undoing,
    rule_05_compensation,
    rule_06_proof_that_it_did_not_happen,
    rule_07_exhausted_action,
    rule_08_pivot_and_steps_without_action,
    rule_09_undoing,
    rule_10_retry_and_parking,
    rule_11_key_life,
    rule_12_evidence,
    rule_13_accepting,
    rule_15_people,
    section_1_rejections_and_business_state,
}
