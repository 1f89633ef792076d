//! Tasks: a resume chain of runs as the protocol shows it.

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    ids::RunId,
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

/// The id of the artifact with the answer. A task has at most this one.
pub const ANSWER: &str = "answer";

/// Which task something is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskIds {
    pub task: Uuid,
    /// The conversation of the task. A task without one can still be continued: the conversation is then made from
    /// its run, with the same id.
    pub context: Uuid,
    /// Whether the task answers a message of a conversation. The next message of the conversation is another task.
    pub in_conversation: bool,
}

impl TaskIds {
    /// `first` is the first run of the chain.
    pub fn new(first: RunId, conversation: Option<Uuid>) -> Self {
        Self {
            task: first.0,
            context: conversation.unwrap_or(first.0),
            in_conversation: conversation.is_some(),
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
    pub includes_artifacts: bool,
}

/// Returns the task.
pub fn task(source: &TaskSource<'_>) -> Task {
    let TaskSource { ids, run, .. } = source;
    let history = source.messages.map(|messages| history(messages, ids.task, ids.context));
    Task {
        id: ids.task.to_string(),
        context_id: ids.context.to_string(),
        status: run_status(*ids, run, source.requests),
        artifacts: source.includes_artifacts.then(|| run_artifacts(run)),
        history,
    }
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

fn run_status(ids: TaskIds, run: &Run, requests: &[Approval]) -> TaskStatus {
    let text = match run.status {
        RunStatus::Waiting => Some(waiting_text(requests)),
        _ => end_text(run.status, run.reason, run.error.as_deref(), ids.in_conversation),
    };
    TaskStatus {
        state: state(run.status, run.waiting_for, ids.in_conversation),
        message: text.map(|text| status_message(ids, run.id, run.seq, text)),
        timestamp: Some(status_time(run)),
    }
}

/// A message that explains a status. Its id is the same whenever the same status is shown.
pub(super) fn status_message(ids: TaskIds, run: RunId, seq: i64, text: String) -> Message {
    agent_message(format!("{run}-{seq}"), ids.task, ids.context, text)
}

/// What a client reads while the run waits for a person.
pub(super) fn waiting_text(requests: &[Approval]) -> String {
    let questions: Vec<&str> = requests
        .iter()
        .filter_map(|request| request.question.as_ref())
        .map(|asked| asked.text.as_str())
        .collect();
    match questions.is_empty() {
        // Which tool is called, and with what, is for those who approve it.
        true => "A person of the project has to approve a step before the agent goes on.".to_owned(),
        false => questions.join("\n\n"),
    }
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

fn run_artifacts(run: &Run) -> Vec<Artifact> {
    if !run.status.is_terminal() {
        return Vec::new();
    }
    answer(run.summary.as_deref().unwrap_or_default(), run.output.as_ref()).into_iter().collect()
}

/// The artifact with an answer: its text, and its value if the agent has an output schema.
pub(super) fn answer(text: &str, output: Option<&Value>) -> Option<Artifact> {
    let mut parts = Vec::new();
    if !text.is_empty() {
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
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn shown(run: &Run, conversation: Option<Uuid>) -> Value {
        let source = TaskSource {
            ids: TaskIds::new(run.id, conversation),
            run,
            requests: &[],
            messages: None,
            includes_artifacts: true,
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
        let conversation = Uuid::now_v7();
        let found = shown(&run, Some(conversation));
        assert!(text(&found).contains("contextId"), "{found}");
        assert_eq!(found["contextId"], json!(conversation));
    }

    #[test]
    fn a_run_in_progress_has_no_artifact() {
        let mut run = samples::run(RunStatus::Running);
        run.summary = Some("so far".to_owned());
        assert_eq!(shown(&run, None)["artifacts"], json!([]));
    }
}
