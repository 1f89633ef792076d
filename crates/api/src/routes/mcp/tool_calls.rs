//! Tool calls by external clients: the same guard as for an agent's calls, and writes in one
//! transaction with the token as the author.

use std::sync::Arc;

use emergent_domain::{author::Author, token::Scope};
use emergent_executor::Executor;
use emergent_graph::{self as graph, Actor};
use emergent_mcp::server::{CallOutcome, Fault, JsonFields};
use emergent_store::Tx;
use emergent_tools::{Effect, ExternalContent, GraphChange, GuardedOutput, Tool, ToolContext, ToolInfo};
use serde::Serialize;
use serde_json::Value;

use super::{database_errors::change_failure, host::McpCaller, withheld::answer_for};

impl McpCaller {
    /// Returns the author of the caller's writes.
    pub(super) fn to_actor(&self) -> Actor {
        Actor { project: self.project, author: Author::Token { id: self.token.id } }
    }
}

/// Calls a tool, and commits its changes.
pub(super) async fn call(
    executor: &Executor,
    caller: &McpCaller,
    tool: &Arc<dyn Tool>,
    arguments: Value,
) -> Result<CallOutcome, Fault> {
    let (guard, info) = (&executor.settings().guard, tool.info());
    let context = ToolContext {
        may_read: caller.has_scope(Scope::GraphRead),
        ..ToolContext::new(executor.graph().clone(), caller.project, None)
    };
    match guard.call_with_content(tool.as_ref(), &context, arguments).await {
        (GuardedOutput::Answer(_), Some(content)) => external_result(content),
        (output, _) => finish(executor, caller, info, output).await,
    }
}

/// Commits the change of a tool of this server, or returns its answer.
async fn finish(
    executor: &Executor,
    caller: &McpCaller,
    info: &ToolInfo,
    output: GuardedOutput,
) -> Result<CallOutcome, Fault> {
    let guard = &executor.settings().guard;
    match output {
        GuardedOutput::Answer(value) => success(&value),
        GuardedOutput::Error(reason) => tool_error(&reason),
        GuardedOutput::Change(change) if matches!(info.effect, Effect::Writes { .. }) => {
            match commit(executor, caller, change).await {
                Ok(value) => success(&guard.truncate_for(info, answer_for(caller, info, value))),
                Err(graph::Error::Store(error)) => tool_error(&change_failure(error)?),
                Err(refused) => tool_error(&refused.to_string()),
            }
        }
        // A tool that declares itself read-only may not write.
        GuardedOutput::Change(_) => tool_error("the tool is read-only, but tried to write"),
    }
}

async fn commit(executor: &Executor, caller: &McpCaller, change: GraphChange) -> graph::Result<Value> {
    let (graph, actor) = (executor.graph().clone(), caller.to_actor());
    let work = move |tx: &mut Tx<'_>| {
        let ctx = graph.write_context(tx, actor)?;
        change(tx, &ctx)
    };
    executor.graph().write_validated(actor.project, work).await
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// The result of an external server that returned images, links or other blocks besides text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExternalResult {
    content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
}

/// Passes the blocks of an external server on as they are.
fn external_result(content: ExternalContent) -> Result<CallOutcome, Fault> {
    let structured_content = content.structured.filter(Value::is_object);
    let result = ExternalResult { content: content.blocks, structured_content };
    Ok(CallOutcome::Done(JsonFields::from_object(&result)?))
}

/// Returns a JSON result as text for models and as a value for programs. Plain text of an external
/// server stays plain.
pub(super) fn success(value: &Value) -> Result<CallOutcome, Fault> {
    match value {
        Value::String(text) => tool_result(text, None, false),
        other => tool_result(&other.to_string(), Some(other).filter(|value| value.is_object()), false),
    }
}

/// Returns a failed call with the reason, which the model reads.
pub(super) fn tool_error(reason: &str) -> Result<CallOutcome, Fault> {
    tool_result(reason, None, true)
}

/// Returns the result of a call.
pub(super) fn tool_result(
    text: &str,
    structured_content: Option<&Value>,
    is_error: bool,
) -> Result<CallOutcome, Fault> {
    let content = [Text { r#type: "text", text }];
    Ok(CallOutcome::Done(JsonFields::from_object(&CallResult { content, structured_content, is_error })?))
}
