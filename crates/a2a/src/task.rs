//! Messages and tasks: what is sent to an agent, and what comes back.

use emergent_net::large_messages::HeldMessage;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::{Error, binding::Parsed, body};

/// The longest id that is used in later requests.
const MAX_ID_BYTES: usize = 512;
/// How many data and file parts of one answer are kept.
const MAX_PARTS: usize = 200;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingMessage {
    /// The id by which the agent can recognise a message that it got before.
    pub id: String,
    pub text: String,
    /// The conversation that the message belongs to; `None` starts a new one.
    pub context: Option<String>,
    /// The task that the message answers, such as one that asked for input.
    pub task: Option<String>,
}

impl OutgoingMessage {
    /// The parameters of `SendMessage`. The answer is wanted at once: the task is then polled, and can be
    /// cancelled because its id is known.
    pub(crate) fn params(&self) -> Value {
        let mut message = json!({
            "messageId": self.id, "role": "ROLE_USER", "parts": [{ "text": self.text }],
        });
        if let Some(context) = &self.context {
            message["contextId"] = json!(context);
        }
        if let Some(task) = &self.task {
            message["taskId"] = json!(task);
        }
        let configuration = json!({
            "acceptedOutputModes": ["text/plain", "text/markdown", "application/json"], "returnImmediately": true,
        });
        json!({ "message": message, "configuration": configuration })
    }
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
    InputRequired,
    AuthRequired,
}

impl TaskState {
    fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING" => Self::Working,
            "TASK_STATE_COMPLETED" => Self::Completed,
            "TASK_STATE_FAILED" => Self::Failed,
            "TASK_STATE_CANCELED" => Self::Canceled,
            "TASK_STATE_REJECTED" => Self::Rejected,
            "TASK_STATE_INPUT_REQUIRED" => Self::InputRequired,
            "TASK_STATE_AUTH_REQUIRED" => Self::AuthRequired,
            other => {
                let other: String = other.chars().take(100).collect();
                return Err(Error::InvalidMessage(format!("a task in the unknown state `{other}`")));
            }
        })
    }

    /// Whether a task in this state never changes again.
    pub(crate) fn is_end(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::InputRequired => "input_required",
            Self::AuthRequired => "auth_required",
        }
    }
}

/// What came of a message.
#[derive(Debug)]
pub struct Outcome {
    pub state: TaskState,
    /// The result; what is asked, if the agent needs something; or why the task failed.
    pub text: String,
    /// The structured parts.
    pub data: Vec<Value>,
    /// The files. Their bytes are left out.
    pub files: Vec<FilePart>,
    /// `None` if the agent answered without a task.
    pub task: Option<String>,
    pub context: Option<String>,
    /// The size of the response that this was parsed from.
    pub bytes: usize,
    /// The place of a large response in memory, which is kept as long as this value.
    pub held: Option<HeldMessage>,
}

impl From<Parsed<Self>> for Outcome {
    fn from(parsed: Parsed<Self>) -> Self {
        Self { bytes: parsed.bytes, held: parsed.held, ..parsed.value }
    }
}

/// A file of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePart {
    pub name: Option<String>,
    pub media_type: Option<String>,
    /// Where it can be fetched; `None` if its bytes were in the answer.
    pub url: Option<String>,
    pub bytes: Option<usize>,
}

