//! Converts the result of an MCP tool call into the output for a model: text as text, structured content as
//! JSON, and a description in place of binary data. A client of `/mcp` gets the blocks as they are, up to a
//! number of bytes.
//!
//! A result may have megabytes. It is cut to what is kept before it is parsed and redacted. A text is cut a
//! little behind what is kept, and once more after it was redacted, so that no part of a secret at the end is
//! shown.

use std::borrow::Cow;

use emergent_domain::{foreign_json, redact::Redactor};
use emergent_mcp::client::RemoteCallResult;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{ExternalContent, ToolOutput};

/// The most bytes of JSON of the blocks that a client gets. An image of a screen has about one megabyte.
const MAX_CONTENT_BYTES: usize = 4 << 20;
/// The most bytes of the texts among them, and of the structured content. A model reads half of it at most.
const MAX_TEXT_BYTES: usize = 128 << 10;
/// The most bytes of an error that a server reports.
const MAX_ERROR_BYTES: usize = 16 << 10;
/// The end of a text that was cut is not shown after it was redacted. The redactor recognises a secret by its
/// first 64 bytes, and with every escape that it knows these have fewer bytes than this.
const MARGIN_BYTES: usize = 4 << 10;
/// A large block is binary data, such as an image. One with more values would take too much memory.
const MAX_VALUES_OF_LARGE_BLOCK: usize = 1_000;

/// Redacts an error, and shortens it then.
pub fn redact_error(redactor: &Redactor, text: &str, max_bytes: usize) -> String {
    CutText::new(text, text.len() > max_bytes, max_bytes).redacted(redactor)
}

/// The output of a call, without secrets; the error is the message of a result that the server marked as an
/// error.
pub fn to_output(result: &RemoteCallResult, redactor: &Redactor) -> Result<ToolOutput, String> {
    let mut budget = Budget::default();
    let blocks: Vec<Block> =
        result.content.iter().filter_map(|block| budget.read_block(block, redactor)).collect();
    let text = Texts::join(&blocks).redacted(redactor);
    if result.is_error {
        return Err(error_message(text, &blocks));
    }
    let mut note = result_note(&blocks, result.blocks_left_out);
    let structured = result.structured.as_deref().map(|structured| {
        let (value, is_whole) = read_structured(structured, redactor);
        if !is_whole {
            note = Some(format!("the structured content has {} bytes", structured.get().len()));
        }
        (value, is_whole)
    });
    let answer = to_answer(text, &blocks, structured.as_ref().map(|(value, _)| value), note);
    if blocks.iter().all(|block| matches!(block, Block::Text { .. })) {
        return Ok(ToolOutput::Answer(answer));
    }
    let mut shown: Vec<Value> = blocks.into_iter().map(|block| block.into_content(redactor)).collect();
    let structured = match (structured, &result.structured) {
        (Some((value, true)), _) => Some(value),
        (_, Some(raw)) => {
            shown.push(left_out("structured content", raw.get().len()));
            None
        }
        _ => None,
    };
    Ok(ToolOutput::External { answer, content: ExternalContent { blocks: shown, structured } })
}

/// What a model reads of an error.
fn error_message(text: String, blocks: &[Block]) -> String {
    let mut message = match text.is_empty() {
        false => text,
        true => Value::Array(blocks.iter().filter_map(Block::description).collect()).to_string(),
    };
    if message.len() > MAX_ERROR_BYTES {
        message.truncate(message.floor_char_boundary(MAX_ERROR_BYTES));
        message.push('…');
    }
    message
}

/// Says what a model does not get, if anything is missing.
fn result_note(blocks: &[Block], blocks_left_out: usize) -> Option<String> {
    let is_cut = |block: &Block| matches!(block, Block::Text { is_cut: true, .. });
    if blocks_left_out > 0 {
        return Some(format!("{blocks_left_out} further content blocks were not read"));
    }
    let bytes = |block: &Block| if let Block::Text { bytes, .. } = block { *bytes } else { 0 };
    blocks.iter().any(is_cut).then(|| {
        let all: usize = blocks.iter().map(bytes).sum();
        format!("the text has {all} bytes")
    })
}

