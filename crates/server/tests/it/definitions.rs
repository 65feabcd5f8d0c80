use serde_json::{Value, json};

use crate::world::{ORDER, Plan, World};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const TOML: [(&str, &str); 1] = [("content-type", "application/toml")];

#[tokio::test]
async fn a_definition_is_registered_once() {
    let world = World::start().await;
    let first = world.apply(ORDER).await.ok(201);
    assert_eq!(first["name"], "order");
    assert_eq!(first["version"], 1);
    assert_eq!(first["digest"].as_str().unwrap().len(), 64);
    assert_eq!(first["definition"]["step"][1]["name"], "charge");
    assert!(first["warnings"].is_array());
    assert!(first["created_at"].as_str().unwrap().ends_with('Z'));

    let again = world.apply(ORDER).await.ok(200);
    assert_eq!(again["digest"], first["digest"]);
    assert_eq!(again["created_at"], first["created_at"]);

    // The same tree in JSON is the same content.
    let tree: Value = first["definition"].clone();
    let again = world.send("PUT", "/v1/definitions/order", &JSON, tree.to_string()).await.ok(200);
    assert_eq!(again["digest"], first["digest"]);
}

#[tokio::test]
async fn other_content_needs_another_version() {
    let world = World::start().await;
    let first = world.apply(ORDER).await.ok(201);
    let changed = ORDER.replace("SHIPPED", "SENT");
    let problem = world.apply(&changed).await.problem(409, "definition-conflict");
    assert_eq!(problem["digest"], first["digest"]);

    let second = world.apply(&changed.replace("version = 1", "version = 2")).await.ok(201);
    let highest = world.get("/v1/definitions/order").await.ok(200);
    let lowest = world.get("/v1/definitions/order?version=1").await.ok(200);
    for member in ["name", "version", "digest", "created_at", "definition"] {
        assert_eq!(highest[member], second[member]);
        assert_eq!(lowest[member], first[member]);
    }
    world.get("/v1/definitions/order?version=3").await.problem(404, "unknown-definition");
    world.get("/v1/definitions/none").await.problem(404, "unknown-definition");
}

#[tokio::test]
async fn all_problems_of_a_definition_are_told_at_once() {
    let world = World::start().await;
    let bad = ORDER.replace("pivot = true", "pivto = true").replace("to = \"bank\"", "to = \"nobody\"");
    let problem = world.apply(&bad).await.problem(422, "invalid-definition");
    let found = problem["problems"].as_array().unwrap();
    assert!(found.len() >= 2, "{problem}");
    let unknown = found.iter().find(|one| one["reason"].as_str().unwrap().contains("pivto")).unwrap();
    let line = bad.lines().position(|line| line.contains("pivto")).unwrap() + 1;
    assert_eq!(unknown["line"], line);
    assert!(unknown["path"].as_str().unwrap().contains("step[2]"));
    assert!(!unknown["remedy"].as_str().unwrap().is_empty());
    // Nothing was registered.
    world.get("/v1/definitions/order").await.problem(404, "unknown-definition");
}

#[tokio::test]
async fn what_is_no_definition_is_refused() {
    let world = World::start().await;
    let put = |headers, body: &'static [u8]| world.send("PUT", "/v1/definitions/order", headers, body);
    put(&TOML, b"saga = ").await.problem(422, "invalid-definition");
    put(&JSON, b"{").await.problem(422, "invalid-definition");
    put(&TOML, b"").await.problem(422, "invalid-definition");
    put(&TOML, b"saga = \"\xff\"").await.problem(400, "malformed");
    put(&[], b"{}").await.problem(415, "malformed");
    put(&[("content-type", "text/plain")], b"{}").await.problem(415, "malformed");
    put(&[("content-type", "application/toml"), ("content-encoding", "gzip")], b"{}")
        .await
        .problem(415, "malformed");
    // Its name is the one in the path.
    let misnamed =
        world.send("PUT", "/v1/definitions/other", &TOML, ORDER).await.problem(422, "invalid-definition");
    assert!(misnamed["problems"][0]["reason"].as_str().unwrap().contains("other"));
    assert_eq!(world.get("/v1/definitions").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn definitions_are_listed_page_by_page() {
    let world = World::start().await;
    for version in 1..=3 {
        world.apply(&ORDER.replace("version = 1", &format!("version = {version}"))).await.ok(201);
    }
    world.apply(&ORDER.replace("\"order\"", "\"another\"")).await.ok(201);
    let all = world.get("/v1/definitions").await.ok(200);
    let names = |list: &Value| -> Vec<_> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| format!("{}-{}", i["name"].as_str().unwrap(), i["version"]))
            .collect()
    };
    assert_eq!(names(&all), ["another-1", "order-1", "order-2", "order-3"]);
    assert_eq!(all["next"], Value::Null);
    assert!(all["items"][0].get("definition").is_none());

    let mut seen = Vec::new();
    let mut path = "/v1/definitions?limit=3".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        seen.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/definitions?limit=3&cursor={next}");
    }
    assert_eq!(seen, names(&all));
    for bad in ["cursor=garbage", "limit=0", "limit=501", "limit=x", "limit=-1", "page=2", "limit=1&limit=2"]
    {
        world.get(&format!("/v1/definitions?{bad}")).await.problem(400, "malformed");
    }
}

#[tokio::test]
async fn warnings_come_with_a_definition() {
    let world = World::with(Plan::default()).await;
    let applied = world.apply(&ORDER.replace("shop", "stranger")).await.ok(201);
    let warnings = applied["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["path"] == "participants.stranger"), "{applied}");
}
