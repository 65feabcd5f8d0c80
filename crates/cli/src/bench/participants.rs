//! The benchmark's participants: they answer at once and remember nothing, so that what is measured is the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::exit::Failure;

/// Their names. All three are at one address.
pub(super) const NAMES: [&str; 3] = ["inventory", "payment", "shipping"];

/// Starts them in this process, for as long as it runs.
pub(super) async fn start() -> Result<SocketAddr, Failure> {
    let broken =
        |e: std::io::Error| Failure::failed(format!("the participants cannot listen: {e}"), "run it again");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    let router = Router::new()
        .route("/reservations", post(|number| answer("reservation_id", number)))
        .route("/charges", post(|number| answer("charge_id", number)))
        .route("/shipments", post(|number| answer("shipment_id", number)))
        .with_state(Arc::new(AtomicU64::new(0)));
    tokio::spawn(amends_server::serve_router(
        listener,
        router,
        super::connection_limits(),
        std::future::pending(),
    ));
    Ok(address)
}

async fn answer(name: &'static str, State(numbers): State<Arc<AtomicU64>>) -> Json<Value> {
    Json(json!({ name: numbers.fetch_add(1, Ordering::Relaxed).to_string() }))
}
