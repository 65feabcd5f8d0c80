use serde_json::{Value, json};

use crate::script::Reply;
use crate::world::{ORDER, World};

async fn world() -> World {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    world
}

fn version(saga: &Value) -> u64 {
    saga["version"].as_u64().unwrap()
}

/// A saga whose charge may have been executed.
async fn unknown(world: &World, id: &str) -> Value {
    world.script.answer("charge:action", &[Reply::Lost]);
    let saga = world.order(id, id).await;
    assert_eq!(saga["status"], "unknown");
    saga
}

/// A saga whose charge was not executed and is not tried again.
async fn dead(world: &World, id: &str) -> Value {
    world.script.answer("charge:action", &[Reply::NotSent]);
    let saga = world.order(id, id).await;
    assert_eq!(saga["status"], "dead");
    saga
}

#[tokio::test]
async fn cancel_undoes_and_gives_the_same_answer_again() {
    let world = world().await;
    world.script.answer("reserve:action", &[Reply::Json(202, "{}")]);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    world.post("/v1/sagas", &body).await.ok(201);
    // No version, and no reason, is needed.
    let saga = world.send("POST", "/v1/sagas/order:1/cancel", &[], "").await;
    assert_eq!(saga.header("etag"), format!("\"{}\"", saga.ok(200)["version"]));
    assert_eq!(saga.ok(200)["direction"], "undo");
    world.post("/v1/sagas/order:1/cancel", &json!({ "reason": "again" })).await.ok(200);

    let journal = world.get("/v1/sagas/order:1/journal").await.ok(200);
    let undoing: Vec<_> =
        journal["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "undoing").collect();
    assert_eq!(undoing.len(), 1);
    assert_eq!(
        (undoing[0]["because"].as_str(), undoing[0]["by"].as_str()),
        (Some("cancel"), Some("anonymous"))
    );
}

#[tokio::test]
async fn cancel_heeds_a_version_if_one_is_given() {
    let world = world().await;
    let saga = world.order_under_way("order:1", "a").await;
    let body = json!({ "reason": "changed my mind" });
    let problem =
        world.act("order:1", "cancel", version(&saga) + 7, &body).await.problem(412, "stale-version");
    assert_eq!(problem["version"], saga["version"]);
    assert_eq!(world.saga("order:1").await["direction"], "forward");
    let saga = world.act("order:1", "cancel", version(&saga), &body).await.ok(200);
    assert_eq!(saga["direction"], "undo");
    assert!(saga["reason"].as_str().unwrap().contains("changed my mind"));
}

#[tokio::test]
async fn past_the_pivot_there_is_no_cancel() {
    let world = world().await;
    world.script.answer("notify:action", &[Reply::Hang]);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    world.post("/v1/sagas", &body).await.ok(201);
    world.until("order:1", |saga| saga["steps"][2]["status"] == "done").await;
    world.post("/v1/sagas/order:1/cancel", &json!({})).await.problem(409, "past-pivot");
}

#[tokio::test]
async fn every_other_action_needs_version_and_reason() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    let body = json!({ "reason": "asked the bank", "step": "charge", "outcome": "not_done" });
    for (action, body) in [
        ("retry", json!({ "reason": "r", "step": "charge" })),
        ("resolve", body.clone()),
        ("skip", json!({ "reason": "r", "step": "charge" })),
        ("close", json!({ "reason": "r" })),
    ] {
        let path = format!("/v1/sagas/a/{action}");
        world.post(&path, &body).await.problem(428, "version-required");
        let stale = world.act("a", action, version(&saga) - 1, &body).await.problem(412, "stale-version");
        assert_eq!(stale["version"], saga["version"]);
        for reason in [json!(""), json!(" \t\n"), Value::Null] {
            let mut body = body.clone();
            body["reason"] = reason;
            world.act("a", action, version(&saga), &body).await.problem(422, "reason-required");
        }
        let mut without = body.clone();
        without.as_object_mut().unwrap().remove("reason");
        world.act("a", action, version(&saga), &without).await.problem(422, "reason-required");
        world.act("none", action, 1, &body).await.problem(404, "unknown-saga");
        // What does not exist comes before the version.
        world.post(&format!("/v1/sagas/none/{action}"), &body).await.problem(404, "unknown-saga");
    }
    assert_eq!(world.saga("a").await, saga, "nothing was changed");
}

