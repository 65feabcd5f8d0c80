//! The plain service that amends is measured against: the same server and the same HTTP client, the same three calls for an
//! order, and nothing kept. When it is killed, its orders are lost; when an answer is, nobody knows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use amends_core::definition::Method;
use amends_core::request::{Payload, Request};
use amends_core::{Answer, Key, OpKind, SagaId};
use amends_participants::{Called, Caller as _, ParticipantConfig, Participants, Settings};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use clap::Args;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::participants::NAMES;
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::{bench, stdin};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where all participants are
    #[arg(long)]
    participants: String,
    /// How many calls to each may be in flight
    #[arg(long)]
    max_concurrency: usize,
    /// Stop when standard input ends
    #[arg(long)]
    stop_with_stdin: bool,
}

/// Serves until standard input ends.
pub(crate) async fn run(options: Options) -> Result<Exit, Failure> {
    let broken = |what: String| Failure::failed(what, "see `amends bench`, which starts this");
    let configs: BTreeMap<String, ParticipantConfig> = NAMES
        .map(|name| {
            let config = ParticipantConfig::new(options.participants.as_str());
            (name.to_owned(), ParticipantConfig { max_concurrency: options.max_concurrency, ..config })
        })
        .into();
    let participants = Participants::new(configs, Settings::system(None)).map_err(|problems| {
        broken(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let router = Router::new().route("/orders", post(order)).with_state(Arc::new(participants));
    let listener =
        TcpListener::bind(options.listen).await.map_err(|e| broken(format!("{}: {e}", options.listen)))?;
    let address = listener.local_addr().map_err(|e| broken(e.to_string()))?;
    print(&format!("plain service listening on http://{address}\n"))?;
    let stop = async move {
        if options.stop_with_stdin { stdin::ended().await } else { std::future::pending().await }
    };
    amends_server::serve_router(listener, router, bench::connection_limits(), stop).await;
    Ok(Exit::Done)
}

/// Carries an order out: the same body, the same calls, the same kind of answer as a saga.
async fn order(State(participants): State<Arc<Participants>>, Json(order): Json<Value>) -> Response {
    match carry_out(&participants, &order).await {
        Ok(answer) => (StatusCode::CREATED, Json(answer)).into_response(),
        Err(reason) => (StatusCode::BAD_GATEWAY, Json(json!({ "error": reason }))).into_response(),
    }
}

async fn carry_out(participants: &Participants, order: &Value) -> Result<Value, String> {
    let id = order["id"].as_str().and_then(|id| SagaId::new(id).ok()).ok_or("no id")?;
    let input = &order["input"];
    let body = json!({ "sku": input["sku"], "qty": input["qty"] });
    let reserved = call(participants, &id, "inventory", "reserve", "/reservations", body).await?;
    let body = json!({ "amount": input["amount"] });
    let charged = call(participants, &id, "payment", "charge", "/charges", body).await?;
    let body = json!({ "order": id.as_str(), "charge": charged["charge_id"] });
    let shipped = call(participants, &id, "shipping", "ship", "/shipments", body).await?;
    Ok(json!({
        "id": id.as_str(),
        "saga": order["saga"],
        "status": "completed",
        "input": input,
        "steps": [
            { "name": "reserve", "status": "done", "fact": reserved },
            { "name": "charge", "status": "done", "fact": charged },
            { "name": "ship", "status": "done", "fact": shipped },
        ],
    }))
}

async fn call(
    participants: &Participants,
    id: &SagaId,
    to: &str,
    step: &str,
    path: &str,
    body: Value,
) -> Result<Value, String> {
    let request = Request {
        to: to.to_owned(),
        method: Method::Post,
        path: path.to_owned(),
        headers: Vec::new(),
        body: Some(Payload::Json(body)),
        timeout_ms: 3_000,
        key: Key::new(id, step, OpKind::Action, 1),
        action_key: None,
        step: step.to_owned(),
        operation: OpKind::Action,
        attempt: 1,
        is_query: false,
    };
    let outgoing = amends_participants::Outgoing {
        request,
        saga: id.clone(),
        epoch: 1,
        trace: None,
        lease: Arc::new(|| true),
    };
    match participants.call(outgoing).await {
        Called::Answered { answer: Answer::Response { status: 200, body, .. }, .. } => {
            serde_json::from_slice(&body).map_err(|e| e.to_string())
        }
        other => Err(format!("{to}: {other:?}")),
    }
}
