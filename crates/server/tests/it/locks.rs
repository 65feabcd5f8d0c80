use amends_store::locks::{LockName, Locks as _};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{ORDER, World};

async fn send(world: &World, method: &str, name: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    world.send(method, &format!("/v1/locks/{name}"), &headers, body.to_string()).await
}

async fn acquire(world: &World, name: &str) -> Value {
    send(world, "POST", name, &json!({ "ttl": "1m" })).await.ok(201)
}

async fn release(world: &World, name: &str, body: Value) -> Answer {
    send(world, "DELETE", name, &body).await
}

async fn show(world: &World, name: &str) -> Value {
    world.get(&format!("/v1/locks/{name}")).await.ok(200)
}

#[tokio::test]
async fn a_lock_is_acquired_renewed_and_abandoned() {
    let world = World::start().await;
    let free = json!({ "name": "order:7", "token": null, "held": null, "last_release": null });
    assert_eq!(show(&world, "order:7").await, free);

    let lease = acquire(&world, "order:7").await;
    let token = lease["token"].as_u64().unwrap();
    assert_eq!((&lease["lease"], &lease["name"]), (&json!("1m"), &json!("order:7")));
    let busy = send(&world, "POST", "order:7", &json!({ "ttl": "1m" })).await.problem(409, "wrong-state");
    assert_eq!(busy["lock"]["holder"], "anonymous");
    assert_eq!(busy["lock"]["since"], lease["since"]);
    assert!(
        busy["lock"]["lease"].is_string() && !busy.to_string().contains(lease["owner"].as_str().unwrap())
    );

    let renewed = send(&world, "PUT", "order:7", &json!({ "token": token, "ttl": "2h" })).await.ok(200);
    assert_eq!(renewed, json!({ "name": "order:7", "token": token, "lease": "2h" }));
    // What was answered may be sent back; and a renewal that names no length takes nothing away.
    for body in [json!({ "token": token, "lease": "1m" }), json!({ "token": token })] {
        let renewed = send(&world, "PUT", "order:7", &body).await.ok(200);
        assert!(renewed["lease"].as_str().unwrap() != "1m", "{renewed}");
    }
    let shown = show(&world, "order:7").await;
    assert_eq!((&shown["token"], &shown["held"]["holder"]), (&json!(token), &json!("anonymous")));
    assert!(!shown.to_string().contains(lease["owner"].as_str().unwrap()));

    let body = json!({ "token": token, "abandon": "the form was not filled in" });
    for _ in 0..2 {
        let released = release(&world, "order:7", body.clone()).await.ok(200);
        let expected = json!({ "name": "order:7", "token": token, "outcome": "released", "abandon": "the form was not filled in" });
        assert_eq!(released, expected);
    }
    let shown = show(&world, "order:7").await;
    assert_eq!(shown["held"], Value::Null);
    assert_eq!(shown["last_release"]["outcome"], "released");
    assert_eq!(shown["last_release"]["abandon"], "the form was not filled in");
    let lost = send(&world, "PUT", "order:7", &json!({ "token": token, "ttl": "1m" })).await;
    assert_eq!(lost.problem(409, "wrong-state")["lost"], "released");
    assert!(acquire(&world, "order:7").await["token"].as_u64().unwrap() > token);
}

#[tokio::test]
async fn a_request_sent_again_by_its_owner_is_one_acquisition() {
    let world = World::start().await;
    let body = json!({ "ttl": "1m", "owner": "b4f1" });
    let first = send(&world, "POST", "a", &body).await.ok(201);
    let again = send(&world, "POST", "a", &body).await.ok(200);
    assert_eq!((&again["token"], &again["owner"]), (&first["token"], &json!("b4f1")));
    let token = &first["token"];
    for (method, more) in [("PUT", json!({ "ttl": "1m" })), ("DELETE", json!({ "abandon": "r" }))] {
        let mut body = more;
        body["token"] = token.clone();
        body["owner"] = "another".into();
        let refused = send(&world, method, "a", &body).await.problem(409, "wrong-state");
        assert_eq!(refused["lost"], "owner_mismatch");
    }
    let shown = show(&world, "a").await;
    assert_eq!(shown["held"]["holder"], "anonymous");
    assert_eq!(shown["last_release"]["outcome"], "owner_mismatch");
    release(&world, "a", json!({ "token": token, "owner": "b4f1", "abandon": "r" })).await.ok(200);
}

#[tokio::test]
async fn a_release_by_saga_needs_one_that_is_durable_and_covers_the_lock() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    let token = acquire(&world, "sku:a").await["token"].clone();
    let by = |id: &str| json!({ "token": token, "saga": id });
    release(&world, "sku:a", by("order:1")).await.problem(404, "unknown-saga");
    world.order("order:2", "b").await;
    let refused = release(&world, "sku:a", by("order:2")).await.problem(409, "wrong-state");
    assert_eq!(refused["path"], "saga");
    assert!(refused["detail"].as_str().unwrap().contains("does not cover"), "{refused}");
    assert_eq!(show(&world, "sku:a").await["last_release"], Value::Null, "nothing was tried");
    assert_ne!(show(&world, "sku:a").await["held"], Value::Null);

    // It claims `sku:a`. A wrong token is refused whatever the saga.
    world.order("order:1", "a").await;
    let wrong = json!({ "token": token.as_u64().unwrap() - 1, "saga": "order:1" });
    assert_eq!(release(&world, "sku:a", wrong).await.problem(409, "wrong-state")["lost"], "taken");
    let released = release(&world, "sku:a", by("order:1")).await.ok(200);
    assert_eq!((&released["outcome"], &released["saga"]), (&json!("released"), &json!("order:1")));
    assert_eq!(show(&world, "sku:a").await["last_release"]["saga"], "order:1");

    // Or its id is the name.
    let token = acquire(&world, "order:2").await["token"].clone();
    release(&world, "order:2", json!({ "token": token, "saga": "order:2" })).await.ok(200);
}

