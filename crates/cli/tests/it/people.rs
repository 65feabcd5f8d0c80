//! What people do to sagas that machines may no longer drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::outcomes::{pair, start};
use crate::participants::Participants;
use crate::program::Server;

#[test]
fn a_dead_saga_is_found_repaired_and_retried() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = broken.clone();
    let participants = Participants::start(move |call| match call.what.as_str() {
        "POST /a/ship" => (422, json!({"reason": "no van"})),
        "POST /a/refund" if is_broken.load(Ordering::Relaxed) => (422, json!({"reason": "account closed"})),
        _ => (200, json!({"number": "n-1"})),
    });
    let server = Server::start(&participants.config(&["a"]));
    server.define(
        r#"
        saga = "sale"
        version = 1
        [participants.a]
        idempotency = "replay"
        [[step]]
        name = "charge"
        action = { to = "a", post = "/charge", body = {}, serial = "/number" }
        compensation = { post = "/refund", body = { charge = "${steps.charge.serial}" } }
        [[step]]
        name = "ship"
        action = { to = "a", post = "/ship", body = {} }
        compensation = { post = "/unship", body = {} }
        "#,
    );
    server.cli(&["saga", "start", "sale", "sale:1", "--input", "{}", "--wait", "30s"]).exits(9);

    let groups = server.cli(&["-o", "json", "dead-letter", "list"]).exits(0).json();
    assert_eq!(groups["items"][0]["count"], 1, "{groups:#}");
    assert_eq!(groups["items"][0]["step"], "charge");
    let shown = server.cli(&["dead-letter", "show", "--saga", "sale", "--step", "charge"]).exits(0);
    assert!(shown.out.contains("sale:1") && shown.out.contains("account closed"), "{shown:?}");

    let version = server.cli(&["-o", "json", "saga", "show", "sale:1"]).json()["version"].as_u64().unwrap();
    let stale = (version - 1).to_string();
    let retry =
        |more: &[&str]| server.cli(&[&["saga", "retry", "sale:1", "--reason", "reopened"], more].concat());
    retry(&["charge", "--version", &stale]).exits(4).says(&["stale-version"]);
    retry(&["charge", "--version", &version.to_string(), "--operation", "action"]).exits(4);
    retry(&["nothing"]).exits(3).says(&["unknown-step"]);

    broken.store(false, Ordering::Relaxed);
    // The step in trouble is found; what is going to happen is said.
    retry(&[]).exits(0).says(&["sale:1 is dead", "charge will be tried again", "reopened"]);
    server.cli(&["saga", "watch", "sale:1", "--wait", "30s"]).exits(8);
    let refunds: Vec<_> =
        participants.calls().into_iter().filter(|call| call.what == "POST /a/refund").collect();
    assert!(
        refunds.iter().all(|call| call.key == "sale:1:charge:compensation" && call.body["charge"] == "n-1")
    );
    let journal = server.cli(&["-o", "jsonl", "saga", "journal", "sale:1"]).exits(0).out;
    assert!(journal.contains("reopened"), "{journal}");
    assert_eq!(server.cli(&["dead-letter", "list"]).exits(0).out.lines().count(), 1);
}

#[test]
fn a_person_says_what_became_of_an_unknown_step() {
    let (server, participants) = pair();
    for (id, outcome, code) in [
        ("s:1", &["--outcome", "done", "--fact", "{\"n\": 1}"][..], 0),
        ("s:2", &["--outcome", "not_done"], 8),
    ] {
        start(&server, id, "lost", "30s").exits(9);
        let resolve = [&["saga", "resolve", id, "two", "--reason", "asked by telephone"], outcome].concat();
        server.cli(&resolve).exits(0).says(&["unknown at version", "asked by telephone"]);
        server.cli(&["saga", "watch", id, "--wait", "30s"]).exits(code);
    }
    assert_eq!(participants.count("POST /a/undo-one"), 1);
}

#[test]
fn a_closed_saga_is_neither_done_nor_undone() {
    let (server, _participants) = pair();
    start(&server, "s:1", "lost", "30s").exits(9);
    server.cli(&["saga", "close", "s:1", "--reason", "settled on paper"]).exits(0);
    server.cli(&["saga", "watch", "s:1"]).exits(7);
    server.cli(&["saga", "close", "s:1", "--reason", "again"]).exits(4).says(&["wrong-state"]);
    // Its claim is free again.
    server
        .cli(&[
            "saga",
            "start",
            "pair",
            "s:2",
            "--input",
            r#"{"how": "well", "thing": "s:1"}"#,
            "--wait",
            "30s",
        ])
        .exits(0);
}

#[test]
fn a_cancel_undoes_and_a_skip_leaves_out() {
    let (server, participants) = pair();
    start(&server, "s:1", "lost", "30s").exits(9);
    server.cli(&["saga", "cancel", "s:1", "--reason", "no longer wanted"]).exits(0);
    server.cli(&["saga", "skip", "s:1", "two", "--reason", "x"]).exits(4);
    let version = server.cli(&["-o", "json", "saga", "show", "s:1"]).json()["version"].to_string();
    let resolve = [
        "saga",
        "resolve",
        "s:1",
        "--step",
        "two",
        "--outcome",
        "not_done",
        "--reason",
        "x",
        "--version",
        &version,
    ];
    server.cli(&resolve).exits(0);
    server.cli(&["saga", "watch", "s:1", "--wait", "30s"]).exits(8);
    assert_eq!(participants.count("POST /a/undo-one"), 1);
}
