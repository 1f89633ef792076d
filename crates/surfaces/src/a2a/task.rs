//! Tasks: a resume chain of runs as the protocol shows it.

use base64::Engine as _;
use emergent_domain::{
    approval::{Approval, ApprovalKind},
    artifact::{ArtifactContent, RunArtifact},
    ids::RunId,
    invalid::Invalid,
    output_schema::parse_answer,
    run::{Reason, Run, RunStatus},
    run_event::RecordedMessage,
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    message::{agent_message, history},
    types::{Artifact, Message, Part, Task, TaskState, TaskStatus},
};

/// The id of the artifact with the answer. The others are what the agent added.
pub const ANSWER: &str = "answer";

/// Which task something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskIds {
    pub task: Uuid,
    /// The conversation of the task: the name that its client gave it, or else its id. A task without one can still be
    /// continued: the conversation is then made from its run, with the same id.
    pub context: String,
    /// Whether the task answers a message of a conversation. The next message of the conversation is another task.
    pub in_conversation: bool,
}

impl TaskIds {
    /// `first` is the first run of the chain, and `context` the name or the id of its conversation.
    pub fn new(first: RunId, context: Option<String>) -> Self {
        Self {
            task: first.0,
            in_conversation: context.is_some(),
            context: context.unwrap_or_else(|| first.to_string()),
        }
    }
}

/// What a task is shown from.
pub struct TaskSource<'a> {
    pub ids: TaskIds,
    /// The newest run of the chain.
    pub run: &'a Run,
    /// What the run waits for, itself or through its children.
    pub requests: &'a [Approval],
    /// The newest messages of the chain, the oldest first; `None` leaves the history out.
    pub messages: Option<&'a [RecordedMessage]>,
    /// What the agent added to its result; `None` leaves all artifacts out.
    pub artifacts: Option<&'a [RunArtifact]>,
}

/// Returns the task.
pub fn task(source: &TaskSource<'_>) -> Task {
    let TaskSource { ids, run, .. } = source;
    let history = source.messages.map(|messages| history(messages, ids.task, &ids.context));
    Task {
        id: ids.task.to_string(),
        context_id: ids.context.clone(),
        status: run_status(ids, run, source.requests),
        artifacts: source.artifacts.map(|added| run_artifacts(run, added)),
        history,
    }
}

/// The answer of a task as a message, for an agent that answers so. `None` for a task that has not completed, or that has
/// more than an answer: it is returned as a task.
pub fn answer_message(source: &TaskSource<'_>) -> Option<Message> {
    let TaskSource { ids, run, .. } = source;
    if run.status != RunStatus::Completed || source.artifacts.is_none_or(|added| !added.is_empty()) {
        return None;
    }
    let answer = answer(run.summary.as_deref().unwrap_or_default(), run.output.as_ref())?;
    let message = agent_message(format!("{}-{}", run.id, run.seq), ids.task, &ids.context, String::new());
    // Nothing more will happen, so that the message stands for itself and belongs to no task.
    Some(Message { task_id: None, parts: answer.parts, ..message })
}

/// The state of a task whose newest run has this status. A paused run goes on with a message to its task. In a
/// conversation it does not: a message there starts the next run, so the task has ended without a result.
pub fn state(status: RunStatus, waiting_for: Option<ApprovalKind>, in_conversation: bool) -> TaskState {
    match status {
        RunStatus::Queued => TaskState::Submitted,
        RunStatus::Running => TaskState::Working,
        RunStatus::Waiting => match waiting_for {
            Some(ApprovalKind::Question | ApprovalKind::ClientTool) => TaskState::InputRequired,
            Some(ApprovalKind::Approval) | None => TaskState::AuthRequired,
        },
        RunStatus::Completed => TaskState::Completed,
        RunStatus::Failed => TaskState::Failed,
        RunStatus::Paused if in_conversation => TaskState::Failed,
        RunStatus::Paused => TaskState::InputRequired,
        RunStatus::Cancelled => TaskState::Canceled,
    }
}

/// When the status of a run last changed.
pub fn status_time(run: &Run) -> Timestamp {
    let waiting = run.waiting_since.filter(|_| run.status == RunStatus::Waiting);
    run.completed_at.or(waiting).or(run.started_at).unwrap_or(run.created_at)
}

