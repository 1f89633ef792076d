//! `/api/events`: one stream of everything that happens in a project.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_domain::{
    invalid::Invalid,
    project_event::{EventSubject, ProjectEvent, StreamPosition},
    token::Scope::{self, AdminRead, AgentsRead, ApprovalsDecide, ChatUse, GraphRead},
};
use emergent_graph::{self as graph, project_stream::StreamEntry};
use futures_util::{StreamExt, future::ready, stream};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{Caller, InProject},
    endpoint::routes,
    extract::Query,
    sse,
    views::project_event::ProjectEventView,
};

pub(super) fn routes() -> Routes {
    Routes::new().any_token(routes!(follow))
}

/// A kind of events that a request can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventType {
    Graph,
    Status(EventSubject),
}

impl EventType {
    fn all() -> impl Iterator<Item = EventType> {
        EventSubject::ALL.iter().copied().map(Self::Status).chain([Self::Graph])
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Status(subject) => subject.as_str(),
        }
    }

    /// The scope that the lists of the same things need.
    fn scope(self) -> Scope {
        match self {
            Self::Graph => GraphRead,
            Self::Status(subject) => match subject {
                EventSubject::Run
                | EventSubject::McpServer
                | EventSubject::Product
                | EventSubject::Token
                | EventSubject::Secret => AdminRead,
                EventSubject::Workflow
                | EventSubject::Agent
                | EventSubject::Budget
                | EventSubject::Trigger => AgentsRead,
                EventSubject::Approval => ApprovalsDecide,
                EventSubject::Conversation => ChatUse,
            },
        }
    }

    fn includes(self, event: &ProjectEvent) -> bool {
        match (self, event) {
            (Self::Graph, ProjectEvent::Graph(_)) => true,
            (Self::Status(subject), ProjectEvent::Status(event)) => event.subject == subject,
            _ => false,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ProjectEventsQuery {
    /// The kinds of events, separated by commas: `run` (needs the scope `admin:read`), `workflow`
    /// (`agents:read`), `approval` (`approvals:decide`), `conversation` (`chat:use`), `graph` (`graph:read`), and
    /// changes of settings: `agent`, `budget` and `trigger` (`agents:read`), `mcp_server`, `product`, `token` and
    /// `secret` (`admin:read`). Without it, all that the token may read.
    #[param(example = "run,workflow")]
    types: Option<String>,
    /// Events after this `id:`; `0-0.0-0` is the beginning. Without it, events from now on. The header
    /// `Last-Event-ID` of a client that reconnects takes precedence.
    #[param(pattern = r"^[0-9]{1,18}-[0-9]{1,18}\.[0-9]{1,18}-[0-9]{1,18}$")]
    after: Option<String>,
}

/// Streams everything that happens in a project: changes of its graph, new statuses of its runs, workflows, requests to
/// people and conversations, and changes of its settings, from every server. The first frame is `ready`. Each event has its position as `id:`, so a client that
/// reconnects misses nothing and receives nothing twice.
#[utoipa::path(
    get, path = "/api/events", tag = "events", operation_id = "followProject",
    params(ProjectEventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen.")),
    responses((status = 200, description = "Frames of JSON", body = ProjectEventView, content_type = "text/event-stream")),
)]
async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Query(query): Query<ProjectEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let types = requested_types(query.types.as_deref(), &caller)?;
    let last_seen: Option<StreamPosition> =
        sse::last_event_id(&headers, "is not a position in the events of a project")?;
    let after = match (last_seen, query.after) {
        (Some(position), _) => position,
        (None, Some(text)) => text.parse()?,
        (None, None) => app.graph.latest_stream_position(project).await?,
    };
    let complete = app.graph.has_events_after(after).await?;
    let position = after.to_string();
    let first = sse::frame(Some(position.clone()), &ProjectEventView::Ready { position, complete });
    let entries = app.graph.follow_project(project, after).await?;
    let frames = entries.filter_map(move |entry| ready(frame(&types, entry)));
    Ok(sse::stream(&app, &caller, stream::iter([first]).chain(frames)))
}

