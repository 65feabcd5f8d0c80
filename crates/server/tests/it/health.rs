use serde_json::json;

use crate::script::Reply;
use crate::world::{ORDER, World};

#[tokio::test]
async fn readiness_follows_the_store() {
    let world = World::start().await;
    assert_eq!(world.get("/healthz").await.ok(200), json!({ "status": "alive" }));
    assert_eq!(world.get("/readyz").await.ok(200), json!({ "ready": true, "reasons": [] }));
    world.store.switch_off();
    assert_eq!(world.get("/healthz").await.status, 200);
    let unready = world.get("/readyz").await.ok(503);
    assert_eq!(unready["ready"], false);
    assert!(unready["reasons"][0].as_str().unwrap().contains("switched off"));
    // Its own numbers are there all the same.
    let metrics = world.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.text().contains("\namends_ready 0\n")
            && metrics.text().contains("\namends_store_readable 0\n")
    );
}

#[tokio::test]
async fn counts_and_groups_show_what_needs_attention() {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    world.order("order:1", "a").await;
    world.script.answer("charge:action", &[Reply::Lost]);
    world.order("order:2", "b").await;
    world.script.answer("charge:action", &[Reply::NotSent]);
    world.order("order:3", "c").await;
    world.order("order:4", "d").await;

    let groups = world.get("/v1/dead-letters").await.ok(200);
    assert!(groups["as_of"].is_string() && groups["next"].is_null());
    let items = groups["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{groups}");
    let group = &items[0];
    assert_eq!((group["saga"].as_str(), group["step"].as_str()), (Some("order"), Some("charge")));
    assert_eq!((group["operation"].as_str(), group["count"].as_u64()), (Some("action"), Some(2)));
    assert!(group["error_class"].is_string());
    assert!(group["oldest"].as_str() <= group["newest"].as_str());
    world.get("/v1/dead-letters?limit=0").await.problem(400, "malformed");
    world.get("/v1/dead-letters?group=step").await.problem(400, "malformed");

    let stats = world.get("/v1/stats").await.ok(200);
    let open = stats["open"].as_array().unwrap();
    assert!(open.contains(&json!({ "status": "dead", "saga": "order", "count": 2 })), "{stats}");
    assert!(open.contains(&json!({ "status": "unknown", "saga": "order", "count": 1 })));
    assert_eq!(stats["ended"], json!([{ "status": "completed", "count": 1 }]));
    assert!(stats["oldest_open_at"].is_string() && stats["as_of"].is_string());
    world.get("/v1/stats?x=1").await.problem(400, "malformed");

    let answer = world.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = answer.text();
    for line in [
        r#"amends_sagas{status="dead",definition="order"} 2"#,
        r#"amends_sagas{status="unknown",definition="order"} 1"#,
        r#"amends_ended_sagas{status="completed"} 1"#,
        r#"amends_dead_letters{definition="order",step="charge",operation="action"} 2"#,
        r#"amends_attempts_total{definition="order",step="charge",operation="action",outcome="done"} 1"#,
        r#"amends_attempts_total{definition="order",step="charge",operation="action",outcome="unknown"} 1"#,
        r#"amends_participant_breaker{participant="shop",state="closed"} 1"#,
        r#"amends_refusals_total{type="malformed"} 3"#,
        "amends_store_readable 1",
        "amends_store_switches 1",
        "amends_ready 1",
        "amends_due_backlog 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    for name in [
        "amends_oldest_open_age_seconds ",
        "amends_oldest_due_age_seconds ",
        "amends_commit_seconds_bucket{le=\"",
        "amends_commit_seconds_count ",
        "amends_contradictions_total",
    ] {
        assert!(text.lines().any(|found| found.starts_with(name)), "{name} is missing in\n{text}");
    }
    assert!(!text.contains("order:"), "an id is never a label");
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("amends_")));
}
