//! Reads the event stream of a run, a workflow or a project, and reconnects when a connection ends.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use emergent_domain::stored_json;
use emergent_net::sse::Decoder;
use futures_util::{StreamExt, stream::BoxStream};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    client::Client,
    error::{Error, Result},
};

/// After this many connections in a row without an event, reading fails.
const MAX_FAILURES: u32 = 20;
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// What a person reads while a server that was there does not answer.
pub const CONNECTION_LOST: &str = "connection lost, trying again";

/// One event: the JSON as it was sent, and its type unless this client does not know the kind.
pub struct Event<T> {
    pub raw: Value,
    pub parsed: Option<T>,
}

/// The field that every frame has.
#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
}

/// The events of one run, workflow or project.
pub struct Events<'a> {
    client: &'a Client,
    /// The path with its query, to which `after` is added.
    path: String,
    /// The `id:` of the last recorded event; a new connection starts after it. Without one, it starts as the
    /// server decides.
    last: Option<String>,
    /// The body of the current connection.
    stream: Option<BoxStream<'static, Result<Bytes>>>,
    frames: Frames,
    /// Connections in a row without an event.
    failures: u32,
    /// Whether the server does not answer, and the stream is opened again.
    lost: watch::Sender<bool>,
}

impl<'a> Events<'a> {
    /// The events of a run or a workflow from the first one on. `resource` is its API path.
    pub fn new(client: &'a Client, resource: &str) -> Self {
        Self::open(client, format!("{resource}/events?"))
    }

    /// The events of the project from now on, of these types, separated by commas.
    pub fn for_project(client: &'a Client, types: Option<&str>) -> Self {
        Self::open(
            client,
            types.map_or("/api/events?".to_owned(), |types| format!("/api/events?types={types}&")),
        )
    }

    fn open(client: &'a Client, path: String) -> Self {
        Self {
            client,
            path,
            last: None,
            stream: None,
            frames: Frames::default(),
            failures: 0,
            lost: watch::Sender::new(false),
        }
    }

    /// Tells whether the server does not answer while the next event is awaited.
    pub fn lost(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    /// The next event. Cancel safe: dropping the future loses no event.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Event<T>> {
        loop {
            while let Some((id, raw)) = self.frames.next() {
                let Ok(Frame { kind }) = Frame::deserialize(&raw) else { continue };
                // The server had to end this stream; another connection may succeed.
                if kind == "error" {
                    self.stream = None;
                    continue;
                }
                // Events that are not recorded, such as text deltas, have no id.
                self.last = id.or(self.last.take());
                self.failures = 0;
                return Ok(Event { parsed: T::deserialize(&raw).ok(), raw });
            }
            let Some(stream) = &mut self.stream else {
                self.connect().await?;
                continue;
            };
            match stream.next().await {
                Some(Ok(bytes)) => self.frames.push(&bytes),
                Some(Err(_)) | None => {
                    self.stream = None;
                    self.frames = Frames::default();
                }
            }
        }
    }

    /// Opens the stream after the last event. An unreachable server counts as a failure and leaves it closed.
    async fn connect(&mut self) -> Result<()> {
        if self.failures > 0 {
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
        self.failures += 1;
        let after = self.last.as_ref().map(|last| format!("after={last}")).unwrap_or_default();
        match self.client.get(&format!("{}{after}", self.path)).await {
            Ok(response) => {
                self.stream = Some(response.stream());
                self.set_lost(false);
            }
            // The server may be restarting.
            Err(Error::Unreachable { .. }) if self.failures < MAX_FAILURES => self.set_lost(true),
            Err(error) => return Err(error),
        }
        if self.failures >= MAX_FAILURES {
            return Err(Error::Unexpected(
                "the event stream ended, and could not be opened again".to_owned(),
            ));
        }
        Ok(())
    }

    fn set_lost(&self, is_lost: bool) {
        self.lost.send_if_modified(|lost| std::mem::replace(lost, is_lost) != is_lost);
    }
}

/// Waits until the server does not answer, or answers again, and returns which. It never ends once the events are gone.
pub async fn lost_changed(lost: &mut watch::Receiver<bool>) -> bool {
    match lost.changed().await {
        Ok(()) => *lost.borrow_and_update(),
        Err(_) => std::future::pending().await,
    }
}

/// Decodes the bytes of one connection into the JSON of its events.
pub struct Frames {
    decoder: Decoder,
    /// Decoded events that `next` has not returned yet.
    decoded: VecDeque<(Option<String>, Value)>,
}

impl Default for Frames {
    fn default() -> Self {
        // No size limit: a tool's result may be of any size, and the server is trusted.
        Self { decoder: Decoder::new(usize::MAX), decoded: VecDeque::new() }
    }
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        let events = self.decoder.push(bytes).unwrap_or_default();
        self.decoded.extend(events.into_iter().filter_map(|event| {
            let raw = stored_json::from_str::<Value>(&event.data?).ok()?;
            Some((event.id, raw))
        }));
    }

    /// The next event: its `id:`, if it has one, and its data.
    pub fn next(&mut self) -> Option<(Option<String>, Value)> {
        self.decoded.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_decoded_however_the_bytes_are_split() {
        let text = ": hello\n\nid: 1\ndata: {\"type\":\"a\",\"text\":\"é\"}\n\ndata: {\"type\":\"b\"}\r\n\r\ndata: {\"cut";
        for size in [1, 2, 3, 7, 1_000] {
            let mut frames = Frames::default();
            text.as_bytes().chunks(size).for_each(|part| frames.push(part));
            let events: Vec<_> = std::iter::from_fn(|| frames.next()).collect();
            assert_eq!(events.len(), 2, "in parts of {size}");
            let first = (Some("1".to_owned()), json!({ "type": "a", "text": "é" }));
            assert_eq!(events, [first, (None, json!({ "type": "b" }))]);
        }
    }
}
