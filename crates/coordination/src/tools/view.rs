//! Converts tasks to the JSON of tool answers, with only the requested fields.

use std::borrow::Cow;

use emergent_domain::{object::Object, task::Task};
use emergent_tools::builtin::view::FieldSelection;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

/// `fields` of an input: which fields of a task the answer shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct TaskFieldNames(pub FieldSelection);

impl JsonSchema for TaskFieldNames {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TaskFieldNames".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": { "type": "string" },
            "description": "Return only these; default: without description, tags, complexity, collaborators, failureContext, \
                            verdict, verifies, runId, output.",
        })
    }
}

/// The fields that a list shows unless an input requests others.
fn default_fields() -> FieldSelection {
    FieldSelection::only([
        "key",
        "title",
        "kind",
        "status",
        "priority",
        "assignedAgent",
        "retryCount",
        "summary",
        "workflowId",
    ])
}

/// Shows tasks with some of their fields.
pub(super) struct TaskFields(FieldSelection);

impl TaskFields {
    /// The requested fields, or those that a list shows by default.
    pub fn new(fields: Option<TaskFieldNames>) -> Self {
        Self(fields.map_or_else(default_fields, |names| names.0))
    }

    pub fn only<const N: usize>(names: [&str; N]) -> Self {
        Self(FieldSelection::only(names))
    }

    /// The JSON of a task. Empty texts and lists are null.
    pub fn task(&self, object: &Object) -> Value {
        let task = Task::from_object(object);
        let list = |items: Vec<String>| if items.is_empty() { Value::Null } else { json!(items) };
        let text = |text: String| if text.is_empty() { Value::Null } else { json!(text) };
        self.0.select(json!({
            "id": task.id,
            "key": task.key,
            "title": task.title,
            "description": text(task.description),
            "kind": text(task.kind),
            "tags": list(task.tags),
            "status": task.status,
            "priority": task.priority,
            "complexity": task.complexity,
            "assignedAgent": task.assigned_agent,
            "requiresCollaboration": task.requires_collaboration.then_some(true),
            "collaborators": list(task.collaborators),
            "retryCount": Some(task.retry_count).filter(|count| *count > 0),
            "maxRetries": task.max_retries,
            "failureContext": text(task.failure_context),
            "verdict": task.verdict,
            "verifies": list(task.verifies),
            "runId": task.run,
            "summary": task.summary,
            "output": task.output,
            "workflowId": task.workflow,
            "version": task.version,
            "createdAt": task.created_at,
        }))
    }

    pub fn tasks(&self, objects: &[Object]) -> Vec<Value> {
        objects.iter().map(|object| self.task(object)).collect()
    }
}
