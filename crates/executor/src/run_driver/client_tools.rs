//! Calls to tools of the caller. Such a call is recorded as held with its answer. When every other call of the answer
//! has its result, the run waits for all of them at once, as it waits for people, and goes on with the results.

use emergent_domain::{
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, Decision, OnExpiry},
    ids::ApprovalId,
    run::{Run, ToolCallStatus},
    run_event::RecordedToolCall,
    time::Timestamp,
};
use emergent_llm::ToolSpec;
use emergent_rules::run::NextAction;
use emergent_tools::ToolSet;
use serde_json::Value;

use super::{
    RunDriver,
    approvals::{call_digest, denial_message},
    error_output,
};
use crate::{Error, Result, recorder::RecordBatch};

/// Returns the tools that the model of a run sees: those of the agent, then those of the caller. A tool of the agent
/// that came later keeps its name.
pub(super) fn tool_specs(tools: &ToolSet, run: &Run) -> Vec<ToolSpec> {
    let mut specs = tools.specs();
    let client_tools = run.terms.client_tools.iter().filter(|tool| tools.get(&tool.name).is_none());
    specs.extend(client_tools.map(|tool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.as_str().into(),
        input_schema: tool.input_schema.to_value().into(),
    }));
    specs
}

impl RunDriver {
    /// Whether the caller of the run executes calls of this name.
    pub(super) fn has_client_tool(&self, name: &str) -> bool {
        self.tools.get(name).is_none() && self.run.terms.client_tools.iter().any(|tool| tool.name == name)
    }

    /// Lets the run wait for the results of all held calls of the newest answer.
    pub(super) async fn ask_client(&mut self) -> Result<NextAction> {
        let now = self.executor.clock().now();
        let held = self.calls.iter().filter(|call| call.status == ToolCallStatus::Held);
        let requests = held.map(|call| self.client_request(call, now)).collect();
        let mut batch = RecordBatch::default();
        self.recorder.add_requests(&mut batch, requests);
        self.recorder.commit(batch, self.machine.steps()).await?;
        Err(Error::Waiting(self.run.id))
    }

    fn client_request(&self, call: &RecordedToolCall, now: Timestamp) -> Approval {
        Approval {
            id: ApprovalId::new(),
            project: self.run.project,
            kind: ApprovalKind::ClientTool,
            run: self.run.id,
            call: call.id,
            agent: self.run.agent,
            agent_name: self.run.agent_name.clone(),
            tool: call.tool.clone(),
            server: None,
            input: call.input.clone(),
            digest: call_digest(call.id, &call.tool, None, &call.input),
            question: None,
            status: ApprovalStatus::Pending,
            decision: None,
            expires_at: Some(now + self.executor.settings().client_wait),
            on_expiry: OnExpiry::Deny,
            is_overdue: false,
            created_at: now,
        }
    }

    /// Returns the result of a call from what the caller has sent, or from what a person decided in its place.
    pub(super) fn client_result(&self, decision: &Decision) -> (ToolCallStatus, Value) {
        let output = decision.answer.clone().map(|output| self.executor.settings().guard.truncate(output));
        match (decision.choice, output) {
            (Choice::Answer, output) => (ToolCallStatus::Completed, output.unwrap_or_default()),
            (_, Some(Value::String(text))) => (ToolCallStatus::Error, error_output(text)),
            (_, Some(output)) => (ToolCallStatus::Error, error_output(output.to_string())),
            (_, None) => {
                let reason = denial_message(ApprovalKind::ClientTool, decision.reason.as_deref());
                (ToolCallStatus::Error, error_output(reason))
            }
        }
    }
}
