//! The output schema of a run: that of its start request, or else that of its definition.

use std::borrow::Cow;

use emergent_domain::{
    agent::AgentDefinition,
    ids::ProjectId,
    output_schema::OutputSchema,
    run::{Reason, Run, RunEnd},
};
use emergent_graph::Graph;
use emergent_rules::run::typed_output;
use emergent_store::{Tx, agents};
use serde_json::Value;
use tracing::debug;

use crate::{Executor, Result};

impl Executor {
    /// Whether the final answer of a run must match a schema.
    pub async fn has_output_schema(&self, run: &Run) -> Result<bool> {
        if run.terms.output_schema.is_some() {
            return Ok(true);
        }
        let (agent, version) = (run.agent, run.agent_version);
        let read = move |tx: &mut Tx<'_>| agents::get_version(tx, agent, version);
        let definition = self.db().read(read).await?;
        Ok(definition.is_some_and(|definition| definition.output_schema.is_some()))
    }
}

/// Returns the schema that the final answer of a run must match.
pub(crate) fn schema_of<'a>(run: &'a Run, definition: &'a AgentDefinition) -> Option<Cow<'a, Value>> {
    match &run.terms.output_schema {
        Some(schema) => Some(Cow::Owned(schema.to_value())),
        None => definition.output_schema.as_ref().map(Cow::Borrowed),
    }
}

/// Compiles the schema of a run where other schemas are compiled. The error is the end of a run whose schema can no longer be used: schemas are checked
/// when they are written, so another version of the server wrote this one.
pub(crate) async fn compile(
    graph: &Graph,
    run: &Run,
    definition: &AgentDefinition,
) -> Result<Option<OutputSchema>, RunEnd> {
    let schema = schema_of(run, definition);
    if let Some(schema) = &schema {
        let schemas = vec![("outputSchema".to_owned(), schema.clone().into_owned())];
        // Compiling it again below returns it, or says what is wrong with it.
        let _ = graph.compile_output_schemas(run.project, schemas).await;
    }
    schema.as_deref().map(OutputSchema::compile).transpose().map_err(|invalid| {
        let error = format!("the output schema cannot be used: {invalid}; save the agent with another one");
        RunEnd::failed(Reason::Definition, error)
    })
}

/// Validates an answer on a thread for such work, so that the next reader of the answer finds the outcome. If that
/// thread has too much to do, the reader validates the answer itself, within the same limit of steps.
pub(crate) async fn read_ahead(
    graph: &Graph,
    project: ProjectId,
    schema: Option<&OutputSchema>,
    answer: &str,
) {
    /// A shorter answer is read at once: it takes less time than it takes to find a thread.
    const SHORT_ANSWER: usize = 256;
    let Some(schema) = schema.filter(|_| answer.len() > SHORT_ANSWER) else { return };
    let (schema, answer) = (schema.clone(), answer.to_owned());
    if let Err(error) = graph.run_validation(project, move || schema.read_ahead(answer)).await {
        debug!(project = %project, %error, "an answer could not be validated where others are");
    }
}

/// Returns the system prompt of a run, with its output schema if it has one.
pub(crate) fn system_prompt<'a>(run: &Run, definition: &'a AgentDefinition) -> Cow<'a, str> {
    match schema_of(run, definition) {
        Some(schema) => typed_output::system_prompt(&definition.system_prompt, &schema).into(),
        None => definition.system_prompt.as_str().into(),
    }
}
