//! Converts one run with its usage, tool calls and child runs for the API.

use emergent_executor::history::{ChildRun, RunDetail, TokenTotals, ToolCallSummary};
pub(crate) use emergent_wire::run_detail::*;

use super::{IntoView, run::RunInConversation};

impl IntoView<TokenUsage> for TokenTotals {
    fn into_view(self) -> TokenUsage {
        let sums = self;
        TokenUsage {
            total_input: sums.input,
            total_output: sums.output,
            total_reasoning: sums.reasoning,
            cache_read: sums.cache_read,
            cache_write: sums.cache_write,
            total_cost: sums.cost,
        }
    }
}

impl IntoView<ToolCallSummaryView> for ToolCallSummary {
    fn into_view(self) -> ToolCallSummaryView {
        let summary = self;
        let by_tool = summary.by_tool.into_iter();
        ToolCallSummaryView {
            total: summary.total,
            by_tool: by_tool
                .map(|usage| {
                    (usage.tool, ToolUseView { count: usage.count, avg_duration_ms: usage.average_ms })
                })
                .collect(),
            errors: summary.errors,
        }
    }
}

impl IntoView<ChildRunView> for ChildRun {
    fn into_view(self) -> ChildRunView {
        let child = self;
        ChildRunView {
            id: child.id.0,
            agent_name: child.agent_name,
            status: child.status,
            step_count: child.step_count,
            duration_ms: child.duration_ms,
        }
    }
}

impl IntoView<RunDetailView> for RunDetail {
    fn into_view(self) -> RunDetailView {
        let detail = self;
        RunDetailView {
            facts: RunInConversation {
                run: detail.run,
                conversation: detail.conversation,
                input_preview: detail.input_preview,
            }
            .summary_view(),
            resume_chain: detail.resume_chain.into_iter().rev().map(Into::into).collect(),
            resumed_as: detail.resumed_as.map(Into::into),
            token_usage: detail.tokens.into_view(),
            tool_call_summary: detail.tool_calls.into_view(),
            child_runs: detail.children.into_iter().map(IntoView::into_view).collect(),
            doom_loop_events: detail.loops,
            unavailable_servers: detail.unavailable_servers.into_iter().map(Into::into).collect(),
            missing_tools: detail.missing_tools,
        }
    }
}
