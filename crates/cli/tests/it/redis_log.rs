//! The compensation log from the command line, and its scanner beside an engine.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use amends_testbed::redis::Redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Ran, Server, command};

fn amends(server: &Redis, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let mut program = command(folder.path());
    program.arg("redis").args(arguments).env("AMENDS_REDIS_URL", server.url()).stdin(Stdio::null());
    program.output().unwrap().into()
}

const BEGIN: [&str; 9] = [
    "log",
    "begin",
    "order:789",
    "--rollback",
    "HINCRBY balance:1001 amount 100",
    "--forward",
    "HINCRBY balance:1001 amount -100",
    "--forward-guard",
    "MIN balance:1001 amount 100",
];

fn account(server: &Redis) -> String {
    server.ask(&["HGET", "balance:1001", "amount"]).unwrap()
}

#[test]
fn an_order_is_begun_undone_and_looked_at() {
    let server = Redis::start().unwrap();
    amends(&server, &BEGIN).exits(4).says(&["guard", "does not exist", "nothing was changed"]);
    server.ask(&["HSET", "balance:1001", "amount", "250"]).unwrap();
    amends(&server, &["log", "show", "order:789"]).exits(3);

    let begun = amends(&server, &[&["-o", "json"], &BEGIN[..]].concat()).exits(0).json();
    assert_eq!((&begun["status"], &begun["answers"][0]), (&Value::from("pending"), &Value::from(150)));
    assert_eq!(amends(&server, &[&["-o", "json"], &BEGIN[..]].concat()).exits(0).json(), begun);
    amends(&server, &[&BEGIN[..], &["--timeout", "1h"]].concat()).exits(4).says(&["other content"]);
    assert_eq!(account(&server), "150");

    let listed = amends(&server, &["log", "list"]).exits(0);
    assert!(listed.out.contains("order:789  pending") && listed.out.lines().count() == 2, "{listed:?}");
    let undone = amends(&server, &["log", "compensate", "order:789"]).exits(0);
    assert_eq!(amends(&server, &["log", "compensate", "order:789"]).exits(0).out, undone.out);
    amends(&server, &["log", "commit", "order:789"]).exits(4).says(&["was compensated at"]);
    assert_eq!(account(&server), "250");
    let record = amends(&server, &["-o", "jsonl", "log", "show", "order:789"]).exits(0).json();
    assert_eq!(record["rollback"][0], "HINCRBY balance:1001 amount 100");
    assert_eq!((&record["status"], &record["result"][0]), (&Value::from("compensated"), &Value::from(250)));
    assert!(amends(&server, &["-o", "jsonl", "log", "list", "--settled"]).exits(0).out.contains("order:789"));
    assert!(amends(&server, &["log", "show", "order:789"]).exits(0).out.contains("HINCRBY balance:1001"));
}

#[test]
fn mistakes_are_named_before_anything_is_sent() {
    let server = Redis::start().unwrap();
    let begin = |command: &str| amends(&server, &["log", "begin", "o", "--rollback", command]);
    begin("FLUSHALL").exits(2).says(&["FLUSHALL", "commands allowed", "nothing was sent"]);
    begin("HINCRBY k f much").exits(2).says(&["HINCRBY: argument 3 is \"much\""]);
    begin("SET k \"open").exits(2).says(&["double quote"]);
    amends(&server, &["log", "begin", "o"]).exits(2);
    amends(&server, &["log", "commit", ""]).exits(2).says(&["1 to 512 bytes"]);
    amends(&server, &["--url", "redis://u:hunter2@127.0.0.1:1", "log", "show", "o"])
        .exits(1)
        .says(&["127.0.0.1:1", "--url"]);
    let gone = amends(&server, &["--url", "nonsense hunter2", "log", "show", "o"]).exits(2);
    assert!(!gone.err.contains("hunter2"), "{gone:?}");
    server.ask(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
    amends(&server, &["log", "show", "o"]).exits(6);
}

#[test]
fn a_scan_undoes_what_is_due_and_says_what_needs_a_person() {
    let server = Redis::start().unwrap();
    server.ask(&["HSET", "balance:1001", "amount", "250"]).unwrap();
    amends(&server, &[&BEGIN[..], &["--timeout", "1ms"]].concat()).exits(0);
    let report = amends(&server, &["-o", "json", "scan", "--once"]).exits(0).json();
    assert_eq!(report["compensated"], 1);
    assert_eq!(account(&server), "250");

    let bad = ["status", "pending", "rollback_cmd", "FLUSHALL", "created_at", "1", "expire_at", "2"];
    server.ask(&[&["HSET", "compensate_log:old"], &bad[..]].concat()).unwrap();
    amends(&server, &["scan", "--once"]).exits(9).says(&["old needs a person", "FLUSHALL"]);
    amends(&server, &["scan", "--once"]).exits(0);
    let parked = amends(&server, &["log", "list", "--parked"]).exits(0).says(&["log compensate ID"]);
    assert!(parked.out.contains("FLUSHALL"), "{parked:?}");
}

#[test]
fn a_running_scanner_ends_when_asked_to() {
    let server = Redis::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut scan = command(folder.path());
    scan.args(["-o", "jsonl", "redis", "scan", "--url", &server.url(), "--interval", "100ms"]);
    let mut child = scan.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    amends(&server, &["log", "begin", "o", "--rollback", "INCRBY undone 1", "--timeout", "1ms"]).exits(0);
    // What a round did is said when it is over.
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(report["compensated"], 1, "{line}");
    assert_eq!(server.ask(&["GET", "undone"]).unwrap(), "1");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    Ran::from(child.wait_with_output().unwrap()).exits(0);
}

#[test]
fn an_engine_scans_the_log_that_its_configuration_names() {
    let redis = Redis::start().unwrap();
    let mut engine =
        Server::start(&format!("[redis]\nurl = \"{}\"\nscan_interval = \"100ms\"\n", redis.url()));
    amends(&redis, &["log", "begin", "o", "--rollback", "INCRBY undone 1", "--timeout", "1ms"]).exits(0);
    let until = Instant::now() + Duration::from_secs(60);
    while !engine.log().contains("compensation log: 1 compensated") {
        assert!(Instant::now() < until, "{}", engine.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(redis.ask(&["GET", "undone"]).unwrap(), "1");
    let (code, log) = engine.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn an_engine_does_not_wait_for_a_redis_that_is_away() {
    let mut engine = Server::start("[redis]\nurl = \"redis://me:hunter2@127.0.0.1:1\"\n");
    let (code, log) = engine.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}
