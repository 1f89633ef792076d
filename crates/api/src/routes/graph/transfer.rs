//! Imports and exports whole graphs as streams of NDJSON: the memory use does not depend on the length
//! of the file.

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use emergent_graph::{
    self as graph,
    transfer::{ImportOptions, ImportProgress, OnError},
};
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App,
    auth::{AsActor, InProject},
    extract::{Query, has_content_type},
    views::import::ImportView,
};

const NDJSON: &str = "application/x-ndjson";

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnLineError {
    /// A batch with an invalid line is not written, and no later one.
    #[default]
    Stop,
    /// Invalid lines are reported and skipped.
    Skip,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImportQuery {
    /// What happens at invalid lines: `stop` the import (the default), or `skip` the line.
    #[serde(default)]
    #[param(value_type = Option<OnLineError>, inline)]
    on_error: OnLineError,
}

/// Imports NDJSON as it arrives, and reports the progress as NDJSON: one line per batch, the last one
/// with `done`. Objects are identified by type and key, so you can repeat an import: it updates what is
/// already there.
#[utoipa::path(
    post, path = "/api/graph/import", tag = "graph", operation_id = "importGraph", params(ImportQuery),
    request_body(
        content = String, content_type = "application/x-ndjson",
        description = "`{\"kind\":\"object\",\"type\":…,\"key\":…,\"properties\":…}` and \
                       `{\"kind\":\"relationship\",\"type\":…,\"from\":{\"type\":…,\"key\":…},\"to\":{\"id\":…}}`",
    ),
    responses((status = 200, description = "One line per batch", body = ImportView, content_type = "application/x-ndjson")),
)]
pub(super) async fn import(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Query(how): Query<ImportQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    if ![NDJSON, "application/jsonl", "application/ndjson"]
        .iter()
        .any(|kind| has_content_type(request.headers(), kind))
    {
        return Err(ApiError::wrong_content_type(NDJSON));
    }
    let on_error = match how.on_error {
        OnLineError::Stop => OnError::Stop,
        OnLineError::Skip => OnError::Skip,
    };
    let input = request.into_body().into_data_stream();
    let progress = app.graph.import(actor, input, ImportOptions { on_error });
    Ok(stream(progress.map(|progress| progress_line(progress).map(Bytes::from))))
}

/// Exports the project's live objects and then its relationships as NDJSON, which an import accepts.
#[utoipa::path(
    get, path = "/api/graph/export", tag = "graph", operation_id = "exportGraph",
    responses((status = 200, description = "One line per object and relationship", body = String, content_type = "application/x-ndjson")),
)]
pub(super) async fn export(
    State(app): State<App>,
    InProject(project): InProject,
) -> Result<Response, ApiError> {
    Ok(stream(app.graph.export(project)))
}

/// An import that fails half way reports it in its last line, because the status has already been sent.
fn progress_line(progress: graph::Result<ImportProgress>) -> graph::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Failed {
        done: bool,
        error: crate::error::FailureBody,
    }
    let text = match progress {
        Ok(progress) => serde_json::to_vec(&ImportView::from(progress)),
        Err(failure) => {
            serde_json::to_vec(&Failed { done: true, error: ApiError::from(failure).into_body() })
        }
    };
    let mut text = text.unwrap_or_default();
    text.push(b'\n');
    Ok(text)
}

fn stream(lines: impl Stream<Item = graph::Result<Bytes>> + Send + 'static) -> Response {
    // An error here breaks the connection off, so that an incomplete export is not mistaken for a complete
    // one.
    let lines =
        lines.map(|line| line.inspect_err(|failure| tracing::error!(cause = %failure, "a stream broke off")));
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}