/// The output for a model.
fn to_answer(text: String, blocks: &[Block], structured: Option<&Value>, note: Option<String>) -> Value {
    let others: Vec<Value> = blocks.iter().filter_map(Block::description).collect();
    // The text repeats the structured content, for clients that do not support it.
    let answer = match (structured, others.is_empty()) {
        (Some(structured), true) => structured.clone(),
        (Some(structured), false) => json!({ "structured": structured, "content": others }),
        (None, true) => Value::String(text),
        (None, false) if text.is_empty() => json!({ "content": others }),
        (None, false) => json!({ "text": text, "content": others }),
    };
    match (note, answer) {
        (None, answer) => answer,
        (Some(note), Value::String(text)) => json!({ "text": text, "_size": note }),
        (Some(note), Value::Object(mut map)) => {
            map.insert("_size".to_owned(), Value::from(note));
            Value::Object(map)
        }
        (Some(note), other) => json!({ "result": other, "_size": note }),
    }
}

/// The structured content without secrets; or the beginning of its JSON, if it is too large.
fn read_structured(structured: &RawValue, redactor: &Redactor) -> (Value, bool) {
    let text = structured.get();
    if text.len() <= MAX_TEXT_BYTES
        && let Ok(mut value) = foreign_json::from_str::<Value>(text)
    {
        redactor.redact_value(&mut value);
        return (value, true);
    }
    let beginning = CutText::new(text, true, MAX_TEXT_BYTES).redacted(redactor);
    (json!({ "beginning": beginning }), false)
}

/// The beginning of a text, of which `max_bytes` are shown.
struct CutText<'a> {
    text: Cow<'a, str>,
    is_cut: bool,
    max_bytes: usize,
}

impl<'a> CutText<'a> {
    fn new(text: impl Into<Cow<'a, str>>, is_cut: bool, max_bytes: usize) -> Self {
        Self { text: text.into(), is_cut, max_bytes }
    }

    /// The text that is shown. What was cut may end inside of a secret, so the end of it is left out: how long
    /// the text is after redaction says nothing about how much of it was searched.
    fn redacted(self, redactor: &Redactor) -> String {
        if !self.is_cut {
            return redactor.redact_text(&self.text).into_owned();
        }
        let searched = self.text.floor_char_boundary(self.max_bytes + MARGIN_BYTES);
        let mut shown = redactor.redact_text(&self.text[..searched]).into_owned();
        let unsafe_bytes = if searched < self.text.len() { MARGIN_BYTES } else { 0 };
        let max_bytes = shown.len().saturating_sub(unsafe_bytes).min(self.max_bytes);
        shown.truncate(shown.floor_char_boundary(max_bytes));
        shown.push('…');
        shown
    }
}

/// The texts of a result, joined to one.
struct Texts;

impl Texts {
    fn join(blocks: &[Block]) -> CutText<'static> {
        let (mut joined, mut any_cut) = (String::new(), false);
        let texts = blocks.iter().filter_map(|block| match block {
            Block::Text { text, is_cut, .. } => Some((text, *is_cut)),
            _ => None,
        });
        for (index, (text, is_cut)) in texts.enumerate() {
            if index > 0 && !any_cut {
                joined.push('\n');
            }
            joined.push_str(text);
            any_cut |= is_cut;
        }
        CutText::new(joined, any_cut, MAX_TEXT_BYTES)
    }
}

/// One content block, as far as it is kept.
enum Block {
    /// A text, not redacted yet. It is cut a little behind what is kept; `bytes` is its whole length.
    Text { text: String, is_cut: bool, bytes: usize, raw: Option<Value> },
    /// Any other block, redacted, with its description for a model.
    Other { block: Value, description: Value },
    /// A block that does not fit.
    LeftOut { kind: String, bytes: usize },
}

impl Block {
    /// What a model gets of a block that is not text.
    fn description(&self) -> Option<Value> {
        match self {
            Self::Text { .. } => None,
            Self::Other { description, .. } => Some(description.clone()),
            Self::LeftOut { kind, bytes } => Some(left_out(kind, *bytes)),
        }
    }

    /// What a client gets.
    fn into_content(self, redactor: &Redactor) -> Value {
        match self {
            Self::Text { raw: Some(mut block), .. } => {
                redactor.redact_value(&mut block);
                block
            }
            Self::Text { bytes, .. } => left_out("text", bytes),
            Self::Other { block, .. } => block,
            Self::LeftOut { kind, bytes } => left_out(&kind, bytes),
        }
    }
}

