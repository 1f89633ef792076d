//! [`Guard`] wraps every tool call: it validates the input, limits the time of the call and the size of
//! its output, and turns a panic of the tool into an error of this one call.

use std::{panic::AssertUnwindSafe, time::Duration};

use emergent_domain::ids::ProjectId;
use emergent_graph::Graph;
use emergent_net::errors;
use emergent_store::requester::{Requester, on_behalf_of};
use futures_util::FutureExt;
use serde_json::Value;
use tracing::{error, warn};

use crate::{CallReport, Effect, ExternalContent, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

mod integers;
mod truncate;
mod validate;

/// The limits that apply to every tool call.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The time limit of a call to a tool that has none of its own.
    pub timeout: Duration,
    /// The most bytes of JSON in the output of a call.
    pub max_output_bytes: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), max_output_bytes: 64 << 10 }
    }
}

/// The outcome of a guarded call.
pub enum GuardedOutput {
    /// The output, already truncated.
    Answer(Value),
    /// The caller has to run the change in its transaction, and to pass its result to
    /// [`Guard::truncate_for`].
    Change(crate::GraphChange),
    /// A message for the model.
    Error(String),
}

impl Guard {
    /// Validates the input and calls the tool within the time limit. A panic becomes an error of the call.
    pub async fn call(&self, tool: &dyn Tool, context: &ToolContext, input: Value) -> GuardedOutput {
        self.call_with_content(tool, context, input).await.0
    }

    /// Like [`Guard::call`], and also returns the content blocks of an external server, if it returned more
    /// than text.
    pub async fn call_with_content(
        &self,
        tool: &dyn Tool,
        context: &ToolContext,
        input: Value,
    ) -> (GuardedOutput, Option<ExternalContent>) {
        let mut external = None;
        let output = self.call_tool(tool, context, input, &mut external).await;
        (output, external)
    }

    async fn call_tool(
        &self,
        tool: &dyn Tool,
        context: &ToolContext,
        input: Value,
        external: &mut Option<ExternalContent>,
    ) -> GuardedOutput {
        let info = tool.info();
        let input = match self.check(&context.graph, context.project, tool, input).await {
            Ok(input) => input,
            Err(reason) => return GuardedOutput::Error(reason),
        };
        // `tool.call` may panic before it returns a future, so it is called inside of `catch_unwind`, too.
        let call =
            on_behalf_of(Requester::Project(context.project), async { tool.call(context, input).await });
        let call = AssertUnwindSafe(call).catch_unwind();
        let timeout = tool.timeout().unwrap_or(self.timeout);
        // The time in which a person is asked for input does not count.
        let clock = context.input.as_ref().map(|input| input.clock.clone()).unwrap_or_default();
        match clock.timeout(timeout, call).await {
            Some(Ok(Ok(ToolOutput::Answer(answer)))) => {
                GuardedOutput::Answer(self.truncate_for(info, answer))
            }
            Some(Ok(Ok(ToolOutput::External { answer, content }))) => {
                *external = Some(content);
                GuardedOutput::Answer(self.truncate_for(info, answer))
            }
            Some(Ok(Ok(ToolOutput::Change(change)))) => GuardedOutput::Change(change),
            Some(Ok(Err(ToolError::Refused(reason)))) => GuardedOutput::Error(reason),
            Some(Ok(Err(failed @ ToolError::Failed(_)))) => GuardedOutput::Error(failed.to_string()),
            Some(Err(panic)) => {
                report_unknown_outcome(info, context);
                let message = errors::panic_message(panic.as_ref()).unwrap_or("no message");
                error!(tool = info.name, "tool `{}` panicked: {message}", info.name);
                GuardedOutput::Error(format!(
                    "`{}` crashed on this call: try it with another input, or do without it",
                    info.name
                ))
            }
            None => {
                report_unknown_outcome(info, context);
                warn!(tool = info.name, "tool `{}` gave no answer within {timeout:?}", info.name);
                let advice = match info.effect {
                    Effect::External { read_only: false, idempotent: false } => {
                        "whether it took effect is not known, so find out before you repeat it"
                    }
                    _ => "ask for less at once, or try again later",
                };
                GuardedOutput::Error(format!(
                    "`{}` gave no answer within {} seconds: {advice}",
                    info.name,
                    timeout.as_secs_f64()
                ))
            }
        }
    }

    /// Validates an input and returns it normalised. The error tells the model how to correct the input.
    /// What takes long is validated on a thread for such work, in the turn of the project.
    pub async fn check(
        &self,
        graph: &Graph,
        project: ProjectId,
        tool: &dyn Tool,
        input: Value,
    ) -> Result<Value, String> {
        validate::validate(graph, project, &tool.info().name, tool.checked_schema(), input).await
    }

    /// Truncates an answer to `max_output_bytes`, with a note of what is missing and how to get it.
    pub fn truncate(&self, answer: Value) -> Value {
        truncate::truncate(answer, self.max_output_bytes, &Value::Null)
    }

    /// Like [`Guard::truncate`], with a note that names the tool's input fields that make its answer smaller.
    pub fn truncate_for(&self, info: &ToolInfo, answer: Value) -> Value {
        truncate::truncate(answer, self.max_output_bytes, info.input_schema.as_value())
    }
}

/// Tells a run that an agent of another system executes that nobody knows what came of its call, so that no workflow
/// repeats it. A model reads it in the error of the call.
fn report_unknown_outcome(info: &ToolInfo, context: &ToolContext) {
    let Some(reporter) = context.reporter.as_ref().filter(|reporter| reporter.waits_until.is_some()) else {
        return;
    };
    if info.effect == (Effect::External { read_only: false, idempotent: false }) {
        (reporter.report)(CallReport::UnknownOutcome);
    }
}
