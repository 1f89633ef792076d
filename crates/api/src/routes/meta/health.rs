use axum::{extract::State, http::header, response::IntoResponse};
use emergent_graph as graph;
use emergent_store::{
    self as store, Tx, embedding_queue, jobs, runs, schedules, triggers::firings, workflows,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ApiError, App,
    metrics::{RunMetrics, WaitingFirings, WorkflowMetrics},
    response::{Envelope, Result, ok},
};

#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthView {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

const FINE: HealthView = HealthView { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Reports whether the process is running.
#[utoipa::path(
    get, path = "/health", tag = "server", operation_id = "health",
    responses((status = 200, description = "It does", body = Envelope<HealthView>)),
)]
pub(super) async fn health() -> Result<HealthView> {
    ok(FINE)
}

/// Reports whether the server can handle requests: the database is reachable and migrated.
#[utoipa::path(
    get, path = "/ready", tag = "server", operation_id = "ready",
    responses((status = 200, description = "They can", body = Envelope<HealthView>)),
)]
pub(super) async fn ready(State(app): State<App>) -> Result<HealthView> {
    match app.graph.find_project("default").await {
        Ok(_) => ok(FINE),
        Err(graph::Error::NotFound { .. }) => Err(ApiError::unavailable("the server is still setting up")),
        Err(failure) => {
            tracing::warn!(cause = %failure, "not ready");
            Err(ApiError::unavailable("the database cannot be reached"))
        }
    }
}

/// Returns metrics in the Prometheus format.
#[utoipa::path(
    get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain")),
)]
pub(super) async fn metrics(State(app): State<App>) -> std::result::Result<impl IntoResponse, ApiError> {
    let max_queued = app.executor.settings().max_queued;
    let count = move |tx: &mut Tx<'_>| -> store::Result<_> {
        let triggered =
            WaitingFirings { events: firings::count_waiting(tx)?, schedules: schedules::count_waiting(tx)? };
        let (queued, live) = (runs::count_queued(tx, max_queued)?, workflows::count_active(tx)?);
        Ok((jobs::counts(tx)?, embedding_queue::len(tx)?, queued, live, triggered))
    };
    let (jobs, vectors, queued, live, waiting) = app.graph.db().read(count).await?;
    let running = app.executor.driven_count();
    let (figures, driven) = (app.dispatcher.metrics(), app.dispatcher.driven_count());
    let workflows = WorkflowMetrics { figures, driven, live };
    let runs =
        RunMetrics { figures: app.executor.telemetry().metrics(), running, queued, workflows, waiting };
    let text = app.metrics.render(app.streams.open_count(), &jobs, vectors, &runs);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
