//! The tool `tasks_update`, which changes a task.

use std::sync::Arc;

use emergent_domain::{
    author::Author,
    ids::WorkflowId,
    invalid::Invalid,
    object::ObjectPatch,
    task::{Priority, Task, TaskStatus},
    token::Scope,
};
use emergent_graph::{Error, Result, WriteContext, objects};
use emergent_store::{Tx, tokens, workflows};
use emergent_tools::{
    Tool, ToolContext,
    builtin::{
        define::{CallResult, deserialize_nullable, graph_change, refuse, write_tool},
        input::{OneOf, Uuid},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    caller::{Caller, TaskRef},
    view::{TaskFieldNames, TaskFields},
};
use crate::{create::author_run, dispatchable::NameableAgents};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![write_tool(
        "tasks_update",
        "Changes a task, for example completes it with `status: completed` and a `summary`. Your own task completes by itself \
         when you give your last answer.",
        update,
    )]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "id": "implement", "status": "completed", "summary": "Tags can be added and removed." }))]
struct UpdateInput {
    /// Task: key in the workflow, or id.
    id: TaskRef,
    /// Workflow of the key; default: yours.
    #[schemars(with = "Option<Uuid>")]
    workflow_id: Option<WorkflowId>,
    /// From pending to in_progress, completed or skipped; from in_progress to completed, failed, paused or pending.
    #[schemars(with = "Option<OneOf<TaskStatus>>")]
    status: Option<TaskStatus>,
    /// What was done, in a few sentences.
    #[schemars(length(min = 1, max = 20_000))]
    summary: Option<String>,
    /// Result for the tasks that wait for it: text or JSON.
    output: Option<Value>,
    /// New title.
    #[schemars(length(min = 1, max = 500))]
    title: Option<String>,
    /// New description.
    #[schemars(length(min = 1, max = 100_000))]
    description: Option<String>,
    /// New priority.
    #[schemars(with = "Option<OneOf<Priority>>")]
    priority: Option<Priority>,
    /// Agent to do it. Null lets one be chosen.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(length(min = 1, max = 128), extend("nullable" = true))]
    assigned_agent: Option<Option<String>>,
    /// Fails if this is not its version.
    #[schemars(range(min = 1))]
    expected_version: Option<i64>,
    fields: Option<TaskFieldNames>,
}

impl UpdateInput {
    fn properties(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("summary", self.summary.as_deref().map(Value::from));
        put("output", self.output.clone());
        put("title", self.title.as_deref().map(Value::from));
        put("description", self.description.as_deref().map(Value::from));
        put("priority", self.priority.map(|priority| priority.as_str().into()));
        if let Some(agent) = &self.assigned_agent {
            put("assigned_agent", Some(json!(agent)));
            put("agent_is_named", Some(if agent.is_some() { true.into() } else { Value::Null }));
        }
        map
    }
}

async fn update(_: ToolContext, input: UpdateInput) -> CallResult {
    let properties = input.properties();
    if properties.is_empty() && input.status.is_none() {
        return Err(refuse(
            "There is nothing to change: give `status`, `summary`, `output`, `title`, `description`, `priority` or \
             `assignedAgent`",
        ));
    }
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        let workflow = caller.workflow(tx, project, input.workflow_id)?;
        let task = Task::from_object(&input.id.resolve_for(tx, writer, workflow)?);
        if input.assigned_agent.is_some() && task.workflow.is_some() {
            check_may_assign(tx, writer)?;
        }
        if let Some(Some(agent)) = &input.assigned_agent {
            let agents = NameableAgents::load(tx, project, writer.author)?;
            if let Some(problem) = agents.problem(agent, true) {
                return Err(Invalid::new("assignedAgent", problem).into());
            }
        }
        // The workflow is locked before its task, in the same order as its dispatcher locks them.
        if let Some(workflow) = task.workflow {
            workflows::bump_revision(tx, project, workflow)?;
        }
        let mut properties = properties.clone();
        // The dispatcher sets the status of the task that the caller's own run is an attempt at.
        let is_own_task = caller.link.task == Some(task.id) && caller.link.session.is_some();
        if let Some(status) = input.status.filter(|_| !is_own_task) {
            properties.insert("status".to_owned(), status.as_str().into());
        }
        let patch = ObjectPatch {
            properties: Some(properties),
            expected_version: input.expected_version,
            ..ObjectPatch::default()
        };
        let patch = patch.check().map_err(Error::from)?;
        let updated = objects::update(tx, &writer.with_links(), task.id, &patch)?;
        let mut answer = json!({ "task": TaskFields::new(input.fields.clone()).task(&updated) });
        if is_own_task && input.status.is_some() {
            answer["note"] =
                json!("This is the task you were started for: its status follows from how your run ends.");
        }
        Ok(answer)
    })
}

/// The dispatcher starts the agent that a task of a workflow names, so a token needs the scope that starts
/// agents.
fn check_may_assign(tx: &mut Tx<'_>, writer: &WriteContext) -> Result<()> {
    let Author::Token { id } = writer.author else { return Ok(()) };
    let token = tokens::get(tx, id)?;
    if token.is_some_and(|token| token.scopes.contains(&Scope::AgentsInvoke)) {
        return Ok(());
    }
    let reason = "needs a token with the scope `agents:invoke`, because the task belongs to a workflow";
    Err(Invalid::new("assignedAgent", reason).into())
}
