//! What stands around every call: the input is checked, the time and the size of the answer are
//! bounded, and nothing that goes wrong ends more than the call.

use std::{panic::AssertUnwindSafe, time::Duration};

use emergent_net::errors;
use futures_util::FutureExt;
use serde_json::Value;
use tracing::{error, warn};

use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

mod integers;
mod truncate;
mod validate;

#[derive(Debug, Clone)]
pub struct Guard {
    pub timeout: Duration,
    /// Bytes of JSON a model gets to read.
    pub max_output_bytes: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), max_output_bytes: 64 << 10 }
    }
}

/// A call that was made, as far as the guard goes.
pub enum GuardedOutput {
    Answer(Value),
    /// The caller runs it in its transaction, and passes the answer to [`Guard::truncate_for`].
    Change(crate::GraphChange),
    Error(String),
}

impl Guard {
    /// Checks the input, then calls within the timeout. A panic of a tool is an error of its call.
    pub async fn call(&self, tool: &dyn Tool, context: &ToolContext, input: Value) -> GuardedOutput {
        let info = tool.info();
        let input = match validate::validate(&info.name, tool.checked_schema(), input) {
            Ok(input) => input,
            Err(why) => return GuardedOutput::Error(why),
        };
        // The call itself may panic as well as the future it gives, so it is made inside.
        let call = AssertUnwindSafe(async { tool.call(context, input).await }).catch_unwind();
        let within = tool.timeout().unwrap_or(self.timeout);
        match tokio::time::timeout(within, call).await {
            Ok(Ok(Ok(ToolOutput::Answer(answer)))) => GuardedOutput::Answer(self.truncate_for(info, answer)),
            Ok(Ok(Ok(ToolOutput::Change(change)))) => GuardedOutput::Change(change),
            Ok(Ok(Err(ToolError::Refused(why)))) => GuardedOutput::Error(why),
            Ok(Ok(Err(failed @ ToolError::Failed(_)))) => GuardedOutput::Error(failed.to_string()),
            Ok(Err(panic)) => {
                let said = errors::panic_message(panic.as_ref()).unwrap_or("no message");
                error!(tool = info.name, "tool `{}` panicked: {said}", info.name);
                GuardedOutput::Error(format!(
                    "`{}` crashed on this call: try it with another input, or do without it",
                    info.name
                ))
            }
            Err(_) => {
                warn!(tool = info.name, "tool `{}` gave no answer within {within:?}", info.name);
                let then = match info.effect {
                    Effect::External { read_only: false, idempotent: false } => {
                        "whether it took effect is not known, so find out before you repeat it"
                    }
                    _ => "ask for less at once, or try again later",
                };
                GuardedOutput::Error(format!(
                    "`{}` gave no answer within {} seconds: {then}",
                    info.name,
                    within.as_secs_f64()
                ))
            }
        }
    }

    /// The input, if it is what the tool takes; else what is wrong with it, for the model to mend.
    pub fn check(&self, tool: &dyn Tool, input: Value) -> Result<Value, String> {
        validate::validate(&tool.info().name, tool.checked_schema(), input)
    }

    /// The answer, no longer than a model can use, with a note of what was cut and how to get it.
    pub fn truncate(&self, answer: Value) -> Value {
        truncate::truncate(answer, self.max_output_bytes, &Value::Null)
    }

    /// Like [`Guard::truncate`], with a note that names the fields of the tool that make its answer smaller.
    pub fn truncate_for(&self, info: &ToolInfo, answer: Value) -> Value {
        truncate::truncate(answer, self.max_output_bytes, info.input_schema.as_value())
    }
}
