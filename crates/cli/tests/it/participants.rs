//! Participants of any kind: what they answer is the test's affair.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse as _;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::Value;

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// `POST /payment/charges`: method, participant, path.
    pub(crate) what: String,
    /// `Idempotency-Key`.
    pub(crate) key: String,
    /// The JSON body; null if there was none.
    pub(crate) body: Value,
}

type Answer = dyn Fn(&Call) -> (u16, Value) + Send + Sync;

/// A server for all participants of a test: `http://…/NAME` is the one called NAME.
pub(crate) struct Participants {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    // The runtime ends, and with it the server, when this is dropped.
    _runtime: tokio::runtime::Runtime,
}

#[derive(Clone)]
struct Shared {
    answer: Arc<Answer>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Participants {
    /// Starts them; `answer` gives status and JSON. It may block.
    pub(crate) fn start(answer: impl Fn(&Call) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(handle)
            .with_state(Shared { answer: Arc::new(answer), calls: calls.clone() });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, calls, _runtime: runtime }
    }

    /// `[participants.NAME]` sections of `amends.toml` for all of them.
    pub(crate) fn config(&self, names: &[&str]) -> String {
        let section =
            |name: &&str| format!("[participants.{name}]\nurl = \"http://{}/{name}\"\n", self.address);
        names.iter().map(section).collect()
    }

    /// What arrived so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// How often this was asked for.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.calls().iter().filter(|call| call.what == what).count()
    }
}

async fn handle(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    let key =
        headers.get("idempotency-key").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let call = Call { what: format!("{method} {}", uri.path()), key, body };
    shared.calls.lock().unwrap().push(call.clone());
    let (status, answer) = tokio::task::spawn_blocking(move || (shared.answer)(&call)).await.unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
