//! Reads the bodies of HTTP responses up to a size limit.

use emergent_net::{
    errors,
    large_messages::{HeldMessage, LargeMessages, MAX_UNCOUNTED_BYTES},
};
use futures_util::StreamExt;
use reqwest::Response;

use crate::Error;

/// At most this much of what an agent said is kept in an error. Whoever shows the error redacts it first and
/// shortens it then: a secret that is cut in two is not recognised.
const MAX_QUOTED_BYTES: usize = 64 << 10;

/// The body of a response. A large one has a place in memory.
pub struct Body {
    pub bytes: Vec<u8>,
    pub held: Option<HeldMessage>,
}

/// Reads the whole body. Fails if it is larger than `limit` bytes.
pub async fn read_all(response: Response, limit: usize, large: &LargeMessages) -> Result<Body, Error> {
    let (body, is_whole) = read_up_to(response, limit, Some(large)).await?;
    if is_whole { Ok(body) } else { Err(Error::TooLarge { limit }) }
}

/// Reads the beginning of the body of an error response; empty if it cannot be read.
pub async fn read_error(response: Response) -> Vec<u8> {
    read_up_to(response, MAX_QUOTED_BYTES, None).await.map(|(body, _)| body.bytes).unwrap_or_default()
}

/// Returns a body for an error message.
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.trim() {
        "" => "an empty body".into(),
        text => quoted(text.chars().filter(|c| !c.is_control()).collect()),
    }
}

/// Shortens a text of an agent to what an error keeps.
pub fn quoted(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_QUOTED_BYTES));
    text
}

/// Formats an error of the HTTP client with its causes, but without the URL, which the caller knows.
pub fn error_chain(error: reqwest::Error) -> String {
    errors::error_chain(&error.without_url())
}

/// Reads at most `limit` bytes. The flag is true if that is the whole body. Without `large`, the limit is so small that
/// the body needs no place.
async fn read_up_to(
    response: Response,
    limit: usize,
    large: Option<&LargeMessages>,
) -> Result<(Body, bool), Error> {
    let mut body = Body { bytes: Vec::new(), held: None };
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Error::Lost(error_chain(error)))?;
        let remaining = limit - body.bytes.len();
        if piece.len() > remaining {
            body.bytes.extend_from_slice(&piece[..remaining]);
            return Ok((body, false));
        }
        if body.held.is_none()
            && body.bytes.len() + piece.len() > MAX_UNCOUNTED_BYTES
            && let Some(large) = large
        {
            body.held = Some(large.hold().await?);
        }
        body.bytes.extend_from_slice(&piece);
    }
    Ok((body, true))
}
