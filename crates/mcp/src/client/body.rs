//! Reads the bodies of HTTP responses up to a size limit.

use emergent_net::{
    errors,
    large_messages::{HeldMessage, LargeMessages, MAX_UNCOUNTED_BYTES},
    sse::{Decoder, Event},
};
use futures_util::StreamExt;
use reqwest::{Response, header::CONTENT_TYPE};

use super::Error;

/// At most this much of what a server said is kept in an error. Whoever shows the error redacts it first and
/// shortens it then: a secret that is cut in two is not recognised.
pub const MAX_QUOTED_BYTES: usize = 64 << 10;

/// The body of a response. A large one has a place in memory.
pub struct Body {
    pub bytes: Vec<u8>,
    pub held: Option<HeldMessage>,
}

/// Whether the response is an event stream.
pub fn is_stream(response: &Response) -> bool {
    let content_type =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.to_ascii_lowercase().starts_with("text/event-stream")
}

/// Reads the whole body. Fails if it is larger than `limit` bytes.
pub async fn read_all(response: Response, limit: usize, large: &LargeMessages) -> Result<Body, Error> {
    let (body, complete) = read_up_to(response, limit, large).await?;
    if complete { Ok(body) } else { Err(Error::TooLarge { limit }) }
}

/// Reads the beginning of the body of an error response; empty if it cannot be read.
pub async fn read_error(response: Response) -> Vec<u8> {
    let read = read_up_to(response, MAX_QUOTED_BYTES, &LargeMessages::default()).await;
    read.map(|(body, _)| body.bytes).unwrap_or_default()
}

/// Returns the beginning of a body for an error message. It has up to `MAX_QUOTED_BYTES`.
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    match text.len() {
        0 => "an empty body".into(),
        _ => text.chars().filter(|c| !c.is_control()).collect(),
    }
}

/// Shortens a text of a server to what an error keeps.
pub fn quoted(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_QUOTED_BYTES));
    text
}

/// Reads at most `limit` bytes. The flag is true if that is the whole body.
async fn read_up_to(response: Response, limit: usize, large: &LargeMessages) -> Result<(Body, bool), Error> {
    let mut body = Body { bytes: Vec::new(), held: None };
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Error::Lost(error_chain(error)))?;
        let remaining = limit - body.bytes.len();
        if piece.len() > remaining {
            body.bytes.extend_from_slice(&piece[..remaining]);
            return Ok((body, false));
        }
        if body.held.is_none() && body.bytes.len() + piece.len() > MAX_UNCOUNTED_BYTES {
            body.held = Some(large.hold().await?);
        }
        body.bytes.extend_from_slice(&piece);
    }
    Ok((body, true))
}

/// The events of a stream, in order.
pub struct Events {
    pieces: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    decoder: Decoder,
    ready: std::collections::VecDeque<Event>,
    limit: usize,
    large: LargeMessages,
    /// The place of the event that is being read, if it is large.
    held: Option<HeldMessage>,
}

impl Events {
    pub fn new(response: Response, limit: usize, large: LargeMessages) -> Self {
        Self {
            pieces: response.bytes_stream().boxed(),
            decoder: Decoder::new(limit),
            ready: std::collections::VecDeque::new(),
            limit,
            large,
            held: None,
        }
    }

    /// Returns the place in memory of the event that was returned last, if it is large.
    pub fn take_held(&mut self) -> Option<HeldMessage> {
        self.held.take()
    }

    /// Returns the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(piece) = self.pieces.next().await else { return Ok(None) };
            let piece = piece.map_err(|error| Error::Lost(error_chain(error)))?;
            let events = self.decoder.push(&piece).map_err(|_| Error::TooLarge { limit: self.limit })?;
            self.ready.extend(events);
            if self.held.is_none() && self.decoder.buffered_bytes() > MAX_UNCOUNTED_BYTES {
                self.held = Some(self.large.hold().await?);
            }
        }
    }
}

/// Formats an error of the HTTP client with its causes, but without the URL, which the caller knows.
pub fn error_chain(error: reqwest::Error) -> String {
    errors::error_chain(&error.without_url())
}