#[tokio::test]
async fn a_saga_that_was_committed_a_moment_ago_in_the_callers_database_covers_its_lock() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    for n in 0..5 {
        let (lock, id) = (format!("sku:{n}"), format!("order:{n}"));
        let token = acquire(&world, &lock).await["token"].clone();
        world.store.arrive("order", &id, &json!({ "sku": n.to_string(), "amount": 1 }).to_string());
        let released = release(&world, &lock, json!({ "token": token, "saga": id })).await.ok(200);
        assert_eq!(released["outcome"], "released");
    }
}

#[tokio::test]
async fn a_release_needs_exactly_one_reason() {
    let world = World::start().await;
    let token = acquire(&world, "a").await["token"].clone();
    for body in [json!({ "token": token }), json!({ "token": token, "abandon": " \t" })] {
        release(&world, "a", body).await.problem(422, "reason-required");
    }
    for (body, path) in [
        (json!({ "token": token, "abandon": "r", "saga": "order:1" }), "abandon"),
        (json!({ "token": token, "abandon": "r".repeat(1_025) }), "abandon"),
        (json!({ "token": token, "abandon": "two\nlines" }), "abandon"),
        (json!({ "token": token, "saga": "" }), "saga"),
        (json!({ "token": token, "owner": "", "abandon": "r" }), "owner"),
    ] {
        assert_eq!(release(&world, "a", body).await.problem(400, "malformed")["path"], path);
    }
    for body in [json!({ "abandon": "r" }), json!({ "token": "7", "abandon": "r" }), json!({ "token": -1 })] {
        release(&world, "a", body).await.problem(400, "malformed");
    }
    let above = json!({ "token": 1_u64 << 53, "abandon": "r" });
    assert_eq!(release(&world, "a", above).await.problem(400, "malformed")["path"], "token");
    assert_ne!(show(&world, "a").await["held"], Value::Null, "nothing was released");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let world = World::start().await;
    for (body, path) in [
        (json!({ "ttl": "99ms" }), "ttl"),
        (json!({ "ttl": "25h" }), "ttl"),
        (json!({ "ttl": "soon" }), "ttl"),
        (json!({ "ttl": 30 }), "ttl"),
        (json!({ "ttl": "1m", "owner": "" }), "owner"),
        (json!({ "ttl": "1m", "owner": "x".repeat(129) }), "owner"),
    ] {
        let refused = send(&world, "POST", "a", &body).await.problem(400, "malformed");
        assert_eq!(refused["path"], path, "{refused}");
    }
    for body in [json!({}), json!({ "ttl": "1m", "wait": "1m" })] {
        send(&world, "POST", "a", &body).await.problem(400, "malformed");
    }
    let refused = send(&world, "POST", "a%00b", &json!({ "ttl": "1m" })).await.problem(400, "malformed");
    assert_eq!(refused["path"], "name");
    send(&world, "POST", &"n".repeat(257), &json!({ "ttl": "1m" })).await.problem(400, "malformed");
    assert_eq!(show(&world, "a").await["token"], Value::Null);
}

#[tokio::test]
async fn names_may_hold_anything() {
    let world = World::start().await;
    let lease = acquire(&world, "a%2Fb%20%7Bx%7D%20%C3%A9%25").await;
    assert_eq!(lease["name"], "a/b {x} é%");
    let name = LockName::new("a/b {x} é%").unwrap();
    assert_eq!(world.locks.show(&name).await.unwrap().token, lease["token"].as_u64());
}

#[tokio::test]
async fn what_became_of_locks_is_counted() {
    let world = World::start().await;
    let token = acquire(&world, "a").await["token"].clone();
    send(&world, "POST", "a", &json!({ "ttl": "1m" })).await.problem(409, "wrong-state");
    send(&world, "PUT", "a", &json!({ "token": token })).await.ok(200);
    release(&world, "a", json!({ "token": token, "abandon": "r" })).await.ok(200);
    acquire(&world, "a").await;
    release(&world, "a", json!({ "token": token, "abandon": "r" })).await.problem(409, "wrong-state");
    let metrics = world.get("/metrics").await;
    for (call, answer, n) in [
        ("acquire", "held", 2),
        ("acquire", "busy", 1),
        ("renew", "renewed", 1),
        ("release", "released", 1),
        ("release", "lease_lost", 1),
    ] {
        let line = format!("amends_lock_answers_total{{call=\"{call}\",answer=\"{answer}\"}} {n}");
        assert!(metrics.text().contains(&line), "{line} is missing");
    }
}
