//! `tasks_update`.

use std::sync::Arc;

use emergent_domain::{
    ids::WorkflowId,
    invalid::Invalid,
    object::ObjectPatch,
    pack::nearest,
    task::{Priority, Task, TaskStatus},
};
use emergent_graph::{Error, objects};
use emergent_store::{agents, workflows};
use emergent_tools::{
    Tool, ToolContext,
    builtin::{
        define::{Outcome, change, present, refused, writes},
        schema,
        view::Fields,
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    caller::{Caller, TaskRef},
    view::{FIELDS, View},
};
use crate::start::run_of;

pub(super) fn all() -> Vec<Arc<dyn Tool>> {
    let statuses: Vec<&str> = TaskStatus::ALL.iter().map(|one| one.as_str()).collect();
    let priorities: Vec<&str> = Priority::ALL.iter().map(|one| one.as_str()).collect();
    let mut input = schema::object(
        &["id"],
        schema::and(
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
            &[schema::fields_of(FIELDS)],
        ),
    );
    input["examples"] =
        json!([{ "id": "implement", "status": "completed", "summary": "Tags can be added and removed." }]);
    vec![writes(
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
struct Update {
    id: TaskRef,
    workflow_id: Option<WorkflowId>,
    status: Option<TaskStatus>,
    summary: Option<String>,
    output: Option<Value>,
    title: Option<String>,
    description: Option<String>,
    priority: Option<Priority>,
    #[serde(default, deserialize_with = "present")]
    assigned_agent: Option<Option<String>>,
    expected_version: Option<i64>,
    fields: Option<Fields>,
}

impl Update {
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

async fn update(_: ToolContext, input: Update) -> Outcome {
    let properties = input.properties();
    if properties.is_empty() && input.status.is_none() {
        return Err(refused(
            "There is nothing to change: give `status`, `summary`, `output`, `title`, `description`, `priority` or \
             `assignedAgent`",
        ));
    }
    change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::of(tx, project, run_of(writer))?;
        let workflow = caller.workflow(tx, project, input.workflow_id)?;
        let task = Task::of(&input.id.resolve(tx, project, workflow)?);
        if let Some(Some(agent)) = &input.assigned_agent {
            let known = agents::names(tx, project)?;
            if !known.contains(agent) {
                let hint = nearest(agent, known.iter().map(String::as_str));
                let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                return Err(
                    Invalid::one("assignedAgent", format!("there is no agent `{agent}`{hint}")).into()
                );
            }
        }
        // The workflow before its task, as its dispatcher holds them.
        if let Some(workflow) = task.workflow {
            workflows::touch(tx, project, workflow)?;
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
        let mut answer = json!({ "task": View::new(input.fields.clone()).task(&after) });
        if own && input.status.is_some() {
            answer["note"] =
                json!("This is the task you were started for: its status follows from how your run ends.");
        }
        Ok(answer)
    })
}
