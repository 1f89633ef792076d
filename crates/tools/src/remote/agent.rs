//! An agent of another system as a tool: its definition from the agent's card, the message of a call, and the
//! answer for a model.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use emergent_a2a::{AgentCard, CallOptions, Outcome, OutgoingMessage, Patience, TaskState, Wait};
use emergent_domain::redact::Redactor;
use emergent_mcp::client::RemoteTool;
use serde::Deserialize;
use serde_json::{Value, json, value::to_raw_value};
use tokio::time::Instant;
use uuid::Uuid;

use super::content::redact_error;
use crate::{CallReport, CallReporter, ToolContext, ToolError, ToolOutput};

/// The most bytes of an answer that a model gets as text, and of its structured parts.
const MAX_TEXT_BYTES: usize = 96 << 10;
const MAX_DATA_BYTES: usize = 96 << 10;
/// The most bytes that a run records of what an agent waits for.
const MAX_WAIT_BYTES: usize = 400;
/// How long a call waits for people of the other system if its run has more time.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

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
        // One of `message` and `taskId` is needed. The schema does not say so, because providers of models refuse
        // `anyOf` at the top of a schema.
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
                    "description": "The taskId of an earlier answer. With a message: in the state input_required, to \
                                    answer what it asks. Without one: to get the state of the task, or its answer."
                }
            },
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
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
}

/// What a call asks of an agent.
pub enum AgentRequest {
    Send(OutgoingMessage),
    /// The state of a task, or its answer.
    Follow {
        task: String,
    },
}

/// The request of a call. The id of a message is the same whenever the same call of a run is made, so that an agent can
/// recognise a message that it got before.
pub fn request_of(context: &ToolContext, input: Value) -> Result<AgentRequest, ToolError> {
    let input: CallInput = serde_json::from_value(input)
        .map_err(|error| ToolError::Refused(format!("the input is not a message to an agent: {error}")))?;
    let not_empty = |text: &String| !text.is_empty();
    let task = input.task_id.filter(not_empty);
    let (text, task) = match (input.message, task) {
        (Some(text), task) => (text, task),
        (None, Some(task)) => return Ok(AgentRequest::Follow { task }),
        (None, None) => {
            return Err(ToolError::Refused(
                "the input has neither a `message` for the agent nor the `taskId` of an earlier answer"
                    .into(),
            ));
        }
    };
    let id = match (context.run, context.call) {
        (Some(run), Some(call)) => format!("{run}-{call}"),
        _ => Uuid::now_v7().to_string(),
    };
    Ok(AgentRequest::Send(OutgoingMessage { id, text, context: input.context_id.filter(not_empty), task }))
}

/// How long a call to an agent waits, and the reports that its run gets. A caller without a run is not kept waiting for
/// people of the other system: it asks again with the id of the task.
pub fn call_options(
    context: &ToolContext,
    server: &str,
    within: Duration,
    redactor: &Redactor,
) -> CallOptions {
    let mut options = CallOptions::new(within);
    if let Some(input) = &context.input {
        // The guard of the call uses the same clock.
        options.clock = input.clock.clone();
        // The executor drops the call when the time of its run is up.
        if context.run.is_some() {
            options.patience = Patience::Until(Instant::now() + MAX_WAIT);
        }
    }
    let Some(CallReporter { report, waits_until }) = context.reporter.clone() else { return options };
    options.patience = waits_until.map_or(Patience::Timeout, Patience::Until);
    let (server, redactor, count) = (server.to_owned(), redactor.clone(), AtomicU32::new(0));
    options.on_wait = Arc::new(move |wait| {
        let (reason, delay) = match wait {
            Wait::Authorisation { text } => {
                let said = redact_error(&redactor, &text, MAX_WAIT_BYTES);
                (
                    format!("waits for an authorisation that a person has to give it there: {said}"),
                    Duration::ZERO,
                )
            }
            Wait::RateLimit { delay } => ("has had too many requests (HTTP 429)".to_owned(), delay),
        };
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        report(CallReport::Waits { server: server.clone(), reason, count, delay });
    });
    options
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
                "The agent waits for an authorisation that a person has to give it in its own system. Do not send the \
                 message again: call it with this taskId and without a message to get its answer once it is given."
            );
        }
        TaskState::Working => {
            answer["next"] = json!(
                "The agent is still at work: call it with this taskId and without a message to get its answer."
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
