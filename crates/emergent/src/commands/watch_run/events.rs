//! The events of a run or a workflow, from its beginning to its end, over as many connections as that takes.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use emergent_net::sse::Decoder;
use futures_util::{StreamExt, stream::BoxStream};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    client::Client,
    error::{Error, Result},
};

/// Connections in a row that brought nothing new before it is given up.
const MAX_FAILURES: u32 = 20;
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// One event: as it was sent, and as its type unless this client does not know its kind.
pub struct Event<T> {
    pub raw: Value,
    pub known: Option<T>,
}

/// What every frame has.
#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    /// Absent from what is told live only.
    seq: Option<u64>,
}

pub struct Events<'a> {
    client: &'a Client,
    path: String,
    /// The last place seen: a new connection goes on after it.
    seen: u64,
    open: Option<BoxStream<'static, Result<Bytes>>>,
    frames: Frames,
    failures: u32,
}

impl<'a> Events<'a> {
    pub fn new(client: &'a Client, of: &str) -> Self {
        let path = format!("{of}/events");
        Self { client, path, seen: 0, open: None, frames: Frames::default(), failures: 0 }
    }

    /// The next event. Nothing is lost when the answer is not waited for.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Event<T>> {
        loop {
            while let Some(raw) = self.frames.next() {
                let Ok(Frame { kind, seq }) = Frame::deserialize(&raw) else { continue };
                // The server could not go on; another connection may.
                if kind == "error" {
                    self.open = None;
                    continue;
                }
                self.seen = seq.unwrap_or(self.seen);
                self.failures = 0;
                return Ok(Event { known: T::deserialize(&raw).ok(), raw });
            }
            let Some(open) = &mut self.open else {
                self.connect().await?;
                continue;
            };
            match open.next().await {
                Some(Ok(part)) => self.frames.push(&part),
                Some(Err(_)) | None => {
                    self.open = None;
                    self.frames = Frames::default();
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        if self.failures > 0 {
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
        self.failures += 1;
        match self.client.get(&format!("{}?after={}", self.path, self.seen)).await {
            Ok(answer) => self.open = Some(answer.stream()),
            // A server that restarts is back in a moment.
            Err(Error::Unreachable { .. }) if self.failures < MAX_FAILURES => {}
            Err(error) => return Err(error),
        }
        if self.failures >= MAX_FAILURES {
            return Err(Error::Unexpected("the events ended before what they tell of did".to_owned()));
        }
        Ok(())
    }
}

/// The JSON of the events of one connection.
struct Frames {
    decoder: Decoder,
    whole: VecDeque<Value>,
}

impl Default for Frames {
    fn default() -> Self {
        // A tool's result may be of any size, and the server is the user's own.
        Self { decoder: Decoder::new(usize::MAX), whole: VecDeque::new() }
    }
}

impl Frames {
    fn push(&mut self, part: &[u8]) {
        let events = self.decoder.push(part).unwrap_or_default();
        let data = events.into_iter().filter_map(|event| event.data);
        self.whole.extend(data.filter_map(|data| serde_json::from_str::<Value>(&data).ok()));
    }

    fn next(&mut self) -> Option<Value> {
        self.whole.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_whole_however_the_bytes_come() {
        let text = ": hello\n\nid: 1\ndata: {\"type\":\"a\",\"text\":\"é\"}\n\ndata: {\"type\":\"b\"}\r\n\r\ndata: {\"cut";
        for size in [1, 2, 3, 7, 1_000] {
            let mut frames = Frames::default();
            text.as_bytes().chunks(size).for_each(|part| frames.push(part));
            let all: Vec<_> = std::iter::from_fn(|| frames.next()).collect();
            assert_eq!(all.len(), 2, "in parts of {size}");
            assert_eq!(all, [json!({ "type": "a", "text": "é" }), json!({ "type": "b" })]);
        }
    }
}
