//! An agent of another system as a tool: its definition from the agent's card, the message of a call, and the
//! answer for a model.

use emergent_a2a::{AgentCard, Outcome, OutgoingMessage, TaskState};
use emergent_domain::redact::Redactor;
use emergent_mcp::client::RemoteTool;
use serde::Deserialize;
use serde_json::{Value, json, value::to_raw_value};
use uuid::Uuid;

use crate::{ToolContext, ToolError, ToolOutput};

/// The most bytes of an answer that a model gets as text, and of its structured parts.
const MAX_TEXT_BYTES: usize = 96 << 10;
const MAX_DATA_BYTES: usize = 96 << 10;

/// The tool that sends a message to the agent. Its definition has the digest of the card, so that a changed card is
/// a changed tool.
pub fn tool_of(card: &AgentCard) -> Result<RemoteTool, String> {
    let description = format!(
        "Sends a message to the agent \"{}\" of another system and returns its answer. The agent knows nothing of \
         this conversation: the message must say everything that it needs.\n\n{}",
        card.name.chars().take(200).collect::<String>(),
        card.summary()
    );
    let tool = json!({
        "name": card.tool_name(),
        "title": card.name.chars().take(200).collect::<String>(),
        "description": description.trim_end(),
        "inputSchema": {
            "type": "object",
            "properties": {
                "message": { "type": "string", "description": "What the agent is to do, in full." },
                "contextId": {
                    "type": "string",
                    "description": "The contextId of an earlier answer, to continue that conversation."
                },
                "taskId": {
                    "type": "string",
                    "description": "The taskId of an answer in the state input_required, to answer what it asks."
                }
            },
            "required": ["message"],
            "additionalProperties": false
        },
        "annotations": { "openWorldHint": true, "a2aCard": card.digest },
    });
    let text = to_raw_value(&tool).map_err(|error| error.to_string())?;
    RemoteTool::parse(text).map_err(|reason| format!("has a card that makes no tool: {reason}"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CallInput {
    message: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
}

/// The message of a call. Its id is the same whenever the same call of a run is made, so that an agent can recognise
/// a message that it got before.
pub fn message_of(context: &ToolContext, input: Value) -> Result<OutgoingMessage, ToolError> {
    let input: CallInput = serde_json::from_value(input)
        .map_err(|error| ToolError::Refused(format!("the input is not a message to an agent: {error}")))?;
    let not_empty = |text: &String| !text.is_empty();
    let id = match (context.run, context.call) {
        (Some(run), Some(call)) => format!("{run}-{call}"),
        _ => Uuid::now_v7().to_string(),
    };
    Ok(OutgoingMessage {
        id,
        text: input.message,
        context: input.context_id.filter(not_empty),
        task: input.task_id.filter(not_empty),
    })
}

/// The answer for a model, without secrets. The text is redacted before it is cut, because a secret that is cut in
/// two is not recognised.
pub fn to_output(outcome: Outcome, redactor: &Redactor) -> Result<ToolOutput, ToolError> {
    let text = cut(redactor.redact_text(&outcome.text).into_owned());
    let mut ids = json!({ "taskId": outcome.task, "contextId": outcome.context });
    redactor.redact_value(&mut ids);
    let task = ids["taskId"].as_str().map(|task| format!(" (task `{task}`)")).unwrap_or_default();
    if let TaskState::Failed | TaskState::Canceled | TaskState::Rejected = outcome.state {
        let what = match outcome.state {
            TaskState::Failed => "failed",
            TaskState::Canceled => "cancelled the task",
            _ => "rejected the task",
        };
        let said = if text.is_empty() { "without a reason".to_owned() } else { text };
        return Err(ToolError::Refused(format!("the agent {what}{task}: {said}")));
    }
    let mut answer = json!({ "state": outcome.state.as_str(), "text": text });
    for name in ["taskId", "contextId"] {
        if !ids[name].is_null() {
            answer[name] = ids[name].take();
        }
    }
    match outcome.state {
        TaskState::InputRequired => {
            answer["next"] = json!("The agent needs an answer to continue: call it again with this taskId.");
        }
        TaskState::AuthRequired => {
            answer["next"] = json!(
                "The agent needs an authorisation that a person has to give it. Say so; once it is given, call it \
                 again with this taskId."
            );
        }
        _ => {}
    }
    if !outcome.data.is_empty() {
        let mut data = Value::Array(outcome.data);
        redactor.redact_value(&mut data);
        let bytes = data.to_string().len();
        answer["data"] = match bytes <= MAX_DATA_BYTES {
            true => data,
            false => json!(format!("[structured parts of {bytes} bytes left out: the answer is too large]")),
        };
    }
    if !outcome.files.is_empty() {
        let files = outcome.files.iter().map(|file| {
            json!({ "name": file.name, "mediaType": file.media_type, "url": file.url, "bytes": file.bytes })
        });
        let mut files = Value::Array(files.collect());
        redactor.redact_value(&mut files);
        answer["files"] = files;
    }
    Ok(ToolOutput::Answer(answer))
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(&format!("… [the text has {bytes} bytes]"));
    }
    text
}
