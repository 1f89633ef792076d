//! Streams: the events of a run as updates of its task.
//!
//! The text of an answer is sent as it is written, as chunks of the artifact with the answer. The text of each step
//! replaces that of the step before, and the end of the run replaces it by the whole answer. So a client that follows a
//! run which another server drives, and gets no chunks, has the same artifact in the end.

use emergent_domain::{
    approval::Approval,
    artifact::RunArtifact,
    chat::Part as ChatPart,
    run::MessageRole,
    run::RunStatus,
    run_event::{MessageContent, RunEvent, RunEventBody},
    time::Timestamp,
};

use super::{
    message::visible_text,
    task::{TaskIds, answer, answer_of, artifact, end_text, state, status_message, waiting_message},
    types::{
        Artifact, Message, Part, StreamResponse, TaskArtifactUpdate, TaskState, TaskStatus, TaskStatusUpdate,
    },
};

/// Turns the events of a task into updates.
#[derive(Debug)]
pub struct TaskUpdates {
    ids: TaskIds,
    /// The step whose text was sent last. A chunk of another step begins the artifact anew.
    step: Option<i64>,
}

impl TaskUpdates {
    pub fn new(ids: TaskIds) -> Self {
        Self { ids, step: None }
    }

    /// Whether an event needs the requests that the run waits for.
    pub fn needs_requests(event: &RunEvent) -> bool {
        matches!(event.body, RunEventBody::Waiting { .. })
    }

    /// Returns the updates that an event makes. `requests` are those that the run waits for.
    pub fn on_event(&mut self, event: &RunEvent, requests: &[Approval]) -> Vec<StreamResponse> {
        let ids = self.ids.clone();
        let seq = event.seq.unwrap_or(0);
        let explain = |text: String| status_message(&ids, event.run, seq, text);
        match &event.body {
            RunEventBody::Started { .. } | RunEventBody::Continued => {
                vec![self.status(TaskState::Working, event.at, None)]
            }
            RunEventBody::Waiting { waiting_for } => {
                let state = state(RunStatus::Waiting, Some(*waiting_for), self.ids.in_conversation);
                let message = waiting_message(&ids, event.run, seq, requests);
                vec![self.status(state, event.at, Some(message))]
            }
            // What an agent says before it calls tools. Its last text is the answer.
            RunEventBody::Message(message)
                if message.role == MessageRole::Assistant && calls_tools(&message.content) =>
            {
                let said = visible_text(message).map(|(_, text)| explain(text));
                said.map(|said| self.status(TaskState::Working, event.at, Some(said))).into_iter().collect()
            }
            RunEventBody::ToolCompleted(call) => RunArtifact::of_call(call)
                .map(|added| self.artifact(artifact(&added), false, true))
                .into_iter()
                .collect(),
            RunEventBody::TextDelta { step, text } => {
                let append = self.step.replace(*step) == Some(*step);
                vec![self.artifact(answer_of(vec![Part::text(text)]), append, false)]
            }
            // The beginning of a long text is missing, so the client gets the whole of it at the end.
            RunEventBody::TextSoFar(so_far) if so_far.omitted_chars > 0 => {
                self.step = None;
                Vec::new()
            }
            RunEventBody::TextSoFar(so_far) if so_far.text.is_empty() => Vec::new(),
            RunEventBody::TextSoFar(so_far) => {
                self.step = Some(so_far.step);
                vec![self.artifact(answer_of(vec![Part::text(&so_far.text)]), false, false)]
            }
            RunEventBody::StepRestarted { .. } => {
                self.step = None;
                Vec::new()
            }
            RunEventBody::Ended { status, reason, summary, output, error } => {
                self.step = None;
                let end = state(*status, None, self.ids.in_conversation);
                let text = end_text(*status, *reason, error.as_deref(), self.ids.in_conversation);
                let artifact = answer(summary, output.as_ref());
                let artifact = artifact.map(|artifact| self.artifact(artifact, false, true));
                artifact.into_iter().chain([self.status(end, event.at, text.map(explain))]).collect()
            }
            _ => Vec::new(),
        }
    }

