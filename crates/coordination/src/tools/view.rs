//! What answers show of tasks.

use emergent_domain::{object::Object, task::Task};
use emergent_tools::builtin::view::FieldSelection;
use serde_json::{Value, json};

pub(super) const FIELDS: &str = "`key`, `title`, `description`, `kind`, `tags`, `status`, `priority`, `complexity`, \
     `assignedAgent`, `requiresCollaboration`, `collaborators`, `retryCount`, `maxRetries`, `failureContext`, `verdict`, \
     `verifies`, `runId`, `summary`, `output`, `workflowId`, `version`, `createdAt`. Absent: what is needed to choose one, \
     without `description`, `failureContext` and `output`";

/// What is shown of a task in a list, unless more is asked for.
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

/// As much of tasks as was asked for.
pub(super) struct TaskFields(FieldSelection);

impl TaskFields {
    pub fn new(fields: Option<FieldSelection>) -> Self {
        Self(fields.unwrap_or_else(default_fields))
    }

    pub fn task(&self, object: &Object) -> Value {
        let task = Task::from_object(object);
        let list = |words: Vec<String>| if words.is_empty() { Value::Null } else { json!(words) };
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
