//! The change feed of a project as an event stream.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_domain::change::FeedPosition;
use emergent_graph as graph;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::Query,
    sse,
    views::change::ChangeView,
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangesQuery {
    /// Changes after this `id:`; `0-0` is the beginning. Without it, changes from now on. The
    /// header `Last-Event-ID` of a client that reconnects goes before it.
    #[param(pattern = "^[0-9]{1,18}-[0-9]{1,18}$")]
    after: Option<String>,
}

/// Every committed change, as it happens. The first frame is `ready`, with the place the stream
/// begins at; each change carries its place as `id:`, so a client that reconnects misses nothing
/// and sees nothing twice.
#[utoipa::path(
    get, path = "/api/graph/changes", tag = "graph", operation_id = "followChanges",
    params(ChangesQuery, ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen.")),
    responses((status = 200, description = "Frames of JSON", body = ChangeView, content_type = "text/event-stream")),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Query(query): Query<ChangesQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last_seen: Option<FeedPosition> =
        sse::last_event_id(&headers, "is not a position in the change feed")?;
    let after = match (last_seen, query.after) {
        (Some(position), _) => position,
        (None, Some(text)) => text.parse()?,
        (None, None) => app.graph.latest_position(project).await?,
    };
    let ready =
        sse::frame(Some(after.to_string()), &json!({ "type": "ready", "position": after.to_string() }));
    let changes = app.graph.follow(project, after).map(frame);
    Ok(sse::stream(&app, &caller, stream::iter([ready]).chain(changes)))
}

/// Returns the frame of one change, or the last frame of a stream that failed.
fn frame(change: graph::Result<emergent_domain::change::Change>) -> Event {
    match change {
        Ok(change) => {
            let id = change.position.to_string();
            sse::frame(Some(id), &ChangeView::from(change))
        }
        Err(failure) => sse::error_frame(failure),
    }
}
