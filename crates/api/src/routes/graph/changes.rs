use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_domain::{change::FeedPosition, invalid::Invalid};
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
    /// Only changes after this `id:`; `0-0` is the beginning. Without it, only changes from now on. The
    /// header `Last-Event-ID` of a client that reconnects takes precedence.
    #[param(pattern = "^[0-9]{1,18}-[0-9]{1,18}$")]
    after: Option<String>,
}

/// Streams all committed changes as they happen. The first frame is `ready`, with the position at which
/// the stream starts. Each change has its position as `id:`, so a client that reconnects misses nothing
/// and receives nothing twice.
#[utoipa::path(
    get, path = "/api/graph/changes", tag = "graph", operation_id = "followChanges",
    params(ChangesQuery, ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen.")),
    responses((status = 200, description = "Frames of JSON", body = ChangeView, content_type = "text/event-stream")),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Query(from): Query<ChangesQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = match last_seen(&headers)?.or(from.after) {
        Some(text) => text.parse()?,
        None => app.graph.latest_position(project).await?,
    };
    let ready =
        sse::frame(Some(after.to_string()), &json!({ "type": "ready", "position": after.to_string() }));
    let changes = app.graph.follow(project, after).map(frame);
    Ok(sse::stream(&app, &caller, stream::iter([ready]).chain(changes)))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    let wrong = || Invalid::new("Last-Event-ID", "is not a position in the feed");
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().map_err(|_| wrong())?;
    // Browsers send an empty header if they have received no event.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse::<FeedPosition>().map_err(|_| wrong())?;
    Ok(Some(text.to_owned()))
}

fn frame(change: graph::Result<emergent_domain::change::Change>) -> Event {
    match change {
        Ok(change) => {
            let id = change.position.to_string();
            sse::frame(Some(id), &ChangeView::from(change))
        }
        // The stream closes here; a client that reconnects continues after the last id it received.
        Err(failure) => {
            sse::frame(None, &json!({ "type": "error", "error": ApiError::from(failure).into_body() }))
        }
    }
}
