//! Things that change while a saga is under way.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api::saga_path;
use crate::ground::{Ground, Market, order};
use crate::script::{Reply, Script};
use crate::store::StoreUrl;

/// Three steps whose paths name the version.
fn version(number: u32) -> String {
    let step = |name: &str, rest: &str| {
        format!(
            "[[step]]\nname = \"{name}\"\n{rest}[step.action]\nto = \"a\"\npost = \"/v{number}/{name}\"\ntimeout = \"60s\"\nretry = {{ max_attempts = 2, budget = \"10m\" }}\n"
        )
    };
    let undo = "effect = \"none\"\n";
    format!(
        "saga = \"changing\"\nversion = {number}\n[participants.a]\nidempotency = \"replay\"\n{}{}{}",
        step("one", undo),
        step("two", undo),
        step("three", "pivot = true\n")
    )
}

pub(super) async fn definition_changes_mid_flight(store: StoreUrl) -> Result<()> {
    let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let script = Script::start({
        let (arrived, go_on) = (arrived.clone(), go_on.clone());
        move |call| {
            if call.what != "POST /v1/two" {
                return Reply::Json(200, json!({}));
            }
            arrived.notify_one();
            let go_on = go_on.clone();
            Reply::later(async move {
                go_on.notified().await;
                Reply::Json(200, json!({}))
            })
        }
    })
    .await?;
    let mut ground = Ground::scripted(&store, &[("a", script.at)]).await?;
    let api = ground.api.clone();
    api.define(&version(1)).await?;
    api.start("changing", "old", &json!({})).await?;
    arrived.notified().await;
    api.define(&version(2)).await?;
    let conflicting = version(1).replace("/v1/three", "/elsewhere");
    ensure!(api.define(&conflicting).await.is_err(), "a version was registered twice with other content");
    api.start("changing", "new", &json!({})).await?;
    let new = api.ends("new", "completed").await?;
    ensure!(new["definition_version"] == 2, "{new:#}");
    ground.kill_and_restart().await?;
    // What was on its way, and what is sent after the take-over.
    go_on.notify_one();
    arrived.notified().await;
    go_on.notify_one();
    go_on.notify_one();
    let old = api.ends("old", "completed").await?;
    ensure!(old["definition_version"] == 1, "{old:#}");
    for call in script.calls() {
        let expected = if call.key.starts_with("old:") { "POST /v1/" } else { "POST /v2/" };
        ensure!(call.what.starts_with(expected), "{} was called for {}", call.what, call.key);
    }
    Ok(())
}

pub(super) async fn cancel_races_the_last_success(store: StoreUrl) -> Result<()> {
    let market = Market::open(&store).await?;
    let api = market.ground.api.clone();
    let ids: Vec<String> = (0..30).map(|n| format!("order-{n}")).collect();
    let (mut in_time, mut too_late) = (0, 0);
    for (n, id) in (0_u64..).zip(&ids) {
        api.start("demo-order", id, &order()).await?;
        tokio::time::sleep(std::time::Duration::from_millis(n * 3)).await;
        let reason = json!({ "reason": "changed their mind" });
        let answer = api.insist(&format!("{}/cancel", saga_path(id)), &reason).await?;
        match (answer.status, answer.problem()) {
            (200 | 202, _) => in_time += 1,
            (409, "past-pivot" | "wrong-state") => too_late += 1,
            _ => anyhow::bail!("{id}: {}", answer.text),
        }
    }
    let settled = market.settle_clean(&ids).await?;
    let undone = settled.sagas.iter().filter(|saga| saga["status"] == "compensated").count();
    // A cancel that came while the pivot was on its way was taken, and then refused by what the pivot turned out to be.
    ensure!(undone <= in_time, "{undone} were undone, but only {in_time} of {} cancelled in time", ids.len());
    ensure!(settled.verdict.completed >= too_late, "{too_late} came too late: {:?}", settled.verdict);
    let both = |saga: &Value| {
        let steps = saga["steps"].as_array().into_iter().flatten();
        let states: Vec<&str> = steps.filter_map(|step| step["status"].as_str()).collect();
        states.contains(&"compensated") && states.last() == Some(&"done")
    };
    ensure!(!settled.sagas.iter().any(both), "one was undone behind its pivot");
    Ok(())
}
