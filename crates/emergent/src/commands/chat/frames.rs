//! Reads the frames of an answer. After a lost connection it follows the answer again from the last frame it received,
//! so that no text is lost or repeated.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use emergent_wire::{chat::SendMessage, chat_frame::ChatFrameView};
use futures_util::{StreamExt, stream::BoxStream};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    client::{ApiResponse, Client},
    commands::watch_run::Frames,
    error::{Error, Result},
    hints,
};

/// After this many connections in a row without a frame, reading fails.
const MAX_FAILURES: u32 = 20;
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// A connection without a byte for so long is lost: the server sends something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// One frame: the JSON as it was sent, and its type unless this client does not know the kind.
pub struct ChatFrame {
    pub raw: Value,
    pub parsed: Option<ChatFrameView>,
}

/// The frames of one answer.
pub struct ChatFrames<'a> {
    client: &'a Client,
    /// Known from the first frame on.
    conversation: Option<Uuid>,
    /// The `id:` of the last frame; the next connection starts after it.
    last: Option<String>,
    /// The body of the current connection.
    stream: Option<BoxStream<'static, Result<Bytes>>>,
    frames: Frames,
    /// Connections in a row without a frame.
    failures: u32,
    /// What the server said when it had to end a stream.
    failure: Option<String>,
}

impl<'a> ChatFrames<'a> {
    /// Sends a message. What the server refuses is an error, and nothing was stored then.
    /// A message that was sent before with the same key is not stored again: its answer is read instead.
    pub async fn send(client: &'a Client, message: &SendMessage, key: Option<&str>) -> Result<Self> {
        let response = client.post_once("/api/chat/stream", message, key).await?;
        Ok(Self::open(client, message.conversation_id, response))
    }

    /// Follows the newest answer of a conversation from its beginning; `None` if it has no answer.
    pub async fn follow(client: &'a Client, conversation: Uuid) -> Result<Option<Self>> {
        let response = client.get(&stream_path(conversation)).await?;
        if response.status == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        Ok(Some(Self::open(client, Some(conversation), response)))
    }

    fn open(client: &'a Client, conversation: Option<Uuid>, response: ApiResponse) -> Self {
        Self {
            client,
            conversation,
            last: None,
            stream: Some(response.stream()),
            frames: Frames::default(),
            failures: 0,
            failure: None,
        }
    }

    /// The next frame. Dropping the future loses no frame.
    pub async fn next(&mut self) -> Result<ChatFrame> {
        loop {
            while let Some((id, raw)) = self.frames.next() {
                if raw.get("type").and_then(Value::as_str) == Some("error") && id.is_none() {
                    // The server had to end this stream, and not the answer; another connection may succeed.
                    self.failure = raw["error"]["message"].as_str().map(str::to_owned);
                    self.disconnect();
                    continue;
                }
                let parsed = serde_json::from_value(raw.clone()).ok();
                if let Some(ChatFrameView::Meta { conversation_id, .. }) = &parsed {
                    self.conversation = Some(*conversation_id);
                }
                self.last = id.or(self.last.take());
                self.failures = 0;
                return Ok(ChatFrame { raw, parsed });
            }
            let Some(stream) = &mut self.stream else {
                self.connect().await?;
                continue;
            };
            match tokio::time::timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(bytes))) => self.frames.push(&bytes),
                Ok(Some(Err(_)) | None) | Err(_) => self.disconnect(),
            }
        }
    }

    /// Forgets the connection and what is not a whole frame of it.
    fn disconnect(&mut self) {
        self.stream = None;
        self.frames = Frames::default();
    }

    /// Follows the answer after the last frame. An unreachable server counts as a failure, and leaves the stream closed.
    async fn connect(&mut self) -> Result<()> {
        // Without a frame of the answer, the newest one may be that to another message.
        let (Some(conversation), Some(last)) = (self.conversation, &self.last) else {
            return Err(unconfirmed());
        };
        if self.failures > 0 {
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
        self.failures += 1;
        let last = HeaderValue::from_str(last).map_err(|error| Error::Unexpected(error.to_string()))?;
        let headers = [(HeaderName::from_static("last-event-id"), last)];
        let sent = self.client.send_raw(Method::GET, &stream_path(conversation), &headers, None).await;
        let is_last_attempt = self.failures >= MAX_FAILURES;
        match sent {
            Ok(response) if response.status == StatusCode::NO_CONTENT => {
                return Err(Error::Unexpected("there is no answer to follow any more".to_owned()));
            }
            // The server may be starting or stopping.
            Ok(response) if response.status.is_server_error() && !is_last_attempt => {}
            Ok(response) => self.stream = Some(response.error_for_status().await?.stream()),
            Err(Error::Unreachable { .. }) if !is_last_attempt => {}
            Err(error) => return Err(error),
        }
        if is_last_attempt {
            let reason = self.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
            let show = hints::command(&format!("chat --conversation {conversation}"));
            return Err(Error::Unexpected(format!(
                "the stream of the answer ended, and could not be opened again{reason} (`{show}` tries again)"
            )));
        }
        Ok(())
    }
}

fn stream_path(conversation: Uuid) -> String {
    format!("/api/chat/conversations/{conversation}/stream")
}

fn unconfirmed() -> Error {
    let list = hints::command("conversation list");
    Error::Unexpected(format!(
        "the connection was lost before the message was confirmed; `{list}` shows whether it was stored"
    ))
}
