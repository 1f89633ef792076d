//! Streams on which a client hears what has changed: `subscriptions/listen`, and the stream of a
//! session in the old era.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use serde_json::{Map, Value, json, value::RawValue};

use super::{Changed, answer, reply::KEEP_ALIVE};
use crate::message::meta;

impl Changed {
    fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    fn wish(self) -> String {
        format!("{}ListChanged", self.word())
    }
}

/// What a stream tells.
pub(super) enum Heard {
    /// A list reads differently.
    List(Changed),
    /// The resource with this URI does.
    Resource(String),
}

pub(super) fn heard(
    changes: BoxStream<'static, Changed>,
    updates: BoxStream<'static, String>,
) -> BoxStream<'static, Heard> {
    stream::select(changes.map(Heard::List), updates.map(Heard::Resource)).boxed()
}

/// What the client wants to hear of lists, as far as it is told here.
pub(super) fn accepted(wanted: &Value, declared: &Value) -> Map<String, Value> {
    [Changed::Tools, Changed::Prompts, Changed::Resources]
        .into_iter()
        .filter(|kind| wanted[kind.wish()] == true && declared[kind.word()]["listChanged"] == true)
        .map(|kind| (kind.wish(), Value::Bool(true)))
        .collect()
}

/// A modern subscription: first what was accepted, then each change, with the id of the request.
pub(super) fn subscription(
    id: &RawValue,
    accepted: Map<String, Value>,
    heard: BoxStream<'static, Heard>,
) -> BoxStream<'static, Bytes> {
    let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
    let about = json!({ meta::SUBSCRIPTION_ID: id });
    let first = frame(
        "notifications/subscriptions/acknowledged",
        &json!({ "_meta": about, "notifications": accepted }),
    );
    let later = alive(heard).filter_map(move |one| {
        let told = match one {
            None => Some(answer::ALIVE),
            Some(Heard::List(kind)) if accepted.contains_key(&kind.wish()) => {
                frame(&list_changed(kind), &json!({ "_meta": about }))
            }
            Some(Heard::List(_)) => None,
            Some(Heard::Resource(uri)) => frame(UPDATED, &json!({ "_meta": about, "uri": uri })),
        };
        std::future::ready(told)
    });
    stream::iter(first).chain(later).boxed()
}

/// The stream of a session: every change that the host declares, and the resources that the client
/// subscribed to.
pub(super) fn of_session(
    declared: Value,
    heard: BoxStream<'static, Heard>,
    end: impl Future<Output = ()> + Send + 'static,
) -> BoxStream<'static, Bytes> {
    let later = alive(heard).filter_map(move |one| {
        let told = match one {
            None => Some(answer::ALIVE),
            Some(Heard::List(kind)) if declared[kind.word()]["listChanged"] == true => {
                frame(&list_changed(kind), &json!({}))
            }
            Some(Heard::List(_)) => None,
            Some(Heard::Resource(uri)) => frame(UPDATED, &json!({ "uri": uri })),
        };
        std::future::ready(told)
    });
    // A first comment shows the client that the stream is open.
    stream::iter([answer::ALIVE]).chain(later).take_until(Box::pin(end)).boxed()
}

const UPDATED: &str = "notifications/resources/updated";

fn list_changed(kind: Changed) -> String {
    format!("notifications/{}/list_changed", kind.word())
}

fn frame(method: &str, params: &Value) -> Option<Bytes> {
    answer::notification(method, params).ok().map(|text| answer::frame(&text))
}

/// What is heard, and `None` now and then while there is nothing.
fn alive(heard: BoxStream<'static, Heard>) -> impl Stream<Item = Option<Heard>> + Send {
    stream::unfold(heard, |mut heard| async move {
        match tokio::time::timeout(KEEP_ALIVE, heard.next()).await {
            Ok(Some(one)) => Some((Some(one), heard)),
            Ok(None) => None,
            Err(_) => Some((None, heard)),
        }
    })
}