/// Returns the types of a request; without any, those that the token may read.
fn requested_types(list: Option<&str>, caller: &Caller) -> Result<Vec<EventType>, ApiError> {
    let Some(list) = list else {
        let readable: Vec<EventType> =
            EventType::all().filter(|one| caller.token.scopes.contains(&one.scope())).collect();
        return if readable.is_empty() { Err(ApiError::missing_scope(GraphRead)) } else { Ok(readable) };
    };
    let mut types = Vec::new();
    for name in list.split(',') {
        let found = EventType::all().find(|one| one.as_str() == name).ok_or_else(|| {
            let names = EventType::all().map(EventType::as_str).collect::<Vec<_>>().join(", ");
            Invalid::new("types", format!("has the unknown type `{name}`; the types are {names}"))
        })?;
        caller.require_scope(found.scope())?;
        types.push(found);
    }
    Ok(types)
}

/// Returns the frame of one entry, or the last frame of a stream that failed; `None` for other types. Followers share
/// the data of a frame. Its id is their own, because it depends on where they started.
fn frame(types: &[EventType], entry: graph::Result<StreamEntry>) -> Option<Event> {
    match entry {
        Ok(StreamEntry { event, position }) => {
            types.iter().any(|one| one.includes(event.event())).then(|| {
                let data = event.text(|event| serde_json::to_string(&ProjectEventView::from(event)).ok());
                sse::text_frame(Some(position.to_string()), data)
            })
        }
        Err(failure) => Some(sse::error_frame(failure)),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use axum::{
        body::to_bytes,
        response::{IntoResponse, sse::Sse},
    };
    use emergent_domain::{
        change::FeedPosition, ids::ProjectId, project_event::StatusEvent, time::Timestamp,
    };
    use emergent_graph::project_stream::SharedEvent;
    use uuid::Uuid;

    use super::*;

    fn entry(event: &Arc<SharedEvent>, graph_seq: i64) -> graph::Result<StreamEntry> {
        let graph = FeedPosition { txid: 0, seq: graph_seq };
        let position = StreamPosition { graph, status: FeedPosition { txid: 0, seq: 1 } };
        Ok(StreamEntry { event: Arc::clone(event), position })
    }

    async fn text(frame: Event) -> String {
        let response = Sse::new(stream::iter([Ok::<_, Infallible>(frame)])).into_response();
        String::from_utf8(to_bytes(response.into_body(), 10_000).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn followers_share_the_data_of_a_frame_and_have_their_own_ids_and_types() {
        let run = EventType::Status(EventSubject::Run);
        let event = Arc::new(SharedEvent::from(ProjectEvent::Status(StatusEvent {
            position: FeedPosition { txid: 0, seq: 1 },
            graph_seq: 0,
            project: ProjectId::new(),
            subject: EventSubject::Run,
            subject_id: Uuid::nil(),
            name: "writer".to_owned(),
            status: "queued".to_owned(),
            reason: None,
            parent: None,
            workflow: None,
            title: None,
            tool: None,
            expires_at: None,
            is_overdue: None,
            at: Timestamp::from_micros(0),
        })));
        assert!(frame(&[EventType::Graph], entry(&event, 0)).is_none(), "its token may not read runs");
        let first = text(frame(&[run], entry(&event, 0)).unwrap()).await;
        let second = text(frame(&[EventType::Graph, run], entry(&event, 7)).unwrap()).await;
        let data = |frame: &str| frame.lines().find(|line| line.starts_with("data:")).map(str::to_owned);
        assert!(first.contains(r#""agent":"writer""#) && data(&first) == data(&second), "{first}{second}");
        assert!(first.contains("id: 0-0.0-1") && second.contains("id: 0-7.0-1"), "{first}{second}");
        // The data was serialised for the first follower, and nobody does so again.
        assert!(event.text(|_| unreachable!("a second serialisation")).is_some());
    }
}
