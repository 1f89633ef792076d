//! Import and export of a whole graph as NDJSON. Both are streams, so the memory they use does not depend on
//! the size of the file.

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use emergent_domain::token::Scope;
use emergent_graph::{
    self as graph,
    transfer::{ImportOptions, ImportProgress, OnError},
};
use emergent_store::requester::stream_on_behalf_of;
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App,
    auth::{AsActor, Caller, InProject},
    extract::{Query, has_content_type},
    stream_limit::{StreamPermit, with_guard},
    views::{
        IntoView,
        import::{ImportView, without_unchanged},
    },
};

const NDJSON: &str = "application/x-ndjson";

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnLineError {
    /// A batch with a wrong line is not written, and no later one.
    #[default]
    Stop,
    /// Wrong lines are told and left out.
    Skip,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImportQuery {
    /// What wrong lines do: `stop` the import, which is usual, or be left out with `skip`.
    #[serde(default)]
    #[param(value_type = Option<OnLineError>, inline)]
    on_error: OnLineError,
}

/// Imports NDJSON as it arrives, and tells how far it is as NDJSON: a line per batch, the last
/// with `done`. Objects are found again by type and key, so importing again goes on from what is
/// there.
#[utoipa::path(
    post, path = "/api/graph/import", tag = "graph", operation_id = "importGraph", params(ImportQuery),
    request_body(
        content = String, content_type = "application/x-ndjson",
        description = "`{\"kind\":\"object\",\"type\":…,\"key\":…,\"properties\":…}` and \
                       `{\"kind\":\"relationship\",\"type\":…,\"from\":{\"type\":…,\"key\":…},\"to\":{\"id\":…}}`",
    ),
    responses((status = 200, description = "A line per batch", body = ImportView, content_type = "application/x-ndjson")),
)]
pub(super) async fn import(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Query(query): Query<ImportQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    if ![NDJSON, "application/jsonl", "application/ndjson"]
        .iter()
        .any(|content_type| has_content_type(request.headers(), content_type))
    {
        return Err(ApiError::wrong_content_type(NDJSON));
    }
    let on_error = match query.on_error {
        OnLineError::Stop => OnError::Stop,
        OnLineError::Skip => OnError::Skip,
    };
    let permit = StreamPermit::acquire(&app.streams, &caller.token)?;
    let input = request.into_body().into_data_stream();
    let progress = app.graph.import(actor, input, ImportOptions { on_error });
    let progress = stream_on_behalf_of(caller.requester(), progress);
    let may_read = caller.token.scopes.contains(&Scope::GraphRead);
    let progress = progress.map(move |batch| if may_read { batch } else { batch.map(without_unchanged) });
    Ok(stream(with_guard(progress.map(|batch| progress_line(batch).map(Bytes::from)), permit)))
}

/// The project's living objects, then its relationships, as NDJSON that an import reads.
#[utoipa::path(
    get, path = "/api/graph/export", tag = "graph", operation_id = "exportGraph",
    responses((status = 200, description = "A line for each", body = String, content_type = "application/x-ndjson")),
)]
pub(super) async fn export(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
) -> Result<Response, ApiError> {
    let permits = (
        StreamPermit::acquire(&app.exports, &caller.token)?,
        StreamPermit::acquire(&app.streams, &caller.token)?,
    );
    let lines = stream_on_behalf_of(caller.requester(), app.graph.export(project));
    let lines = caller.until_access_ends(&app, lines, graph::Error::TokenEnded);
    Ok(stream(with_guard(lines, permits)))
}

/// Returns the line of one batch. The failure of an import is its last line, because the status was sent
/// before.
fn progress_line(progress: graph::Result<ImportProgress>) -> graph::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Failed {
        done: bool,
        error: crate::error::FailureBody,
    }
    let text = match progress {
        Ok(progress) => serde_json::to_vec(&IntoView::<ImportView>::into_view(progress)),
        Err(failure) => {
            serde_json::to_vec(&Failed { done: true, error: ApiError::from(failure).into_body() })
        }
    };
    let mut text = text.unwrap_or_default();
    text.push(b'\n');
    Ok(text)
}

/// Returns a response that streams these lines.
fn stream(lines: impl Stream<Item = graph::Result<Bytes>> + Send + 'static) -> Response {
    // An error breaks the connection, so that the client does not take the response for complete.
    let lines =
        lines.map(|line| line.inspect_err(|failure| tracing::error!(cause = %failure, "a stream failed")));
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}
