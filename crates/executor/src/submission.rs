//! What a run for a workflow hands in: a verdict, or a vote. The tool for it is added to that run's
//! tools whatever its definition lists, and is no other run's: it is in no pool. What was handed in
//! is the input of the call, which its record keeps.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use emergent_domain::workflow::Deliverable;
use emergent_tools::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, ToolSet};
use serde_json::{Value, json};

/// Gives a run the tool for what it has to hand in.
pub(crate) fn add_submission_tool(tools: &mut ToolSet, hands: Option<Deliverable>) {
    static ALL: LazyLock<[Arc<dyn Tool>; 3]> = LazyLock::new(|| {
        [Arc::new(test_verdict_tool()), Arc::new(review_verdict_tool()), Arc::new(vote_tool())]
    });
    let [test, review, vote] = &*ALL;
    match hands {
        None => {}
        Some(Deliverable::TestVerdict) => tools.add(Arc::clone(test)),
        Some(Deliverable::ReviewVerdict) => tools.add(Arc::clone(review)),
        Some(Deliverable::Vote) => tools.add(Arc::clone(vote)),
    }
}

struct SubmissionTool(ToolInfo);

fn submission_tool(name: &str, description: &str, input_schema: Value) -> SubmissionTool {
    SubmissionTool(ToolInfo {
        name: name.to_owned(),
        server: None,
        description: description.into(),
        input_schema: input_schema.into(),
        effect: Effect::Reads,
        scope: None,
    })
}

fn string_array_schema(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn test_verdict_tool() -> SubmissionTool {
    let steps = json!({
        "type": "array",
        "description": "What was tried, in order.",
        "items": {
            "type": "object",
            "properties": {
                "step": { "type": "string" },
                "result": { "type": "string", "description": "What came of it: PASS or FAIL, and why." },
                "issue": { "type": "string" },
                "suggested_fix": { "type": "string" }
            },
            "required": ["step", "result"]
        }
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "verdict": { "enum": ["PASS", "FAIL", "NEEDS_CHANGES"] },
            "issues": string_array_schema("What is wrong, each so that it can be mended without you. Empty for PASS."),
            "steps": steps,
            "summary": { "type": "string", "description": "The outcome in a sentence or two." }
        },
        "required": ["verdict"],
        "additionalProperties": false
    });
    submission_tool(
        "submit_verdict",
        "Hands in your verdict on what you tested. Call it once, when you are sure; the last call counts. With FAIL \
         or NEEDS_CHANGES the work goes back with your issues, so say exactly what has to change.",
        schema,
    )
}

fn review_verdict_tool() -> SubmissionTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "verdict": { "enum": ["APPROVE", "REQUEST_CHANGES", "COMMENT"] },
            "required_changes": string_array_schema("What has to change before you approve. Empty for APPROVE and COMMENT."),
            "suggestions": string_array_schema("What could be better, without having to."),
            "comments": string_array_schema("Remarks on particular places."),
            "summary": { "type": "string", "description": "The outcome in a sentence or two." }
        },
        "required": ["verdict"],
        "additionalProperties": false
    });
    submission_tool(
        "submit_verdict",
        "Hands in your verdict on what you reviewed. Call it once, when you are sure; the last call counts. COMMENT \
         approves with remarks. With REQUEST_CHANGES the work goes back with your required changes, so say exactly \
         what has to change.",
        schema,
    )
}

fn vote_tool() -> SubmissionTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "option": { "type": "string", "minLength": 1, "description": "What you vote for, as it was put to you." },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1, "description": "How sure you are." },
            "reason": { "type": "string", "description": "Why, in a sentence or two." }
        },
        "required": ["option"],
        "additionalProperties": false
    });
    submission_tool("submit_vote", "Hands in your vote. Call it once; the last call counts.", schema)
}

#[async_trait]
impl Tool for SubmissionTool {
    fn info(&self) -> &ToolInfo {
        &self.0
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        let next = "Finish now: answer with one short sentence, and call no more tools.";
        Ok(ToolOutput::Answer(json!({ "handed_in": true, "next": next })))
    }
}
