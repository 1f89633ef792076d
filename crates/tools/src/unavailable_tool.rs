//! Stands for a tool that a whitelist names and that a missing secret disables. A model that is offered nothing
//! would not learn what is missing.

use async_trait::async_trait;
use emergent_domain::{json::Schema, text::as_sentence};
use serde_json::{Value, json};

use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

/// Answers each call with the reason why the tool is not available.
pub struct UnavailableTool {
    info: ToolInfo,
    reason: String,
}

impl UnavailableTool {
    pub fn new(name: &str, reason: String) -> Self {
        let info = ToolInfo {
            name: name.to_owned(),
            server: None,
            description: as_sentence(&format!("Does not work at present: {reason}")).into(),
            input_schema: Schema::from(json!({ "type": "object" })),
            effect: Effect::Reads,
            scope: None,
        };
        Self { info, reason }
    }
}

#[async_trait]
impl Tool for UnavailableTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Refused(self.reason.clone()))
    }
}