fn run_status(ids: &TaskIds, run: &Run, requests: &[Approval]) -> TaskStatus {
    let message = match run.status {
        RunStatus::Waiting => Some(waiting_message(ids, run.id, run.seq, requests)),
        _ => end_text(run.status, run.reason, run.error.as_deref(), ids.in_conversation)
            .map(|text| status_message(ids, run.id, run.seq, text)),
    };
    TaskStatus {
        state: state(run.status, run.waiting_for, ids.in_conversation),
        message,
        timestamp: Some(status_time(run)),
    }
}

/// A message that explains a status. Its id is the same whenever the same status is shown.
pub(super) fn status_message(ids: &TaskIds, run: RunId, seq: i64, text: String) -> Message {
    agent_message(format!("{run}-{seq}"), ids.task, &ids.context, text)
}

/// The question that the next message to a task answers. With several open questions, clients see and answer one at a
/// time, because a message does not say which one it is about.
pub fn open_question(requests: &[Approval]) -> Option<&Approval> {
    requests.iter().find(|request| request.kind == ApprovalKind::Question)
}

/// What a client reads while the run waits for a person: the question, and what is accepted as an answer if that is not
/// any text. A question has the id that it has in the history, so that a client shows it once.
pub(super) fn waiting_message(ids: &TaskIds, run: RunId, seq: i64, requests: &[Approval]) -> Message {
    let question = open_question(requests).and_then(|request| Some((request, request.question.as_ref()?)));
    let Some((request, asked)) = question else {
        // Which tool is called, and with what, is for those who approve it.
        let text = "A person of the project has to approve a step before the agent goes on.";
        return status_message(ids, run, seq, text.to_owned());
    };
    let mut accepted = serde_json::Map::new();
    if !asked.options.is_empty() {
        accepted.insert("options".to_owned(), Value::from(asked.options.clone()));
    }
    if let Some(schema) = &asked.response_schema {
        accepted.insert("responseSchema".to_owned(), schema.clone());
    }
    let data = (!accepted.is_empty()).then(|| Part::data(Value::Object(accepted)));
    let message = agent_message(request.call.to_string(), ids.task, &ids.context, String::new());
    Message { parts: [Part::text(&asked.text)].into_iter().chain(data).collect(), ..message }
}

/// Names the parts of the message in problems with the answer that it is.
pub fn rename_answer_fields(mut invalid: Invalid) -> Invalid {
    for problem in &mut invalid.problems {
        if let Some(rest) = problem.field.strip_prefix("answer") {
            problem.field = format!("message.parts{rest}");
        }
    }
    invalid
}

/// What a client reads about the end of a run. An answer is an artifact and needs no message.
pub(super) fn end_text(
    status: RunStatus,
    reason: Option<Reason>,
    error: Option<&str>,
    in_conversation: bool,
) -> Option<String> {
    let reason = reason.map_or("a limit", |reason| match reason {
        Reason::StepLimit => "its step limit",
        Reason::Timeout => "its time limit",
        Reason::Budget => "the end of its budget",
        _ => "a limit",
    });
    match status {
        RunStatus::Failed => Some(error.unwrap_or("the agent failed").to_owned()),
        RunStatus::Paused if in_conversation => Some(format!(
            "The agent stopped at {reason}. Send a message with the same contextId to go on in a new task."
        )),
        RunStatus::Paused => {
            Some(format!("The agent stopped at {reason}. Send a message to this task to let it go on."))
        }
        RunStatus::Cancelled => Some("The task was canceled.".to_owned()),
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Completed => None,
    }
}

/// What the agent added, in its order, and then its answer.
fn run_artifacts(run: &Run, added: &[RunArtifact]) -> Vec<Artifact> {
    let answer = match run.status.is_terminal() {
        true => answer(run.summary.as_deref().unwrap_or_default(), run.output.as_ref()),
        false => None,
    };
    added.iter().map(artifact).chain(answer).collect()
}