#[tokio::test]
async fn actions_say_which_step_and_what() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    let act = |action, body| {
        let world = &world;
        let version = version(&saga);
        async move { world.act("a", action, version, &body).await }
    };
    for action in ["retry", "skip"] {
        act(action, json!({ "reason": "r", "step": "none" })).await.problem(404, "unknown-step");
        assert_eq!(act(action, json!({ "reason": "r" })).await.problem(400, "malformed")["path"], "step");
    }
    let without = act("resolve", json!({ "reason": "r", "step": "charge" })).await.problem(400, "malformed");
    assert_eq!(without["path"], "outcome");
    for (action, body, path) in [
        ("resolve", json!({ "reason": "r", "step": "charge", "outcome": "maybe" }), "outcome"),
        ("resolve", json!({ "reason": "r", "step": "charge", "outcome": "not_done", "fact": null }), "fact"),
        ("resolve", json!({ "reason": "r", "step": "charge", "outcome": "done", "force": true }), "force"),
        ("retry", json!({ "reason": "r", "step": "charge", "outcome": "done" }), "outcome"),
        ("retry", json!({ "reason": "r", "step": "charge", "operation": "query" }), "operation"),
        ("retry", json!({ "reason": "r", "step": "charge", "force": "yes" }), "force"),
        ("skip", json!({ "reason": "r", "step": "charge", "new_key": true }), "new_key"),
        ("close", json!({ "reason": "r", "fact": {} }), "fact"),
    ] {
        assert_eq!(act(action, body).await.problem(400, "malformed")["path"], path, "{action}");
    }
    let long = json!({ "reason": "r".repeat(4097) });
    act("close", long).await.problem(400, "malformed");
    act("close", json!({ "reason": "r", "why": 1 })).await.problem(400, "malformed");
    assert_eq!(world.saga("a").await, saga, "nothing was changed");
}

#[tokio::test]
async fn resolve_settles_with_the_person_as_source() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    let body = json!({ "reason": "the bank's statement", "step": "charge", "outcome": "done", "fact": { "charge": 7.50 } });
    world.act("a", "resolve", version(&saga), &body).await.ok(200);
    let saga = world.until("a", |saga| saga["status"] == "completed").await;
    assert_eq!(saga["steps"][1]["fact"].to_string(), r#"{"charge":7.5}"#);
    let journal = world.get("/v1/sagas/a/journal").await.ok(200);
    let settled = journal["items"].as_array().unwrap().iter().find(|item| item["kind"] == "settled").unwrap();
    assert_eq!((settled["by"].as_str(), settled["source"].as_str()), (Some("anonymous"), Some("person")));
    assert_eq!(settled["reason"], "the bank's statement");
    assert_eq!(settled["outcome"], "done");

    let saga = unknown(&world, "b").await;
    let body = json!({ "reason": "asked", "step": "charge", "operation": "action", "outcome": "not_done" });
    world.act("b", "resolve", version(&saga), &body).await.ok(200);
    let saga = world.until("b", |saga| saga["status"] == "compensated").await;
    assert_eq!(saga["steps"][1]["knowledge"], "sealed");
    world.act("b", "resolve", version(&saga), &body).await.problem(409, "wrong-state");
}

