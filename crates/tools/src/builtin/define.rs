//! Defines a built-in tool from its name, its description and the function that does its work. The
//! function's input type gives the schema.

use std::{
    marker::PhantomData,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
pub use emergent_domain::patch::nullable as deserialize_nullable;
use emergent_domain::{json::Schema, parse_message::in_plain_words, token::Scope};
use emergent_graph::WriteContext;
use emergent_store::Tx;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::{input_schema, offered_schema};
use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

/// What a built-in tool that writes returns.
pub type CallResult = Result<ToolOutput, ToolError>;

/// A tool that reads the graph.
pub fn read_tool<I, F, A>(name: &str, description: &str, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    read_tool_with_scope(Scope::GraphRead, name, description, call)
}

/// A tool that reads, and that a client needs `scope` for.
pub fn read_tool_with_scope<I, F, A>(scope: Scope, name: &str, description: &str, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    let info = tool_info::<I>(name, description, Effect::Reads, scope);
    define(info, move |context, input| {
        let answering = call(context, input);
        async move { answering.await.map(ToolOutput::Answer) }
    })
}

/// A tool that prepares a change of the graph.
pub fn write_tool<I, F, A>(name: &str, description: &str, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    write_tool_with_scope(Scope::GraphWrite, name, description, call)
}

/// As [`write_tool`], for a change that a client needs another scope for, because it makes agents work.
pub fn write_tool_with_scope<I, F, A>(scope: Scope, name: &str, description: &str, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    let effect = Effect::Writes { destructive: false };
    define(tool_info::<I>(name, description, effect, scope), call)
}

/// As [`write_tool`], for a tool that deletes something.
pub fn destructive_tool<I, F, A>(name: &str, description: &str, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    let effect = Effect::Writes { destructive: true };
    define(tool_info::<I>(name, description, effect, Scope::GraphWrite), call)
}

fn tool_info<I: JsonSchema>(name: &str, description: &str, effect: Effect, scope: Scope) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        server: None,
        description: description.into(),
        input_schema: offered_schema::<I>().into(),
        effect,
        scope: Some(scope),
    }
}

/// Combines the description of a tool with the function that does its work.
fn define<I, F, A>(info: ToolInfo, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    // A server has many tools, and most of its starts are not followed by a call of each.
    let checked_schema: LazyLock<Schema> = LazyLock::new(|| input_schema::<I>().into());
    Arc::new(Builtin { info, checked_schema, call, input: PhantomData::<fn(I)> })
}

/// Returns a change that the caller runs in its transaction.
pub fn graph_change(
    change: impl Fn(&mut Tx<'_>, &WriteContext) -> emergent_graph::Result<Value> + Send + Sync + 'static,
) -> CallResult {
    Ok(ToolOutput::Change(Box::new(change)))
}

/// The error for a call that the model can correct.
pub fn refuse(reason: impl Into<String>) -> ToolError {
    ToolError::Refused(reason.into())
}

/// Parses an input that the guard has checked against the schema. What the schema cannot express
/// is refused here, with the path of the field.
pub fn parse_input<I: DeserializeOwned>(tool: &str, input: Value) -> Result<I, ToolError> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let message = in_plain_words(&error.inner().to_string());
        let reason = match error.path().to_string() {
            path if path == "." => message,
            path => format!("`{path}`: {message}"),
        };
        refuse(format!("The input of `{tool}` does not fit: {reason}"))
    })
}

/// A built-in tool: its input type, and the function that does its work.
struct Builtin<I, F> {
    info: ToolInfo,
    checked_schema: LazyLock<Schema>,
    call: F,
    input: PhantomData<fn(I)>,
}

#[async_trait]
impl<I, F, A> Tool for Builtin<I, F>
where
    I: DeserializeOwned + JsonSchema + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn checked_schema(&self) -> &Schema {
        &self.checked_schema
    }

    async fn call(&self, context: &ToolContext, input: Value) -> CallResult {
        let input = parse_input(&self.info.name, input)?;
        (self.call)(context.clone(), input).await
    }
}