    fn status(&self, state: TaskState, at: Timestamp, message: Option<Message>) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdate {
            task_id: self.ids.task.to_string(),
            context_id: self.ids.context.clone(),
            status: TaskStatus { state, message, timestamp: Some(at) },
        })
    }

    fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdate {
            task_id: self.ids.task.to_string(),
            context_id: self.ids.context.clone(),
            artifact,
            append,
            last_chunk,
        })
    }
}

fn calls_tools(content: &MessageContent) -> bool {
    matches!(content, MessageContent::Parts(parts) if parts.iter().any(|part| matches!(part, ChatPart::Call(_))))
}

#[cfg(test)]
mod tests {
    use emergent_domain::{approval::ApprovalKind, ids::RunId, run::Reason, run_event::TextSoFar};
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    /// What a client reads: the state, the text of chunks with `+` for those that follow others, and `!` for the last.
    fn updates(conversation: bool, bodies: Vec<RunEventBody>) -> Vec<String> {
        let id = RunId::new();
        let mut updates = TaskUpdates::new(TaskIds::new(id, conversation.then(|| id.to_string())));
        let mut found = Vec::new();
        for body in bodies {
            for update in updates.on_event(&samples::event(body), &[]) {
                found.push(line(&json!(update)));
            }
        }
        found
    }

    fn line(update: &Value) -> String {
        let text = |value: &Value| value["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
        if let Some(update) = update.get("statusUpdate") {
            let state = update["status"]["state"].as_str().unwrap().trim_start_matches("TASK_STATE_");
            return format!("{state} {}", text(&update["status"]["message"])).trim_end().to_owned();
        }
        let update = &update["artifactUpdate"];
        let begin = if update["append"] == true { "+" } else { "" };
        let end = if update["lastChunk"] == true { "!" } else { "" };
        format!("{begin}{}{end}", text(&update["artifact"]))
    }

    fn delta(step: i64, text: &str) -> RunEventBody {
        RunEventBody::TextDelta { step, text: text.to_owned() }
    }

    fn ended(status: RunStatus, summary: &str) -> RunEventBody {
        let reason = (status == RunStatus::Paused).then_some(Reason::StepLimit);
        RunEventBody::Ended { status, reason, summary: summary.to_owned(), output: None, error: None }
    }

    #[test]
    fn the_text_of_a_step_replaces_that_of_the_step_before() {
        let found = updates(
            false,
            vec![
                RunEventBody::Started { recovered: false },
                delta(1, "Let "),
                delta(1, "me look."),
                delta(2, "One"),
                delta(2, " two."),
                ended(RunStatus::Completed, "One two."),
            ],
        );
        assert_eq!(found, ["WORKING", "Let ", "+me look.", "One", "+ two.", "One two.!", "COMPLETED"]);
    }

    #[test]
    fn a_follower_that_comes_late_gets_the_text_so_far_and_the_rest() {
        let so_far = |omitted_chars| {
            RunEventBody::TextSoFar(TextSoFar { step: 1, text: "One".to_owned(), omitted_chars })
        };
        assert_eq!(updates(false, vec![so_far(0), delta(1, " two.")]), ["One", "+ two."]);
        let restarted = RunEventBody::StepRestarted { step: 1, why: "again".to_owned() };
        assert_eq!(updates(false, vec![delta(1, "On"), restarted, delta(1, "One")]), ["On", "One"]);
    }

    #[test]
    fn a_run_that_waits_and_one_that_pauses_say_what_they_need() {
        let found = updates(
            false,
            vec![
                RunEventBody::Waiting { waiting_for: ApprovalKind::Approval },
                RunEventBody::Continued,
                ended(RunStatus::Paused, "Half."),
            ],
        );
        assert!(found[0].starts_with("AUTH_REQUIRED A person"), "{found:?}");
        assert_eq!(found[1..3], ["WORKING", "Half.!"]);
        assert!(found[3].starts_with("INPUT_REQUIRED The agent stopped at its step limit."), "{found:?}");
        assert!(updates(true, vec![ended(RunStatus::Paused, "")])[0].starts_with("FAILED"), "{found:?}");
    }
}
