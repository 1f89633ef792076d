//! `tasks_create` and `create_subtasks`.

use std::{collections::HashSet, sync::Arc};

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    object::Object,
    task::{BLOCKS_TYPE, NewTask, Priority, Task, TaskStatus, VerdictKind},
    workflow::WorkflowSettings,
};
use emergent_graph::{Error, Result, WriteContext, relationships};
use emergent_store::{Tx, tasks};
use emergent_tools::{
    Tool, ToolContext,
    builtin::{
        define::{CallResult, graph_change, refuse, write_tool},
        schema,
        view::FieldSelection,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    caller::{Caller, TaskRef},
    view::TaskFields,
};
use crate::create::{self, CreatedWorkflow, NewWorkflow, author_run, new_edge};

/// Tasks of one call.
const MAX_TASKS_PER_CALL: usize = 200;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let several = |what: &str| {
        json!({
            "type": "array",
            "description": what,
            "items": schema::object(&["title"], task_schema()),
            "minItems": 1,
            "maxItems": MAX_TASKS_PER_CALL,
        })
    };
    let mut create_input = schema::object(
        &[],
        schema::merge_properties(
            task_schema(),
            &[json!({
                "tasks": several("Several tasks at once, instead of one; they may wait for one another by key."),
                "workflowId": schema::uuid("A workflow to add them to, when it is not the one you work for"),
                "workflow": schema::text("What a new workflow is for, when these tasks start one.", 4_000),
            })],
        ),
    );
    create_input["examples"] = json!([{ "tasks": [
        { "key": "design", "title": "Design the tags", "kind": "design" },
        { "key": "implement", "title": "Implement the tags", "kind": "implement", "blockedBy": ["design"] },
        { "key": "test", "title": "Test the tags", "kind": "test", "verdict": "test", "blockedBy": ["implement"] },
    ] }]);
    let mut subtasks_input = schema::object(
        &["tasks"],
        json!({
            "tasks": several("The parts, which are done side by side unless `blockedBy` says otherwise."),
            "synthesis": schema::object(&["title"], task_schema()),
            "blocksParent": {
                "type": "boolean",
                "description": "Whether what waits for your own task also waits for these (or for the synthesis, when \
                                there is one).",
                "default": false,
            },
        }),
    );
    subtasks_input["properties"]["synthesis"]["description"] =
        json!("A task that puts the parts together; it waits for all of them.");
    subtasks_input["examples"] = json!([{
        "tasks": [{ "title": "Research tags in other tools" }, { "title": "Research how users sort" }],
        "synthesis": { "title": "Compare what was found" },
    }]);
    vec![
        write_tool(
            "tasks_create",
            "Makes tasks for agents: one with `title`, or several in `tasks`, all or nothing. A dispatcher gives each to \
             an agent as soon as everything it waits for (`blockedBy`) is completed; you need not wait. They join the \
             workflow you work for; without one they start a workflow, and later calls of yours add to it. Returns \
             `workflowId` and the `tasks` with `id` and `key`.",
            create_input,
            create,
        ),
        write_tool(
            "create_subtasks",
            "Splits your work: makes several tasks of your workflow that are done side by side, and on request a \
             `synthesis` task that waits for all of them and puts them together. Returns `workflowId`, the `tasks`, and \
             the `synthesis`.",
            subtasks_input,
            subtasks,
        ),
    ]
}

