//! Metrics, as Prometheus reads them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::App;
use crate::auth::Viewer;
use crate::dto::Stamp;
use crate::problem::{Kind, Problem};
use crate::reading::Reading;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers for Prometheus
///
/// OpenMetrics text. What is counted over the store is read at most once a second.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    operation_id = "get_metrics",
    responses((status = 200, description = "The numbers.", body = String, content_type = "application/openmetrics-text"))
)]
pub(crate) async fn get(State(app): State<App>, _: Viewer) -> Result<Response, Problem> {
    // Without its store the node's own numbers are all the more interesting.
    let counts = app.cached().counts(app.engine()).await.ok();
    let reading = Reading {
        engine: app.engine().metrics(),
        gauges: app.engine().gauges(),
        ready: app.engine().health().is_ready(),
        counts,
        participants: app.participants().states(),
        refusals: app.refusals().counts(),
        locks: app.lock_counts().all(),
        now: Stamp::now(),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Arc::new(reading)));
    let mut text = String::new();
    encode(&mut text, &registry)
        .map_err(|_| Problem::new(Kind::Internal, "the metrics cannot be written"))?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
