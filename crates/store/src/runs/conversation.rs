//! Loads the conversation of a run, from which the executor continues the run, and converts messages and tool
//! calls between their rows and the domain types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    iter,
};

use emergent_domain::{
    chat::{Part, ToolCall, Usage},
    ids::{MessageId, RunId, ToolCallId},
    run::{MessageRole, Reason},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
    time::Timestamp,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    params,
    row::{RowReader, TableRow, row},
    tx::Tx,
    value::Param,
};

/// The messages and tool calls of one run, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    pub messages: Vec<RecordedMessage>,
    pub calls: Vec<RecordedToolCall>,
    /// Tool results up to this `seq` are no longer shown to the model; 0 when all are shown.
    pub pruned_upto: i64,
    /// The tools that the tool patterns of the agent matched when the run started; `None` when the agent has
    /// no patterns.
    pub tools: Option<Vec<String>>,
    /// The servers of those of `tools` that are external.
    pub tool_servers: BTreeMap<String, String>,
}

/// Loads the messages and tool calls of a run, and what its events say about them.
pub fn load(tx: &mut Tx<'_>, run: RunId) -> Result<Conversation> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls WHERE run_id = $1 ORDER BY seq",
        RecordedToolCall::COLUMNS
    );
    let calls = tx.query(&sql, params![run], RecordedToolCall::from_row)?;
    let by_id: HashMap<ToolCallId, &RecordedToolCall> = calls.iter().map(|call| (call.id, call)).collect();
    let sql =
        format!("SELECT {} FROM agent_run_messages WHERE run_id = $1 ORDER BY seq", MessageRow::COLUMNS);
    let messages =
        tx.query(&sql, params![run], |row| MessageRow::from_row(row)?.into_message(Some(&by_id)))?;
    let events: Vec<Value> = tx.query(
        "SELECT data FROM agent_run_events WHERE run_id = $1 AND type IN ('compacted', 'run_started') ORDER BY seq",
        params![run],
        |row| row.read(0, "agent_run_events", "data"),
    )?;
    let (mut pruned_upto, mut tools, mut tool_servers) = (0, None, BTreeMap::new());
    for event in &events {
        let unreadable = || Error::unreadable("agent_run_events", "data", &event.to_string());
        // `compacted` without a summary: results up to `upto` were pruned. A later summary up to an earlier
        // position does not bring them back.
        if event["summarised"] == false {
            pruned_upto = pruned_upto.max(event["upto"].as_i64().ok_or_else(unreadable)?);
        }
        // `run_started`: the tools that the patterns matched.
        if tools.is_none() && !event["tools"].is_null() {
            let names = serde_json::from_value(event["tools"].clone()).map_err(|_| unreadable())?;
            tools = Some(names);
            if !event["toolServers"].is_null() {
                let servers = serde_json::from_value(event["toolServers"].clone());
                tool_servers = servers.map_err(|_| unreadable())?;
            }
        }
    }
    Ok(Conversation { messages, calls, pruned_upto, tools, tool_servers })
}

row! {
    RecordedToolCall in "agent_run_tool_calls" {
        id: "id",
        seq: "seq",
        message: "message_id",
        tool: "tool_name",
        step: "step_number",
        input: JsonContainer("input"),
        status: "status",
        output: OptionalJsonContainer("output"),
        result_seq: "result_seq",
        duration_ms: "duration_ms",
        at: "created_at",
        effect: "effect",
    }
}

/// A row of a message. Names and inputs of its tool calls are in the rows of the tool calls.
#[derive(Debug)]
pub(super) struct MessageRow {
    id: MessageId,
    seq: i64,
    role: MessageRole,
    step: i64,
    content: Value,
    usage: Option<Usage>,
    cost: Option<f64>,
    at: Timestamp,
}

row! {
    MessageRow in "agent_run_messages" {
        id: "id",
        seq: "seq",
        role: "role",
        step: "step_number",
        content: JsonText("content"),
        usage: UsageColumns(
            "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens"
        ),
        cost: "cost",
        at: "created_at",
    }
}

/// A JSON parameter in which NUL is replaced. PostgreSQL does not store NUL in JSON, and an error is no
/// option, because everything that a model writes has to be recorded.
fn json_param(value: &Value) -> Param<'static> {
    let text = value.to_string();
    Param::Json(Cow::Owned(match text.contains("\\u0000") {
        true => text.replace("\\u0000", "\\ufffd"),
        false => text,
    }))
}

