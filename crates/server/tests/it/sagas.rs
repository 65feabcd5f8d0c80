use amends_core::Time;
use amends_store::Retention as _;
use serde_json::{Value, json};

use crate::script::Reply;
use crate::world::{ORDER, Plan, World};

async fn world() -> World {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    world
}

#[tokio::test]
async fn a_saga_is_submitted_driven_and_shown() {
    let world = world().await;
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    let answer = world.post("/v1/sagas?wait=60s", &body).await;
    let saga = answer.ok(201);
    assert_eq!(answer.header("etag"), format!("\"{}\"", saga["version"]));
    assert_eq!(answer.header("location"), "/v1/sagas/order:1");

    // The members and their order are the interface.
    let text = answer.text();
    let mut at = 0;
    for member in [
        "id",
        "saga",
        "version",
        "definition_version",
        "digest",
        "status",
        "direction",
        "business_state",
        "input",
        "overdue",
        "reason",
        "steps",
        "claims",
        "created_at",
        "updated_at",
    ] {
        let name = format!("\"{member}\":");
        at += text[at..].find(&name).unwrap_or_else(|| panic!("{member} is missing or misplaced in {text}"));
    }
    let members = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let mut step = members(&saga["steps"][0]);
    step.sort();
    let mut expected =
        ["name", "status", "knowledge", "attempts", "fact", "serial", "reason", "due_at", "compensation"];
    expected.sort_unstable();
    assert_eq!(step, expected);
    let mut compensation = members(&saga["steps"][0]["compensation"]);
    compensation.sort();
    assert_eq!(compensation, ["attempts", "due_at", "fact", "knowledge", "reason", "serial", "status"]);

    assert_eq!(saga["status"], "completed");
    assert_eq!(saga["direction"], "forward");
    assert_eq!(saga["business_state"], "DONE");
    assert_eq!(saga["claims"], json!(["sku:a"]));
    assert_eq!(saga["overdue"], false);
    assert_eq!(saga["reason"], Value::Null);
    for step in saga["steps"].as_array().unwrap() {
        assert_eq!((step["status"].as_str(), step["knowledge"].as_str()), (Some("done"), Some("done")));
    }
    assert_eq!(saga["steps"][0]["fact"].to_string(), r#"{"no":1.10}"#);
    assert_eq!(saga["steps"][0]["serial"].to_string(), "1.10");
    assert_eq!(saga["steps"][2]["compensation"], Value::Null);
    assert_eq!(saga["steps"][0]["compensation"]["knowledge"], "unsent");

    let shown = world.get("/v1/sagas/order:1").await;
    assert_eq!(shown.ok(200), saga);
    assert_eq!(shown.header("etag"), answer.header("etag"));
    assert_eq!(world.send("HEAD", "/v1/sagas/order:1", &[], "").await.status, 200);
}

#[tokio::test]
async fn the_same_submission_is_the_same_saga() {
    let world = world().await;
    let first = world.order("order:1", "a").await;
    let same =
        json!({ "input": { "amount": 5, "sku": "a" }, "id": "order:1", "saga": "order", "version": 1 });
    let again = world.post("/v1/sagas", &same).await;
    assert_eq!(again.ok(200), first);
    assert!(again.headers.get("location").is_none());

    let other = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 6 } });
    world.post("/v1/sagas", &other).await.problem(422, "input-conflict");
    // Numbers are compared by their text.
    let text = r#"{"saga":"order","id":"order:1","input":{"sku":"a","amount":5.0}}"#;
    world.post_text("/v1/sagas", text).await.problem(422, "input-conflict");
    assert_eq!(world.saga("order:1").await, first);
}

