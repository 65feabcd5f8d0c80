//! `amends serve`: its one line, its configuration, its end.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::http;
use crate::participants::Participants;
use crate::program::{Server, command, run};

#[test]
fn it_says_one_line_on_stdout_and_stops_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command(folder.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--store", "sqlite://here.db", "--stop-with-stdin"]);
    let mut child =
        serve.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(child.stdin.take());
    let ran = crate::program::Ran::from(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(ran.out.lines().count(), 1, "{ran:?}");
    assert!(
        ran.out.starts_with("amends listening on http://127.0.0.1:") && !ran.out.contains(":0\n"),
        "{ran:?}"
    );
    assert!(folder.path().join("here.db").is_file());
}

#[test]
fn sigterm_ends_it_in_order_and_the_next_one_goes_on() {
    let participants = Participants::start(|_| {
        std::thread::sleep(Duration::from_millis(300));
        (200, json!({}))
    });
    let mut server = Server::start(&participants.config(&["a"]));
    server.define(DEFINITION);
    server.cli(&["saga", "start", "chain", "c:1", "--input", "{}"]).exits(0);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
    server.start_again();
    server.cli(&["saga", "watch", "c:1", "--wait", "60s"]).exits(0);
}

/// Three steps that answer `{}`.
const DEFINITION: &str = r#"
saga = "chain"
version = 1
[participants.a]
idempotency = "replay"
[[step]]
name = "one"
action = { to = "a", post = "/one", body = {} }
compensation = { to = "a", post = "/undo", body = {} }
[[step]]
name = "two"
pivot = true
action = { to = "a", post = "/two", body = {} }
[[step]]
name = "three"
action = { to = "a", post = "/three", body = {} }
"#;

#[test]
fn kill_9_loses_nothing_and_doubles_nothing() {
    let participants = Participants::start(|_| {
        std::thread::sleep(Duration::from_millis(60));
        (200, json!({}))
    });
    let mut server = Server::start(&participants.config(&["a"]));
    server.define(DEFINITION);
    for n in 0..8 {
        server.cli(&["saga", "start", "chain", &format!("c:{n}"), "--input", "{}"]).exits(0);
    }
    server.kill();
    server.start_again();
    for n in 0..8 {
        server.cli(&["saga", "watch", &format!("c:{n}"), "--wait", "60s"]).exits(0);
    }
    // Under the same key it may have been sent twice; a participant that replays has done it once.
    let mut keys: Vec<String> = participants.calls().into_iter().map(|call| call.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 24, "{keys:?}");
}

#[test]
fn a_second_engine_on_the_same_file_is_refused() {
    let server = Server::start("");
    let second = run(server.folder.path(), &["serve", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(second.out.is_empty());
    second.says(&["amends.db", "next: stop the other engine"]);
    let address = server.url.trim_start_matches("http://");
    let elsewhere = tempfile::tempdir().unwrap();
    run(elsewhere.path(), &["serve", "--listen", address]).exits(1).says(&[address, "--listen"]);
}

#[test]
fn wrong_configurations_are_refused_by_file_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    for (text, words) in [
        (
            "[server]\nlisten = \"127.0.0.1:0\"\nlisetn = 1\n",
            &["amends.toml: line 3, [server] lisetn", "unknown field"][..],
        ),
        ("[participants.a]\nurl = \"not a url\"\n", &["amends.toml: line 2, [participants.a] url"]),
        ("[server]\nlisten = \"0.0.0.0:0\"\n", &["0.0.0.0:0", "tokens"]),
        ("[server]\nlisten = \"somewhere\"\n", &["somewhere", "127.0.0.1:7070"]),
        ("[store]\nurl = \"mysql://me:hunter2@db\"\n", &["mysql://", "names no database"]),
        ("[store]\nurl = \"oracle://x\"\n", &["unknown scheme"]),
        ("[server]\ntokens = [{ name = \"a\", token = \"env:NO_SUCH\", role = \"admin\" }]\n", &["NO_SUCH"]),
        ("[[server]]\n", &["line 1"]),
    ] {
        std::fs::write(folder.path().join("amends.toml"), text).unwrap();
        let ran = run(folder.path(), &["serve"]).exits(2).says(words).says(&["next: "]);
        assert!(ran.out.is_empty() && !ran.err.contains("hunter2"), "{ran:?}");
    }
    assert!(!folder.path().join("amends.db").exists());
    run(folder.path(), &["serve", "--config", "nowhere.toml"]).exits(2).says(&["nowhere.toml"]);
}

#[test]
fn flags_go_before_variables_and_those_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("amends.toml"), "[server]\nlisten = \"in-the-file\"\n").unwrap();
    run(folder.path(), &["serve"]).exits(2).says(&["in-the-file"]);
    let with_variable = |arguments: &[&str]| {
        let mut serve = command(folder.path());
        serve.args(arguments).env("AMENDS_LISTEN", "in-the-variable").stdin(Stdio::null());
        crate::program::Ran::from(serve.output().unwrap())
    };
    with_variable(&["serve"]).exits(2).says(&["in-the-variable"]);
    with_variable(&["serve", "--listen", "on-the-line"]).exits(2).says(&["on-the-line"]);
}

#[test]
fn bad_requests_get_the_right_problem_and_change_nothing() {
    let server = Server::start("");
    let post = |body: &str| {
        http::call("POST", &format!("{}/v1/sagas", server.url), &[("Content-Type", "application/json")], body)
    };
    for (body, status, problem) in [
        ("{", 400, "malformed"),
        (r#"{"saga": "s", "id": "x", "input": {}, "colour": "red"}"#, 400, "malformed"),
        (r#"{"saga": "s", "id": "", "input": {}}"#, 400, "malformed"),
        (r#"{"saga": "s", "id": "x", "input": {}}"#, 404, "unknown-definition"),
    ] {
        let (got, answer) = post(body);
        assert_eq!(
            (got, answer["type"].as_str()),
            (status, Some(format!("urn:amends:problem:{problem}").as_str())),
            "{body}"
        );
    }
    let large = format!(r#"{{"saga": "s", "id": "x", "input": "{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(post(&large).0, 413);
    let (status, list) = http::call("GET", &format!("{}/v1/sagas", server.url), &[], "");
    assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(0)));
}
