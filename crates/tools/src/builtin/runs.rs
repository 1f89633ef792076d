//! Tools that read past and current runs: their status, results and messages.

use std::sync::Arc;

use emergent_domain::{
    chat::join_text,
    cursor::ResultPage,
    ids::{AgentId, ProjectId, RunId},
    invalid::Invalid,
    pack::nearest_name,
    run::{MessageRole, Run, RunStatus},
    run_event::MessageContent,
    token::Scope,
};
use emergent_graph::Error;
use emergent_store::{
    Tx, agents,
    runs::{
        self,
        history::{self, RunFilter, TokenTotals},
        timeline::{self, MessageFilter, TimelineItem},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    define::{read_tool_with_scope, refuse},
    input::{OneOf, Paging, Uuid},
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool_with_scope(
            Scope::AdminRead,
            "runs_list",
            "Lists runs of agents in this project, newest first, with their result: what was done before. Returns `runs`.",
            list,
        ),
        read_tool_with_scope(
            Scope::AdminRead,
            "runs_get",
            "Shows one run: agent, status, reason, summary, steps, tokens, and its tool calls by tool. runs_messages has the \
             conversation.",
            get,
        ),
        read_tool_with_scope(
            Scope::AdminRead,
            "runs_messages",
            "Reads the conversation of a run, oldest first: input, answers, tool calls and their results. Returns \
             `messages`.",
            messages,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListInput {
    /// Name or id of the agent.
    #[schemars(length(min = 1, max = 128))]
    agent: Option<String>,
    /// Only runs with this status.
    #[schemars(with = "Option<OneOf<RunStatus>>")]
    status: Option<RunStatus>,
    /// Only children of this run.
    #[schemars(with = "Option<Uuid>")]
    parent_id: Option<RunId>,
    #[serde(flatten)]
    paging: Paging,
    /// Return only these fields, such as agent, status, summary; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let project = context.project;
    let (agent, parent) = (input.agent, input.parent_id);
    let filter = RunFilter { statuses: input.status.into_iter().collect(), parent, ..RunFilter::default() };
    let read = move |tx: &mut Tx<'_>| {
        let agent = agent.map(|agent| find_agent(tx, project, &agent)).transpose()?;
        Ok::<_, Error>(history::list(tx, project, &RunFilter { agent, ..filter }, &page)?)
    };
    let page_of_runs = context.graph.db().snapshot(read).await?;
    let summary_json = |summary: &history::RunSummary| {
        let mut view = run_json(&summary.run, summary.tokens);
        view["children"] = json!(summary.child_count);
        view["inputPreview"] = json!(summary.input_preview);
        input.fields.select(view)
    };
    Ok(page_json("runs", page_of_runs.items.iter().map(summary_json).collect(), page_of_runs.next))
}

/// Finds an agent by its id or name. An id also finds a deleted agent, since its runs still exist.
fn find_agent(tx: &mut Tx<'_>, project: ProjectId, agent: &str) -> Result<AgentId, Error> {
    let row = match agent.parse() {
        Ok(id) => agents::get_including_deleted(tx, project, id)?,
        Err(_) if agent.contains('\0') => None,
        Err(_) => agents::get_by_name(tx, project, agent)?,
    };
    if let Some(row) = row {
        return Ok(row.id);
    }
    let names = agents::list_names(tx, project)?;
    Err(match nearest_name(agent, names.iter().map(String::as_str)) {
        Some(nearest) => {
            let reason = format!("there is no agent `{agent}`; did you mean `{nearest}`?");
            Error::from(Invalid::new("agent", reason))
        }
        None => Error::NotFound { what: "agent", id: agent.to_owned() },
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetInput {
    /// Id of the run; default: your own.
    #[schemars(with = "Option<Uuid>")]
    id: Option<RunId>,
    /// Return only these fields, such as summary, toolCalls; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let id = requested_run(&context, input.id)?;
    let project = context.project;
    let read = move |tx: &mut Tx<'_>| {
        let run = find_run(tx, project, id)?;
        let tokens = history::token_totals(tx, &[id])?.remove(&id).unwrap_or_default();
        let children = history::child_counts(tx, &[id])?.remove(&id).unwrap_or(0);
        Ok::<_, Error>((run, tokens, children, history::summarize_tool_calls(tx, id)?))
    };
    let (run, tokens, children, calls) = context.graph.db().snapshot(read).await?;
    let calls: Vec<Value> = calls
        .by_tool
        .iter()
        .map(|tool| json!({ "tool": tool.tool, "count": tool.count, "errors": tool.errors }))
        .collect();
    let mut view = run_json(&run, tokens);
    view["children"] = json!(children);
    view["toolCalls"] = json!(calls);
    Ok(json!({ "run": input.fields.select(view) }))
}

/// The requested run, or else the run that makes the call.
fn requested_run(context: &ToolContext, id: Option<RunId>) -> Result<RunId, ToolError> {
    id.or(context.run).ok_or_else(|| refuse("`id`: is required, there is no run of your own here"))
}

fn find_run(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Run, Error> {
    runs::get(tx, project, id)?.ok_or_else(|| Error::NotFound { what: "run", id: id.to_string() })
}

fn run_json(run: &Run, tokens: TokenTotals) -> Value {
    let mut view = json!({
        "id": run.id,
        "agent": run.agent_name,
        "agentId": run.agent,
        "status": run.status,
        "reason": run.reason,
        "origin": run.origin,
        "parentRunId": run.parent,
        "resumedFrom": run.resumed_from,
        "depth": run.depth,
        "model": run.model.to_string(),
        "steps": run.step_count,
        "summary": run.summary,
        "error": run.error,
        "tokens": { "input": tokens.input, "output": tokens.output },
        "costUsd": tokens.cost,
        "createdAt": run.created_at,
        "startedAt": run.started_at,
        "completedAt": run.completed_at,
        "durationMs": history::duration_ms(run.started_at, run.completed_at),
    });
    if let Some(output) = &run.output {
        view["output"] = output.clone();
    }
    // The answers of a rehearsal are from a script, and must not be mistaken for those of a model.
    if run.is_rehearsal() {
        view["rehearsal"] = json!(true);
    }
    view
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessagesInput {
    /// Id of the run; default: your own.
    #[schemars(with = "Option<Uuid>")]
    id: Option<RunId>,
    /// Only messages of this role.
    #[schemars(with = "Option<OneOf<MessageRole>>")]
    role: Option<MessageRole>,
    /// Only messages of this step.
    #[schemars(range(min = 0))]
    step: Option<i64>,
    #[serde(flatten)]
    paging: Paging,
    /// Return only these: role, step, text, calls, tool, status, output, at.
    #[serde(default)]
    fields: FieldSelection,
}

async fn messages(context: ToolContext, input: MessagesInput) -> Result<Value, ToolError> {
    let id = requested_run(&context, input.id)?;
    let page = input.paging.page().map_err(Error::from)?;
    let after = timeline::seq_after(&page).map_err(Error::from)?;
    let project = context.project;
    let filter = MessageFilter { role: input.role, step: input.step };
    let read = move |tx: &mut Tx<'_>| {
        find_run(tx, project, id)?;
        Ok::<_, Error>(timeline::list_items(tx, id, &filter, after, page.limit)?)
    };
    let ResultPage { items, next } = context.graph.db().snapshot(read).await?;
    let messages = items.iter().filter_map(item_json).map(|message| input.fields.select(message)).collect();
    Ok(page_json("messages", messages, next))
}

/// An item of the timeline as a message; `None` for a system prompt, which other agents must not read.
fn item_json(item: &TimelineItem) -> Option<Value> {
    match item {
        TimelineItem::Message(message, _) if message.role == MessageRole::System => None,
        TimelineItem::Message(message, calls) => {
            let text = match &message.content {
                MessageContent::Text { text, .. } | MessageContent::Summary { text, .. } => text.clone(),
                MessageContent::Parts(parts) => join_text(parts),
            };
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "id": call.id, "tool": call.tool, "status": call.status }))
                .collect();
            Some(json!({
                "id": message.id,
                "role": message.role,
                "step": message.step,
                "text": text,
                "calls": if calls.is_empty() { Value::Null } else { json!(calls) },
                "at": message.at,
            }))
        }
        TimelineItem::Result(call) => Some(json!({
            "id": call.id,
            "role": MessageRole::ToolResult,
            "step": call.step,
            "tool": call.tool,
            "status": call.status,
            "output": call.output,
            "at": call.at,
        })),
    }
}