fn task_schema() -> Value {
    let words = |values: &[&str], description: &str| json!({ "type": "string", "description": description, "enum": values });
    let agents = |description: &str| {
        json!({
            "type": "array",
            "description": description,
            "items": { "type": "string", "minLength": 1, "maxLength": 128 },
            "maxItems": 20,
        })
    };
    let refs = |description: &str| json!({ "type": "array", "description": description, "items": TaskRef::schema("A task"), "maxItems": 200 });
    let priorities: Vec<&str> = Priority::ALL.iter().map(|one| one.as_str()).collect();
    let verdicts: Vec<&str> = VerdictKind::ALL.iter().map(|one| one.as_str()).collect();
    json!({
        "key": schema::text(
            "A short name in the workflow, such as `implement`, by which others wait for it; made from the title when \
             absent.",
            64,
        ),
        "title": schema::text("What is to be done, in a few words.", 500),
        "description": schema::text(
            "Everything its agent needs to know: it sees this and what the tasks before it hand on, not your \
             conversation.",
            100_000,
        ),
        "kind": schema::text("A word for the kind of work: research, design, implement, test, review.", 64),
        "tags": schema::labels("Words that help to choose an agent."),
        "priority": words(&priorities, "`medium` when absent."),
        "complexity": { "type": "integer", "description": "How hard it is.", "minimum": 1, "maximum": 10 },
        "assignedAgent": schema::text("The agent that does it; chosen when absent.", 128),
        "blockedBy": refs("Tasks that must be completed first."),
        "requiresCollaboration": { "type": "boolean", "description": "Whether other agents discuss what comes of it." },
        "collaborators": agents("The agents that discuss it; chosen when absent."),
        "verdict": words(&verdicts, "`test` or `review` for a task that judges others and can send them back."),
        "verifies": refs("With `verdict`: the tasks it judges; those in `blockedBy` when absent."),
        "maxRetries": { "type": "integer", "description": "Attempts after the first; 2 when absent.", "minimum": 0, "maximum": 100 },
    })
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskInput {
    key: Option<String>,
    title: Option<String>,
    description: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    priority: Option<Priority>,
    complexity: Option<i64>,
    assigned_agent: Option<String>,
    #[serde(default)]
    blocked_by: Vec<TaskRef>,
    #[serde(default)]
    requires_collaboration: bool,
    #[serde(default)]
    collaborators: Vec<String>,
    verdict: Option<VerdictKind>,
    #[serde(default)]
    verifies: Vec<TaskRef>,
    max_retries: Option<i64>,
}

impl TaskInput {
    fn to_new_task(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: Option<WorkflowId>,
        taken: &mut HashSet<String>,
    ) -> Result<NewTask> {
        let title = self.title.clone().unwrap_or_default();
        let key = self.key.clone().unwrap_or_else(|| unused_key(&title, taken));
        taken.insert(key.clone());
        let mut keys = |refs: &[TaskRef]| -> Result<Vec<String>> {
            refs.iter().map(|one| one.key_in_workflow(tx, project, workflow)).collect()
        };
        Ok(NewTask {
            key,
            title,
            description: self.description.clone().unwrap_or_default(),
            kind: self.kind.clone().unwrap_or_default(),
            tags: self.tags.clone(),
            priority: self.priority.unwrap_or_default(),
            complexity: self.complexity,
            assigned_agent: self.assigned_agent.clone(),
            blocked_by: keys(&self.blocked_by)?,
            requires_collaboration: self.requires_collaboration,
            collaborators: self.collaborators.clone(),
            verdict: self.verdict.unwrap_or_default(),
            verifies: keys(&self.verifies)?,
            max_retries: self.max_retries,
        })
    }
}

/// A key made of a title that nobody has yet.
fn unused_key(title: &str, taken: &HashSet<String>) -> String {
    let mut key = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if key.len() + c.len_utf8() > 40 {
            break;
        }
        if c.is_alphanumeric() {
            key.push(c);
        } else if !key.is_empty() && !key.ends_with('-') {
            key.push('-');
        }
    }
    let key = if key.is_empty() { "task" } else { key.trim_end_matches('-') };
    let mut names = std::iter::once(key.to_owned()).chain((2..).map(|number| format!("{key}-{number}")));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

fn new_tasks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: Option<WorkflowId>,
    wanted: &[TaskInput],
) -> Result<Vec<NewTask>> {
    let mut taken: HashSet<String> = wanted.iter().filter_map(|one| one.key.clone()).collect();
    if let Some(workflow) = workflow {
        taken.extend(tasks::list_keys(tx, project, workflow)?.into_iter().map(|(key, _)| key));
    }
    wanted.iter().map(|one| one.to_new_task(tx, project, workflow, &mut taken)).collect()
}

