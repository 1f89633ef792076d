//! Agents, runs and events for the tests of this crate.

use emergent_domain::{
    agent::{Agent, AgentDefinition, Visibility},
    approval::{Approval, ApprovalKind, ApprovalStatus, OnExpiry},
    chat::Part,
    client_tool::{self, ClientTool},
    ids::{AgentId, ApprovalId, MessageId, ProjectId, RunId, ToolCallId},
    run::{MessageRole, Origin, Run, RunStatus, RunTerms, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall, RunEvent, RunEventBody},
    time::Timestamp,
    workflow::WorkflowLink,
};
use serde_json::{Value, json};

pub(crate) fn at() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

pub(crate) fn agent(name: &str, visibility: Visibility) -> Agent {
    Agent {
        id: AgentId::new(),
        project: ProjectId::new(),
        version: 1,
        definition: AgentDefinition { visibility, ..AgentDefinition::new(name) },
        created_at: at(),
        updated_at: at(),
        deleted_at: None,
    }
}

pub(crate) fn run(status: RunStatus) -> Run {
    Run {
        id: RunId::new(),
        project: ProjectId::new(),
        agent: AgentId::new(),
        agent_version: 1,
        agent_name: "finder".to_owned(),
        status,
        reason: None,
        origin: Origin::Invoke,
        parent: None,
        parent_call: None,
        child_index: 0,
        depth: 0,
        resumed_from: None,
        schedule: None,
        cause: None,
        cause_depth: 0,
        workflow_link: WorkflowLink::default(),
        terms: RunTerms::default(),
        model: "scripted/lines".parse().unwrap(),
        step_count: 1,
        steps_before: 0,
        max_steps: None,
        timeout_seconds: 300,
        deadline_base: None,
        owner: None,
        seq: 1,
        summary: None,
        output: None,
        error: None,
        started_by: None,
        created_at: at(),
        started_at: Some(at()),
        completed_at: None,
        waiting_for: None,
        waiting_since: None,
    }
}

pub(crate) fn client_tool(name: &str) -> ClientTool {
    ClientTool {
        name: name.to_owned(),
        description: String::new(),
        input_schema: client_tool::empty_schema(),
    }
}

pub(crate) fn event(body: RunEventBody) -> RunEvent {
    RunEvent { run: RunId::new(), seq: Some(1), at: at(), body }
}

pub(crate) fn message(role: MessageRole, step: i64, text: &str) -> RecordedMessage {
    let content = match role {
        MessageRole::Assistant => MessageContent::Parts(vec![Part::text(text)]),
        _ => MessageContent::Text { text: text.to_owned(), injected: None },
    };
    RecordedMessage { id: MessageId::new(), seq: 1, role, step, content, usage: None, cost: None, at: at() }
}

pub(crate) fn message_event(role: MessageRole) -> RunEvent {
    event(RunEventBody::Message(message(role, 1, "text")))
}

pub(crate) fn tool_call(tool: &str, status: ToolCallStatus) -> RecordedToolCall {
    RecordedToolCall {
        id: ToolCallId::new(),
        seq: 1,
        message: MessageId::new(),
        tool: tool.to_owned(),
        step: 1,
        input: Value::Null,
        status,
        output: None,
        result_seq: None,
        duration_ms: None,
        at: at(),
        effect: None,
    }
}

/// A pending request of a run.
pub(crate) fn approval(run: RunId, kind: ApprovalKind) -> Approval {
    Approval {
        id: ApprovalId::new(),
        project: ProjectId::new(),
        kind,
        run,
        call: ToolCallId::new(),
        agent: AgentId::new(),
        agent_name: "finder".to_owned(),
        tool: "entities_delete".to_owned(),
        server: None,
        input: json!({ "id": 1 }),
        digest: String::new(),
        question: None,
        status: ApprovalStatus::Pending,
        decision: None,
        expires_at: None,
        on_expiry: OnExpiry::Deny,
        is_overdue: false,
        created_at: at(),
    }
}
