use std::collections::BTreeSet;

use serde_json::Value;

use crate::roles::ROUTES;
use crate::world::World;

async fn document(world: &World) -> Value {
    world.get("/openapi.json").await.ok(200)
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().unwrap().iter();
        operations.map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    });
    each.collect()
}

#[tokio::test]
async fn every_route_is_documented_and_answers() {
    let world = World::start().await;
    let document = document(&world).await;
    let documented: BTreeSet<_> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let expected: BTreeSet<_> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, expected);
    for (method, path) in documented {
        let path = path.replace("{name}", "x").replace("{id}", "x");
        let answer = world.send(&method, &path, &[], "").await;
        assert_ne!(answer.status, 405, "{method} {path}");
        assert!(!answer.text().contains("there is nothing at"), "{method} {path}");
    }
}

#[tokio::test]
async fn the_document_is_sound() {
    let world = World::start().await;
    let document = document(&world).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["info"]["title"], "amends");
    assert!(document["components"]["securitySchemes"]["token"].is_object());

    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let at = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{at}");
        assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{at}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{at}");
        assert!(responses.contains_key("default"), "{at}");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<_> =
            parameters.iter().map(|parameter| (&parameter["in"], &parameter["name"])).collect();
        names.sort_by_key(|name| format!("{name:?}"));
        names.dedup();
        assert_eq!(names.len(), parameters.len(), "{at}");
        let in_path: BTreeSet<_> =
            parameters.iter().filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap()).collect();
        let in_template: BTreeSet<_> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(in_path, in_template, "{at}");
        assert!(parameters.iter().all(|p| p["in"] != "path" || p["required"] == true), "{at}");
        let has_body = operation.get("requestBody").is_some();
        assert_eq!(has_body, method != "GET", "{at}");
        let is_open = operation["security"] == serde_json::json!([{}]);
        let role = ROUTES.iter().find(|(m, p, _)| *m == method && *p == path).unwrap().2;
        assert_eq!(is_open, role == "nobody", "{at}");
    }
    references(&document, &document);
}

/// Every reference leads somewhere.
fn references(value: &Value, document: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            members.values().for_each(|member| references(member, document));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, document)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn schemas_have_the_members_that_are_sent() {
    let world = World::start().await;
    world.apply(crate::world::ORDER).await.ok(201);
    world.order("a", "a").await;
    let document = document(&world).await;
    let schemas = &document["components"]["schemas"];
    for (schema, sent) in [
        ("Saga", world.saga("a").await),
        ("Step", world.saga("a").await["steps"][0].clone()),
        ("Compensation", world.saga("a").await["steps"][0]["compensation"].clone()),
        ("SagaSummary", world.get("/v1/sagas").await.json()["items"][0].clone()),
        ("SagaList", world.get("/v1/sagas").await.json()),
        ("Definition", world.get("/v1/definitions/order").await.json()),
        ("Stats", world.get("/v1/stats").await.json()),
        ("Readiness", world.get("/readyz").await.json()),
        ("Lease", world.post("/v1/locks/a", &serde_json::json!({ "ttl": "1m" })).await.json()),
        ("Lock", world.get("/v1/locks/a").await.json()),
        ("LockHeld", world.get("/v1/locks/a").await.json()["held"].clone()),
    ] {
        let documented = members(&schemas[schema], schemas);
        let sent: BTreeSet<_> = sent.as_object().unwrap().keys().cloned().collect();
        assert_eq!(documented, sent, "{schema}");
    }
    let entry = members(&schemas["JournalEntry"], schemas);
    for item in world.get("/v1/sagas/a/journal").await.json()["items"].as_array().unwrap() {
        assert!(item.as_object().unwrap().keys().all(|member| entry.contains(member)), "{item}");
    }
    let problem = members(&schemas["Problem"], schemas);
    for member in [
        "type", "title", "status", "detail", "problems", "version", "holder", "step", "since", "line",
        "path", "lock", "lost",
    ] {
        assert!(problem.contains(member), "{member}: {problem:?}");
    }
}

/// The members of a schema and of those it is composed of.
fn members(schema: &Value, schemas: &Value) -> BTreeSet<String> {
    let mut all: BTreeSet<_> =
        schema["properties"].as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
    for part in ["allOf", "oneOf"].iter().filter_map(|kind| schema[*kind].as_array()).flatten() {
        all.extend(members(part, schemas));
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        all.extend(members(&schemas[name], schemas));
    }
    all
}
