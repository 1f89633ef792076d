//! The input and the limits with which a run is started.

use emergent_domain::{
    agent::ModelConfig,
    client_tool::{self, ClientTool},
    conversation::HistoryTurn,
    invalid::Invalid,
    output_schema::OutputSchema,
    run::MAX_STEPS,
    workflow::Limit,
};
use emergent_net::trace_context;
use serde_json::Value;

const MAX_INPUT_BYTES: usize = 1 << 20;
/// Work that takes longer than a day should be a workflow.
const MAX_TIMEOUT_SECONDS: i64 = 86_400;

/// The input and the limits of a new run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartOptions {
    pub input: String,
    /// This JSON is shown to the agent below the input.
    pub context: Option<Value>,
    /// Overrides the model of the agent's definition.
    pub model: Option<ModelConfig>,
    pub max_steps: Option<i64>,
    pub timeout_seconds: Option<i64>,
    /// What the run and the runs below it may spend.
    pub limit: Limit,
    /// The trace context (`traceparent`) of the request that starts the run.
    pub traceparent: Option<String>,
    /// What was said before in the conversation that the run belongs to.
    pub history: Vec<HistoryTurn>,
    /// The JSON schema that the final answer must match, instead of that of the agent's definition.
    pub output_schema: Option<Value>,
    /// Tools of the caller. When the model calls one, the run waits until the caller has sent the result with
    /// [`crate::Executor::answer_client_calls`].
    pub client_tools: Vec<ClientTool>,
}

impl StartOptions {
    /// Adds the trace context of the current request.
    pub fn with_trace_context(self) -> Self {
        let current = trace_context::parent().map(|context| context.to_string());
        Self { traceparent: self.traceparent.or(current), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.input.len() > MAX_INPUT_BYTES {
            return Err(Invalid::new("input", format!("is longer than {MAX_INPUT_BYTES} bytes")));
        }
        if self.input.contains('\0') {
            return Err(Invalid::new("input", "has a NUL character"));
        }
        let context_bytes = self.context.as_ref().map_or(0, |context| context.to_string().len());
        if context_bytes > MAX_INPUT_BYTES {
            return Err(Invalid::new("context", format!("is longer than {MAX_INPUT_BYTES} bytes as JSON")));
        }
        if self.max_steps.is_some_and(|steps| !(1..=MAX_STEPS).contains(&steps)) {
            return Err(Invalid::new("maxSteps", format!("must be 1 to {MAX_STEPS}")));
        }
        if self.limit.microusd.is_some_and(|microusd| microusd < 1) {
            return Err(Invalid::new("maxCostUsd", "must be at least 0.000001"));
        }
        if self.limit.tokens.is_some_and(|tokens| tokens < 1) {
            return Err(Invalid::new("maxTotalTokens", "must be at least 1"));
        }
        if self.timeout_seconds.is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
            return Err(Invalid::new("timeoutSeconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}")));
        }
        if let Some(schema) = &self.output_schema {
            OutputSchema::compile(schema).map_err(|invalid| invalid.prefixed("outputSchema"))?;
        }
        client_tool::check_tools(&self.client_tools)
    }
}
