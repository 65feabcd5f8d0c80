//! Locks from the command line, on the embedded store and on Redis.

use amends_testbed::redis::Redis;
use serde_json::Value;

use crate::outcomes::{pair, start};
use crate::program::{Ran, Server, run};

fn token(acquired: &Ran) -> String {
    acquired.json()["token"].as_u64().unwrap().to_string()
}

fn acquire(server: &Server, name: &str) -> Ran {
    server.cli(&["-o", "json", "lock", "acquire", name, "--ttl", "10m"])
}

fn abandon(server: &Server, name: &str, token: &str) -> Ran {
    server.cli(&["lock", "abandon", name, "--token", token, "--reason", "nothing was begun"])
}

fn show(server: &Server, name: &str) -> Value {
    server.cli(&["-o", "json", "lock", "show", name]).exits(0).json()
}

#[test]
fn a_lock_is_let_go_by_the_saga_that_covers_it() {
    let (server, _participants) = pair();
    let first = acquire(&server, "thing:s:1").exits(0);
    let token = token(&first);
    let release =
        |saga: &str| server.cli(&["lock", "release", "thing:s:1", "--token", &token, "--saga", saga]);
    release("s:1").exits(3).says(&["unknown-saga"]);
    start(&server, "s:2", "well", "30s").exits(0);
    release("s:2").exits(4).says(&["does not cover", "amends lock show"]);
    start(&server, "s:1", "well", "30s").exits(0);
    let released = release("s:1").exits(0);
    assert_eq!(released.out, "thing:s:1 is free\n");
    assert_eq!(show(&server, "thing:s:1")["last_release"]["saga"], "s:1");
}

/// The whole life of a lock, over the end of the server that offers it.
fn life(server: &mut Server, kill: impl FnOnce(&mut Server)) {
    let free = server.cli(&["lock", "show", "a b"]).exits(0);
    assert_eq!(free.out, "a b  free\n");
    let first = token(&acquire(server, "a b").exits(0));
    acquire(server, "a b").exits(4).says(&["is held by anonymous", "wrong-state"]);
    let owned = ["lock", "acquire", "mine", "--ttl", "10m", "--owner", "0d7e"];
    let said = server.cli(&owned).exits(0);
    assert!(said.out.starts_with("token ") && said.out.contains("owner 0d7e"), "{said:?}");
    kill(server);

    assert_eq!(
        server.cli(&owned).exits(0).out,
        said.out,
        "the lease outlives the server, and its owner has it again"
    );
    acquire(server, "a b").exits(4);
    let renewed = server.cli(&["lock", "renew", "a b", "--token", &first, "--ttl", "20m"]).exits(0);
    assert!(renewed.out.contains("yours for 20m"), "{renewed:?}");
    let wrong = ["lock", "abandon", "a b", "--token", &first, "--owner", "other", "--reason", "x"];
    server.cli(&wrong).exits(4).says(&["another owner"]);
    abandon(server, "a b", &first).exits(0);
    abandon(server, "a b", &first).exits(0);
    let second = token(&acquire(server, "a b").exits(0));
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
    abandon(server, "a b", &first).exits(4).says(&["acquired again"]);
    let shown = server.cli(&["lock", "show", "a b"]).exits(0).out;
    assert!(shown.contains("held by anonymous") && shown.contains("lease_lost under token"), "{shown}");
}

#[test]
fn the_embedded_store_keeps_locks_over_a_kill() {
    life(&mut Server::start(""), |server| {
        server.kill();
        server.start_again();
    });
}

#[test]
fn redis_keeps_locks_over_kills_of_both() {
    let mut redis = Redis::start().unwrap();
    let mut server = Server::start_with("", &[("AMENDS_STORE", &redis.url())]);
    life(&mut server, |server| {
        server.kill();
        redis.kill();
        redis.restart().unwrap();
        server.start_again();
    });
    assert!(redis.ask(&["EXISTS", "amends:lock:a b"]).unwrap() == "1");
}

#[test]
fn values_that_are_none_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in [
        &["lock", "acquire", ""][..],
        &["lock", "acquire", "a", "--ttl", "99ms"],
        &["lock", "acquire", "a", "--ttl", "2d"],
        &["lock", "renew", "a"],
        &["lock", "renew", "a", "--token", "-1"],
        &["lock", "release", "a", "--token", "1"],
        &["lock", "abandon", "a", "--token", "1"],
    ] {
        run(folder.path(), wrong).exits(2);
    }
}
