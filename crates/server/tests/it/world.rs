//! A server with everything behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use amends_engine::{Config, Engine, SystemClock};
use amends_participants::{ParticipantConfig, Participants, Value as Configured};
use amends_server::{App, ServerConfig, Settings, serve};
use amends_store::locks::MemoryLocks;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{self, Answer};
use crate::script::{Reply, Script};
use crate::store::Switched;

/// Two steps before the pivot, the pivot, and one after. `shop` repeats its answers; `bank` cannot even be asked.
pub(crate) const ORDER: &str = r#"
saga = "order"
version = 1
claims = ["sku:${input.sku}"]

[participants.shop]
idempotency = "replay"
[participants.bank]
idempotency = "none"

[[step]]
name = "reserve"
reaches = "RESERVED"
[step.action]
to = "shop"
post = "/reservations"
body = { sku = "${input.sku}", amount = "${input.amount}" }
serial = "/no"
[step.compensation]
post = "/releases"
body = { no = "${steps.reserve.serial}" }

[[step]]
name = "charge"
[step.action]
to = "bank"
post = "/charges"
on_exhausted = "dead"
retry = { max_attempts = 1 }
[step.compensation]
post = "/refunds"

[[step]]
name = "ship"
pivot = true
reaches = "SHIPPED"
[step.action]
to = "shop"
post = "/shipments"

[[step]]
name = "notify"
[step.action]
to = "shop"
post = "/notices"
"#;

/// The secret shared with a participant that signs its callbacks.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Environment variables of the server.
fn env(name: &str) -> Option<String> {
    match name {
        "VIEWER" => Some("viewer-secret".into()),
        "OPERATOR" => Some("operator-secret".into()),
        "ADMIN" => Some("admin-secret".into()),
        "SHOP_SECRET" => Some(SECRET.into()),
        _ => None,
    }
}

/// How a world differs from the usual one.
pub(crate) struct Plan {
    /// `[server]`, in TOML.
    pub(crate) server: &'static str,
    /// The participant `shop` has a secret.
    pub(crate) shop_signs: bool,
    /// Sagas in memory beyond which submissions are refused.
    pub(crate) sagas_max: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { server: "", shop_signs: false, sagas_max: 1_000 }
    }
}

/// Three tokens, one of each role.
pub(crate) const TOKENS: &str = r#"
tokens = [
    { name = "vera", token = "env:VIEWER", role = "viewer" },
    { name = "otto", token = "env:OPERATOR", role = "operator" },
    { name = "ada", token = "env:ADMIN", role = "admin" },
]"#;

/// A running server.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Script>,
    pub(crate) store: Arc<Switched>,
    pub(crate) locks: Arc<MemoryLocks>,
    engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

static NODES: AtomicU64 = AtomicU64::new(0);

impl World {
    /// The usual one: loopback, no tokens.
    pub(crate) async fn start() -> Self {
        Self::with(Plan::default()).await
    }

    pub(crate) async fn with(plan: Plan) -> Self {
        let script = Arc::new(Script::default());
        let store = Arc::new(Switched::default());
        let node = NODES.fetch_add(1, Ordering::Relaxed);
        let mut config = Config::new(format!("node{node}"), node);
        config.limits.sagas_max = plan.sagas_max;
        config.participants = Some(vec!["shop".into(), "bank".into(), "slow".into()]);
        let engine =
            Engine::start(config, store.clone(), script.clone(), Arc::new(SystemClock)).await.unwrap();

        let mut shop = ParticipantConfig::new("http://127.0.0.1:9");
        shop.secret = plan.shop_signs.then(|| Configured::parse("env:SHOP_SECRET"));
        let configs = BTreeMap::from([("shop".to_owned(), shop)]);
        let mut settings = amends_participants::Settings::system(None);
        settings.env = Arc::new(env);
        let participants = Arc::new(Participants::new(configs.clone(), settings).unwrap());

        let server: ServerConfig = toml::from_str(plan.server).unwrap();
        let settings = Settings::new(&server, &env).unwrap();
        let locks = Arc::new(MemoryLocks::new());
        let app = App::new(engine.clone(), locks.clone(), participants, &configs, settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(serve(listener, app, async {
            let _ = stopped.await;
        }));
        Self { address, script, store, locks, engine, stop: Some(stop), server: Some(server) }
    }

    /// Tells the server to stop; it has stopped when the task that comes back ends.
    pub(crate) fn stop(&mut self) -> JoinHandle<std::io::Result<()>> {
        drop(self.stop.take());
        self.server.take().expect("a server stops once")
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        client::send(self.address, method, path, headers, body.into()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_owned()).await
    }

    /// Applies a definition.
    pub(crate) async fn apply(&self, toml: &str) -> Answer {
        let name = toml.split('"').nth(1).unwrap();
        let path = format!("/v1/definitions/{name}");
        self.send("PUT", &path, &[("content-type", "application/toml")], toml.to_owned()).await
    }

    /// Submits an order and waits until it rests.
    pub(crate) async fn order(&self, id: &str, sku: &str) -> Value {
        let body = json!({ "saga": "order", "id": id, "input": { "sku": sku, "amount": 5 } });
        self.post("/v1/sagas?wait=60s", &body).await.ok(201)
    }

    /// Submits an order whose first call is not answered, so that it stays under way.
    pub(crate) async fn order_under_way(&self, id: &str, sku: &str) -> Value {
        self.script.answer("reserve:action", &[Reply::Hang]);
        let body = json!({ "saga": "order", "id": id, "input": { "sku": sku, "amount": 5 } });
        self.post("/v1/sagas", &body).await.ok(201)
    }

    pub(crate) async fn saga(&self, id: &str) -> Value {
        self.get(&format!("/v1/sagas/{id}")).await.ok(200)
    }

    /// Looks at a saga until it is as it should be: the test runner ends what never comes.
    pub(crate) async fn until(&self, id: &str, as_it_should: impl Fn(&Value) -> bool) -> Value {
        loop {
            let saga = self.saga(id).await;
            if as_it_should(&saga) {
                return saga;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Looks until a saga exists.
    pub(crate) async fn until_known(&self, id: &str) {
        while self.get(&format!("/v1/sagas/{id}")).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Looks until as many callers wait.
    pub(crate) async fn until_waiters(&self, waiters: usize) {
        while self.engine.gauges().waiters != waiters {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Acts on a saga, having seen its version.
    pub(crate) async fn act(&self, id: &str, action: &str, version: u64, body: &Value) -> Answer {
        let headers = [("content-type", "application/json"), ("if-match", &*format!("\"{version}\""))];
        self.send("POST", &format!("/v1/sagas/{id}/{action}"), &headers, body.to_string()).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine.crash();
    }
}
