//! Reads the bodies of HTTP responses up to a size limit.

use emergent_net::{
    errors,
    sse::{Decoder, Event},
};
use futures_util::StreamExt;
use reqwest::{Response, header::CONTENT_TYPE};

use super::Error;

/// At most this much of the body of an error response is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// At most this much of it is quoted in an error message.
const MAX_EXCERPT_CHARS: usize = 300;

/// Whether the response is an event stream.
pub fn is_stream(response: &Response) -> bool {
    let content_type =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.to_ascii_lowercase().starts_with("text/event-stream")
}

/// Reads the whole body. Fails if it is larger than `limit` bytes.
pub async fn read_all(response: Response, limit: usize) -> Result<Vec<u8>, Error> {
    let (body, complete) = read_up_to(response, limit).await?;
    if complete { Ok(body) } else { Err(Error::TooLarge { limit }) }
}

/// Reads the beginning of the body of an error response; empty if it cannot be read.
pub async fn read_error(response: Response) -> Vec<u8> {
    read_up_to(response, MAX_ERROR_BYTES).await.map(|(body, _)| body).unwrap_or_default()
}

/// Returns a short excerpt of a body for an error message.
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    match text.len() {
        0 => "an empty body".into(),
        _ => text.chars().filter(|c| !c.is_control()).take(MAX_EXCERPT_CHARS).collect(),
    }
}

/// Reads at most `limit` bytes. The flag is true if that is the whole body.
async fn read_up_to(response: Response, limit: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Error::Lost(error_chain(error)))?;
        let remaining = limit - body.len();
        if piece.len() > remaining {
            body.extend_from_slice(&piece[..remaining]);
            return Ok((body, false));
        }
        body.extend_from_slice(&piece);
    }
    Ok((body, true))
}

/// The events of a stream, in order.
pub struct Events {
    pieces: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    decoder: Decoder,
    ready: std::collections::VecDeque<Event>,
    limit: usize,
}

impl Events {
    pub fn new(response: Response, limit: usize) -> Self {
        Self {
            pieces: response.bytes_stream().boxed(),
            decoder: Decoder::new(limit),
            ready: std::collections::VecDeque::new(),
            limit,
        }
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
        }
    }
}

/// Formats an error of the HTTP client with its causes, but without the URL, which the caller knows.
pub fn error_chain(error: reqwest::Error) -> String {
    errors::error_chain(&error.without_url())
}
