//! What machines give up, and people who act at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::script::{Reply, Script};
use crate::store::StoreUrl;

/// The first step's compensation goes to a participant of its own; the second step is refused where the input says so.
const DEFINITION: &str = r#"
saga = "stuck"
version = 1
claims = ["thing:${input.thing}"]
[defaults]
timeout = "2s"
retry = { initial = "50ms", factor = 1, max_attempts = 2, budget = "1m" }
on_unknown = { queries = 1, interval = "50ms", verify = ["200ms"], verify_for = "1s" }
[participants.sound]
idempotency = "replay"
[participants.broken]
idempotency = "replay"
[[step]]
name = "one"
[step.action]
to = "sound"
post = "/one"
[step.compensation]
to = "broken"
post = "/undo-one"
[[step]]
name = "two"
[step.action]
to = "sound"
post = "/two"
body = { refuse = "${input.refuse}" }
[step.compensation]
post = "/undo-two"
"#;

pub(super) async fn compensation_fails_for_ever(store: StoreUrl) -> Result<()> {
    let healed = Arc::new(AtomicBool::new(false));
    let is_healed = healed.clone();
    let script = Script::start(move |call| match call.what.as_str() {
        "POST /undo-one" if !is_healed.load(Ordering::SeqCst) => Reply::Json(500, Value::Null),
        "POST /two" if call.body.contains("true") => Reply::Json(422, json!({ "reason": "no more of it" })),
        _ => Reply::Json(200, json!({})),
    })
    .await?;
    let mut ground = Ground::scripted(&store, &[("sound", script.at), ("broken", script.at)]).await?;
    let api = ground.api.clone();
    api.define(DEFINITION).await?;
    let input = |thing: &str, refuse: bool| json!({ "thing": thing, "refuse": refuse });
    api.start("stuck", "broken", &input("a", true)).await?;
    api.ends("broken", "dead").await?;
    for id in ["other-1", "other-2"] {
        api.start("stuck", id, &input(id, false)).await?;
        api.ends(id, "completed").await?;
    }
    for again in [false, true] {
        if again {
            ground.kill_and_restart().await?;
        }
        let saga = api.saga("broken").await?;
        ensure!(saga["status"] == "dead" && saga["business_state"] == "MANUAL", "{saga:#}");
        ensure!(
            saga["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "nobody is told why: {saga:#}"
        );
        let groups = api.look("/v1/dead-letters").await?.expect(200)?.body;
        let group = &groups["items"][0];
        ensure!(
            group["step"] == "one" && group["operation"] == "compensation" && group["count"] == 1,
            "{groups:#}"
        );
        let submission = json!({ "saga": "stuck", "id": "late", "input": input("a", false) });
        let frozen = api.insist("/v1/sagas", &submission).await?.expect(409)?;
        ensure!(frozen.problem() == "claim-frozen" && frozen.body["holder"] == "broken", "{}", frozen.text);
    }
    healed.store(true, Ordering::SeqCst);
    let version = api.saga("broken").await?["version"].as_u64().unwrap_or_default();
    let body = json!({ "reason": "it is repaired", "step": "one", "operation": "compensation" });
    api.act("broken", "retry", version, &body).await?.expect(200)?;
    api.ends("broken", "compensated").await?;
    api.start("stuck", "late", &input("a", false)).await?;
    api.ends("late", "completed").await.map(drop)
}

/// A step that nobody is there for: it is dead, and was never sent.
const NEVER_SENT: &str = r#"
saga = "never-sent"
version = 1
[defaults]
retry = { initial = "10ms", factor = 1, max_attempts = 2, budget = "1m" }
[participants.a]
idempotency = "replay"
[[step]]
name = "one"
[step.action]
to = "a"
post = "/one"
on_exhausted = "dead"
[step.compensation]
post = "/undo-one"
[[step]]
name = "two"
pivot = true
[step.action]
to = "a"
post = "/two"
"#;

pub(super) async fn skip_races_retry(store: StoreUrl) -> Result<()> {
    let script = Script::start(|call| match call.what.as_str() {
        "POST /one" => Reply::Json(429, Value::Null),
        _ => Reply::Json(200, json!({})),
    })
    .await?;
    let ground = Ground::scripted(&store, &[("a", script.at)]).await?;
    let api = &ground.api;
    api.define(NEVER_SENT).await?;
    for n in 0..6 {
        let id = format!("saga-{n}");
        api.start("never-sent", &id, &json!({})).await?;
        let saga = api.ends(&id, "dead").await?;
        let version = saga["version"].as_u64().unwrap_or_default();
        let by = |reason: &str| json!({ "reason": reason, "step": "one" });
        let (skip, retry) = (by("we do without it"), by("it must be there by now"));
        let (skipped, retried) =
            tokio::join!(api.act(&id, "skip", version, &skip), api.act(&id, "retry", version, &retry));
        let (skipped, retried) = (skipped?, retried?);
        let mut statuses = [skipped.status, retried.status];
        statuses.sort_unstable();
        ensure!(statuses == [200, 412], "{id}: {} / {}", skipped.text, retried.text);
        let loser = if skipped.status == 412 { &skipped } else { &retried };
        ensure!(loser.problem() == "stale-version", "{}", loser.text);
        let acted: Vec<Value> = api
            .journal(&id)
            .await?
            .into_iter()
            .filter(|entry| !entry["by"].is_null() && entry["seq"] != 1)
            .collect();
        ensure!(acted.len() == 1 && acted[0]["reason"].is_string(), "{id}: {acted:#?}");
        let expected = if skipped.status == 200 { "skipped" } else { "retry" };
        ensure!(acted[0]["kind"] == expected, "{id}: {acted:#?}");
        if skipped.status == 200 {
            api.ends(&id, "completed").await?;
        } else {
            api.ends(&id, "dead").await?;
        }
    }
    Ok(())
}
