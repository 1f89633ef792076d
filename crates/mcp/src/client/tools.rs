//! Tools as a server lists them, and the results of calls.

use std::fmt;

use emergent_domain::foreign_json;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use super::{Error, HeldMessage, body};

/// The maximum number of content blocks of one result. Further ones are counted.
const MAX_BLOCKS: usize = 1_000;
/// The maximum size of the questions of a server, and of the state that it expects back.
const MAX_INPUT_REQUEST_BYTES: usize = 256 << 10;

/// A tool of a server, from its list.
#[derive(Debug, Clone)]
pub struct RemoteTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// The schema exactly as the server sent it.
    pub input_schema: Box<RawValue>,
    /// The server's hints, such as `readOnlyHint`; null if there are none.
    pub annotations: Value,
    /// True if the tool can only be called as a task, which this client does not support.
    pub needs_task: bool,
    /// The whole list entry as the server sent it.
    pub text: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEntry {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    input_schema: Box<RawValue>,
    #[serde(default)]
    annotations: Value,
    #[serde(default)]
    execution: Value,
}

impl RemoteTool {
    /// Parses an entry of `tools/list`. The error is the reason why it is invalid.
    pub fn parse(text: Box<RawValue>) -> Result<Self, String> {
        let entry: ToolEntry = foreign_json::from_str(text.get()).map_err(|error| error.to_string())?;
        let schema: Value =
            foreign_json::from_str(entry.input_schema.get()).map_err(|error| error.to_string())?;
        if !schema.is_object() {
            return Err("its `inputSchema` is not an object".into());
        }
        let needs_task = entry.execution.get("taskSupport").and_then(Value::as_str) == Some("required");
        Ok(Self {
            name: entry.name,
            title: entry.title,
            description: entry.description.unwrap_or_default(),
            input_schema: entry.input_schema,
            annotations: entry.annotations,
            needs_task,
            text,
        })
    }

    /// Returns a hint that the server declares; a missing hint is `false`.
    pub fn hint(&self, name: &str) -> bool {
        self.annotations.get(name).and_then(Value::as_bool).unwrap_or_default()
    }
}

/// One page of `tools/list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolsPage<'a> {
    /// Borrowed, so that a page with a million invalid entries does not cost a million allocations.
    #[serde(borrow)]
    pub tools: Vec<&'a RawValue>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The result of a completed call. Its parts are the JSON that the server sent: they may have megabytes, and
/// whoever uses them parses only what is kept.
#[derive(Debug, Default)]
pub struct RemoteCallResult {
    pub content: Vec<Box<RawValue>>,
    /// How many further blocks there were.
    pub blocks_left_out: usize,
    /// `structuredContent`, if the tool returned any.
    pub structured: Option<Box<RawValue>>,
    /// True if the tool reports that it failed.
    pub is_error: bool,
    /// The place of a large result in memory, which is free when the result is dropped.
    pub held: Option<HeldMessage>,
}

impl RemoteCallResult {
    /// The number of bytes of the parts.
    pub fn bytes(&self) -> usize {
        self.content.iter().chain(&self.structured).map(|part| part.get().len()).sum()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResponse<'a> {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(borrow, default)]
    content: Blocks<'a>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(default)]
    request_state: Option<String>,
}

/// The first content blocks of a result, and the number of the others.
#[derive(Default)]
struct Blocks<'a> {
    first: Vec<&'a RawValue>,
    left_out: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlocksVisitor;
        impl<'de> Visitor<'de> for BlocksVisitor {
            type Value = Blocks<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of content blocks")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Blocks<'de>, A::Error> {
                let mut blocks = Blocks::default();
                while blocks.first.len() < MAX_BLOCKS {
                    match items.next_element::<&'de RawValue>()? {
                        Some(block) => blocks.first.push(block),
                        None => return Ok(blocks),
                    }
                }
                while items.next_element::<IgnoredAny>()?.is_some() {
                    blocks.left_out += 1;
                }
                Ok(blocks)
            }
        }
        deserializer.deserialize_seq(BlocksVisitor)
    }
}

/// The response to a call: its result, or a request for input.
pub(super) enum CallOutcome {
    Done(RemoteCallResult),
    /// The server requests input first, and expects its state back with it.
    NeedsInput {
        questions: Map<String, Value>,
        state: Option<String>,
    },
}

/// Parses the result of `tools/call`. `held` is its place in memory.
pub(super) fn parse_call_response(
    result: &RawValue,
    held: Option<HeldMessage>,
) -> Result<CallOutcome, Error> {
    let invalid = |error: serde_json::Error| {
        Error::InvalidMessage(body::quoted(format!("an invalid result of a call: {error}")))
    };
    let response: CallResponse<'_> = foreign_json::from_str(result.get()).map_err(invalid)?;
    if response.result_type.as_deref() == Some("input_required") {
        let (questions, state) =
            (response.input_requests.map_or("{}", RawValue::get), response.request_state);
        if questions.len() + state.as_ref().map_or(0, String::len) > MAX_INPUT_REQUEST_BYTES {
            return Err(Error::InvalidMessage(format!(
                "a request for input of more than {MAX_INPUT_REQUEST_BYTES} bytes"
            )));
        }
        return Ok(CallOutcome::NeedsInput {
            questions: foreign_json::from_str(questions).map_err(invalid)?,
            state,
        });
    }
    Ok(CallOutcome::Done(RemoteCallResult {
        content: response.content.first.into_iter().map(ToOwned::to_owned).collect(),
        blocks_left_out: response.content.left_out,
        structured: response.structured_content.map(ToOwned::to_owned),
        is_error: response.is_error,
        held,
    }))
}

/// A progress notification of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn blocks_beyond_the_limit_are_counted_and_not_kept() {
        let result = serde_json::json!({ "content": vec![7; MAX_BLOCKS + 3], "structuredContent": null });
        let Ok(CallOutcome::Done(result)) = parse_call_response(&to_raw_value(&result).unwrap(), None) else {
            panic!("a result")
        };
        assert_eq!((result.content.len(), result.blocks_left_out), (MAX_BLOCKS, 3));
        assert!(result.structured.is_none());
    }

    #[test]
    fn a_result_with_a_reserved_key_is_refused() {
        for result in [
            r#"{"content":[],"structuredContent":{"$serde_json::private::RawValue":"[1]"}}"#,
            r#"{"content":[{"type":"text","text":"x","a":{"\u0024serde_json::private::RawValue":"[1]"}}]}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"$serde_json::private::RawValue":"[1]"}}}"#,
        ] {
            let result = RawValue::from_string(result.to_owned()).unwrap();
            match parse_call_response(&result, None) {
                Err(error) => assert!(error.to_string().contains("is reserved"), "{error}"),
                Ok(_) => panic!("it was accepted: {result}"),
            }
        }
    }
}
