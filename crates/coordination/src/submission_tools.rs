//! The tools with which a run for a workflow submits its deliverable: a verdict, or a vote. Such a
//! tool is added to the tools of that run, even if the agent's definition does not list it, and is in no pool.
//! The submission is the input of the tool call, which the run's record contains.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use emergent_domain::{
    ids::{ProjectId, RunId},
    json::Schema,
    workflow::Deliverable,
};
use emergent_rules::workflow::discussion::{expected_turns, is_option};
use emergent_store::{Tx, objects, runs};
use emergent_tools::{
    Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, ToolSet, builtin::schema::input_schema,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::discussion::load_discussion;

/// Adds the tool with which a run submits its deliverable, if it has to submit one.
pub(crate) fn add_submission_tool(tools: &mut ToolSet, deliverable: Option<Deliverable>) {
    static SUBMISSION_TOOLS: LazyLock<[Arc<dyn Tool>; 3]> = LazyLock::new(|| {
        [Arc::new(test_verdict_tool()), Arc::new(review_verdict_tool()), Arc::new(vote_tool())]
    });
    let [test, review, vote] = &*SUBMISSION_TOOLS;
    match deliverable {
        None => {}
        Some(Deliverable::TestVerdict) => tools.add(Arc::clone(test)),
        Some(Deliverable::ReviewVerdict) => tools.add(Arc::clone(review)),
        Some(Deliverable::Vote) => tools.add(Arc::clone(vote)),
    }
}

/// A tool that checks and confirms the submission; the record of the call already stores it.
struct SubmissionTool {
    info: ToolInfo,
    checked_schema: Schema,
}

fn submission_tool<I: JsonSchema>(name: &str, description: &str) -> SubmissionTool {
    let info = ToolInfo {
        name: name.to_owned(),
        server: None,
        description: description.into(),
        input_schema: input_schema::<I>().into(),
        effect: Effect::Reads,
        scope: None,
    };
    let mut checked = input_schema::<I>();
    for field in ["issues", "required_changes", "suggestions", "comments"] {
        // Models often write objects such as `{"description": …}` instead of texts. Those are read as well.
        if let Some(items) = checked.pointer_mut(&format!("/properties/{field}/items")) {
            *items = json!({ "type": ["string", "object"] });
        }
    }
    SubmissionTool { info, checked_schema: checked.into() }
}

fn test_verdict_tool() -> SubmissionTool {
    submission_tool::<TestVerdictInput>(
        "submit_verdict",
        "Submits your verdict on what you tested. Call it once, when you are sure; the last call counts. With FAIL or \
         NEEDS_CHANGES the work goes back with your issues, so say exactly what has to change.",
    )
}

fn review_verdict_tool() -> SubmissionTool {
    submission_tool::<ReviewVerdictInput>(
        "submit_verdict",
        "Submits your verdict on what you reviewed. Call it once, when you are sure; the last call counts. COMMENT approves \
         with remarks. With REQUEST_CHANGES the work goes back with your required changes, so say exactly what has to \
         change.",
    )
}

fn vote_tool() -> SubmissionTool {
    submission_tool::<VoteInput>("submit_vote", "Submits your vote. Call it once; the last call counts.")
}

// Only the schemas of these are used here: the dispatcher reads the submission from the recorded
// input of the tool call.

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is used")]
struct TestVerdictInput {
    verdict: TestVerdict,
    /// What is wrong, each in enough detail to fix it without you. Empty for PASS.
    #[serde(default)]
    issues: Vec<String>,
    /// What was tried, in order.
    #[serde(default)]
    steps: Vec<TestStep>,
    /// The outcome in a sentence or two.
    summary: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "only the schema is used")]
enum TestVerdict {
    Pass,
    Fail,
    NeedsChanges,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema is used")]
struct TestStep {
    step: String,
    /// PASS or FAIL, and the reason.
    result: String,
    issue: Option<String>,
    suggested_fix: Option<String>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is used")]
struct ReviewVerdictInput {
    verdict: ReviewVerdict,
    /// What has to change before you approve. Empty for APPROVE and COMMENT.
    #[serde(default)]
    required_changes: Vec<String>,
    /// Optional improvements.
    #[serde(default)]
    suggestions: Vec<String>,
    /// Remarks on particular parts.
    #[serde(default)]
    comments: Vec<String>,
    /// The outcome in a sentence or two.
    summary: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "only the schema is used")]
enum ReviewVerdict {
    Approve,
    RequestChanges,
    Comment,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is used")]
struct VoteInput {
    /// The option you vote for, exactly as it was given to you.
    #[schemars(length(min = 1))]
    option: String,
    /// How sure you are.
    #[schemars(range(min = 0, max = 1))]
    confidence: Option<f64>,
    /// The reason in a sentence or two.
    reason: Option<String>,
}

#[async_trait]
impl Tool for SubmissionTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn checked_schema(&self) -> &Schema {
        &self.checked_schema
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        if let Some(option) = input.get("option").and_then(Value::as_str) {
            check_option(context, option).await?;
        }
        let next = "Finish now: answer with one short sentence, and call no more tools.";
        Ok(ToolOutput::Answer(json!({ "handed_in": true, "next": next })))
    }
}

/// Refuses a vote for something that is not an option of the turn.
async fn check_option(context: &ToolContext, option: &str) -> Result<(), ToolError> {
    let Some(run) = context.run else { return Ok(()) };
    let project = context.project;
    let read = move |tx: &mut Tx<'_>| vote_options(tx, project, run);
    let options = context.graph.db().snapshot(read).await?;
    if options.is_empty() || is_option(&options, option) {
        return Ok(());
    }
    let names = options.join("`, `");
    Err(ToolError::Refused(format!(
        "`option`: there is no option `{option}`; the options are `{names}`. Call `submit_vote` again with one of them."
    )))
}

/// The options of the turn that a run speaks in; empty if it speaks in none.
fn vote_options(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
) -> Result<Vec<String>, emergent_graph::Error> {
    let Some(run) = runs::get(tx, project, run)? else { return Ok(Vec::new()) };
    let Some(discussion) = run.workflow_link.discussion else { return Ok(Vec::new()) };
    let Some(object) = objects::get(tx, project, discussion)? else { return Ok(Vec::new()) };
    let Some(discussion) = load_discussion(tx, project, &object)? else { return Ok(Vec::new()) };
    let turns = expected_turns(&discussion.settings, &discussion.turns);
    let own_turn = turns.into_iter().find(|turn| turn.index == run.child_index);
    Ok(own_turn.map(|turn| turn.options).unwrap_or_default())
}