/// An artifact that the agent added. A text file is sent as its bytes, as files are.
pub(super) fn artifact(added: &RunArtifact) -> Artifact {
    let content = match &added.content {
        ArtifactContent::Text(text) => {
            Part { raw: Some(base64::engine::general_purpose::STANDARD.encode(text)), ..Part::default() }
        }
        ArtifactContent::Data(data) => Part::data(data.clone()),
        ArtifactContent::Url(url) => Part { url: Some(url.clone()), ..Part::default() },
    };
    let (filename, media_type) = (Some(added.name.clone()), Some(added.media_type.clone()));
    Artifact {
        artifact_id: added.id.to_string(),
        name: Some(added.name.clone()),
        parts: vec![Part { filename, media_type, ..content }],
    }
}

/// The artifact with an answer: its value if the agent has an output schema, or else its text. A text that says something
/// else than the value comes first.
pub(super) fn answer(text: &str, output: Option<&Value>) -> Option<Artifact> {
    let mut parts = Vec::new();
    let is_value = output.is_some() && parse_answer(text).as_ref() == output;
    if !text.is_empty() && !is_value {
        parts.push(Part::text(text));
    }
    parts.extend(output.cloned().map(Part::data));
    (!parts.is_empty()).then(|| answer_of(parts))
}

pub(super) fn answer_of(parts: Vec<Part>) -> Artifact {
    Artifact { artifact_id: ANSWER.to_owned(), name: Some(ANSWER.to_owned()), parts }
}

#[cfg(test)]
mod tests {
    use emergent_domain::approval::Question;
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn shown(run: &Run, conversation: Option<&str>) -> Value {
        let source = TaskSource {
            ids: TaskIds::new(run.id, conversation.map(str::to_owned)),
            run,
            requests: &[],
            messages: None,
            artifacts: Some(&[]),
        };
        json!(task(&source))
    }

    #[test]
    fn every_status_of_a_run_has_a_state() {
        let check = |status, waiting_for, in_conversation, expected: &str| {
            assert_eq!(json!(state(status, waiting_for, in_conversation)), expected, "{status}");
        };
        check(RunStatus::Queued, None, false, "TASK_STATE_SUBMITTED");
        check(RunStatus::Running, None, false, "TASK_STATE_WORKING");
        check(RunStatus::Waiting, Some(ApprovalKind::Question), false, "TASK_STATE_INPUT_REQUIRED");
        check(RunStatus::Waiting, Some(ApprovalKind::Approval), false, "TASK_STATE_AUTH_REQUIRED");
        check(RunStatus::Paused, None, false, "TASK_STATE_INPUT_REQUIRED");
        check(RunStatus::Paused, None, true, "TASK_STATE_FAILED");
        check(RunStatus::Completed, None, false, "TASK_STATE_COMPLETED");
        check(RunStatus::Failed, None, false, "TASK_STATE_FAILED");
        check(RunStatus::Cancelled, None, false, "TASK_STATE_CANCELED");
    }

    #[test]
    fn an_answer_is_an_artifact_with_its_text_and_its_value() {
        let mut run = samples::run(RunStatus::Completed);
        (run.summary, run.output) = (Some("Three.".to_owned()), Some(json!({ "count": 3 })));
        let found = shown(&run, None);
        assert_eq!((&found["id"], &found["contextId"]), (&json!(run.id), &json!(run.id)));
        assert_eq!(found["status"], json!({ "state": "TASK_STATE_COMPLETED", "timestamp": samples::at() }));
        let parts =
            json!([{ "text": "Three." }, { "data": { "count": 3 }, "mediaType": "application/json" }]);
        assert_eq!(found["artifacts"], json!([{ "artifactId": "answer", "name": "answer", "parts": parts }]));
        assert!(found.get("history").is_none(), "{found}");
    }

    #[test]
    fn an_answer_that_is_only_a_value_has_no_text() {
        let mut run = samples::run(RunStatus::Completed);
        run.output = Some(json!({ "count": 3 }));
        for text in [r#"{"count":3}"#, "```json\n{ \"count\": 3 }\n```"] {
            run.summary = Some(text.to_owned());
            let parts = shown(&run, None)["artifacts"][0]["parts"].clone();
            assert_eq!(parts, json!([{ "data": { "count": 3 }, "mediaType": "application/json" }]));
        }
    }