#[tokio::test]
async fn retry_goes_on_under_the_same_key() {
    let world = world().await;
    let saga = dead(&world, "a").await;
    world.script.answer("charge:action", &[Reply::Json(200, r#"{"charged":true}"#)]);
    world
        .act("a", "retry", version(&saga), &json!({ "reason": "the bank is back", "step": "charge" }))
        .await
        .ok(200);
    let saga = world.until("a", |saga| saga["status"] == "completed").await;
    assert_eq!(saga["steps"][1]["fact"], json!({ "charged": true }));
    let again = world.act("a", "retry", version(&saga), &json!({ "reason": "r", "step": "charge" })).await;
    again.problem(409, "wrong-state");

    // What may have been executed is not sent again unless forced.
    let saga = unknown(&world, "b").await;
    world
        .act("b", "retry", version(&saga), &json!({ "reason": "r", "step": "charge" }))
        .await
        .problem(409, "wrong-state");
    world.script.answer("charge:action", &[Reply::Json(200, "{}")]);
    let body = json!({ "reason": "they lost it", "step": "charge", "force": true });
    world.act("b", "retry", version(&saga), &body).await.ok(200);
    world.until("b", |saga| saga["status"] == "completed").await;
}

#[tokio::test]
async fn a_key_that_is_too_old_is_not_relied_on() {
    let world = World::start().await;
    let definition = r#"
        saga = "aged"
        version = 1
        [participants.slow]
        idempotency = "effect"
        key_ttl = "1ms"
        [[step]]
        name = "charge"
        [step.action]
        to = "slow"
        post = "/charges"
        [step.compensation]
        post = "/refunds"
    "#;
    world.apply(&definition.replace("        ", "")).await.ok(201);
    world.script.answer("charge:action", &[Reply::Lost]);
    let body = json!({ "saga": "aged", "id": "a", "input": {} });
    let saga = world.post("/v1/sagas?wait=60s", &body).await.ok(201);
    assert_eq!(saga["status"], "unknown", "{saga}");
    let retry = json!({ "reason": "r", "step": "charge" });
    world.act("a", "retry", version(&saga), &retry).await.problem(409, "key-expired");
}

#[tokio::test]
async fn skip_leaves_a_step_out() {
    let world = world().await;
    let saga = dead(&world, "a").await;
    let pivot = world.act("a", "skip", version(&saga), &json!({ "reason": "r", "step": "ship" })).await;
    pivot.problem(409, "wrong-state");
    world
        .act("a", "skip", version(&saga), &json!({ "reason": "paid in cash", "step": "charge" }))
        .await
        .ok(200);
    let saga = world.until("a", |saga| saga["status"] == "completed").await;
    assert_eq!(saga["steps"][1]["status"], "skipped");
}

#[tokio::test]
async fn close_ends_it_as_it_is() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    // The step means nothing here, and is not missed.
    let closed = world
        .act("a", "close", version(&saga), &json!({ "reason": "written off", "step": "charge" }))
        .await
        .ok(200);
    assert_eq!(closed["status"], "resolved");
    let journal = world.get("/v1/sagas/a/journal").await.ok(200);
    let last = journal["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((last["kind"].as_str(), last["reason"].as_str()), (Some("resolved"), Some("written off")));
    assert!(!last["left"].as_array().unwrap().is_empty());
    world.act("a", "close", version(&closed), &json!({ "reason": "r" })).await.problem(409, "wrong-state");
    // The claim is free again.
    world.script.answer("charge:action", &[Reply::Json(200, "{}")]);
    assert_eq!(world.order("b", "a").await["status"], "completed");
}

#[tokio::test]
async fn only_the_one_version_seen_is_understood() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    let seen = saga["version"].to_string();
    let body = json!({ "reason": "r" }).to_string();
    let close = async |value: &str| {
        let headers = [("content-type", "application/json"), ("if-match", value)];
        world.send("POST", "/v1/sagas/a/close", &headers, body.clone()).await
    };
    for bad in [
        "*",
        "",
        "\"\"",
        "abc",
        "W/\"7\"",
        "-1",
        "+7",
        "7.0",
        "\"7\", \"8\"",
        "\"7",
        "99999999999999999999999",
    ] {
        assert_eq!(close(bad).await.problem(400, "malformed")["path"], "If-Match", "{bad}");
    }
    let headers = [("if-match", &*seen), ("if-match", &*seen)];
    world.send("POST", "/v1/sagas/a/close", &headers, body.clone()).await.problem(400, "malformed");
    // Bare as well as quoted.
    assert_eq!(close(&seen).await.ok(200)["status"], "resolved");
}

#[tokio::test]
async fn problems_are_what_they_are() {
    let world = world().await;
    let saga = unknown(&world, "a").await;
    let (version, seen) = (version(&saga), version(&saga) - 1);
    let body = json!({ "reason": "r" });
    for (answer, expected) in [
        (
            world.get("/v1/sagas/none").await,
            r#"{"type":"urn:amends:problem:unknown-saga","title":"No such saga","status":404,"detail":"there is no saga none"}"#.to_owned(),
        ),
        (
            world.post("/v1/sagas/a/close", &body).await,
            r#"{"type":"urn:amends:problem:version-required","title":"The version you saw is missing","status":428,"detail":"say which version of the saga you saw (If-Match), so that nobody acts on what has moved meanwhile"}"#.to_owned(),
        ),
        (
            world.act("a", "close", seen, &body).await,
            format!(r#"{{"type":"urn:amends:problem:stale-version","title":"The saga has moved since","status":412,"detail":"version {seen} was seen, but the saga is at version {version}; look again, then decide","version":{version}}}"#),
        ),
        (
            world.post("/v1/sagas/a/close", &json!({})).await,
            r#"{"type":"urn:amends:problem:reason-required","title":"A reason is missing","status":422,"detail":"say why in `reason`: it becomes part of the audit record","path":"reason"}"#.to_owned(),
        ),
    ] {
        assert_eq!(answer.text(), expected);
    }
}
