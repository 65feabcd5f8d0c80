//! Exit codes tell what became of a command, and of the saga that was waited for.

use std::time::Duration;

use serde_json::json;

use crate::participants::Participants;
use crate::program::{Server, run};

/// Two steps; `input.how` decides what the second one meets.
const DEFINITION: &str = r#"
saga = "pair"
version = 1
claims = ["thing:${input.thing}"]
[defaults]
timeout = "5s"
retry = { initial = "20ms", max_attempts = 2, budget = "30s" }
on_unknown = { queries = 1, interval = "20ms", verify = ["1h"] }
[participants.a]
idempotency = "replay"
[participants.b]
idempotency = "none"
[[step]]
name = "one"
[step.action]
to = "a"
post = "/one"
body = { how = "${input.how}" }
[step.compensation]
post = "/undo-one"
body = { how = "${input.how}" }
[[step]]
name = "two"
[step.action]
to = "b"
post = "/two"
body = { how = "${input.how}" }
[step.compensation]
post = "/undo-two"
body = {}
"#;

/// A server on which `pair` is defined, and its participants.
pub(crate) fn pair() -> (Server, Participants) {
    let participants =
        Participants::start(|call| match (call.what.as_str(), call.body["how"].as_str().unwrap_or("")) {
            ("POST /b/two", "refused" | "refused, and the undo too") => {
                (422, json!({"reason": "no more of it"}))
            }
            ("POST /a/undo-one", "refused, and the undo too") => (422, json!({"reason": "too late to undo"})),
            ("POST /b/two", "lost") => (500, json!({})),
            ("POST /b/two", "slow") => {
                std::thread::sleep(Duration::from_secs(3));
                (200, json!({}))
            }
            _ => (200, json!({"ok": true})),
        });
    let server = Server::start(&participants.config(&["a", "b"]));
    server.define(DEFINITION);
    (server, participants)
}

/// Starts a saga and waits for it.
pub(crate) fn start(server: &Server, id: &str, how: &str, wait: &str) -> crate::program::Ran {
    let input = json!({"how": how, "thing": id}).to_string();
    server.cli(&["-o", "json", "saga", "start", "pair", id, "--input", &input, "--wait", wait])
}

#[test]
fn exit_code_tells_how_the_saga_ended() {
    let (server, _participants) = pair();
    for (id, how, code, status) in [
        ("s:1", "well", 0, "completed"),
        ("s:2", "refused", 8, "compensated"),
        ("s:3", "refused, and the undo too", 9, "dead"),
        ("s:4", "lost", 9, "unknown"),
    ] {
        let saga = start(&server, id, how, "30s").exits(code).json();
        assert_eq!(saga["status"], status, "{saga:#}");
        assert_eq!(saga["id"], id);
        let watched = server.cli(&["saga", "watch", id]).exits(code);
        assert!(watched.out.contains(status), "{watched:?}");
    }
    let late = start(&server, "s:5", "slow", "100ms").exits(5).says(&["amends saga watch s:5"]);
    assert_eq!(late.json()["status"], "running");
    server.cli(&["saga", "watch", "s:5", "--wait", "1ms"]).exits(5);
}

#[test]
fn without_waiting_an_accepted_saga_is_success() {
    let (server, _participants) = pair();
    let input = r#"{"how": "refused", "thing": "x"}"#;
    server.cli(&["saga", "start", "pair", "s:1", "--input", input]).exits(0);
    // The same again is the same saga, whatever became of it.
    server.cli(&["saga", "start", "pair", "s:1", "--input", input]).exits(0);
    server.cli(&["saga", "watch", "s:1", "--wait", "30s"]).exits(8);
    server.cli(&["saga", "start", "pair", "s:1", "--input", input, "--wait", "30s"]).exits(8);
}

#[test]
fn what_is_refused_says_why_and_what_next() {
    let (server, _participants) = pair();
    start(&server, "s:1", "well", "30s").exits(0);
    start(&server, "s:2", "lost", "30s").exits(9);
    let show = server.cli(&["saga", "show", "s:9"]).exits(3);
    show.says(&["s:9", "unknown-saga", "next: `amends saga list"]);
    server
        .cli(&["saga", "start", "none", "s:9", "--input", "{}"])
        .exits(3)
        .says(&["unknown-definition", "definition list"]);
    start(&server, "s:1", "refused", "1s").exits(4).says(&["input-conflict"]);
    let frozen = r#"{"how": "well", "thing": "s:2"}"#;
    server.cli(&["saga", "start", "pair", "s:3", "--input", frozen]).exits(4).says(&[
        "claim-frozen",
        "held by s:2",
        "step two",
        "since 2",
    ]);
    server.cli(&["saga", "show", "s:3"]).exits(3);
    server.cli(&["saga", "start", "pair", "s:4", "--input", "{}"]).exits(2).says(&["malformed", "input."]);
    server.cli(&["saga", "show", "s:4"]).exits(3);
    server.cli(&["saga", "cancel", "s:1"]).exits(4);
    server.cli(&["saga", "list", "--status", "happy"]).exits(2).says(&["status"]);
    server.cli(&["saga", "list", "--cursor", "nonsense"]).exits(2).says(&["cursor"]);
}

#[test]
fn command_lines_that_make_no_sense_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["saga", "start", "pair", "s:1"][..],
        &["saga", "start", "pair", "s:1", "--input", "{", "--server", "http://127.0.0.1:1"],
        &["saga", "start", "pair", "s:1", "--input", "{}", "--input-file", "f"],
        &["saga", "start", "pair", "s:1", "--input-file", "no-such-file"],
        &["saga", "start", "pair", "s:1", "--input", "{}", "--wait", "soon"],
        &["saga", "retry", "s:1", "two"],
        &["saga", "show", ""],
        &["saga", "show", "a\tb"],
        &["saga", "resolve", "s:1", "two", "--reason", "r", "--outcome", "perhaps"],
        &["saga", "resolve", "s:1", "two", "--reason", "r", "--outcome", "not_done", "--fact", "{}"],
        &["saga", "list", "-o", "yaml"],
        &["saga", "list", "--server", "localhost"],
        &["demo", "--fault-rate", "2"],
        &["demo", "--orders", "0"],
        &["bench", "--workload", "order4"],
        &["statement", "list"],
        &[],
    ] {
        let ran = run(folder.path(), arguments).exits(2);
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{ran:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_way_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["saga", "list", "--server", "http://127.0.0.1:1"]).exits(1);
    ran.says(&["http://127.0.0.1:1", "amends serve", "AMENDS_SERVER"]);
}

#[test]
fn tokens_and_roles_are_denied_with_their_own_code() {
    let config = "[server]\ntokens = [{ name = \"see\", token = \"env:SEE\", role = \"viewer\" }]\n";
    let server = Server::start_with(config, &[("SEE", "secret-of-see")]);
    server.cli(&["saga", "list"]).exits(6).says(&["AMENDS_TOKEN"]);
    server.cli_as("wrong", &["saga", "list"]).exits(6);
    server.cli_as("secret-of-see", &["saga", "list"]).exits(0);
    let denied = server.cli_as("secret-of-see", &["saga", "cancel", "s:1"]).exits(6).says(&["forbidden"]);
    assert!(!denied.err.contains("secret-of-see"));
}
