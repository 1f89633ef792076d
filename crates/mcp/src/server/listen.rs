//! Streams of change notifications: `subscriptions/listen`, and the stream of a legacy session.

use bytes::Bytes;
use emergent_domain::foreign_json;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use serde_json::{Map, Value, json, value::RawValue};

use super::{ListKind, reply::KEEP_ALIVE, response};
use crate::message::meta;

impl ListKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// Returns the name of the list in the parameters of `subscriptions/listen`.
    fn subscription_field(self) -> String {
        format!("{}ListChanged", self.as_str())
    }
}

/// A notification on a stream.
pub(super) enum ChangeNotice {
    /// A list has changed.
    List(ListKind),
    /// The resource with this URI has changed.
    Resource(String),
}

/// Merges both kinds of changes into one stream of notices.
pub(super) fn merge_changes(
    changes: BoxStream<'static, ListKind>,
    updates: BoxStream<'static, String>,
) -> BoxStream<'static, ChangeNotice> {
    stream::select(changes.map(ChangeNotice::List), updates.map(ChangeNotice::Resource)).boxed()
}

/// Returns the requested list notifications that the server supports.
pub(super) fn accepted_lists(requested: &Value, declared: &Value) -> Map<String, Value> {
    [ListKind::Tools, ListKind::Prompts, ListKind::Resources]
        .into_iter()
        .filter(|kind| {
            requested[kind.subscription_field()] == true && declared[kind.as_str()]["listChanged"] == true
        })
        .map(|kind| (kind.subscription_field(), Value::Bool(true)))
        .collect()
}

/// A modern subscription: first the accepted notifications, then each change, with the id of the
/// request.
pub(super) fn subscription_stream(
    id: &RawValue,
    accepted: Map<String, Value>,
    notices: BoxStream<'static, ChangeNotice>,
) -> BoxStream<'static, Bytes> {
    let id: Value = foreign_json::from_str(id.get()).unwrap_or_default();
    let subscription_meta = json!({ meta::SUBSCRIPTION_ID: id });
    let acknowledgement = notification_frame(
        "notifications/subscriptions/acknowledged",
        &json!({ "_meta": subscription_meta, "notifications": accepted }),
    );
    let frames = with_keep_alive(notices).filter_map(move |notice| {
        let frame = match notice {
            None => Some(response::KEEP_ALIVE_FRAME),
            Some(ChangeNotice::List(kind)) if accepted.contains_key(&kind.subscription_field()) => {
                notification_frame(&list_changed(kind), &json!({ "_meta": subscription_meta }))
            }
            Some(ChangeNotice::List(_)) => None,
            Some(ChangeNotice::Resource(uri)) => {
                notification_frame(RESOURCE_UPDATED, &json!({ "_meta": subscription_meta, "uri": uri }))
            }
        };
        std::future::ready(frame)
    });
    stream::iter(acknowledgement).chain(frames).boxed()
}

/// The stream of a session: all list changes that the host declares, and the resources the client
/// subscribed to.
pub(super) fn session_stream(
    declared: Value,
    notices: BoxStream<'static, ChangeNotice>,
    end: impl Future<Output = ()> + Send + 'static,
) -> BoxStream<'static, Bytes> {
    let frames = with_keep_alive(notices).filter_map(move |notice| {
        let frame = match notice {
            None => Some(response::KEEP_ALIVE_FRAME),
            Some(ChangeNotice::List(kind)) if declared[kind.as_str()]["listChanged"] == true => {
                notification_frame(&list_changed(kind), &json!({}))
            }
            Some(ChangeNotice::List(_)) => None,
            Some(ChangeNotice::Resource(uri)) => notification_frame(RESOURCE_UPDATED, &json!({ "uri": uri })),
        };
        std::future::ready(frame)
    });
    // An initial comment shows the client that the stream is open.
    stream::iter([response::KEEP_ALIVE_FRAME]).chain(frames).take_until(Box::pin(end)).boxed()
}

const RESOURCE_UPDATED: &str = "notifications/resources/updated";

fn list_changed(kind: ListKind) -> String {
    format!("notifications/{}/list_changed", kind.as_str())
}

fn notification_frame(method: &str, params: &Value) -> Option<Bytes> {
    response::notification_text(method, params).ok().map(|text| response::sse_frame(&text))
}

/// Passes notices on, and yields `None` at intervals without any.
fn with_keep_alive(
    notices: BoxStream<'static, ChangeNotice>,
) -> impl Stream<Item = Option<ChangeNotice>> + Send {
    stream::unfold(notices, |mut notices| async move {
        match tokio::time::timeout(KEEP_ALIVE, notices.next()).await {
            Ok(Some(notice)) => Some((Some(notice), notices)),
            Ok(None) => None,
            Err(_) => Some((None, notices)),
        }
    })
}
