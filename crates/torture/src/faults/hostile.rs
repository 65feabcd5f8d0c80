//! Definitions, ids, numbers and answers that mean harm.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::api::saga_path;
use crate::ground::{Ground, Setting, folder};
use crate::script::{Reply, Script};
use crate::shops::section;
use crate::store::StoreUrl;

/// Two steps that wait for each other.
const CYCLE: &str = r#"
saga = "hostile"
version = 1
[participants.a]
idempotency = "replay"
[[step]]
name = "one"
after = ["two"]
effect = "none"
action = { to = "a", post = "/one" }
[[step]]
name = "two"
after = ["one"]
effect = "none"
action = { to = "a", post = "/two" }
"#;

fn many_steps(steps: usize) -> String {
    let head = "saga = \"hostile\"\nversion = 1\n[participants.a]\nidempotency = \"replay\"\n";
    let step = |n: usize| {
        format!("[[step]]\nname = \"s{n}\"\neffect = \"none\"\naction = {{ to = \"a\", post = \"/x\" }}\n")
    };
    head.to_owned() + &(0..steps).map(step).collect::<String>()
}

pub(super) async fn hostile_definitions(store: StoreUrl) -> Result<()> {
    let ground = Ground::new(&store, "").await?;
    let deep =
        format!("{{\"saga\":\"hostile\",\"version\":1,\"step\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let of = |from: &str, to: &str| CYCLE.replace(from, to);
    let (toml, json_type) = ("application/toml", "application/json");
    let bodies: Vec<(&str, Vec<u8>, &str)> = vec![
        (toml, CYCLE.into(), "wait for each other"),
        (toml, many_steps(10_000).into(), "1000"),
        (json_type, deep.into(), "nested"),
        (json_type, "[".repeat(100_000).into(), ""),
        (toml, of("\"two\"\nafter", "\"tw\\u0000o\"\nafter").into(), "name"),
        (toml, of("\"two\"\nafter", "\"tw\u{202e}o\"\nafter").into(), "name"),
        (toml, of("post = \"/two\"", "post = \"http://169.254.169.254/\"").into(), "this is a URL"),
        (toml, of("post = \"/two\"", "post = \"/two\", headers = { host = \"x\" }").into(), "host"),
        (toml, of("post = \"/two\"", "post = \"/${input.a\"").into(), "closing"),
        (toml, of("version = 1", "version = 99999999999999999999999").into(), "version"),
        (toml, of("version = 1", "version = 1\ndeadline = \"99999999999d\"").into(), "deadline"),
        (toml, "\u{0}\u{1}\u{2}".into(), ""),
        (toml, vec![0xff; 64], ""),
        (json_type, "{\"saga\":\"hostile\",\"saga\":\"hostile\",\"version\":1}".into(), "twice"),
    ];
    for (media, body, words) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let answer =
            ground.api.send(Method::PUT, "/v1/definitions/hostile", &[("content-type", media)], body).await?;
        ensure!((400..=422).contains(&answer.status), "{}: {shown}: {}", answer.status, answer.text);
        ensure!(matches!(answer.problem(), "invalid-definition" | "malformed"), "{shown}: {}", answer.text);
        ensure!(answer.text.contains(words), "{words:?} is missing: {shown}: {}", answer.text);
        ensure!(answer.text.len() < 200_000, "an answer of {} bytes to {shown}", answer.text.len());
    }
    let large = vec![b'#'; 3 << 20];
    let answer =
        ground.api.send(Method::PUT, "/v1/definitions/hostile", &[("content-type", toml)], large).await?;
    ensure!(answer.status == 413 && answer.problem() == "too-large", "{}", answer.text);
    let kept = ground.api.look("/v1/definitions").await?.expect(200)?.body;
    ensure!(kept["items"] == json!([]), "{kept}");
    Ok(())
}

/// One step that is told everything.
const ECHO: &str = r#"
saga = "echo"
version = 1
claims = ["claim:${id}"]
[participants.a]
idempotency = "replay"
[[step]]
name = "tell"
pivot = true
[step.action]
to = "a"
post = "/tell/${id}"
body = { id = "${id}", all = "${input}", text = "amount ${input.amount}" }
"#;

