//! `amends redis install` and `amends redis doctor`.

use std::process::Stdio;

use amends_testbed::redis::Redis;
use serde_json::Value;

use crate::program::{Ran, command};

fn amends(server: &Redis, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let mut program = command(folder.path());
    program.arg("redis").args(arguments).env("AMENDS_REDIS_URL", server.url()).stdin(Stdio::null());
    program.output().unwrap().into()
}

fn results(ran: &Ran) -> Vec<(String, String)> {
    let page: Value = serde_json::from_str(&ran.out).unwrap();
    let items = page["items"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items.iter().map(|item| (text(&item["check"]), text(&item["result"]))).collect()
}

#[test]
fn functions_are_installed_and_settings_judged() {
    let server = Redis::start().unwrap();
    let looked = amends(&server, &["doctor", "-o", "json"]).exits(0);
    assert!(results(&looked).contains(&("functions".into(), "risk".into())), "{}", looked.out);
    amends(&server, &["install"]).exits(0);
    amends(&server, &["install"]).exits(0);
    let looked = amends(&server, &["doctor", "-o", "json"]).exits(0);
    assert!(results(&looked).contains(&("functions".into(), "ok".into())), "{}", looked.out);

    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let looked = amends(&server, &["doctor", "-o", "json"]).exits(1);
    assert_eq!(results(&looked)[0], ("maxmemory-policy".into(), "problem".into()), "{}", looked.out);
    amends(&server, &["doctor"]).exits(1).says(&["would lose what was acknowledged"]);

    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.ask(&["CONFIG", "SET", "appendonly", "no"]).unwrap();
    amends(&server, &["doctor"]).exits(1);
    amends(&server, &["doctor", "--volatile"]).exits(0);
}
