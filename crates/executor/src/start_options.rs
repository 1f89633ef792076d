//! The input and the limits with which a run is started.

use emergent_domain::{agent::ModelConfig, invalid::Invalid};
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
}

impl StartOptions {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.input.len() > MAX_INPUT_BYTES {
            return Err(Invalid::new("input", format!("is longer than {MAX_INPUT_BYTES} bytes")));
        }
        if self.input.contains('\0') {
            return Err(Invalid::new("input", "has a NUL character"));
        }
        if self.max_steps.is_some_and(|steps| steps < 1) {
            return Err(Invalid::new("maxSteps", "must be at least 1"));
        }
        if self.timeout_seconds.is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
            return Err(Invalid::new("timeoutSeconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}")));
        }
        Ok(())
    }
}
