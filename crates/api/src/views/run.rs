//! Converts runs for the API: requests to start one, lists, and trees of child runs. A single run is in
//! `run_detail`.

use emergent_domain::{
    agent::{AgentDefinition, AvailableNames},
    ids::ConversationId,
    invalid::Invalid,
    run::{Run, RunStatus},
    workflow::Limit,
};
use emergent_executor::{
    StartOptions,
    history::{RunSummary, RunTree, TokenTotals, duration_ms},
};
pub(crate) use emergent_wire::run::*;

use super::IntoView;

/// Converts a request to start a run. Its model is checked like the model of an agent's definition.
pub(crate) fn start_options(body: TriggerRun) -> Result<StartOptions, Invalid> {
    let definition = AgentDefinition { model: body.model.map(Into::into), ..AgentDefinition::new("any") };
    definition.check(&AvailableNames::default())?;
    Ok(StartOptions {
        input: body.input,
        context: body.context,
        model: definition.model,
        max_steps: body.max_steps,
        timeout_seconds: body.timeout_seconds,
        limit: run_limit(body.max_cost_usd, body.max_total_tokens)?,
        traceparent: None,
        history: Vec::new(),
        output_schema: None,
        client_tools: Vec::new(),
    })
}

/// Converts the limit of a run. A cost that is not a number of dollars is refused.
fn run_limit(max_cost_usd: Option<f64>, tokens: Option<i64>) -> Result<Limit, Invalid> {
    if max_cost_usd.is_some_and(|dollars| !(0.000_001..=1e9).contains(&dollars)) {
        return Err(Invalid::new("maxCostUsd", "must be 0.000001 to 1000000000"));
    }
    Ok(Limit { microusd: max_cost_usd.map(|dollars| (dollars * 1e6).round() as i64), tokens })
}

/// A run, the conversation in which it answers a message, if there is one, and the beginning of its input.
pub(crate) struct RunInConversation {
    pub(crate) run: Run,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) input_preview: Option<String>,
}

impl RunInConversation {
    /// Returns what every view of a run begins with.
    pub(crate) fn summary_view(self) -> RunSummaryView {
        let Self { run, conversation, input_preview } = self;
        RunSummaryView {
            rehearsal: run.is_rehearsal(),
            duration_ms: duration_ms(run.started_at, run.completed_at),
            id: run.id.0,
            agent_id: run.agent.0,
            agent_name: run.agent_name,
            parent_run_id: run.parent.map(Into::into),
            status: run.status,
            reason: run.reason,
            origin: run.origin,
            depth: run.depth,
            model: run.model.to_string(),
            step_count: run.step_count,
            max_steps: run.max_steps,
            timeout_seconds: run.timeout_seconds,
            max_cost_usd: run.terms.limit.microusd.map(|micros| micros as f64 / 1e6),
            max_total_tokens: run.terms.limit.tokens,
            created_at: run.created_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
            waiting_for: run.waiting_for,
            waiting_since: run.waiting_since.filter(|_| run.status == RunStatus::Waiting),
            summary: SummaryView::from_text(run.summary),
            output: run.output,
            error_message: run.error,
            resumed_from: run.resumed_from.map(Into::into),
            schedule_id: run.schedule.map(Into::into),
            caused_by_run: run.cause.map(Into::into),
            workflow_id: run.workflow_link.workflow.map(Into::into),
            task_id: run.workflow_link.task.map(Into::into),
            conversation_id: conversation.map(Into::into),
            input_preview,
        }
    }
}

impl IntoView<TokenSums> for TokenTotals {
    fn into_view(self) -> TokenSums {
        let sums = self;
        TokenSums { total_input: sums.input, total_output: sums.output, total_cost: sums.cost }
    }
}

impl IntoView<RunView> for RunSummary {
    fn into_view(self) -> RunView {
        let summary = self;
        RunView {
            facts: RunInConversation {
                run: summary.run,
                conversation: summary.conversation,
                input_preview: summary.input_preview,
            }
            .summary_view(),
            token_usage: summary.tokens.into_view(),
            child_run_count: summary.child_count,
        }
    }
}

impl IntoView<RunTreeView> for RunTree {
    fn into_view(self) -> RunTreeView {
        let tree = self;
        RunTreeView {
            id: tree.id.0,
            agent_name: tree.agent_name,
            status: tree.status,
            step_count: tree.step_count,
            duration_ms: tree.duration_ms,
            input_preview: tree.input_preview,
            resumed_as: tree.resumed_as.map(Into::into),
            truncated: tree.truncated,
            children: tree.children.into_iter().map(IntoView::into_view).collect(),
        }
    }
}
