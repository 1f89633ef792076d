use emergent_domain::{ids::ProjectId, redact::HeldSecret};
use serde_json::value::to_raw_value;

use super::*;

fn call_result(content: &[Value], structured: Option<&Value>, is_error: bool) -> RemoteCallResult {
    RemoteCallResult {
        content: content.iter().map(|block| to_raw_value(block).unwrap()).collect(),
        structured: structured.map(|value| to_raw_value(value).unwrap()),
        is_error,
        ..RemoteCallResult::default()
    }
}

fn output(content: &[Value], structured: Option<&Value>) -> (Value, Option<ExternalContent>) {
    match to_output(&call_result(content, structured, false), &Redactor::default()).unwrap() {
        ToolOutput::Answer(answer) => (answer, None),
        ToolOutput::External { answer, content } => (answer, Some(content)),
        ToolOutput::Change(_) => panic!("a change"),
    }
}

fn check(result: Value, expected: Result<Value, &str>) {
    let content = result["content"].as_array().cloned().unwrap_or_default();
    let result = call_result(&content, result.get("structured"), result["isError"] == true);
    let answer = to_output(&result, &Redactor::default()).map(|output| match output {
        ToolOutput::Answer(answer) | ToolOutput::External { answer, .. } => answer,
        ToolOutput::Change(_) => panic!("a change"),
    });
    assert_eq!(answer, expected.map_err(str::to_owned));
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image(size: usize) -> Value {
    json!({ "type": "image", "data": "A".repeat(size), "mimeType": "image/png" })
}

/// A redactor that knows one secret, and what keeps it known.
fn redactor_for(value: &str) -> (Redactor, HeldSecret) {
    let redactor = Redactor::default();
    let held = redactor.hold_secret(ProjectId::new(), "KEY", value);
    (redactor, held)
}

#[test]
fn text_blocks_are_joined_and_structured_content_is_returned_as_json() {
    check(json!({ "content": [text("a"), text("b")] }), Ok(json!("a\nb")));
    check(json!({ "content": [text("{}")], "structured": { "n": 1 } }), Ok(json!({ "n": 1 })));
    check(json!({ "content": [] }), Ok(json!("")));
    check(json!({ "content": [text("no such file")], "isError": true }), Err("no such file"));
}

#[test]
fn images_and_links_are_passed_on_as_they_are() {
    let image = json!({ "type": "image", "data": "AAAAAA==", "mimeType": "image/png", "annotations": {} });
    let link = json!({ "type": "resource_link", "uri": "a://b", "name": "b" });
    let (answer, content) = output(&[image.clone(), link.clone()], None);
    assert_eq!(content.unwrap().blocks, [image, link]);
    assert!(!answer.to_string().contains("AAAA"), "a model gets no base64: {answer}");
    assert!(output(&[text("only text")], None).1.is_none());
}

#[test]
fn blocks_beyond_the_limit_are_left_out_with_a_note() {
    let values = json!({ "type": "odd", "values": vec![0; MAX_TEXT_BYTES] });
    let long = text(&"a".repeat(MAX_TEXT_BYTES + 1));
    let (answer, content) = output(&[image(10), image(MAX_CONTENT_BYTES), long, image(20), values], None);
    let blocks = content.unwrap().blocks;
    assert_eq!((&blocks[0], &blocks[3]), (&image(10), &image(20)));
    for block in [&blocks[1], &blocks[2], &blocks[4]] {
        assert!(block["text"].as_str().unwrap().contains("left out"), "{block}");
    }
    assert!(answer["_size"].as_str().unwrap().contains("131073 bytes"), "{}", answer["_size"]);
}

#[test]
fn structured_content_beyond_the_limit_is_left_out_with_a_note() {
    let structured = |bytes: usize| json!({ "text": "a".repeat(bytes) });
    let (_, small) = output(&[image(4)], Some(&structured(100)));
    let small = small.unwrap();
    assert!(small.structured.is_some() && small.blocks.len() == 1);
    let (answer, large) = output(&[image(4)], Some(&structured(MAX_TEXT_BYTES)));
    let large = large.unwrap();
    assert!(large.structured.is_none(), "it has no more bytes than a text");
    assert!(
        large.blocks[1]["text"].as_str().unwrap().contains("structured content"),
        "{:?}",
        large.blocks[1]
    );
    assert!(answer["structured"]["beginning"].as_str().unwrap().starts_with(r#"{"text":"aaa"#));
    assert!(answer["_size"].as_str().unwrap().contains("bytes"));
}

#[test]
fn binary_data_is_replaced_by_its_size_and_other_blocks_are_returned() {
    let image = json!({ "type": "image", "data": "AAAAAA==", "mimeType": "image/png", "annotations": {} });
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

#[test]
fn a_secret_at_the_place_where_a_text_is_cut_is_not_shown() {
    let secret = "value-of-the-key-0123456789";
    let (redactor, _held) = redactor_for(secret);
    // The place where the text is cut moves through the secret. Secrets before it are replaced by something
    // shorter, so that more of the end would be shown.
    for before in [0, 50] {
        for shift in (0..=secret.len() + 1).step_by(4) {
            for end in [MAX_TEXT_BYTES, MAX_TEXT_BYTES + MARGIN_BYTES] {
                let filler = end - before * secret.len() - shift;
                let whole =
                    format!("{}{}{secret}{}", secret.repeat(before), "x".repeat(filler), "y".repeat(9_000));
                let result = call_result(&[text(&whole)], None, false);
                let Ok(ToolOutput::Answer(answer)) = to_output(&result, &redactor) else {
                    panic!("no answer")
                };
                let shown = answer["text"].as_str().unwrap();
                assert!(
                    shown.len() <= MAX_TEXT_BYTES + 3 && !shown.contains("value"),
                    "{before} {shift} {end}"
                );
                let error = redact_error(&redactor, &whole, end);
                assert!(!error.contains("value"), "{before} {shift} {end}");
            }
        }
    }
}
