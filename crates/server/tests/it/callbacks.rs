use amends_participants::SigningKey;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::script::Reply;
use crate::world::{ORDER, Plan, SECRET, TOKENS, World};

/// A saga whose reservation was accepted and is not finished.
async fn accepted(world: &World) {
    world.script.answer("reserve:action", &[Reply::Json(202, "{}")]);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    world.send("POST", "/v1/sagas", &[AUTH], body.to_string()).await.ok(201);
    until(world, |saga| saga["steps"][0]["status"] == "waiting").await;
}

const AUTH: (&str, &str) = ("authorization", "Bearer operator-secret");

async fn until(world: &World, as_it_should: impl Fn(&Value) -> bool) -> Value {
    loop {
        let saga = world.send("GET", "/v1/sagas/order:1", &[AUTH], "").await.ok(200);
        if as_it_should(&saga) {
            return saga;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn done() -> Value {
    json!({ "key": "order:1:reserve:action", "event_id": "e1", "outcome": "done", "fact": { "no": 7 } })
}

async fn signed(world: &World, secret: &str, age_s: i64, body: &Value, send: &str) -> Answer {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let at = i64::try_from(now).unwrap() - age_s;
    let signature = SigningKey::parse(&secret.into()).unwrap().sign("m1", at, body.to_string().as_bytes());
    let at = at.to_string();
    let headers = [("webhook-id", "m1"), ("webhook-timestamp", &*at), ("webhook-signature", &*signature)];
    world.send("POST", "/v1/callbacks", &headers, send.to_owned()).await
}

#[tokio::test]
async fn a_callback_settles_what_was_accepted() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    accepted(&world).await;
    let received = world.post("/v1/callbacks", &done()).await.ok(202);
    assert_eq!(received, json!({ "key": "order:1:reserve:action", "event_id": "e1" }));
    let saga = until(&world, |saga| saga["status"] == "completed").await;
    assert_eq!(saga["steps"][0]["fact"], json!({ "no": 7 }));
    // Again, and something else after the end: taken, and nothing moves.
    world.post("/v1/callbacks", &done()).await.ok(202);
    let late =
        json!({ "key": "order:1:reserve:action", "event_id": "e2", "outcome": "rejected", "reason": "no" });
    world.post("/v1/callbacks", &late).await.ok(202);
    until(&world, |saga| saga["status"] == "completed" && saga["steps"][0]["knowledge"] == "done").await;
}

#[tokio::test]
async fn a_rejecting_callback_undoes() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    accepted(&world).await;
    let body = json!({ "key": "order:1:reserve:action", "event_id": "e1", "outcome": "rejected", "reason": "sold out" });
    world.post("/v1/callbacks", &body).await.ok(202);
    let saga = until(&world, |saga| saga["status"] == "compensated").await;
    assert_eq!(saga["steps"][0]["reason"], "sold out");
}

#[tokio::test]
async fn callbacks_that_mean_nothing_are_refused() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    accepted(&world).await;
    let with = |member: &str, value: Value| {
        let mut body = done();
        body[member] = value;
        body
    };
    for (body, path) in [
        (with("key", json!("order:1")), "key"),
        (with("key", json!("order:1:reserve:query")), "key"),
        (with("event_id", json!("")), "event_id"),
        (with("event_id", json!("x".repeat(257))), "event_id"),
        (with("event_id", json!("a\nb")), "event_id"),
        (with("outcome", json!("maybe")), "outcome"),
        (with("reason", json!("r")), "reason"),
        (with("outcome", json!("rejected")), "fact"),
    ] {
        let problem = world.post("/v1/callbacks", &body).await.problem(400, "malformed");
        assert_eq!(problem["path"], path, "{body}");
    }
    world.post("/v1/callbacks", &with("at", json!(1))).await.problem(400, "malformed");
    world
        .post("/v1/callbacks", &with("key", json!("order:9:reserve:action")))
        .await
        .problem(404, "unknown-saga");
    world
        .post("/v1/callbacks", &with("key", json!("order:1:none:action")))
        .await
        .problem(404, "unknown-step");
    world
        .post("/v1/callbacks", &with("key", json!("order:1:ship:compensation")))
        .await
        .problem(404, "unknown-step");
    world
        .send("POST", "/v1/callbacks", &[("content-type", "text/plain")], done().to_string())
        .await
        .problem(415, "malformed");
    let saga = until(&world, |_| true).await;
    assert_eq!(saga["steps"][0]["status"], "waiting", "nothing was changed");
}