    #[test]
    fn what_an_agent_added_comes_before_its_answer() {
        let mut run = samples::run(RunStatus::Running);
        let added = |content| RunArtifact {
            id: emergent_domain::ids::ToolCallId::new(),
            name: "a".to_owned(),
            media_type: "text/plain".to_owned(),
            content,
        };
        let added = [
            added(ArtifactContent::Text("hi".to_owned())),
            added(ArtifactContent::Url("https://example.com/a".to_owned())),
            added(ArtifactContent::Data(json!([1]))),
        ];
        let parts = |run: &Run| {
            let found = run_artifacts(run, &added);
            found.into_iter().map(|artifact| json!(artifact.parts[0])).collect::<Vec<_>>()
        };
        let file = |content: Value| {
            let mut part = json!({ "filename": "a", "mediaType": "text/plain" });
            part.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            part
        };
        let expected = [
            file(json!({ "raw": "aGk=" })),
            file(json!({ "url": "https://example.com/a" })),
            file(json!({ "data": [1] })),
        ];
        assert_eq!(parts(&run), expected);
        (run.status, run.summary) = (RunStatus::Completed, Some("Done.".to_owned()));
        assert_eq!(parts(&run)[3], json!({ "text": "Done." }));
    }

    #[test]
    fn a_failure_says_why_and_a_pause_says_how_to_go_on() {
        let mut run = samples::run(RunStatus::Failed);
        run.error = Some("the model is gone".to_owned());
        let text =
            |found: &Value| found["status"]["message"]["parts"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(text(&shown(&run, None)), "the model is gone");
        let mut run = samples::run(RunStatus::Paused);
        (run.reason, run.summary) = (Some(Reason::StepLimit), Some("Half.".to_owned()));
        let found = shown(&run, None);
        assert!(text(&found).contains("step limit") && text(&found).contains("to this task"), "{found}");
        assert_eq!(found["artifacts"][0]["parts"][0]["text"], "Half.");
        let found = shown(&run, Some("of the client"));
        assert!(text(&found).contains("contextId"), "{found}");
        assert_eq!(found["contextId"], "of the client");
    }

    #[test]
    fn questions_are_asked_one_at_a_time_with_what_they_accept() {
        let mut run = samples::run(RunStatus::Waiting);
        run.waiting_for = Some(ApprovalKind::Question);
        let question = |text: &str, options: &[&str], response_schema: Option<Value>| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let asked = Question { text: text.to_owned(), options, response_schema };
            Approval { question: Some(asked), ..samples::approval(run.id, ApprovalKind::Question) }
        };
        let approval = samples::approval(run.id, ApprovalKind::Approval);
        let chosen = question("Which city?", &["Lyon", "Oslo"], None);
        let typed = question("How many?", &[], Some(json!({ "type": "integer" })));
        let plain = question("Why?", &[], None);
        let message = |requests: &[Approval]| {
            let ids = TaskIds::new(run.id, None);
            let source = TaskSource { ids, run: &run, requests, messages: None, artifacts: Some(&[]) };
            json!(task(&source))["status"]["message"].clone()
        };
        let found = message(&[approval.clone(), chosen.clone(), typed.clone()]);
        let data = |value: Value| json!({ "data": value, "mediaType": "application/json" });
        let expected = json!([{ "text": "Which city?" }, data(json!({ "options": ["Lyon", "Oslo"] }))]);
        assert_eq!(found["parts"], expected);
        // The history has the question with the id of its call.
        assert_eq!(found["messageId"], json!(chosen.call));
        let schema = json!({ "responseSchema": { "type": "integer" } });
        assert_eq!(message(&[typed])["parts"], json!([{ "text": "How many?" }, data(schema)]));
        assert_eq!(message(&[plain])["parts"], json!([{ "text": "Why?" }]));
        assert!(message(&[approval])["parts"][0]["text"].as_str().unwrap().contains("approve"));
    }

    #[test]
    fn a_run_in_progress_has_no_artifact() {
        let mut run = samples::run(RunStatus::Running);
        run.summary = Some("so far".to_owned());
        assert_eq!(shown(&run, None)["artifacts"], json!([]));
    }
}
