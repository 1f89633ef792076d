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

/// What the client wants to hear, as far as it is told here.
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
    changes: BoxStream<'static, Changed>,
) -> BoxStream<'static, Bytes> {
    let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
    let about = json!({ meta::SUBSCRIPTION_ID: id });
    let first = frame(
        "notifications/subscriptions/acknowledged",
        &json!({ "_meta": about, "notifications": accepted }),
    );
    let later = alive(changes).filter_map(move |change| {
        let told = match change {
            None => Some(answer::ALIVE),
            Some(kind) if accepted.contains_key(&kind.wish()) => {
                frame(&list_changed(kind), &json!({ "_meta": about }))
            }
            Some(_) => None,
        };
        std::future::ready(told)
    });
    stream::iter(first).chain(later).boxed()
}

/// The stream of a session: every change that the host declares.
pub(super) fn of_session(
    declared: Value,
    changes: BoxStream<'static, Changed>,
    end: impl Future<Output = ()> + Send + 'static,
) -> BoxStream<'static, Bytes> {
    let later = alive(changes).filter_map(move |change| {
        let told = match change {
            None => Some(answer::ALIVE),
            Some(kind) if declared[kind.word()]["listChanged"] == true => {
                frame(&list_changed(kind), &json!({}))
            }
            Some(_) => None,
        };
        std::future::ready(told)
    });
    // A first comment shows the client that the stream is open.
    stream::iter([answer::ALIVE]).chain(later).take_until(Box::pin(end)).boxed()
}

fn list_changed(kind: Changed) -> String {
    format!("notifications/{}/list_changed", kind.word())
}

fn frame(method: &str, params: &Value) -> Option<Bytes> {
    answer::notification(method, params).ok().map(|text| answer::frame(&text))
}

/// The changes, and `None` now and then while there is none.
fn alive(changes: BoxStream<'static, Changed>) -> impl Stream<Item = Option<Changed>> + Send {
    stream::unfold(changes, |mut changes| async move {
        match tokio::time::timeout(KEEP_ALIVE, changes.next()).await {
            Ok(Some(change)) => Some((Some(change), changes)),
            Ok(None) => None,
            Err(_) => Some((None, changes)),
        }
    })
}
