//! Calls of tools by a client from outside: the same guard as around an agent's calls, and writes
//! in one transaction, by the token.

use std::sync::Arc;

use emergent_domain::author::Author;
use emergent_executor::Executor;
use emergent_graph::{self as graph, Actor};
use emergent_mcp::server::{Fault, Fields, Outcome};
use emergent_store::Tx;
use emergent_tools::{Change, Effect, Guarded, Tool, ToolContext};
use serde::Serialize;
use serde_json::Value;

use super::host::Who;

impl Who {
    pub(super) fn actor(&self) -> Actor {
        Actor { project: self.project, author: Author::Token { id: self.token.id } }
    }
}

pub(super) async fn call(
    executor: &Executor,
    who: &Who,
    tool: &Arc<dyn Tool>,
    arguments: Value,
) -> Result<Outcome, Fault> {
    let (guard, info) = (&executor.settings().guard, tool.info());
    let context = ToolContext { graph: executor.graph().clone(), project: who.project, run: None };
    match guard.call(tool.as_ref(), &context, arguments).await {
        Guarded::Answer(answer) => worked(&answer),
        Guarded::Error(why) => failed(&why),
        Guarded::Change(change) if matches!(info.effect, Effect::Writes { .. }) => {
            match commit(executor, who, change).await {
                Ok(answer) => worked(&guard.cut_for(info, answer)),
                Err(graph::Error::Store(error)) => Err(Fault::internal(error)),
                Err(refused) => failed(&refused.to_string()),
            }
        }
        // A tool that says it only reads does not get to write.
        Guarded::Change(_) => failed("the tool tried to write, which it may not"),
    }
}

async fn commit(executor: &Executor, who: &Who, change: Change) -> graph::Result<Value> {
    let (graph, actor) = (executor.graph().clone(), who.actor());
    let work = move |tx: &mut Tx<'_>| {
        let writer = graph.writer(tx, actor)?;
        change(tx, &writer)
    };
    executor.graph().db().write(work).await
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

/// An answer in JSON: as text for models, and as it is for programs. What a server of others
/// answered as plain text stays plain.
pub(super) fn worked(answer: &Value) -> Result<Outcome, Fault> {
    match answer {
        Value::String(text) => told(text, None, false),
        other => told(&other.to_string(), Some(other).filter(|answer| answer.is_object()), false),
    }
}

/// An error for the model to mend.
pub(super) fn failed(why: &str) -> Result<Outcome, Fault> {
    told(why, None, true)
}

pub(super) fn told(text: &str, structured_content: Option<&Value>, is_error: bool) -> Result<Outcome, Fault> {
    let content = [Text { r#type: "text", text }];
    Ok(Outcome::Done(Fields::of(&CallResult { content, structured_content, is_error })?))
}