/// Codec of JSON that a model may have written.
struct JsonText;

impl JsonText {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Value> {
        reader.next(column)
    }

    fn write(value: &Value, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(json_param(value));
        Ok(())
    }
}

/// The key of the object that wraps a value which is neither object nor array.
const WRAPPER_KEY: &str = "_value";

/// The parameter of the input of a tool call.
pub(crate) fn input_param(input: &Value) -> Param<'static> {
    JsonContainer::param(input)
}

/// Codec of the input of a tool call. The columns of input and output hold only objects and arrays; any other
/// value is stored in an object with the key [`WRAPPER_KEY`].
struct JsonContainer;

impl JsonContainer {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Value> {
        Ok(Self::unwrap(reader.next(column)?))
    }

    fn write(value: &Value, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(Self::param(value));
        Ok(())
    }

    fn param(value: &Value) -> Param<'static> {
        match value {
            Value::Object(_) | Value::Array(_) => json_param(value),
            scalar => json_param(&json!({ WRAPPER_KEY: scalar })),
        }
    }

    fn unwrap(mut container: Value) -> Value {
        match &mut container {
            Value::Object(map) if map.len() == 1 => match map.get_mut(WRAPPER_KEY) {
                Some(value) => value.take(),
                None => container,
            },
            _ => container,
        }
    }
}

/// As [`JsonContainer`], for the output of a tool call, which is NULL until the call has ended.
pub(super) struct OptionalJsonContainer;

impl OptionalJsonContainer {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Option<Value>> {
        Ok(reader.next::<Option<Value>>(column)?.map(JsonContainer::unwrap))
    }

    fn write(value: &Option<Value>, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(Self::param(value.as_ref()));
        Ok(())
    }

    pub(super) fn param(value: Option<&Value>) -> Param<'static> {
        value.map_or(Param::Null, JsonContainer::param)
    }
}

/// Codec of the token counts. They are all NULL for a message without a model call. Otherwise the count of
/// input tokens is set; another count that the provider did not report is NULL and is read as 0.
struct UsageColumns;

impl UsageColumns {
    fn read(reader: &mut RowReader<'_, '_>, columns: [&'static str; 5]) -> Result<Option<Usage>> {
        let mut counts = [None; 5];
        for (count, column) in counts.iter_mut().zip(columns) {
            *count = match reader.next::<Option<i64>>(column)? {
                None => None,
                Some(number) => {
                    let tokens = u64::try_from(number);
                    Some(tokens.map_err(|_| reader.unreadable(column, &number.to_string()))?)
                }
            };
        }
        let [input, output, reasoning, cache_read, cache_write] = counts;
        Ok(input.map(|input| Usage {
            input,
            output: output.unwrap_or(0),
            reasoning: reasoning.unwrap_or(0),
            cache_read: cache_read.unwrap_or(0),
            cache_write: cache_write.unwrap_or(0),
        }))
    }

    fn write(usage: &Option<Usage>, params: &mut Vec<Param<'_>>) -> Result<()> {
        let counts = usage.map(|usage| {
            [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write]
                .map(|tokens| Param::Int(i64::try_from(tokens).unwrap_or(i64::MAX)))
        });
        params.extend(counts.unwrap_or([const { Param::Null }; 5]));
        Ok(())
    }
}

impl MessageRow {
    /// The row of a message.
    pub(super) fn from_message(message: &RecordedMessage) -> Result<Self> {
        let content = content_json(&message.content);
        Ok(Self {
            id: message.id,
            seq: message.seq,
            role: message.role,
            step: message.step,
            content: content.map_err(|source| Error::Unwritable {
                table: Self::TABLE,
                column: "content",
                source,
            })?,
            usage: message.usage,
            cost: message.cost,
            at: message.at,
        })
    }

