//! `/api/agents/{agentId}/invoke`: the interface of this system for callers from outside.

use emergent_domain::{
    ids::{AgentId, RunId},
    invalid::Invalid,
    run::{MessageRole, Run},
    run_event::{RunEvent, RunEventBody},
};
use emergent_wire::{
    invoke::{InvocationLinks, InvocationView, InvokeAgent},
    run::TokenSums,
};
use uuid::Uuid;

/// The longest time that an answer waits for the end of a run. A caller that wants to wait longer asks again.
pub const MAX_WAIT_SECONDS: u64 = 600;

/// How a caller wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMode {
    /// At once, with the run and not with its result, even if the run has ended already: what a client gets does not
    /// depend on which of the two was faster.
    Started,
    /// After at most this many seconds, whether the run has ended or not.
    Wait(u64),
    /// With the events of the run, as they happen.
    Stream,
}

/// Returns how a request is answered.
pub fn answer_mode(request: &InvokeAgent) -> Result<AnswerMode, Invalid> {
    match (request.stream, request.wait) {
        (true, Some(_)) => {
            Err(Invalid::new("wait", "cannot be used with `stream`: a stream ends with the run"))
        }
        (true, None) => Ok(AnswerMode::Stream),
        (false, None) => Ok(AnswerMode::Started),
        (false, wait) => check_wait(wait).map(AnswerMode::Wait),
    }
}

/// Returns the seconds that a request waits; 0 without any.
pub fn check_wait(wait: Option<u64>) -> Result<u64, Invalid> {
    match wait {
        Some(seconds) if seconds > MAX_WAIT_SECONDS => {
            Err(Invalid::new("wait", format!("must be 0 to {MAX_WAIT_SECONDS} seconds")))
        }
        seconds => Ok(seconds.unwrap_or(0)),
    }
}

/// Where an agent is started.
pub fn endpoint(agent: AgentId) -> String {
    format!("/api/agents/{agent}/invoke")
}

/// Where the result of a run is read.
pub fn result_path(agent: AgentId, run: RunId) -> String {
    format!("/api/agents/{agent}/runs/{run}")
}

/// Returns the answer about a run. `conversation` is the conversation that it belongs to. A run without one can still
/// be continued: the conversation is then made from the run, with the id of the run. The texts of the run may be large,
/// so they are moved and not copied.
pub fn invocation(run: Run, conversation: Option<Uuid>, usage: Option<TokenSums>) -> InvocationView {
    let has_ended = run.status.is_terminal();
    let result = result_path(run.agent, run.id);
    InvocationView {
        run_id: run.id.0,
        agent_id: run.agent.0,
        status: run.status,
        reason: run.reason,
        text: run.summary.filter(|text| has_ended && !text.is_empty()),
        output: run.output,
        error_message: run.error,
        waiting_for: run.waiting_for,
        conversation_id: conversation.unwrap_or(run.id.0),
        token_usage: usage.filter(|_| has_ended),
        links: InvocationLinks { events: format!("{result}/events"), result },
    }
}

/// Whether a caller from outside gets an event. The system prompt, and the names of servers and secrets, belong to the
/// project: whoever may start an agent may not read how it is instructed or set up.
pub fn is_for_callers(event: &RunEvent) -> bool {
    match &event.body {
        RunEventBody::Message(message) => message.role != MessageRole::System,
        RunEventBody::ServersUnavailable { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::{
        approval::ApprovalKind,
        run::{Reason, RunStatus},
    };

    use super::*;
    use crate::samples::{event, message_event, run};

    #[test]
    fn an_answer_waits_or_streams_and_not_both() {
        let check = |wait, stream, expected: Result<AnswerMode, &str>| {
            let request = InvokeAgent { wait, stream, ..InvokeAgent::default() };
            let found = answer_mode(&request).map_err(|invalid| invalid.problems[0].field.clone());
            assert_eq!(found, expected.map_err(str::to_owned), "{wait:?} {stream}");
        };
        check(None, false, Ok(AnswerMode::Started));
        check(Some(0), false, Ok(AnswerMode::Wait(0)));
        check(Some(30), false, Ok(AnswerMode::Wait(30)));
        check(Some(MAX_WAIT_SECONDS), false, Ok(AnswerMode::Wait(MAX_WAIT_SECONDS)));
        check(None, true, Ok(AnswerMode::Stream));
        check(Some(MAX_WAIT_SECONDS + 1), false, Err("wait"));
        check(Some(1), true, Err("wait"));
    }

    #[test]
    fn a_run_in_progress_has_no_text_yet_and_says_where_to_look() {
        let mut run = run(RunStatus::Waiting);
        (run.waiting_for, run.summary) = (Some(ApprovalKind::Question), Some("so far".to_owned()));
        let usage = TokenSums { total_input: 1, total_output: 2, total_cost: None };
        let view = invocation(run.clone(), None, Some(usage));
        assert_eq!(
            (view.text, view.token_usage, view.waiting_for),
            (None, None, Some(ApprovalKind::Question))
        );
        assert_eq!(view.conversation_id, run.id.0);
        assert_eq!(view.links.result, format!("/api/agents/{}/runs/{}", run.agent, run.id));
        assert_eq!(view.links.events, format!("{}/events", view.links.result));
    }

    #[test]
    fn an_ended_run_has_its_text_its_reason_and_its_conversation() {
        let mut run = run(RunStatus::Paused);
        (run.reason, run.summary) = (Some(Reason::StepLimit), Some("Half.".to_owned()));
        let conversation = Uuid::now_v7();
        let view = invocation(run.clone(), Some(conversation), None);
        assert_eq!((view.text.as_deref(), view.reason), (Some("Half."), Some(Reason::StepLimit)));
        assert_eq!(view.conversation_id, conversation);
    }

    #[test]
    fn a_system_prompt_is_not_for_callers() {
        for (role, expected) in [
            (MessageRole::System, false),
            (MessageRole::User, true),
            (MessageRole::Assistant, true),
            (MessageRole::ToolResult, true),
        ] {
            assert_eq!(is_for_callers(&message_event(role)), expected, "{role}");
        }
    }

    #[test]
    fn the_servers_and_secrets_of_a_project_are_not_for_callers() {
        let body =
            RunEventBody::ServersUnavailable { servers: Vec::new(), missing_tools: vec!["x.y".to_owned()] };
        assert!(!is_for_callers(&event(body)));
    }
}
