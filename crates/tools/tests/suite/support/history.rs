//! A recorded run, as an executor leaves it.

use emergent_domain::{
    agent::{Agent, AgentDefinition, ModelConfig},
    author::Author,
    chat::{Part, ToolCall, Usage},
    ids::{AgentId, MessageId, ProjectId, RunId, ToolCallId},
    run::{MessageRole, Origin, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
    time::Timestamp,
};
use emergent_store::{Result, Tx, agents, runs};
use serde_json::json;

pub fn record(tx: &mut Tx<'_>, project: ProjectId, name: &str, says: &str, now: Timestamp) -> Result<RunId> {
    let agent = Agent {
        id: AgentId::new(),
        project,
        version: 1,
        definition: AgentDefinition::new(name),
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    agents::insert(tx, &agent, Author::System)?;
    let run = Run {
        id: RunId::new(),
        project,
        agent: agent.id,
        agent_version: 1,
        agent_name: name.to_owned(),
        status: RunStatus::Completed,
        reason: None,
        origin: Origin::Trigger,
        parent: None,
        parent_call: None,
        child_index: 0,
        depth: 0,
        resumed_from: None,
        schedule: None,
        cause: None,
        cause_depth: 0,
        workflow_link: Default::default(),
        model: ModelConfig {
            provider: "rehearsal".into(),
            name: "script".into(),
            temperature: None,
            max_tokens: None,
        },
        step_count: 1,
        steps_before: 0,
        terms: Default::default(),
        max_steps: None,
        timeout_seconds: 300,
        deadline_base: Some(now),
        owner: None,
        seq: 5,
        summary: Some(says.to_owned()),
        error: None,
        started_by: None,
        created_at: now,
        started_at: Some(now),
        completed_at: Some(now),
        waiting_for: None,
        output: None,
        waiting_since: None,
    };
    runs::insert(tx, &run)?;
    let text = |text: &str| MessageContent::Text { text: text.to_owned(), injected: None };
    let call =
        ToolCall { id: ToolCallId::new(), name: "project_info".into(), input: json!({}), provider: None };
    let parts = vec![Part::text(says), Part::Call(call.clone())];
    let mut asked = None;
    for (seq, role, content, usage) in [
        (1, MessageRole::System, text("the prompt nobody sees"), None),
        (2, MessageRole::User, text("What is here?"), None),
        (
            3,
            MessageRole::Assistant,
            MessageContent::Parts(parts),
            Some(Usage { input: 7, ..Usage::default() }),
        ),
    ] {
        let message =
            RecordedMessage { id: MessageId::new(), seq, role, step: 1, content, usage, cost: None, at: now };
        runs::record::insert_message(tx, run.id, &message)?;
        asked = Some(message.id);
    }
    let made = RecordedToolCall {
        id: call.id,
        seq: 4,
        message: asked.expect("an assistant's message"),
        tool: call.name,
        step: 1,
        input: call.input,
        status: ToolCallStatus::Completed,
        output: Some(json!({ "objects": 3 })),
        result_seq: Some(5),
        duration_ms: Some(12),
        at: now,
        effect: None,
    };
    runs::record::insert_calls(tx, run.id, &[made])?;
    Ok(run.id)
}
