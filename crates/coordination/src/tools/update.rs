//! `tasks_update`.

use std::sync::Arc;

use emergent_domain::{
    ids::WorkflowId,
    invalid::Invalid,
    object::ObjectPatch,
    pack::nearest_name,
    task::{Priority, Task, TaskStatus},
};
use emergent_graph::{Error, objects};
use emergent_store::{agents, workflows};
use emergent_tools::{
    Tool, ToolContext,
    builtin::{
        define::{CallResult, deserialize_nullable, graph_change, refuse, write_tool},
        schema,
        view::FieldSelection,
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    caller::{Caller, TaskRef},
    view::{FIELDS, TaskFields},
};
use crate::create::author_run;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let statuses: Vec<&str> = TaskStatus::ALL.iter().map(|one| one.as_str()).collect();
    let priorities: Vec<&str> = Priority::ALL.iter().map(|one| one.as_str()).collect();
    let mut input = schema::object(
        &["id"],
        schema::merge_properties(
            json!({
                "id": TaskRef::schema("The task"),
                "workflowId": schema::uuid("The workflow in which `id` is a key; yours when absent"),
                "status": {
                    "type": "string",
                    "description": "Another status. A task goes from pending to in_progress, completed or skipped, from \
                                    in_progress to completed, failed, paused or back to pending.",
                    "enum": statuses,
                },
                "summary": schema::text("What was done, in a few sentences.", 20_000),
                "output": { "description": "What it hands on to the tasks that wait for it: a text or any JSON." },
                "title": schema::text("Another title.", 500),
                "description": schema::text("Another description.", 100_000),
                "priority": { "type": "string", "description": "Another priority.", "enum": priorities },
                "assignedAgent": schema::text_or_null("Another agent to do it; null lets one be chosen.", 128),
                "expectedVersion": schema::expected_version(),
            }),
            &[schema::fields_schema(FIELDS)],
        ),
    );
    input["examples"] =
        json!([{ "id": "implement", "status": "completed", "summary": "Tags can be added and removed." }]);
    vec![write_tool(
        "tasks_update",
        "Changes a task: its status, what came of it (`summary`, `output`), its words, who does it. To complete one, give \
         `status: completed`. The task you were started for is completed by itself when you have given your last answer. \
         Returns the `task`.",
        input,
        update,
    )]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateInput {
    id: TaskRef,
    workflow_id: Option<WorkflowId>,
    status: Option<TaskStatus>,
    summary: Option<String>,
    output: Option<Value>,
    title: Option<String>,
    description: Option<String>,
    priority: Option<Priority>,
    #[serde(default, deserialize_with = "deserialize_nullable")]
    assigned_agent: Option<Option<String>>,
    expected_version: Option<i64>,
    fields: Option<FieldSelection>,
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
        let task = Task::from_object(&input.id.resolve(tx, project, workflow)?);
        if let Some(Some(agent)) = &input.assigned_agent {
            let known = agents::list_names(tx, project)?;
            if !known.contains(agent) {
                let hint = nearest_name(agent, known.iter().map(String::as_str));
                let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                return Err(
                    Invalid::new("assignedAgent", format!("there is no agent `{agent}`{hint}")).into()
                );
            }
        }
        // The workflow before its task, as its dispatcher holds them.
        if let Some(workflow) = task.workflow {
            workflows::bump_revision(tx, project, workflow)?;
        }
        let mut properties = properties.clone();
        let own = caller.duty.task == Some(task.id) && caller.duty.session.is_some();
        if let Some(status) = input.status.filter(|_| !own) {
            properties.insert("status".to_owned(), status.as_str().into());
        }
        let patch = ObjectPatch {
            properties: Some(properties),
            expected_version: input.expected_version,
            ..ObjectPatch::default()
        };
        let after = objects::update(tx, writer, task.id, &patch.check().map_err(Error::from)?)?;
        let mut answer = json!({ "task": TaskFields::new(input.fields.clone()).task(&after) });
        if own && input.status.is_some() {
            answer["note"] =
                json!("This is the task you were started for: its status follows from how your run ends.");
        }
        Ok(answer)
    })
}
