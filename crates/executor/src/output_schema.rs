//! The output schema of a run: that of its start request, or else that of its definition.

use std::borrow::Cow;

use emergent_domain::{
    agent::AgentDefinition,
    output_schema::OutputSchema,
    run::{Reason, Run, RunEnd},
};
use emergent_rules::run::typed_output;
use serde_json::Value;

/// Returns the schema that the final answer of a run must match.
pub(crate) fn schema_of<'a>(run: &'a Run, definition: &'a AgentDefinition) -> Option<&'a Value> {
    run.terms.output_schema.as_ref().or(definition.output_schema.as_ref())
}

/// Compiles the schema of a run. The error is the end of a run whose schema can no longer be used: schemas are checked
/// when they are written, so another version of the server wrote this one.
pub(crate) fn compile(run: &Run, definition: &AgentDefinition) -> Result<Option<OutputSchema>, RunEnd> {
    schema_of(run, definition).map(OutputSchema::compile).transpose().map_err(|invalid| {
        let error = format!("the output schema cannot be used: {invalid}; save the agent with another one");
        RunEnd::failed(Reason::Definition, error)
    })
}

/// Returns the system prompt of a run, with its output schema if it has one.
pub(crate) fn system_prompt<'a>(run: &Run, definition: &'a AgentDefinition) -> Cow<'a, str> {
    match schema_of(run, definition) {
        Some(schema) => typed_output::system_prompt(&definition.system_prompt, schema).into(),
        None => definition.system_prompt.as_str().into(),
    }
}