/// How many further bytes of a result are kept.
struct Budget {
    content: usize,
    text: usize,
    /// The descriptions of blocks that are not text.
    descriptions: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { content: MAX_CONTENT_BYTES, text: MAX_TEXT_BYTES, descriptions: MAX_TEXT_BYTES }
    }
}

/// The fields that decide how a block is read.
#[derive(Deserialize)]
struct BlockHead<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

impl BlockHead<'_> {
    fn kind(&self) -> String {
        let kind = self.kind.filter(|kind| kind.get().len() <= 100);
        kind.and_then(|kind| foreign_json::from_str(kind.get()).ok()).unwrap_or_else(|| "block".to_owned())
    }
}

impl Budget {
    /// Reads a block as far as it fits; `None` for something that is not an object. Blocks of MCP are passed on
    /// as they are: what a client does not know, it ignores.
    fn read_block(&mut self, raw: &RawValue, redactor: &Redactor) -> Option<Block> {
        if !raw.get().starts_with('{') {
            return None;
        }
        let head: BlockHead<'_> = foreign_json::from_str(raw.get()).ok()?;
        let kind = head.kind();
        if kind == "text"
            && let Some(text) = head.text.and_then(|text| foreign_json::from_str::<String>(text.get()).ok())
        {
            return Some(self.read_text(raw, text));
        }
        let bytes = raw.get().len();
        let block = (bytes <= self.content && !has_too_many_values(raw.get()))
            .then(|| foreign_json::from_str::<Value>(raw.get()).ok())
            .flatten();
        let Some(mut block) = block else { return Some(Block::LeftOut { kind, bytes }) };
        redactor.redact_value(&mut block);
        let description = describe_block(&block);
        let described_bytes = description.to_string().len();
        if described_bytes > self.descriptions {
            return Some(Block::LeftOut { kind, bytes });
        }
        self.content -= bytes;
        self.descriptions -= described_bytes;
        Some(Block::Other { block, description })
    }

    fn read_text(&mut self, raw: &RawValue, mut text: String) -> Block {
        let (bytes, kept) = (text.len(), self.text);
        let is_cut = bytes > kept;
        if is_cut {
            // Longer than what is searched, whatever the last character is, so that the end counts as cut.
            text.truncate(text.floor_char_boundary(kept + MARGIN_BYTES + 4));
        }
        self.text -= bytes.min(kept);
        let fits = !is_cut && raw.get().len() <= self.content.min(MAX_TEXT_BYTES);
        let raw_block = fits.then(|| foreign_json::from_str(raw.get()).ok()).flatten();
        if raw_block.is_some() {
            self.content -= raw.get().len();
        }
        Block::Text { text, is_cut, bytes, raw: raw_block }
    }
}

/// Whether a large block has more values than binary data with its description has.
fn has_too_many_values(block: &str) -> bool {
    block.len() > MAX_TEXT_BYTES
        && block.bytes().filter(|byte| *byte == b',').nth(MAX_VALUES_OF_LARGE_BLOCK).is_some()
}

/// A text block in place of something that does not fit.
fn left_out(kind: &str, size: usize) -> Value {
    json!({ "type": "text", "text": format!("[{kind} of {size} bytes left out: the result is too large]") })
}

/// Returns a block that is not text, with the number of bytes in place of base64 data.
fn describe_block(block: &Value) -> Value {
    let Value::Object(block) = block else { return block.clone() };
    let fields = block.iter().filter(|(name, _)| !matches!(name.as_str(), "_meta" | "annotations"));
    let described = fields.map(|(name, value)| match (name.as_str(), value) {
        ("data", Value::String(data)) => (name.clone(), byte_count(data)),
        ("resource", Value::Object(resource)) => (name.clone(), describe_resource(resource)),
        _ => (name.clone(), value.clone()),
    });
    Value::Object(described.collect())
}

fn describe_resource(resource: &Map<String, Value>) -> Value {
    let fields = resource.iter().filter(|(name, _)| name.as_str() != "_meta");
    let described = fields.map(|(name, value)| match (name.as_str(), value) {
        ("blob", Value::String(data)) => (name.clone(), byte_count(data)),
        _ => (name.clone(), value.clone()),
    });
    Value::Object(described.collect())
}

/// The number of bytes of base64 data.
fn byte_count(data: &str) -> Value {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (data.len() * 3 / 4).saturating_sub(padding);
    Value::from(format!("[{bytes} bytes, not shown]"))
}

#[cfg(test)]
mod tests;