pub(super) async fn hostile_ids_and_numbers(store: StoreUrl) -> Result<()> {
    let script = Script::start(|call| {
        let body: Value = serde_json::from_str(&call.body).unwrap_or_default();
        Reply::Json(200, json!({ "back": body["all"] }))
    })
    .await?;
    let mut ground = Ground::scripted(&store, &[("a", script.at)]).await?;
    let api = ground.api.clone();
    api.define(ECHO).await?;
    let long = "x".repeat(256);
    let ids = [
        "key",
        "Key",
        "key ",
        " key",
        "k\u{e9}y",
        "ke\u{301}y",
        "\u{202e}yek",
        "\u{1f980}",
        "a/b?c#d%20&e=f",
        "%2e%2e",
        "'; DROP TABLE saga; --",
        "{\"id\": 1}",
        "${id}",
        "$$",
        "\\",
        "\"",
        long.as_str(),
    ];
    let numbers =
        ["9007199254740993", "1.10", "0.1000", "-0", "123456789012345678901234567890.5", "1e+400", "1e-7"];
    for (n, id) in ids.iter().enumerate() {
        let number = numbers[n % numbers.len()];
        let id_json = Value::from(*id);
        let body = format!(
            "{{\"saga\":\"echo\",\"id\":{id_json},\"input\":{{\"amount\":{number},\"text\":{id_json}}}}}"
        );
        let json_type = [("content-type", "application/json")];
        let answer = api.send(Method::POST, "/v1/sagas?wait=30s", &json_type, body).await?.expect(201)?;
        ensure!(answer.body["id"] == *id, "{}", answer.text);
    }
    ground.kill_and_restart().await?;
    for (n, id) in ids.iter().enumerate() {
        let number = numbers[n % numbers.len()];
        let saga = api.ends(id, "completed").await?;
        ensure!(saga["id"] == *id && saga["input"]["text"] == *id, "{saga:#}");
        let shown = api.look(&saga_path(id)).await?.text;
        ensure!(shown.contains(&format!("\"amount\":{number}")), "{number} is not in {shown}");
        let key = format!("{id}:tell:action");
        let calls = script.calls();
        let Some(call) = calls.iter().find(|call| call.key == key) else {
            anyhow::bail!("{key} was not sent")
        };
        ensure!(call.body.contains(&format!("\"amount\":{number}")), "{number} is not in {}", call.body);
        ensure!(call.body.contains(&format!("\"amount {number}\"")), "{number} is not in {}", call.body);
    }
    let too_long = "x".repeat(257);
    for id in ["", "a\u{0}b", "a\nb", "\u{7f}", "\u{85}", too_long.as_str()] {
        let refused =
            api.post("/v1/sagas", &json!({ "saga": "echo", "id": id, "input": { "amount": 1 } })).await?;
        ensure!(refused.status == 400 && refused.problem() == "malformed", "{id:?}: {}", refused.text);
    }
    // A path segment that would mean another resource is refused before anything is kept.
    for id in [".", ".."] {
        let refused =
            api.post("/v1/sagas", &json!({ "saga": "echo", "id": id, "input": { "amount": 1 } })).await?;
        ensure!(refused.status == 422, "{id:?}: {}", refused.text);
    }
    let listed = api.look("/v1/sagas?limit=500").await?.expect(200)?.body;
    let listed = listed["items"].as_array().map_or(0, Vec::len);
    ensure!(listed == ids.len(), "{listed} sagas instead of {}", ids.len());
    Ok(())
}

/// One step a kind of answer, each of them driven on to a participant that behaves.
const CALLS: &str = r#"
saga = "answered"
version = 1
[participants.a]
idempotency = "replay"
[defaults]
timeout = "2s"
retry = { initial = "50ms", factor = 1, max_attempts = 4, budget = "5m" }
on_unknown = { queries = 1, interval = "50ms", verify = ["500ms"], verify_for = "10m" }
[[step]]
name = "only"
pivot = true
[step.action]
to = "a"
post = "/${input.kind}"
"#;

/// The most that an endless answer may cost: some limits' worth of one answer, and what a process grows by anyway.
const MEMORY_MAX: u64 = 48 << 20;
const CANARY: &str = "canary-4711";

pub(super) async fn hostile_answers(store: StoreUrl) -> Result<()> {
    let elsewhere = Script::start(|_| Reply::Json(200, json!({}))).await?;
    let redirect = format!("http://{}/stolen", elsewhere.at);
    let kinds = ["redirect", "endless", "slow", "page"];
    let script = Script::start(move |call| {
        let attempt = call.headers.get("amends-attempt").and_then(|value| value.to_str().ok());
        match (call.what.as_str(), attempt) {
            ("POST /redirect", Some("1")) => Reply::Redirect(redirect.clone()),
            ("POST /endless", Some("1")) => Reply::Endless(1 << 20, Duration::from_millis(1)),
            ("POST /slow", Some("1")) => Reply::Endless(1, Duration::from_secs(1)),
            ("POST /page", Some("1")) => Reply::Json(500, Value::from("x".repeat(100_000))),
            _ => Reply::Json(200, json!({})),
        }
    })
    .await?;
    let mut config = section("a", script.at);
    config.push_str("headers = { authorization = \"env:CANARY\" }\n");
    let setting = Setting { environment: vec![("CANARY".into(), CANARY.into())], ..Setting::default() };
    let ground = Ground::set(&store, folder(&store)?, &config, setting).await?;
    ground.api.define(CALLS).await?;
    let before = ground.engine.memory_bytes();
    for kind in kinds {
        ground.api.start("answered", kind, &json!({ "kind": kind })).await?;
    }
    for kind in kinds {
        ground.api.ends(kind, "completed").await?;
        let first = ground.entry(kind, "answered").await?;
        ensure!(first["outcome"] == "unknown", "{kind}: {first}");
        ensure!(
            first.to_string().len() < 4_000,
            "{kind}: the journal holds {} bytes of it",
            first.to_string().len()
        );
    }
    let stolen = elsewhere.calls();
    ensure!(stolen.is_empty(), "a redirect was followed: {stolen:?}");
    if let (Some(before), Some(after)) = (before, ground.engine.memory_bytes()) {
        ensure!(after < before + MEMORY_MAX, "memory grew from {before} to {after} bytes");
    }
    let calls = script.calls();
    ensure!(
        calls.iter().all(|call| call.headers.get("authorization").is_some_and(|value| value == CANARY)),
        "the header is missing"
    );
    ensure!(!ground.engine.log().contains(CANARY), "a secret is in the log");
    for file in std::fs::read_dir(ground.folder.path())? {
        let file = file?.path();
        let bytes = std::fs::read(&file).unwrap_or_default();
        let holds = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        ensure!(!holds, "a secret is in {}", file.display());
    }
    Ok(())
}
