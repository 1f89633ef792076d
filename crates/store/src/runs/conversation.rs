//! A run's conversation read back, as the machine needs it to go on.

use std::{collections::HashMap, iter};

use emergent_domain::{
    chat::{Part, ToolCall, Usage},
    ids::{MessageId, RunId, ToolCallId},
    run::{MessageRole, Reason, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use serde_json::Value;

use crate::{error::Result, params, tx::Tx, value::Row};

/// Everything said and called in one run, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    pub messages: Vec<RecordedMessage>,
    pub calls: Vec<RecordedToolCall>,
    /// Results up to this place are no longer shown to the model; 0 when all are.
    pub pruned_upto: i64,
    /// The tools that patterns came to when the run started; `None` when there are no patterns.
    pub tools: Option<Vec<String>>,
}

pub fn load(tx: &mut Tx<'_>, run: RunId) -> Result<Conversation> {
    let calls = tx.query(
        &format!("SELECT {CALL_COLUMNS} FROM agent_run_tool_calls WHERE run_id = $1 ORDER BY seq"),
        params![run],
        call_from_row,
    )?;
    let by_id: HashMap<ToolCallId, &RecordedToolCall> = calls.iter().map(|call| (call.id, call)).collect();
    let messages = tx.query(
        &format!("SELECT {MESSAGE_COLUMNS} FROM agent_run_messages WHERE run_id = $1 ORDER BY seq"),
        params![run],
        |row| message_from_row(row, &by_id),
    )?;
    let notes = tx.query(
        "SELECT data FROM agent_run_events WHERE run_id = $1 AND type IN ('compacted', 'run_started') ORDER BY seq",
        params![run],
        |row| row.get::<String>(0),
    )?;
    let notes: Vec<Value> = notes.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    // A summary that came later does not bring back what was left out after its place.
    let pruned = notes.iter().filter(|data| data["summarised"] == false);
    let pruned_upto = pruned.filter_map(|data| data["upto"].as_i64()).max().unwrap_or(0);
    let tools = notes.iter().find_map(|data| serde_json::from_value(data.get("tools")?.clone()).ok());
    Ok(Conversation { messages, calls, pruned_upto, tools })
}

pub(crate) const CALL_COLUMNS: &str =
    "id, seq, message_id, tool_name, step_number, input, status, output, result_seq, duration_ms, created_at";

pub(crate) fn call_from_row(row: &Row<'_>) -> Result<RecordedToolCall> {
    let status: String = row.get(6)?;
    Ok(RecordedToolCall {
        id: row.get(0)?,
        seq: row.get(1)?,
        message: row.get(2)?,
        tool: row.get(3)?,
        step: row.get(4)?,
        input: unwrap_json(&row.get::<String>(5)?),
        status: ToolCallStatus::parse(&status).unwrap_or(ToolCallStatus::Error),
        output: row.get::<Option<String>>(7)?.map(|text| unwrap_json(&text)),
        result_seq: row.get(8)?,
        duration_ms: row.get(9)?,
        at: row.get(10)?,
    })
}

fn unwrap_json(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    match value {
        Value::Object(mut map) if map.len() == 1 && map.contains_key(super::record::WRAPPER_KEY) => {
            map.remove(super::record::WRAPPER_KEY).unwrap_or(Value::Null)
        }
        other => other,
    }
}

pub(crate) const MESSAGE_COLUMNS: &str = "id, seq, role, step_number, content, input_tokens, output_tokens, \
     reasoning_tokens, cache_read_tokens, cache_write_tokens, cost, created_at";

/// A message, with the inputs of its calls put back from their rows.
pub(crate) fn message_from_row(
    row: &Row<'_>,
    calls: &HashMap<ToolCallId, &RecordedToolCall>,
) -> Result<RecordedMessage> {
    let role: String = row.get(2)?;
    let role = MessageRole::parse(&role).unwrap_or(MessageRole::User);
    let content: Value = serde_json::from_str(&row.get::<String>(4)?).unwrap_or(Value::Null);
    let tokens = |at: usize| -> Result<u64> {
        Ok(row.get::<Option<i64>>(at)?.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    };
    let usage = match row.get::<Option<i64>>(5)? {
        None => None,
        Some(_) => Some(Usage {
            input: tokens(5)?,
            output: tokens(6)?,
            reasoning: tokens(7)?,
            cache_read: tokens(8)?,
            cache_write: tokens(9)?,
        }),
    };
    let id = row.get(0)?;
    Ok(RecordedMessage {
        id,
        seq: row.get(1)?,
        role,
        step: row.get(3)?,
        content: read_content(id, role, content, calls),
        usage,
        cost: row.get(10)?,
        at: row.get(11)?,
    })
}

fn read_content(
    id: MessageId,
    role: MessageRole,
    mut content: Value,
    calls: &HashMap<ToolCallId, &RecordedToolCall>,
) -> MessageContent {
    let text = |content: &mut Value| match content["text"].take() {
        Value::String(text) => text,
        _ => String::new(),
    };
    if let Some(upto) = content["upto"].as_i64() {
        return MessageContent::Summary { text: text(&mut content), upto };
    }
    if role != MessageRole::Assistant {
        let injected = content["injected"].as_str().and_then(Reason::parse);
        return MessageContent::Text { text: text(&mut content), injected };
    }
    match content["parts"].take() {
        Value::Array(parts) => {
            MessageContent::Parts(parts.into_iter().filter_map(|part| restore_part(part, calls)).collect())
        }
        _ => {
            let mut made: Vec<_> = calls.values().filter(|call| call.message == id).collect();
            made.sort_by_key(|call| call.seq);
            let made = made.into_iter().map(|call| call_part(call, None));
            MessageContent::Parts(iter::once(Part::text(text(&mut content))).chain(made).collect())
        }
    }
}

fn restore_part(mut part: Value, calls: &HashMap<ToolCallId, &RecordedToolCall>) -> Option<Part> {
    if part["type"] != "call" {
        return serde_json::from_value(part).ok();
    }
    let call = calls.get(&serde_json::from_value(part["id"].take()).ok()?)?;
    let provider = Some(part["provider"].take()).filter(|provider| !provider.is_null());
    Some(call_part(call, provider))
}

fn call_part(call: &RecordedToolCall, provider: Option<Value>) -> Part {
    Part::Call(ToolCall { id: call.id, name: call.tool.clone(), input: call.input.clone(), provider })
}
