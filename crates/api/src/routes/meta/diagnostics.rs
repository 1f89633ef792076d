//! What an operator asks a running server.

use axum::extract::State;
use emergent_wire::diagnostics::DiagnosticsView;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::Caller,
    diagnostics,
    extract::Query,
    response::{Envelope, Result, ok},
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnosticsQuery {
    /// Whether the database, the embedder and the providers of models are asked whether they work; the
    /// default is true.
    probe: Option<bool>,
}

/// Returns every setting in force with its source, and whether the database, the embedder and the providers of
/// models work. Each probe has five seconds. Needs a token that spans projects.
#[utoipa::path(
    get, path = "/api/admin/diagnostics", tag = "server", operation_id = "diagnostics",
    params(DiagnosticsQuery),
    responses((status = 200, description = "The state of this server", body = Envelope<DiagnosticsView>)),
)]
pub(super) async fn diagnostics(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<DiagnosticsQuery>,
) -> Result<DiagnosticsView> {
    caller.require_all_projects("the settings of a server")?;
    ok(diagnostics::diagnose(&app, query.probe.unwrap_or(true)).await)
}
