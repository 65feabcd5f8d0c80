//! Sagas that do a part of their work in Redis and another over HTTP: what Redis holds at the end is what the sagas say.

use std::time::Duration;

use amends_testbed::redis::Redis;
use serde_json::json;

use crate::participants::Participants;
use crate::program::Server;

const DEFINITION: &str = r#"
saga = "pay"
version = 1
[defaults]
timeout = "500ms"
retry = { initial = "50ms", max_interval = "200ms", max_attempts = 20, budget = "60s" }
on_unknown = { queries = 2, interval = "50ms", verify = ["500ms"] }
[participants.wallet]
fenced = true
[participants.shop]
idempotency = "replay"
[[step]]
name = "hold"
reaches = "HELD"
[step.action]
to = "wallet"
redis = [
  ["HINCRBY", "balance:{${input.user}}", "amount", "-${input.amount}"],
  ["RPUSH", "story:{${input.user}}", "hold ${id}"],
]
guard = [{ key = "balance:{${input.user}}", field = "amount", at_least = "${input.amount}" }]
[step.compensation]
redis = [
  ["HINCRBY", "balance:{${input.user}}", "amount", "${input.amount}"],
  ["RPUSH", "story:{${input.user}}", "undo ${id}"],
]
[[step]]
name = "order"
effect = "none"
[step.action]
to = "shop"
post = "/orders"
body = { left = "${steps.hold.fact.results.0}" }
"#;

/// A server whose wallet is `redis`, and a shop that refuses the sagas whose ids end with an odd digit.
fn start(redis: &Redis) -> (Server, Participants) {
    let shop = Participants::start(|call| {
        let id = call.key.split(":order:").next().unwrap_or_default();
        let odd = id.chars().last().and_then(|digit| digit.to_digit(10)).is_some_and(|digit| digit % 2 == 1);
        if odd { (422, json!({"reason": "sold out"})) } else { (200, json!({})) }
    });
    let config = format!("{}[participants.wallet]\nurl = \"env:WALLET_URL\"\n", shop.config(&["shop"]));
    let server = Server::start_with(&config, &[("WALLET_URL", &redis.url())]);
    server.define(DEFINITION);
    (server, shop)
}

fn input(amount: &str) -> String {
    format!("{{\"user\": \"u\", \"amount\": {amount}}}")
}

#[test]
fn what_redis_did_is_undone_once_when_the_next_step_is_refused() {
    let redis = Redis::start().unwrap();
    redis.ask(&["HSET", "balance:{u}", "amount", "100"]).unwrap();
    let (server, shop) = start(&redis);
    let run = |id: &str, amount: &str| {
        server.cli(&["saga", "start", "pay", id, "--input", &input(amount), "--wait", "30s", "-o", "json"])
    };

    let bought = run("o0", "30").exits(0).json();
    assert_eq!(bought["status"], "completed");
    assert_eq!(bought["steps"][0]["fact"], json!({"results": ["70", "1"]}));
    let refused = run("o1", "30").exits(8).json();
    assert_eq!(
        (refused["status"].as_str(), refused["steps"][0]["status"].as_str()),
        (Some("compensated"), Some("compensated"))
    );
    let poor = run("o2", "71").exits(8).json();
    assert!(
        poor["steps"][0]["reason"].as_str().is_some_and(|why| why.contains("is 70, less than 71")),
        "{poor}"
    );
    assert_eq!(redis.ask(&["HGET", "balance:{u}", "amount"]).unwrap(), "70");
    assert_eq!(redis.ask(&["LRANGE", "story:{u}", "0", "-1"]).unwrap(), "hold o0\nhold o1\nundo o1");
    let negative = server.cli(&["saga", "start", "pay", "o3", "--input", &input("-5")]);
    assert!(negative.code != 0 && negative.err.contains("input.amount makes no number"), "{negative:?}");
    assert_eq!(shop.calls().len(), 2, "nobody is asked for what could not be held");
    assert_eq!(shop.calls()[0].body, json!({"left": "70"}));
}

#[test]
fn a_server_and_an_engine_that_die_leave_nothing_done_by_halves() {
    const SAGAS: usize = 40;
    let mut redis = Redis::start().unwrap();
    redis.ask(&["HSET", "balance:{u}", "amount", "1000"]).unwrap();
    let (mut server, _shop) = start(&redis);
    let submit = |server: &Server, nth: usize| {
        server.cli(&["saga", "start", "pay", &format!("o{nth}"), "--input", &input("3")]).exits(0);
    };
    for nth in 0..SAGAS {
        submit(&server, nth);
        match nth {
            10 => {
                redis.kill();
                std::thread::sleep(Duration::from_millis(300));
                redis.restart().unwrap();
            }
            20 => {
                server.kill();
                server.start_again();
            }
            30 => {
                redis.ask(&["FUNCTION", "FLUSH"]).unwrap();
            }
            _ => {}
        }
    }
    let mut story = Vec::new();
    for nth in 0..SAGAS {
        let id = format!("o{nth}");
        let (code, status) = if nth % 2 == 1 { (8, "compensated") } else { (0, "completed") };
        let ended = server
            .cli(&["saga", "start", "pay", &id, "--input", &input("3"), "--wait", "60s", "-o", "json"])
            .exits(code);
        assert_eq!(ended.json()["status"], status, "{id}");
        story.push(format!("hold {id}"));
        if nth % 2 == 1 {
            story.push(format!("undo {id}"));
        }
    }
    let told = redis.ask(&["LRANGE", "story:{u}", "0", "-1"]).unwrap();
    let mut told: Vec<_> = told.lines().map(str::to_owned).collect();
    told.sort();
    story.sort();
    assert_eq!(told, story, "each once");
    assert_eq!(redis.ask(&["HGET", "balance:{u}", "amount"]).unwrap(), (1000 - 3 * SAGAS / 2).to_string());
}

#[test]
fn a_wallet_that_is_not_configured_right_is_said_and_waits() {
    let redis = Redis::start().unwrap();
    let server = Server::start_with("[participants.wallet]\nurl = \"env:WALLET_URL\"\n", &[]);
    let found = server.cli(&["doctor", "--config", "amends.toml"]);
    assert!(found.out.contains("WALLET_URL") || found.err.contains("WALLET_URL"), "{found:?}");
    drop(server);
    redis.ask(&["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "+@all", "-hset"]).unwrap();
    let url = format!("redis://app:hunter2@127.0.0.1:{}", redis.port());
    let server = Server::start_with(
        "[participants.wallet]\nurl = \"env:WALLET_URL\"\n[participants.shop]\nurl = \"http://127.0.0.1:1\"\n",
        &[("WALLET_URL", &url)],
    );
    server.define(DEFINITION);
    let waits =
        server.cli(&["saga", "start", "pay", "o1", "--input", &input("1"), "--wait", "2s", "-o", "json"]);
    assert!(waits.out.contains("may not write amends:fence:{u}:o1:hold:action"), "{waits:?}");
    let log = std::fs::read_to_string(server.folder.path().join("log")).unwrap();
    assert!(!log.contains("hunter2") && !waits.out.contains("hunter2"));
}
