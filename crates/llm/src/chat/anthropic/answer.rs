//! Assembles the events of a streamed message.

use std::ops::ControlFlow;

use emergent_domain::chat::{Part, StopReason, Usage};
use serde_json::{Value, json};

use super::super::{
    Answer, Delta, ResponseIds,
    stream::{error_in_stream, incomplete_stream_error, malformed, parse},
    wire,
};
use crate::Error;

pub struct AnswerReader<'a> {
    model: &'a str,
    blocks: Vec<(u64, Block)>,
    counts: TokenCounts,
    stop: Option<String>,
    response: ResponseIds,
}

/// A block that may still be incomplete.
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    /// Thoughts that the provider hides, but expects back.
    Redacted(Value),
    Call {
        name: String,
        arguments: String,
    },
    /// A block of a kind that this code does not know, or a tool that the provider ran itself.
    Unknown,
}

/// The provider's counts; each covers the whole message so far.
#[derive(Default)]
struct TokenCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl<'a> AnswerReader<'a> {
    pub fn new(model: &'a str) -> Self {
        Self {
            model,
            blocks: vec![],
            counts: TokenCounts::default(),
            stop: None,
            response: ResponseIds::default(),
        }
    }

    /// Takes the next event, and breaks after the last one. Each event names its type in its data.
    pub fn push(
        &mut self,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ControlFlow<()>, Error> {
        let mut event = parse(self.model, data)?;
        match event["type"].as_str() {
            Some("message_start") => {
                let message = &event["message"];
                self.counts.update(&message["usage"]);
                ResponseIds::take(&mut self.response.id, &message["id"]);
                ResponseIds::take(&mut self.response.model, &message["model"]);
            }
            Some("content_block_start") => {
                let index = block_index(&event);
                let block = start_block(event["content_block"].take(), on_delta);
                self.blocks.push((index, block));
            }
            Some("content_block_delta") => self.delta(block_index(&event), &event["delta"], on_delta)?,
            Some("message_delta") => {
                self.counts.update(&event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(reason.to_owned());
                }
            }
            Some("message_stop") => return Ok(ControlFlow::Break(())),
            Some("error") => return Err(error_in_stream(self.model, &event)),
            // Pings, ends of blocks, and events that future versions may add.
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn delta(
        &mut self,
        index: u64,
        delta: &Value,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Error> {
        let block = self.blocks.iter_mut().rfind(|(block_index, _)| *block_index == index);
        let Some((_, block)) = block else {
            return Err(malformed(self.model, format!("block {index} continues before it starts")));
        };
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        match (block, delta["type"].as_str().unwrap_or_default()) {
            (Block::Text(text), "text_delta") => {
                text.push_str(piece("text"));
                emit(Delta::Text, piece("text"), on_delta);
            }
            (Block::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(piece("thinking"));
                emit(Delta::Thought, piece("thinking"), on_delta);
            }
            (Block::Thinking { signature, .. }, "signature_delta") => signature.push_str(piece("signature")),
            (Block::Call { arguments, .. }, "input_json_delta") => arguments.push_str(piece("partial_json")),
            // Citations, and deltas of unknown blocks.
            _ => {}
        }
        Ok(())
    }

    pub fn finish(self) -> Result<Answer, Error> {
        // A message without a stop reason is incomplete, whatever the stream says.
        let Some(stop) = self.stop else { return Err(incomplete_stream_error(self.model)) };
        let parts: Vec<Part> = self.blocks.into_iter().filter_map(|(_, block)| to_part(block)).collect();
        let stop = match stop.as_str() {
            "end_turn" | "stop_sequence" | "tool_use"
                if parts.iter().any(|part| matches!(part, Part::Call(_))) =>
            {
                StopReason::ToolCalls
            }
            "end_turn" | "stop_sequence" => StopReason::End,
            "max_tokens" => StopReason::MaxTokens,
            "refusal" => StopReason::Refused(stop),
            "model_context_window_exceeded" => {
                let message = "the answer filled the rest of the context window".to_owned();
                return Err(Error::ContextTooLong { model: self.model.into(), message });
            }
            _ => StopReason::Other(stop),
        };
        Ok(Answer { parts, usage: self.counts.usage(), stop, response: self.response })
    }
}

fn block_index(event: &Value) -> u64 {
    event["index"].as_u64().unwrap_or_default()
}

fn emit(kind: fn(String) -> Delta, piece: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) {
    if !piece.is_empty() {
        on_delta(kind(piece.to_owned()));
    }
}

fn start_block(block: Value, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Block {
    let field = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => {
            emit(Delta::Text, &field("text"), on_delta);
            Block::Text(field("text"))
        }
        Some("thinking") => {
            emit(Delta::Thought, &field("thinking"), on_delta);
            Block::Thinking { text: field("thinking"), signature: field("signature") }
        }
        Some("redacted_thinking") => Block::Redacted(block),
        Some("tool_use") => {
            // The input is empty at first, unless a server sends the arguments in one piece.
            let whole = block["input"].as_object().filter(|input| !input.is_empty());
            let arguments = whole.map(|_| block["input"].to_string()).unwrap_or_default();
            Block::Call { name: field("name"), arguments }
        }
        _ => Block::Unknown,
    }
}

fn to_part(block: Block) -> Option<Part> {
    Some(match block {
        Block::Text(text) if text.is_empty() => return None,
        Block::Text(text) => Part::text(text),
        // A thought without a signature would be refused when it is sent back.
        Block::Thinking { text, signature } if signature.is_empty() => Part::Thought { text, provider: None },
        Block::Thinking { text, signature } => {
            Part::Thought { text, provider: Some(json!({ "type": "thinking", "signature": signature })) }
        }
        Block::Redacted(block) => Part::Thought { text: String::new(), provider: Some(block) },
        Block::Call { name, arguments } => wire::tool_call_part(name, arguments),
        Block::Unknown => return None,
    })
}

impl TokenCounts {
    /// Later counts replace earlier ones; missing ones keep their value.
    fn update(&mut self, usage: &Value) {
        let set = |count: &mut u64, name: &str| *count = usage[name].as_u64().unwrap_or(*count);
        set(&mut self.input, "input_tokens");
        set(&mut self.output, "output_tokens");
        set(&mut self.cache_read, "cache_read_input_tokens");
        set(&mut self.cache_write, "cache_creation_input_tokens");
    }

    /// The provider's input count excludes cached tokens. The provider does not report how much of the
    /// output were thoughts.
    fn usage(self) -> Usage {
        let Self { input, output, cache_read, cache_write } = self;
        Usage { input: input + cache_read + cache_write, output, reasoning: 0, cache_read, cache_write }
    }
}