/// Adds tasks to a workflow, or starts one with them.
fn create_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: Option<WorkflowId>,
    description: Option<&str>,
    new: Vec<NewTask>,
) -> Result<(WorkflowId, Vec<Object>)> {
    if let Some(workflow) = workflow {
        return Ok((workflow, create::add_tasks(tx, writer, workflow, &new)?));
    }
    let titles: Vec<&str> = new.iter().map(|one| one.title.as_str()).collect();
    let description =
        description.map_or_else(|| titles.join("; ").chars().take(500).collect(), str::to_owned);
    let new = NewWorkflow { description, settings: WorkflowSettings::default(), tasks: new };
    let CreatedWorkflow { workflow, tasks } = create::create_workflow(tx, writer, &new)?;
    Ok((workflow.id, tasks))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateInput {
    #[serde(flatten)]
    one: TaskInput,
    #[serde(default)]
    tasks: Vec<TaskInput>,
    workflow_id: Option<WorkflowId>,
    workflow: Option<String>,
}

async fn create(_: ToolContext, input: CreateInput) -> CallResult {
    let CreateInput { one, tasks: several, workflow_id, workflow: description } = input;
    let alone = several.is_empty();
    let wanted = match (one.title.is_some(), alone) {
        (true, true) => vec![one],
        (false, false) => several,
        (false, true) => return Err(refuse("`title` is required, or several tasks in `tasks`")),
        (true, false) => return Err(refuse("Give either one task or several in `tasks`, not both")),
    };
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        if let (Some(own), Some(other)) = (caller.duty.workflow, workflow_id)
            && own != other
        {
            let message = format!("you work for the workflow `{own}` and can add tasks to that one only");
            return Err(Error::Conflict { message });
        }
        let workflow = caller.workflow(tx, project, workflow_id)?;
        let new = new_tasks(tx, project, workflow, &wanted)?;
        let made = create_tasks(tx, writer, workflow, description.as_deref(), new);
        let (workflow, made) = made.map_err(|error| if alone { without_list_index(error) } else { error })?;
        Ok(json!({ "workflowId": workflow, "tasks": view(&made) }))
    })
}

/// What is wrong with the one task there is, told without a list that was not given.
fn without_list_index(error: Error) -> Error {
    match error {
        Error::Invalid(mut invalid) => {
            for problem in &mut invalid.problems {
                if let Some(field) = problem.field.strip_prefix("tasks[0].") {
                    problem.field = field.to_owned();
                }
            }
            Error::Invalid(invalid)
        }
        other => other,
    }
}

fn view(made: &[Object]) -> Vec<Value> {
    TaskFields::new(Some(FieldSelection::only(["key", "title", "status", "assignedAgent"]))).tasks(made)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubtasksInput {
    tasks: Vec<TaskInput>,
    synthesis: Option<TaskInput>,
    #[serde(default)]
    blocks_parent: bool,
}

async fn subtasks(_: ToolContext, input: SubtasksInput) -> CallResult {
    let SubtasksInput { tasks: parts, synthesis, blocks_parent } = input;
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        let parent = caller.duty.task;
        if blocks_parent && parent.is_none() {
            let message = "`blocksParent` is for a run that works at a task, and yours does not".to_owned();
            return Err(Error::Conflict { message });
        }
        let workflow = caller.workflow(tx, project, None)?;
        let wanted: Vec<TaskInput> = parts.iter().cloned().chain(synthesis.clone()).collect();
        let mut new = new_tasks(tx, project, workflow, &wanted)?;
        if synthesis.is_some() {
            let keys: Vec<String> = new[..parts.len()].iter().map(|one| one.key.clone()).collect();
            new[parts.len()].blocked_by.extend(keys);
        }
        let (workflow, made) = create_tasks(tx, writer, workflow, None, new)?;
        let (of_parts, last) = made.split_at(parts.len());
        if let Some(parent) = parent.filter(|_| blocks_parent) {
            let waited_for = if last.is_empty() { of_parts } else { last };
            let (_, waiting) = tasks::neighbours(tx, project, parent)?;
            // What has begun waits for nothing any more.
            let waiting = waiting.iter().filter(|one| Task::from_object(one).status == TaskStatus::Pending);
            let edges = waiting
                .flat_map(|after| waited_for.iter().map(move |one| new_edge(BLOCKS_TYPE, one.id, after.id)));
            let drafts = edges.map(relationships::RelationshipDraft::new).collect::<Result<Vec<_>, _>>()?;
            relationships::create_all(tx, writer, &drafts)?;
        }
        let mut answer = json!({ "workflowId": workflow, "tasks": view(of_parts) });
        if let [synthesis] = view(last).as_slice() {
            answer["synthesis"] = synthesis.clone();
        }
        Ok(answer)
    })
}