#[tokio::test]
async fn numbers_keep_their_exact_text() {
    let world = world().await;
    for (n, number) in
        ["9007199254740993", "1.10", "1e400", "-0.0", "123456789012345678901234567890.5"].iter().enumerate()
    {
        let id = format!("order:{n}");
        let text = format!(
            r#"{{"saga":"order","id":"{id}","input":{{"sku":"{n}","amount":{number},"deep":[{{"a":{number}}}]}}}}"#
        );
        let answer = world.post_text("/v1/sagas?wait=60s", &text).await;
        answer.ok(201);
        let written = number.replace("e4", "e+4");
        assert!(answer.text().contains(&format!(r#""amount":{written},"#)), "{}", answer.text());
        assert!(
            world
                .get(&format!("/v1/sagas/{id}"))
                .await
                .text()
                .contains(&format!(r#""deep":[{{"a":{written}}}]"#))
        );
    }
}

#[tokio::test]
async fn submissions_that_do_not_fit_are_refused() {
    let world = world().await;
    let post = |text: &'static str| world.post_text("/v1/sagas", text);
    post(r#"{"saga":"none","id":"x","input":{}}"#).await.problem(404, "unknown-definition");
    post(r#"{"saga":"order","id":"x","input":{"sku":"a"},"version":9}"#)
        .await
        .problem(404, "unknown-definition");
    let missing = post(r#"{"saga":"order","id":"x","input":{"sku":"a"}}"#).await.problem(422, "malformed");
    assert_eq!(missing["path"], "input.amount");
    let unfit = json!({ "saga": "order", "id": "x", "input": { "sku": "x".repeat(600), "amount": 1 } });
    let unfit = world.post("/v1/sagas", &unfit).await.problem(422, "malformed");
    assert_eq!(unfit["path"], "input");
    for (text, path) in [
        (r#"{"saga":"order","id":"","input":{}}"#, "id"),
        (r#"{"saga":"order","id":"a\u0007","input":{}}"#, "id"),
        (r#"{"saga":"order","id":7,"input":{}}"#, "id"),
        (r#"{"saga":"order","id":"x","input":{},"version":-1}"#, "version"),
        (r#"{"saga":"order","id":"x","input":{},"version":"1"}"#, "version"),
        (r#"{"saga":"order","id":"x","input":{"a":1,"a":2}}"#, "input"),
    ] {
        let problem = world.post_text("/v1/sagas", text).await.problem(400, "malformed");
        assert_eq!(problem["path"], path, "{text}: {problem}");
    }
    for text in [
        r#"{"saga":"order","id":"x"}"#,
        r#"{"saga":"order","id":"x","input":{},"inputs":1}"#,
        r#"{"saga":"order","id":"x","id":"x","input":{}}"#,
        "[]",
        "",
        "{",
        "null",
        r#"{"saga":"order","id":"x","input":{}} x"#,
    ] {
        let problem = world.post_text("/v1/sagas", text).await.problem(400, "malformed");
        assert!(problem["line"].is_u64() && problem["column"].is_u64(), "{text}: {problem}");
    }
    let long = json!({ "saga": "order", "id": "x".repeat(257), "input": {} });
    world.post("/v1/sagas", &long).await.problem(400, "malformed");
    for query in ["wait=5", "wait=0", "wait=x", "wait=5s&wait=6s", "wiat=5s"] {
        let body = json!({ "saga": "order", "id": "x", "input": { "sku": "a", "amount": 1 } });
        world.post(&format!("/v1/sagas?{query}"), &body).await.problem(400, "malformed");
    }
    world.get("/v1/sagas/x").await.problem(404, "unknown-saga");
}

#[tokio::test]
async fn waiting_ends_with_the_time() {
    let world = world().await;
    world.script.answer("reserve:action", &[Reply::Hang]);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    let saga = world.post("/v1/sagas?wait=20ms", &body).await.ok(201);
    assert_eq!(saga["status"], "running");
    assert_eq!(saga["steps"][0]["status"], "running");
    assert_eq!(saga["business_state"], "INIT");
    let again = world.post("/v1/sagas?wait=20ms", &body).await.ok(200);
    assert_eq!(again["status"], "running");
    assert_eq!(world.post("/v1/sagas?wait=0s", &body).await.ok(200)["status"], "running");
}

#[tokio::test]
async fn what_retention_removed_is_still_known() {
    let world = world().await;
    let before = world.order("order:1", "a").await;
    assert_eq!(world.store.prune(Time(i64::MAX), 10).await.unwrap(), 1);
    let saga = world.saga("order:1").await;
    for member in
        ["id", "saga", "version", "definition_version", "digest", "status", "business_state", "created_at"]
    {
        assert_eq!(saga[member], before[member], "{member}");
    }
    assert_eq!((&saga["input"], &saga["direction"]), (&Value::Null, &Value::Null));
    assert_eq!((&saga["steps"], &saga["claims"]), (&json!([]), &json!([])));
    assert!(saga["reason"].as_str().unwrap().contains("retention"));
    assert_eq!(world.get("/v1/sagas/order:1/journal").await.ok(200)["items"], json!([]));
    // Its id is never free again.
    let same = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    assert_eq!(world.post("/v1/sagas", &same).await.ok(200), saga);
    let other = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 6 } });
    world.post("/v1/sagas", &other).await.problem(422, "input-conflict");
}

#[tokio::test]
async fn waiting_ends_at_unknown_and_at_dead() {
    let world = world().await;
    world.script.answer("charge:action", &[Reply::Lost]);
    let unknown = world.order("order:1", "a").await;
    assert_eq!(unknown["status"], "unknown");
    assert_eq!(unknown["business_state"], "UNKNOWN");
    let charge = &unknown["steps"][1];
    assert_eq!(
        (charge["status"].as_str(), charge["knowledge"].as_str()),
        (Some("unknown"), Some("possible"))
    );
    assert!(charge["reason"].as_str().unwrap().contains("lost"));
    assert!(charge["due_at"].is_string());
    assert!(unknown["reason"].as_str().unwrap().contains("charge"));

    world.script.answer("charge:action", &[Reply::NotSent]);
    let dead = world.order("order:2", "b").await;
    assert_eq!((dead["status"].as_str(), dead["business_state"].as_str()), (Some("dead"), Some("MANUAL")));
    assert_eq!(dead["steps"][1]["status"], "dead");
    assert_eq!(dead["steps"][1]["knowledge"], "unsent");
}

#[tokio::test]
async fn a_refused_step_is_undone() {
    let world = world().await;
    world.script.answer("charge:action", &[Reply::Json(422, r#"{"reason":"no funds"}"#)]);
    let saga = world.order("order:1", "a").await;
    assert_eq!((saga["status"].as_str(), saga["direction"].as_str()), (Some("compensated"), Some("undo")));
    assert_eq!(saga["business_state"], "CANCELED");
    assert!(saga["reason"].as_str().unwrap().contains("no funds"), "{saga}");
    assert_eq!(saga["steps"][0]["status"], "compensated");
    assert_eq!(saga["steps"][0]["compensation"]["status"], "done");
    assert_eq!(saga["steps"][1]["status"], "rejected");
    assert_eq!(saga["steps"][1]["reason"], "no funds");
    // Never begun: there is nothing to undo.
    assert_eq!(saga["steps"][2]["status"], "skipped");
}

#[tokio::test]
async fn a_held_claim_names_its_holder() {
    let world = world().await;
    world.order_under_way("order:1", "a").await;
    let body = json!({ "saga": "order", "id": "order:2", "input": { "sku": "a", "amount": 5 } });
    let problem = world.post("/v1/sagas", &body).await.problem(409, "claim-held");
    assert_eq!(problem["holder"], "order:1");
    assert_eq!(problem["holder_status"], "running");
    assert_eq!(problem["step"], "reserve");
    assert_eq!(problem["claim"], "sku:a");
    assert!(problem["since"].as_str().unwrap().ends_with('Z'));
    // Nothing of it is kept.
    world.get("/v1/sagas/order:2").await.problem(404, "unknown-saga");
}

#[tokio::test]
async fn a_claim_of_a_saga_that_nobody_has_settled_is_frozen() {
    let world = world().await;
    for (reply, status, sku) in [(Reply::Lost, "unknown", "a"), (Reply::NotSent, "dead", "b")] {
        world.script.answer("charge:action", &[reply]);
        world.order(&format!("holder:{sku}"), sku).await;
        let body = json!({ "saga": "order", "id": "order:2", "input": { "sku": sku, "amount": 5 } });
        let problem = world.post("/v1/sagas", &body).await.problem(409, "claim-frozen");
        assert_eq!(problem["holder"], format!("holder:{sku}"));
        assert_eq!(problem["holder_status"], status);
        assert_eq!(problem["step"], "charge");
        assert!(problem["since"].is_string());
    }
}

#[tokio::test]
async fn ids_hold_whatever_text() {
    let world = world().await;
    for (n, (id, path)) in [
        ("a/b", "a%2Fb"),
        ("a/b", "a%2fb"),
        ("order 7", "order%207"),
        ("order:7", "order%3A7"),
        ("äö€😀", "%C3%A4%C3%B6%E2%82%AC%F0%9F%98%80"),
        ("100%", "100%25"),
        ("a?b#c", "a%3Fb%23c"),
        ("..", "%2E%2E"),
        ("a+b", "a+b"),
        ("\u{202e}rtl", "%E2%80%AErtl"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({ "saga": "order", "id": id, "input": { "sku": id, "amount": 5 } });
        let answer = world.post("/v1/sagas?wait=60s", &body).await;
        assert_eq!(answer.status, if n == 1 { 200 } else { 201 });
        assert_eq!(world.saga(path).await["id"], id);
        assert!(world.get(&format!("/v1/sagas/{path}/journal")).await.ok(200)["items"].is_array());
        if let Some(location) = answer.headers.get("location") {
            assert_eq!(world.get(location.to_str().unwrap()).await.ok(200)["id"], id);
        }
    }
    world.get("/v1/sagas/a%00b").await.problem(400, "malformed");
    world.get("/v1/sagas/%FF").await.problem(400, "malformed");
    world.get(&format!("/v1/sagas/{}", "x".repeat(257))).await.problem(400, "malformed");
}

#[tokio::test]
async fn sagas_are_listed_and_filtered() {
    let world = world().await;
    world.order("order:1", "a").await;
    world.script.answer("charge:action", &[Reply::Lost]);
    world.order("order:2", "b").await;
    world.script.answer("charge:action", &[Reply::NotSent]);
    world.order("Order:3", "c").await;

    let ids = async |query: &str| -> Vec<String> {
        let list = world.get(&format!("/v1/sagas{query}")).await.ok(200);
        assert!(list["as_of"].is_string());
        list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("").await, ["Order:3", "order:2", "order:1"]);
    assert_eq!(ids("?status=unknown").await, ["order:2"]);
    assert_eq!(ids("?status=dead,unknown").await, ["Order:3", "order:2"]);
    assert_eq!(ids("?status=completed&saga=order").await, ["order:1"]);
    assert_eq!(ids("?saga=none").await, Vec::<String>::new());
    assert_eq!(ids("?step=charge").await, ["Order:3", "order:2"]);
    assert_eq!(ids("?q=order:").await, ["order:2", "order:1"]);
    assert_eq!(ids("?older_than=1h").await, Vec::<String>::new());
    // What is there but empty counts as left out.
    assert_eq!(ids("?status=&saga=&step=&older_than=&q=&cursor=&limit=").await.len(), 3);

    let dead = &world.get("/v1/sagas?status=dead").await.ok(200)["items"][0];
    assert_eq!((dead["step"].as_str(), dead["operation"].as_str()), (Some("charge"), Some("action")));
    assert_eq!((dead["saga"].as_str(), dead["definition_version"].as_u64()), (Some("order"), Some(1)));
    assert!(dead["reason"].is_string() && dead["error_class"].is_string());
    assert_eq!(dead["version"], world.saga("Order:3").await["version"]);

    let mut seen = Vec::new();
    let mut path = "/v1/sagas?limit=2".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sagas?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["Order:3", "order:2", "order:1"]);

    for (query, path) in [
        ("status=asleep", "status"),
        ("older_than=1", "older_than"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("cursor=AAAAAAAAAAAAAAAAAAA", "cursor"),
        ("sort=id", "query"),
    ] {
        let problem = world.get(&format!("/v1/sagas?{query}")).await.problem(400, "malformed");
        assert_eq!(problem["path"], path, "{query}");
    }
}

#[tokio::test]
async fn the_journal_tells_what_happened() {
    let world = world().await;
    world.script.answer("charge:action", &[Reply::Json(422, r#"{"reason":"no funds"}"#)]);
    let saga = world.order("order:1", "a").await;
    let journal = world.get("/v1/sagas/order:1/journal").await.ok(200);
    let items = journal["items"].as_array().unwrap();
    assert_eq!(journal["next"], Value::Null);
    assert_eq!(items.len() as u64, saga["version"].as_u64().unwrap());
    for (n, item) in items.iter().enumerate() {
        assert_eq!(item["seq"], n + 1);
        assert!(item["at"].as_str().unwrap().ends_with('Z') && item["kind"].is_string());
        for member in ["step", "operation", "attempt", "by"] {
            assert!(item.get(member).is_some(), "{member} is missing in {item}");
        }
    }
    assert_eq!((items[0]["kind"].as_str(), items[0]["by"].as_str()), (Some("submitted"), Some("anonymous")));
    let refused = items.iter().find(|item| item["outcome"] == "rejected").unwrap();
    assert_eq!((refused["kind"].as_str(), refused["step"].as_str()), (Some("answered"), Some("charge")));
    assert_eq!((refused["operation"].as_str(), refused["attempt"].as_u64()), (Some("action"), Some(1)));
    assert_eq!(refused["reason"], "no funds");
    assert_eq!(items.last().unwrap()["kind"], "compensated");

    let mut seen = Vec::new();
    let mut path = "/v1/sagas/order:1/journal?limit=2".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        assert!(page["items"].as_array().unwrap().len() <= 2);
        seen.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sagas/order:1/journal?limit=2&cursor={next}");
    }
    assert_eq!(&seen, items);

    world.get("/v1/sagas/none/journal").await.problem(404, "unknown-saga");
    world.get("/v1/sagas/order:1/journal?cursor=x").await.problem(400, "malformed");
    world.get("/v1/sagas/order:1/journal?limit=501").await.problem(400, "malformed");
}

#[tokio::test]
async fn an_engine_at_its_limit_says_when_to_come_back() {
    let world = World::with(Plan { sagas_max: 0, ..Plan::default() }).await;
    world.apply(ORDER).await.ok(201);
    let body = json!({ "saga": "order", "id": "order:1", "input": { "sku": "a", "amount": 5 } });
    let answer = world.post("/v1/sagas", &body).await;
    answer.problem(503, "overloaded");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    world.get("/v1/sagas/order:1").await.problem(404, "unknown-saga");
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_told_apart() {
    let world = world().await;
    world.order("order:1", "a").await;
    world.store.switch_off();
    let body = json!({ "saga": "order", "id": "order:2", "input": { "sku": "b", "amount": 5 } });
    let answer = world.post("/v1/sagas", &body).await;
    answer.problem(503, "store-unavailable");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    world.get("/v1/sagas").await.problem(503, "store-unavailable");
    world.get("/v1/dead-letters").await.problem(503, "store-unavailable");
    world.get("/v1/definitions").await.problem(503, "store-unavailable");
    world.store.switch_on();
    world.order("order:2", "b").await;
}
