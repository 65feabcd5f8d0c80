//! What is warned of, and what is not.

use amends_core::definition::from_toml;

use crate::{checked, edited, lines, rows};

/// Checks rows `what stands in the base => what is put there | line path | reason | remedy`; `-` for none.
fn check(table: &str) {
    let mut wrong = String::new();
    for row in rows(table) {
        let [edit, places, reason, remedy] = row[..] else { panic!("four cells are expected in {row:?}") };
        let (from, to) = edit.split_once("=>").expect("an edit");
        let warnings = checked(&edited(from, to)).warnings;
        let found: Vec<String> =
            warnings.iter().map(|warning| format!("{} {}", warning.line, warning.path)).collect();
        let said =
            warnings.iter().all(|warning| warning.reason.contains(reason) && warning.remedy.contains(remedy));
        if found.join(" & ") != places.trim_matches('-') || !said {
            wrong.push_str(&format!("{edit}\n{}\n", lines(&warnings)));
        }
    }
    assert!(wrong.is_empty(), "these have other warnings than the table says:\n{wrong}");
}

#[test]
fn operations_that_may_need_a_person_after_a_time_out() {
    check(
        r#"
        idempotency = "effect"\nkey_ttl = "24h"\nseals_after = "15m" => idempotency = "none"\nkey_ttl = "24h" | 25 step[1].action & 31 step[1].compensation | must not be repeated at `bank`, and what its query does not know may still happen | declare `seals_after`
        idempotency = "effect" => idempotency = "none"         | -                           | - | -
        query = { get = "/refunds/${key}" } =>                 | 32 step[1].compensation     | the compensation of step `charge` may need a person after a time-out: a repeat at `bank` is safe | give it a `query`; or declare "replay"
        query = { get = "/refunds/${key}" } => idempotency = "none" | 32 step[1].compensation | must not be repeated at `bank`, and nothing tells what became of it | give it a `query`
        query = { get = "/refunds/${key}" } => idempotency = "replay" | -                    | - | -
        idempotency = "effect" => idempotency = "replay"       | -                           | - | -
        "#,
    );
}

#[test]
fn a_proof_that_comes_after_verification_ends() {
    check(
        r#"
        seals_after = "15m" => seals_after = "23h"             | -                           | - | -
        key_ttl = "24h"\nseals_after = "15m" => key_ttl = "3d"\nseals_after = "25h" | 26 step[1].action & 32 step[1].compensation | ends after 1d (`verify_for`), before `seals_after` (25h) of `bank` | raise `verify_for`
        key_ttl = "24h"\nseals_after = "15m" => key_ttl = "9d"\nseals_after = "5d"\nsettled_by = "statement" | - | - | -
        timeout = "3s" => on_unknown = { verify_for = "14m" }  | 26 step[1].action & 32 step[1].compensation | ends after 14m | raise `verify_for`
        "#,
    );
}

#[test]
fn warnings_do_not_refuse_and_problems_hide_them() {
    let weak = edited(
        "idempotency = \"effect\"\nkey_ttl = \"24h\"\nseals_after = \"15m\"",
        "idempotency = \"none\"",
    );
    assert_eq!(checked(&weak).warnings.len(), 2);
    let problems = from_toml(&weak.replace("version = 1", "version = 0")).expect_err("a problem");
    assert_eq!(problems.len(), 1, "{}", lines(&problems));
}
