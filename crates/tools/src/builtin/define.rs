//! How a built-in tool is put together: what it is called and takes, and the function that does it.

use std::{marker::PhantomData, sync::Arc};

use async_trait::async_trait;
pub use emergent_domain::patch::nullable as deserialize_nullable;
use emergent_domain::token::Scope;
use emergent_graph::WriteContext;
use emergent_store::Tx;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

pub type CallResult = Result<ToolOutput, ToolError>;

/// A tool that reads the graph.
pub fn read_tool<I, F, A>(name: &str, description: &str, schema: Value, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    read_tool_with_scope(Scope::GraphRead, name, description, schema, call)
}

/// A tool that reads what a scope opens.
pub fn read_tool_with_scope<I, F, A>(
    scope: Scope,
    name: &str,
    description: &str,
    schema: Value,
    call: F,
) -> Arc<dyn Tool>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    let info = tool_info(name, description, schema, Effect::Reads, scope);
    define(info, move |context, input| {
        let answer = call(context, input);
        async move { answer.await.map(ToolOutput::Answer) }
    })
}

/// A tool that prepares a change of the graph.
pub fn write_tool<I, F, A>(name: &str, description: &str, schema: Value, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    let effect = Effect::Writes { destructive: false };
    define(tool_info(name, description, schema, effect, Scope::GraphWrite), call)
}

/// As [`writes`], for what takes something away.
pub fn destructive_tool<I, F, A>(name: &str, description: &str, schema: Value, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    let effect = Effect::Writes { destructive: true };
    define(tool_info(name, description, schema, effect, Scope::GraphWrite), call)
}

fn tool_info(name: &str, description: &str, schema: Value, effect: Effect, scope: Scope) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        server: None,
        description: description.into(),
        input_schema: schema.into(),
        effect,
        scope: Some(scope),
    }
}

fn define<I, F, A>(info: ToolInfo, call: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    Arc::new(Builtin { info, call, input: PhantomData::<fn(I)> })
}

/// A change for the caller's transaction.
pub fn graph_change(
    work: impl Fn(&mut Tx<'_>, &WriteContext) -> emergent_graph::Result<Value> + Send + Sync + 'static,
) -> CallResult {
    Ok(ToolOutput::Change(Box::new(work)))
}

pub fn refuse(why: impl Into<String>) -> ToolError {
    ToolError::Refused(why.into())
}

struct Builtin<I, F> {
    info: ToolInfo,
    call: F,
    input: PhantomData<fn(I)>,
}

#[async_trait]
impl<I, F, A> Tool for Builtin<I, F>
where
    I: DeserializeOwned + 'static,
    F: Fn(ToolContext, I) -> A + Send + Sync + 'static,
    A: Future<Output = CallResult> + Send + 'static,
{
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, context: &ToolContext, input: Value) -> CallResult {
        // The schema has said most of it; what is left are rules it cannot say.
        let input = serde_json::from_value(input)
            .map_err(|error| refuse(format!("The input of `{}` does not fit: {error}", self.info.name)))?;
        (self.call)(context.clone(), input).await
    }
}