#[tokio::test]
async fn a_participant_with_a_secret_must_sign() {
    let world = World::with(Plan { shop_signs: true, ..Plan::default() }).await;
    world.apply(ORDER).await.ok(201);
    accepted(&world).await;
    let (body, text) = (done(), done().to_string());
    world.post("/v1/callbacks", &body).await.problem(401, "unauthenticated");
    signed(&world, "another secret", 0, &body, &text).await.problem(401, "unauthenticated");
    signed(&world, SECRET, 3_600, &body, &text).await.problem(401, "unauthenticated");
    signed(&world, SECRET, 0, &body, &text.replace('7', "8")).await.problem(401, "unauthenticated");
    // What is not authenticated is not even read.
    signed(&world, "another secret", 0, &body, "{").await.problem(401, "unauthenticated");
    let halves = world.send("POST", "/v1/callbacks", &[("webhook-id", "m1")], text.clone()).await;
    assert!(halves.problem(401, "unauthenticated")["detail"].as_str().unwrap().contains("webhook-"));
    assert_eq!(until(&world, |_| true).await["steps"][0]["status"], "waiting", "nothing was changed");

    signed(&world, SECRET, 0, &body, &text).await.ok(202);
    until(&world, |saga| saga["status"] == "completed").await;
}

#[tokio::test]
async fn a_participant_speaks_of_its_own_operations_only() {
    let world = World::with(Plan { shop_signs: true, ..Plan::default() }).await;
    world.apply(ORDER).await.ok(201);
    world.script.answer("charge:action", &[Reply::Json(202, "{}")]);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    world.post("/v1/sagas", &body).await.ok(201);
    until(&world, |saga| saga["steps"][1]["status"] == "waiting").await;
    let body = json!({ "key": "order:1:charge:action", "event_id": "e1", "outcome": "done" });
    signed(&world, SECRET, 0, &body, &body.to_string()).await.problem(401, "unauthenticated");
    // The bank has no secret, and this server no tokens.
    world.post("/v1/callbacks", &body).await.ok(202);
    let saga = until(&world, |saga| saga["status"] == "completed").await;
    assert_eq!(saga["steps"][1]["fact"], Value::Null);
}

#[tokio::test]
async fn a_token_does_instead_of_a_signature() {
    let world = World::with(Plan { server: TOKENS, shop_signs: true, ..Plan::default() }).await;
    let headers = [("authorization", "Bearer admin-secret"), ("content-type", "application/toml")];
    world.send("PUT", "/v1/definitions/order", &headers, ORDER).await.ok(201);
    accepted(&world).await;
    let text = done().to_string();
    world.send("POST", "/v1/callbacks", &[], text.clone()).await.problem(401, "unauthenticated");
    let viewer = [("authorization", "Bearer viewer-secret")];
    world.send("POST", "/v1/callbacks", &viewer, text.clone()).await.problem(403, "forbidden");
    world.send("POST", "/v1/callbacks", &[AUTH], text.clone()).await.ok(202);
    until(&world, |saga| saga["status"] == "completed").await;
    // A token also makes up for a signature that does not fit, and a signature alone is as good.
    let headers = [AUTH, ("webhook-id", "m1"), ("webhook-signature", "v1,AAAA")];
    world.send("POST", "/v1/callbacks", &headers, text.clone()).await.ok(202);
    signed(&world, SECRET, 0, &done(), &text).await.ok(202);
}
