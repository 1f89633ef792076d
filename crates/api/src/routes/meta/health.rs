//! Liveness, readiness and metrics.

use axum::{extract::State, http::header, response::IntoResponse};
use emergent_store::{
    self as store, Tx, embedding_queue, jobs, project_counts, projects, runs, schedules, triggers::firings,
    workflows,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ApiError, App,
    auth::Caller,
    metrics::{self, Gauges, Metrics, ProjectGauges},
    response::{Envelope, Result, ok},
};

#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthView {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

const HEALTHY: HealthView = HealthView { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Whether the process runs.
#[utoipa::path(
    get, path = "/health", tag = "server", operation_id = "health",
    responses((status = 200, description = "It does", body = Envelope<HealthView>)),
)]
pub(super) async fn health() -> Result<HealthView> {
    ok(HEALTHY)
}

/// Whether requests can be answered: the database is set up, and can be read and written. Answers within a second.
#[utoipa::path(
    get, path = "/ready", tag = "server", operation_id = "ready",
    responses((status = 200, description = "They can", body = Envelope<HealthView>)),
)]
pub(super) async fn ready(State(app): State<App>) -> Result<HealthView> {
    // The check writes, which ends a problem of the storage that is over.
    let checked = app.readiness.check(&app.graph).await;
    if let Some(problem) = app.graph.db().storage_problem() {
        return Err(ApiError::storage_problem(&problem));
    }
    checked?;
    ok(HEALTHY)
}

/// Metrics for Prometheus. A token of one project gets only the values of that project.
#[utoipa::path(
    get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((
        status = 200, description = "Metrics in the text format of OpenMetrics",
        body = String, content_type = "application/openmetrics-text",
    )),
)]
pub(super) async fn metrics(
    State(app): State<App>,
    caller: Caller,
) -> std::result::Result<impl IntoResponse, ApiError> {
    let text = match caller.bound_project() {
        Some(project) => {
            let counts = app.graph.db().read(move |tx| project_counts::load(tx, project)).await?;
            Metrics::render_project(ProjectGauges { project, counts })
        }
        None => server_metrics(&app).await?,
    };
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// The metrics of this process, and of all projects.
async fn server_metrics(app: &App) -> std::result::Result<String, ApiError> {
    let max_queued = app.executor.settings().max_queued;
    let read_database = move |tx: &mut Tx<'_>| -> store::Result<_> {
        Ok(Gauges {
            queued_runs: runs::count_queued(tx, max_queued)?,
            waiting_runs: runs::count_waiting(tx, max_queued)?,
            active_workflows: workflows::count_active(tx)?,
            waiting_schedules: schedules::count_waiting(tx)?,
            waiting_events: firings::count_waiting(tx)?,
            jobs: jobs::counts(tx)?,
            embedding_queue: embedding_queue::len(tx)?,
            deleted: projects::count_all_deleted(tx)?,
            ..Gauges::default()
        })
    };
    let gauges = Gauges {
        event_streams: app.streams.in_use(),
        running_runs: app.executor.driven_count(),
        driven_workflows: app.dispatcher.driven_count(),
        ..app.graph.db().read(read_database).await?
    };
    Ok(app.metrics.render(&app.executor, &app.dispatcher, gauges))
}
