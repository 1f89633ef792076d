//! Converts the result of an MCP tool call into the output for a model: text as text, structured content as
//! JSON, and a description in place of binary data. A client of `/mcp` gets the blocks as they are, up to a
//! number of bytes.

use emergent_mcp::client::RemoteCallResult;
use serde_json::{Map, Value, json};

use crate::{ExternalContent, ToolOutput};

/// The most bytes of JSON of the blocks that a client gets. An image of a screen has about one megabyte.
const MAX_CONTENT_BYTES: usize = 8 << 20;
/// The most bytes of the text blocks among them.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// The output of a call; the error is the message of a result that the server marked as an error.
pub fn to_output(result: RemoteCallResult) -> Result<ToolOutput, String> {
    let is_text = |block: &Value| block.get("type").and_then(Value::as_str) == Some("text");
    if result.is_error || result.content.iter().all(is_text) {
        return to_answer(result).map(ToolOutput::Answer);
    }
    let blocks = limit_blocks(result.content.clone(), MAX_CONTENT_BYTES, MAX_TEXT_BYTES);
    let content = ExternalContent { blocks, structured: result.structured.clone() };
    Ok(ToolOutput::External { answer: to_answer(result)?, content })
}

/// Replaces blocks that do not fit any more by a text that says so. Blocks of MCP are passed on as they are:
/// what a client does not know, it ignores.
fn limit_blocks(blocks: Vec<Value>, max_bytes: usize, max_text_bytes: usize) -> Vec<Value> {
    let (mut bytes, mut text_bytes) = (max_bytes, max_text_bytes);
    let limit = |block: Value| {
        let size = block.to_string().len();
        let is_text = block.get("text").is_some_and(Value::is_string);
        let fits = size <= bytes && (!is_text || size <= text_bytes);
        if fits {
            bytes -= size;
            text_bytes -= if is_text { size } else { 0 };
            return block;
        }
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("block");
        let kind: String = kind.chars().take(50).collect();
        json!({ "type": "text", "text": format!("[{kind} of {size} bytes left out: the result is too large]") })
    };
    blocks.into_iter().filter(Value::is_object).map(limit).collect()
}

/// The output for a model.
fn to_answer(result: RemoteCallResult) -> Result<Value, String> {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for block in result.content {
        match block.get("text").and_then(Value::as_str) {
            Some(text) if block.get("type").and_then(Value::as_str) == Some("text") => {
                texts.push(text.to_owned());
            }
            _ => others.push(describe_block(block)),
        }
    }
    let text = texts.join("\n");
    if result.is_error {
        let message = if text.is_empty() { Value::Array(others).to_string() } else { text };
        return Err(message);
    }
    // The text repeats the structured content, for clients that do not support it.
    Ok(match (result.structured, others.is_empty()) {
        (Some(structured), true) => structured,
        (Some(structured), false) => json!({ "structured": structured, "content": others }),
        (None, true) => Value::String(text),
        (None, false) if text.is_empty() => json!({ "content": others }),
        (None, false) => json!({ "text": text, "content": others }),
    })
}

/// Returns a block that is not text, with the number of bytes in place of base64 data.
fn describe_block(block: Value) -> Value {
    let Value::Object(mut block) = block else { return block };
    block.remove("_meta");
    block.remove("annotations");
    replace_with_byte_count(&mut block, "data");
    if let Some(Value::Object(resource)) = block.get_mut("resource") {
        resource.remove("_meta");
        replace_with_byte_count(resource, "blob");
    }
    Value::Object(block)
}

/// Replaces the base64 data in a field by its number of bytes.
fn replace_with_byte_count(map: &mut Map<String, Value>, field: &str) {
    if let Some(Value::String(data)) = map.get(field) {
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        let bytes = (data.len() * 3 / 4).saturating_sub(padding);
        map.insert(field.to_owned(), Value::from(format!("[{bytes} bytes, not shown]")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: Value, expected: Result<Value, &str>) {
        let list = |field: &str| result[field].as_array().cloned().unwrap_or_default();
        let result = RemoteCallResult {
            content: list("content"),
            structured: result.get("structured").cloned(),
            is_error: result["isError"] == true,
        };
        assert_eq!(to_answer(result), expected.map_err(str::to_owned));
    }

    #[test]
    fn text_blocks_are_joined_and_structured_content_is_returned_as_json() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        check(json!({ "content": [text("a"), text("b")] }), Ok(json!("a\nb")));
        check(json!({ "content": [text("{}")], "structured": { "n": 1 } }), Ok(json!({ "n": 1 })));
        check(json!({ "content": [] }), Ok(json!("")));
        check(json!({ "content": [text("no such file")], "isError": true }), Err("no such file"));
    }

    #[test]
    fn images_and_links_are_passed_on_as_they_are() {
        let image =
            json!({ "type": "image", "data": "AAAAAA==", "mimeType": "image/png", "annotations": {} });
        let link = json!({ "type": "resource_link", "uri": "a://b", "name": "b" });
        let result = |content: Vec<Value>| RemoteCallResult { content, structured: None, is_error: false };
        let Ok(ToolOutput::External { content, answer }) =
            to_output(result(vec![image.clone(), link.clone()]))
        else {
            panic!("the blocks are missing")
        };
        assert_eq!(content.blocks, [image, link]);
        assert!(!answer.to_string().contains("AAAA"), "a model gets no base64: {answer}");
        let text = json!({ "type": "text", "text": "only text" });
        assert!(matches!(to_output(result(vec![text])), Ok(ToolOutput::Answer(_))));
    }

    #[test]
    fn blocks_beyond_the_limit_are_left_out_with_a_note() {
        let image =
            |size: usize| json!({ "type": "image", "data": "A".repeat(size), "mimeType": "image/png" });
        let text = json!({ "type": "text", "text": "a".repeat(100) });
        let blocks = limit_blocks(vec![image(10), image(500), text, image(20)], 400, 50);
        assert_eq!((&blocks[0], &blocks[3]), (&image(10), &image(20)));
        for left_out in [&blocks[1], &blocks[2]] {
            assert!(left_out["text"].as_str().unwrap().contains("left out"), "{left_out}");
        }
    }

    #[test]
    fn binary_data_is_replaced_by_its_size_and_other_blocks_are_returned() {
        let image =
            json!({ "type": "image", "data": "AAAAAA==", "mimeType": "image/png", "annotations": {} });
        check(
            json!({ "content": [{ "type": "text", "text": "see" }, image] }),
            Ok(json!({ "text": "see", "content": [
                { "type": "image", "data": "[4 bytes, not shown]", "mimeType": "image/png" }] })),
        );
        let resource = json!({ "type": "resource", "resource": { "uri": "a://b", "text": "whole" } });
        check(json!({ "content": [resource] }), Ok(json!({ "content": [resource] })));
        let link = json!({ "type": "resource_link", "uri": "a://b", "name": "b" });
        check(json!({ "content": [link] }), Ok(json!({ "content": [link] })));
    }
}