#[derive(Deserialize)]
struct SendResponse {
    #[serde(default)]
    task: Option<Task>,
    #[serde(default)]
    message: Option<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    id: String,
    #[serde(default)]
    context_id: Option<String>,
    status: Status,
    #[serde(default, deserialize_with = "null_default")]
    artifacts: Vec<Artifact>,
    #[serde(default, deserialize_with = "null_default")]
    history: Vec<Message>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    #[serde(default)]
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Artifact {
    #[serde(default, deserialize_with = "null_default")]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    media_type: Option<String>,
}

/// Reads null like an absent value.
pub(crate) fn null_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Parses the response to `SendMessage`: a task, or a message that is the whole answer.
pub(crate) fn parse_sent(result: Value) -> Result<Outcome, Error> {
    let response: SendResponse = serde_json::from_value(result).map_err(|error| invalid(&error))?;
    match response {
        SendResponse { task: Some(task), .. } => task.outcome(),
        SendResponse { message: Some(message), .. } => {
            let mut outcome = Outcome::new(TaskState::Completed, None, message.context_id.clone())?;
            outcome.add(&message.parts);
            Ok(outcome)
        }
        _ => Err(Error::InvalidMessage("a response with neither a task nor a message".into())),
    }
}

/// Parses a task.
pub(crate) fn parse_task(result: Value) -> Result<Outcome, Error> {
    let task: Task = serde_json::from_value(result).map_err(|error| invalid(&error))?;
    task.outcome()
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::InvalidMessage(body::quoted(error.to_string()))
}

impl Task {
    /// The result of a completed task is in its artifacts. Many agents put a short one into the message of the
    /// status, or only into the history.
    fn outcome(self) -> Result<Outcome, Error> {
        let state = TaskState::parse(&self.status.state)?;
        let mut outcome = Outcome::new(state, Some(self.id), self.context_id)?;
        if let Some(message) = self.status.message.as_ref().filter(|_| state != TaskState::Completed) {
            outcome.add(&message.parts);
        }
        for artifact in &self.artifacts {
            outcome.add(&artifact.parts);
        }
        if outcome.is_empty()
            && let Some(message) = &self.status.message
        {
            outcome.add(&message.parts);
        }
        let is_agent = |message: &&Message| message.role.as_deref() == Some("ROLE_AGENT");
        if outcome.is_empty()
            && state == TaskState::Completed
            && let Some(message) = self.history.iter().rev().find(is_agent)
        {
            outcome.add(&message.parts);
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn new(state: TaskState, task: Option<String>, context: Option<String>) -> Result<Self, Error> {
        if task.iter().chain(&context).any(|id| id.len() > MAX_ID_BYTES) {
            return Err(Error::InvalidMessage(format!("an id of more than {MAX_ID_BYTES} bytes")));
        }
        let not_empty = |id: &String| !id.is_empty();
        Ok(Self {
            state,
            text: String::new(),
            data: Vec::new(),
            files: Vec::new(),
            task: task.filter(not_empty),
            context: context.filter(not_empty),
            bytes: 0,
            held: None,
        })
    }

    /// What the agent says, shortened if it is very long.
    pub(crate) fn summary(&self) -> String {
        body::quoted(self.text.clone())
    }

    /// The state of the task, without the parts that may be large.
    pub(crate) fn without_content(&self) -> Self {
        Self {
            state: self.state,
            text: self.summary(),
            data: Vec::new(),
            files: Vec::new(),
            task: self.task.clone(),
            context: self.context.clone(),
            bytes: 0,
            held: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.data.is_empty() && self.files.is_empty()
    }

    fn add(&mut self, parts: &[Part]) {
        for part in parts {
            let may_add = self.data.len() + self.files.len() < MAX_PARTS;
            if let Some(text) = &part.text {
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
            } else if let Some(data) = part.data.as_ref().filter(|_| may_add) {
                self.data.push(data.clone());
            } else if may_add && (part.url.is_some() || part.raw.is_some()) {
                self.files.push(FilePart {
                    name: part.filename.clone(),
                    media_type: part.media_type.clone(),
                    url: part.url.clone(),
                    bytes: part.raw.as_ref().map(|raw| raw.len() / 4 * 3),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: &str, more: Value) -> Value {
        let mut task = json!({ "id": "t-1", "contextId": "c-1", "status": { "state": state } });
        for (name, value) in more.as_object().unwrap() {
            task[name] = value.clone();
        }
        task
    }

    #[test]
    fn the_result_is_in_the_artifacts_the_status_or_the_history() {
        let parts = |text: &str| json!([{ "text": text }]);
        let in_artifacts = task(
            "TASK_STATE_COMPLETED",
            json!({ "artifacts": [{ "artifactId": "a", "parts": [{ "text": "one" }, { "data": { "n": 1 } }] },
                                  { "artifactId": "b", "parts": [{ "text": "two" }, { "raw": "AAAA", "filename": "x" }] }],
                    "status": { "state": "TASK_STATE_COMPLETED", "message": { "role": "ROLE_AGENT", "parts": parts("done") } } }),
        );
        let read = parse_task(in_artifacts).unwrap();
        assert_eq!((read.text.as_str(), &read.data), ("one\ntwo", &vec![json!({ "n": 1 })]));
        assert_eq!(read.files[0].bytes, Some(3));
        let in_status = task(
            "TASK_STATE_COMPLETED",
            json!({ "status": { "state": "TASK_STATE_COMPLETED", "message": { "parts": parts("short") } } }),
        );
        assert_eq!(parse_task(in_status).unwrap().text, "short");
        let in_history = task(
            "TASK_STATE_COMPLETED",
            json!({ "artifacts": null, "history": [{ "role": "ROLE_USER", "parts": parts("q") },
                                                   { "role": "ROLE_AGENT", "parts": parts("said") }] }),
        );
        assert_eq!(parse_task(in_history).unwrap().text, "said");
    }

    #[test]
    fn an_answer_may_come_without_a_task() {
        let read = parse_sent(json!({ "message": { "messageId": "m", "contextId": "c", "role": "ROLE_AGENT",
                                                   "parts": [{ "text": "hello" }] } }))
        .unwrap();
        assert_eq!((read.state, read.text.as_str(), read.task), (TaskState::Completed, "hello", None));
        assert_eq!(read.context.as_deref(), Some("c"));
    }

    #[test]
    fn what_is_not_a_task_is_refused() {
        for value in [
            json!({}),
            json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_DREAMING" } } }),
            json!({ "task": { "id": "x".repeat(600), "status": { "state": "TASK_STATE_WORKING" } } }),
            json!({ "task": 7 }),
        ] {
            assert!(matches!(parse_sent(value.clone()), Err(Error::InvalidMessage(_))), "{value}");
        }
    }
}
