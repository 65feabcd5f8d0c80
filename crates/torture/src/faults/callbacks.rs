//! Callbacks: too often, too early, and against what is known.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api::Api;
use crate::ground::Ground;
use crate::patience::until;
use crate::script::{Reply, Script};
use crate::store::StoreUrl;

/// Two steps at once that are finished by callbacks, and one after them.
const DEFINITION: &str = r#"
saga = "called-back"
version = 1
[participants.a]
idempotency = "replay"
[[step]]
name = "one"
after = []
[step.action]
to = "a"
post = "/one"
serial = "/number"
timeout = "30s"
retry = { max_attempts = 2, budget = "10m" }
[step.compensation]
post = "/undo-one"
[[step]]
name = "two"
after = []
[step.action]
to = "a"
post = "/two"
serial = "/number"
[step.compensation]
post = "/undo-two"
[[step]]
name = "three"
after = ["one", "two"]
pivot = true
[step.action]
to = "a"
post = "/three"
"#;

/// Reports what became of a step of `saga`, and is told that it is durable.
async fn report(api: &Api, step: &str, event: &str, outcome: &str, number: &str) -> Result<()> {
    let mut body = json!({ "key": format!("saga:{step}:action"), "event_id": event, "outcome": outcome });
    if outcome == "done" {
        body["fact"] = json!({ "number": number });
    }
    let answer = api.insist("/v1/callbacks", &body).await?;
    ensure!(answer.status == 202, "{}: {}", answer.status, answer.text);
    Ok(())
}

pub(super) async fn callbacks_come_five_times_and_reversed(store: StoreUrl) -> Result<()> {
    let script = Script::start(|call| match call.what.as_str() {
        "POST /one" | "POST /two" => Reply::Json(202, Value::Null),
        _ => Reply::Json(200, json!({})),
    })
    .await?;
    let ground = Ground::scripted(&store, &[("a", script.at)]).await?;
    ground.api.define(DEFINITION).await?;
    ground.api.start("called-back", "saga", &json!({})).await?;
    until("both were accepted", || async {
        Ok((ground.entries("saga", "answered").await?.len() >= 2).then_some(()))
    })
    .await?;
    // The second first, and each five times: three repeats of one report, and two reports that say the same.
    for step in ["two", "one"] {
        for event in ["e1", "e1", "e1", "e2", "e3"] {
            report(&ground.api, step, &format!("{step}-{event}"), "done", &format!("n-{step}")).await?;
        }
    }
    ground.api.ends("saga", "completed").await?;
    let settled = ground.entries("saga", "settled").await?;
    ensure!(settled.len() == 2, "each is settled once: {settled:#?}");
    ensure!(ground.entries("saga", "contradiction").await?.is_empty(), "repeats are no contradiction");
    // The opposite of what is known, and another number for it.
    report(&ground.api, "one", "one-e4", "rejected", "").await?;
    report(&ground.api, "two", "two-e4", "done", "another").await?;
    until("the contradictions are recorded", || async {
        Ok((ground.entries("saga", "contradiction").await?.len() == 2).then_some(()))
    })
    .await?;
    let saga = ground.api.saga("saga").await?;
    ensure!(saga["status"] == "completed", "a contradiction moved it: {saga:#}");
    ensure!(ground.api.metric("amends_contradictions_total").await? == 2.0, "nobody is told of it");
    ensure!(script.calls().len() == 3, "something was sent again: {:?}", script.calls());
    Ok(())
}

pub(super) async fn callback_comes_before_the_answer(store: StoreUrl) -> Result<()> {
    let arrived = Arc::new(Notify::new());
    let script = Script::start({
        let arrived = arrived.clone();
        move |call| match call.what.as_str() {
            // Its answer never comes: whoever waits for it dies first.
            "POST /one" => {
                arrived.notify_one();
                Reply::Silence
            }
            _ => Reply::Json(200, json!({ "number": "n" })),
        }
    })
    .await?;
    let mut ground = Ground::scripted(&store, &[("a", script.at)]).await?;
    ground.api.define(DEFINITION).await?;
    ground.api.start("called-back", "saga", &json!({})).await?;
    arrived.notified().await;
    report(&ground.api, "one", "early", "done", "n-one").await?;
    ground.kill_and_restart().await?;
    ground.api.ends("saga", "completed").await?;
    let saga = ground.api.saga("saga").await?;
    ensure!(saga["steps"][0]["serial"] == "n-one", "{saga:#}");
    let sent = script.count("POST /one", "saga:one:action");
    ensure!(sent == 1, "it was sent {sent} times, although its callback was acknowledged");
    Ok(())
}