    /// The message of the row, with the names and inputs of its tool calls from `calls`. With `None`, the
    /// tool calls are left out.
    pub(super) fn into_message(
        self,
        calls: Option<&HashMap<ToolCallId, &RecordedToolCall>>,
    ) -> Result<RecordedMessage> {
        let content = content_from_json(self.id, self.role, self.content, calls)
            .map_err(|value| Error::unreadable(Self::TABLE, "content", &value.to_string()))?;
        Ok(RecordedMessage {
            id: self.id,
            seq: self.seq,
            role: self.role,
            step: self.step,
            content,
            usage: self.usage,
            cost: self.cost,
            at: self.at,
        })
    }
}

/// The content as its column holds it. A text followed by tool calls that their rows hold completely is
/// stored as the text alone.
fn content_json(content: &MessageContent) -> serde_json::Result<Value> {
    Ok(match content {
        MessageContent::Text { text, injected: None } => json!({ "text": text }),
        MessageContent::Text { text, injected } => json!({ "text": text, "injected": injected }),
        MessageContent::Summary { text, upto } => json!({ "text": text, "upto": upto }),
        MessageContent::Parts(parts) => match &parts[..] {
            [Part::Text { text, provider: None }, calls @ ..]
                if !text.is_empty() && calls.iter().all(is_plain_call) =>
            {
                json!({ "text": text })
            }
            parts => json!({ "parts": parts.iter().map(part_json).collect::<Result<Vec<_>, _>>()? }),
        },
    })
}

/// Whether a part is a tool call that its own row holds completely.
fn is_plain_call(part: &Part) -> bool {
    matches!(part, Part::Call(call) if call.provider.is_none())
}

/// A part as JSON. A tool call is only its id and the data of the provider; the rest is in the row of the
/// call.
fn part_json(part: &Part) -> serde_json::Result<Value> {
    match part {
        Part::Call(call) => Ok(match &call.provider {
            None => json!({ "type": "call", "id": call.id }),
            Some(provider) => json!({ "type": "call", "id": call.id, "provider": provider }),
        }),
        part => serde_json::to_value(part),
    }
}

/// The reverse of [`content_json`]. The error is the value that `content_json` cannot have written.
fn content_from_json(
    id: MessageId,
    role: MessageRole,
    content: Value,
    calls: Option<&HashMap<ToolCallId, &RecordedToolCall>>,
) -> Result<MessageContent, Value> {
    let Value::Object(mut content) = content else { return Err(content) };
    if let Some(parts) = content.remove("parts").filter(|_| role == MessageRole::Assistant) {
        let Value::Array(parts) = parts else { return Err(parts) };
        let parts = parts.into_iter().map(|part| restore_part(part, calls)).filter_map(Result::transpose);
        return Ok(MessageContent::Parts(parts.collect::<Result<_, _>>()?));
    }
    let text = match content.remove("text") {
        Some(Value::String(text)) => text,
        Some(other) => return Err(other),
        None => return Err(Value::Object(content)),
    };
    if let Some(upto) = content.remove("upto") {
        return Ok(MessageContent::Summary { text, upto: upto.as_i64().ok_or(upto)? });
    }
    if role != MessageRole::Assistant {
        let injected = match content.remove("injected") {
            None => None,
            Some(reason) => Some(reason.as_str().and_then(Reason::parse).ok_or(reason)?),
        };
        return Ok(MessageContent::Text { text, injected });
    }
    let mut message_calls: Vec<_> =
        calls.into_iter().flat_map(HashMap::values).filter(|call| call.message == id).collect();
    message_calls.sort_by_key(|call| call.seq);
    let call_parts = message_calls.into_iter().map(|call| call_part(call, None));
    Ok(MessageContent::Parts(iter::once(Part::text(text)).chain(call_parts).collect()))
}

/// The reverse of [`part_json`]. `None` for a tool call without a row: the run ended with this message,
/// before the call was recorded. The error is a part that `part_json` cannot have written.
fn restore_part(
    part: Value,
    calls: Option<&HashMap<ToolCallId, &RecordedToolCall>>,
) -> Result<Option<Part>, Value> {
    if part["type"] != "call" {
        return Part::deserialize(&part).map(Some).map_err(|_| part);
    }
    let Ok(id) = ToolCallId::deserialize(&part["id"]) else { return Err(part) };
    let provider = part.get("provider").filter(|provider| !provider.is_null());
    Ok(calls.and_then(|calls| calls.get(&id)).map(|call| call_part(call, provider.cloned())))
}

fn call_part(call: &RecordedToolCall, provider: Option<Value>) -> Part {
    Part::Call(ToolCall { id: call.id, name: call.tool.clone(), input: call.input.clone(), provider })
}
