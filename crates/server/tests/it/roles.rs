use serde_json::json;

use crate::world::{ORDER, Plan, TOKENS, World};

async fn world() -> World {
    World::with(Plan { server: TOKENS, ..Plan::default() }).await
}

async fn status(world: &World, token: Option<&str>, method: &str, path: &str) -> u16 {
    let bearer = token.map(|token| format!("Bearer {token}-secret"));
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    world.send(method, path, &headers, "").await.status.as_u16()
}

/// Which role each route needs; the documentation's list is compared with this one.
pub(crate) const ROUTES: [(&str, &str, &str); 23] = [
    ("PUT", "/v1/definitions/{name}", "admin"),
    ("GET", "/v1/definitions/{name}", "viewer"),
    ("GET", "/v1/definitions", "viewer"),
    ("POST", "/v1/sagas", "operator"),
    ("GET", "/v1/sagas", "viewer"),
    ("GET", "/v1/sagas/{id}", "viewer"),
    ("GET", "/v1/sagas/{id}/journal", "viewer"),
    ("POST", "/v1/sagas/{id}/cancel", "operator"),
    ("POST", "/v1/sagas/{id}/retry", "operator"),
    ("POST", "/v1/sagas/{id}/resolve", "operator"),
    ("POST", "/v1/sagas/{id}/skip", "operator"),
    ("POST", "/v1/sagas/{id}/close", "operator"),
    ("POST", "/v1/callbacks", "operator"),
    ("POST", "/v1/locks/{name}", "operator"),
    ("PUT", "/v1/locks/{name}", "operator"),
    ("DELETE", "/v1/locks/{name}", "operator"),
    ("GET", "/v1/locks/{name}", "viewer"),
    ("GET", "/v1/dead-letters", "viewer"),
    ("GET", "/v1/stats", "viewer"),
    ("GET", "/metrics", "viewer"),
    ("GET", "/healthz", "nobody"),
    ("GET", "/readyz", "nobody"),
    ("GET", "/openapi.json", "nobody"),
];

#[tokio::test]
async fn each_route_needs_its_role() {
    let world = world().await;
    let roles = ["viewer", "operator", "admin"];
    for (method, path, role) in ROUTES {
        let path = path.replace("{name}", "x").replace("{id}", "x");
        let needed = roles.iter().position(|known| *known == role);
        let without = status(&world, None, method, &path).await;
        assert_eq!(without == 401, needed.is_some(), "{method} {path}: {without}");
        for (have, token) in roles.iter().enumerate() {
            let got = status(&world, Some(token), method, &path).await;
            assert_eq!(
                got == 403,
                needed.is_some_and(|needed| have < needed),
                "{method} {path} as {token}: {got}"
            );
            assert_ne!(got, 401);
        }
    }
}

#[tokio::test]
async fn refusals_say_what_to_send() {
    let world = world().await;
    let answer = world.get("/v1/sagas").await;
    answer.problem(401, "unauthenticated");
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"amends\"");
    let wrong = world.send("GET", "/v1/sagas", &[("authorization", "Bearer wrong")], "").await;
    wrong.problem(401, "unauthenticated");
    assert!(!wrong.text().contains("wrong\""));
    let viewer = [("authorization", "Bearer viewer-secret")];
    let forbidden = world.send("POST", "/v1/sagas", &viewer, "{}").await.problem(403, "forbidden");
    assert!(forbidden["detail"].as_str().unwrap().contains("`vera` has the role viewer"), "{forbidden}");
}

#[tokio::test]
async fn who_asks_comes_before_what_is_asked() {
    let world = world().await;
    let large = vec![b'x'; 2 * 1024 * 1024];
    world.send("POST", "/v1/sagas", &[], large.clone()).await.problem(401, "unauthenticated");
    let operator = [("authorization", "Bearer operator-secret")];
    world.send("POST", "/v1/sagas", &operator, large).await.problem(413, "too-large");
    world.send("POST", "/v1/sagas/none/close", &operator, "{").await.problem(400, "malformed");
}

#[tokio::test]
async fn journals_name_the_token() {
    let world = world().await;
    let admin = [("authorization", "Bearer admin-secret"), ("content-type", "application/toml")];
    world.send("PUT", "/v1/definitions/order", &admin, ORDER).await.ok(201);
    let operator = [("authorization", "Bearer operator-secret")];
    let body = json!({ "saga": "order", "id": "a", "input": { "sku": "a", "amount": 1 } }).to_string();
    world.send("POST", "/v1/sagas?wait=60s", &operator, body).await.ok(201);
    let viewer = [("authorization", "Bearer viewer-secret")];
    let journal = world.send("GET", "/v1/sagas/a/journal", &viewer, "").await.ok(200);
    assert_eq!(journal["items"][0]["by"], "otto");
}

#[tokio::test]
async fn without_tokens_only_this_machine_is_answered() {
    let world =
        World::with(Plan { server: "public_url = \"http://amends.example\"", ..Plan::default() }).await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1234", 200),
        ("[::1]", 200),
        ("amends.example", 200),
        ("evil.example", 403),
        ("169.254.169.254", 403),
    ] {
        let answer = world.send("GET", "/v1/sagas", &[("host", host)], "").await;
        assert_eq!(answer.status, status, "{host}");
        if status == 403 {
            answer.problem(403, "forbidden");
        }
    }
    // What a page elsewhere can make a browser send.
    for headers in [
        [("origin", "https://evil.example"), ("content-type", "application/json")],
        [("origin", "null"), ("content-type", "application/json")],
        [("sec-fetch-site", "cross-site"), ("content-type", "application/json")],
    ] {
        world.send("POST", "/v1/sagas", &headers, "{}").await.problem(403, "forbidden");
    }
    for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        world.send("POST", "/v1/sagas", &[("content-type", form)], "{}").await.problem(415, "malformed");
    }
}
