//! What stands around every call: the input is checked, the time and the size of the answer are
//! bounded, and nothing that goes wrong ends more than the call.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use serde_json::Value;
use tracing::{error, warn};

use crate::{Done, Effect, Tool, ToolContext, ToolError, ToolInfo};

mod cut;
mod input;

#[derive(Debug, Clone)]
pub struct Guard {
    pub timeout: Duration,
    /// Bytes of JSON a model gets to read.
    pub most_bytes: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), most_bytes: 64 << 10 }
    }
}

/// A call that was made, as far as the guard goes.
pub enum Guarded {
    Answer(Value),
    /// To be run in the caller's transaction; its answer then goes through [`Guard::cut_for`].
    Change(crate::Change),
    Error(String),
}

impl Guard {
    /// Checks the input, then calls within the timeout. A panic of a tool is an error of its call.
    pub async fn call(&self, tool: &dyn Tool, context: &ToolContext, input: Value) -> Guarded {
        let info = tool.info();
        let input = match input::checked(info, input) {
            Ok(input) => input,
            Err(why) => return Guarded::Error(why),
        };
        // The call itself may panic as well as the future it gives, so it is made inside.
        let call = AssertUnwindSafe(async { tool.call(context, input).await }).catch_unwind();
        let within = tool.timeout().unwrap_or(self.timeout);
        match tokio::time::timeout(within, call).await {
            Ok(Ok(Ok(Done::Answer(answer)))) => Guarded::Answer(self.cut_for(info, answer)),
            Ok(Ok(Ok(Done::Change(change)))) => Guarded::Change(change),
            Ok(Ok(Err(ToolError::Refused(why)))) => Guarded::Error(why),
            Ok(Ok(Err(failed @ ToolError::Failed(_)))) => Guarded::Error(failed.to_string()),
            Ok(Err(panic)) => {
                let said = panic_message(panic.as_ref());
                error!(tool = info.name, "tool `{}` panicked: {said}", info.name);
                Guarded::Error(format!(
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
                Guarded::Error(format!(
                    "`{}` gave no answer within {} seconds: {then}",
                    info.name,
                    within.as_secs_f64()
                ))
            }
        }
    }

    /// The input, if it is what the tool takes; else what is wrong with it, for the model to mend.
    pub fn check(&self, info: &ToolInfo, input: Value) -> Result<Value, String> {
        input::checked(info, input)
    }

    /// The answer, no longer than a model can use, with a note of what was cut and how to get it.
    pub fn cut(&self, answer: Value) -> Value {
        cut::cut(answer, self.most_bytes, &Value::Null)
    }

    /// As [`Guard::cut`], with a note that names the tool's own ways to ask for less.
    pub fn cut_for(&self, info: &ToolInfo, answer: Value) -> Value {
        cut::cut(answer, self.most_bytes, info.input_schema.value())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
