//! The tool `artifacts_add`, with which an agent adds a file or a value to its result.

use async_trait::async_trait;
use emergent_domain::{
    artifact::{ARTIFACT_TOOL, ArtifactInput, MAX_ARTIFACTS, MAX_ARTIFACTS_BYTES, RunArtifact},
    ids::{RunId, ToolCallId},
    json::Schema,
};
use emergent_store::{Tx, runs::chains};
use emergent_tools::{
    Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput,
    builtin::{
        define::parse_input,
        schema::{input_schema, offered_schema},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AddInput {
    /// The name of the file, such as report.csv.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// Such as text/csv; default: text/plain for `text`, application/json for `data`.
    #[serde(default)]
    #[schemars(length(max = 200))]
    media_type: Option<String>,
    /// The content of a text file.
    #[serde(default)]
    text: Option<String>,
    /// A JSON value, instead of a text.
    #[serde(default)]
    data: Option<Value>,
    /// The address of a file, instead of its content.
    #[serde(default)]
    url: Option<String>,
}

/// The tool as the model sees it.
pub(crate) struct AddArtifact {
    info: ToolInfo,
    checked_schema: Schema,
}

impl AddArtifact {
    pub fn new() -> Self {
        let info = ToolInfo {
            name: ARTIFACT_TOOL.into(),
            server: None,
            description: "Adds a file or a JSON value to your result, which the caller gets besides your answer. Give one of \
                          `text`, `data` and `url`."
                .into(),
            input_schema: offered_schema::<AddInput>().into(),
            // Only the record of the call keeps the artifact, so that a call may be repeated.
            effect: Effect::Reads,
            scope: None,
        };
        Self { info, checked_schema: input_schema::<AddInput>().into() }
    }
}

#[async_trait]
impl Tool for AddArtifact {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn checked_schema(&self) -> &Schema {
        &self.checked_schema
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let Some(run) = context.run else {
            return Err(ToolError::Refused("only a running agent has a result".into()));
        };
        let AddInput { name, media_type, text, data, url } = parse_input(ARTIFACT_TOOL, input)?;
        let input = ArtifactInput { name, media_type, text, data, url };
        let artifact = input.check(ToolCallId::new()).map_err(ToolError::Refused)?;
        let added = context.graph.db().read(move |tx| artifacts_of_run(tx, run)).await;
        let added = added.map_err(emergent_graph::Error::from)?;
        if added.len() >= MAX_ARTIFACTS {
            return Err(ToolError::Refused(format!(
                "this result has {MAX_ARTIFACTS} artifacts, which is the limit"
            )));
        }
        let bytes: usize = added.iter().map(RunArtifact::bytes).sum();
        if bytes + artifact.bytes() > MAX_ARTIFACTS_BYTES {
            return Err(ToolError::Refused(format!(
                "the artifacts of this result would be longer than {MAX_ARTIFACTS_BYTES} bytes, which is the limit"
            )));
        }
        Ok(ToolOutput::Answer(json!({ "added": artifact.name })))
    }
}

/// The artifacts that a run has added, in their order.
pub(crate) fn artifacts_of_run(tx: &mut Tx<'_>, run: RunId) -> emergent_store::Result<Vec<RunArtifact>> {
    let calls = chains::list_completed_calls(tx, run, ARTIFACT_TOOL, MAX_ARTIFACTS)?;
    Ok(calls.iter().filter_map(RunArtifact::of_call).collect())
}
