//! The tools `tasks_create` and `create_subtasks`.

use std::{collections::HashSet, sync::Arc};

use emergent_domain::{
    coordination::DiscussionDefaults,
    ids::{ObjectId, WorkflowId},
    object::Object,
    task::{BLOCKS_TYPE, NewTask, Priority, Task, TaskStatus, VerdictKind},
    token::Scope,
    workflow::WorkflowSettings,
};
use emergent_graph::{Error, Result, WriteContext, relationships};
use emergent_store::{Tx, tasks};
use emergent_tools::{
    Tool, ToolContext,
    builtin::{
        define::{CallResult, graph_change, refuse, write_tool_with_scope},
        input::{OneOf, Uuid},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    caller::{Caller, TaskRef, check_may_read},
    view::TaskFields,
};
use crate::create::{self, CreatedWorkflow, NewWorkflow, author_run, new_edge, unused_key};

/// The most characters of a description that is made from titles.
const MAX_DESCRIPTION_CHARS: usize = 500;
/// The most tasks of one tool call.
const MAX_TASKS_PER_CALL: usize = 200;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        write_tool_with_scope(
            Scope::AgentsInvoke,
            "tasks_create",
            "Creates tasks for agents: give `title` and more of one, or several in `tasks`, all or nothing. The dispatcher starts \
             each as soon as all of its `blockedBy` are completed; you need not wait. They are added to your workflow, or \
             start one. Returns `workflowId`, and `tasks` with `id` and `key`.",
            create,
        ),
        write_tool_with_scope(
            Scope::AgentsInvoke,
            "create_subtasks",
            "Splits your work into tasks of your workflow that run in parallel, with an optional `synthesis` task that waits \
             for all of them and combines the results. Returns `workflowId`, `tasks` and `synthesis`.",
            subtasks,
        ),
    ]
}

/// One task of several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskInput {
    /// What to do, in few words.
    #[schemars(length(min = 1, max = 500))]
    title: String,
    #[serde(flatten)]
    details: TaskDetails,
}

/// What one task and each of several have in common.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskDetails {
    /// Short name; default: from the title.
    #[schemars(length(min = 1, max = 64))]
    key: Option<String>,
    /// All its agent must know; it cannot see your conversation.
    #[schemars(length(min = 1, max = 100_000))]
    description: Option<String>,
    /// Such as research, implement, test, review.
    #[schemars(length(min = 1, max = 64))]
    kind: Option<String>,
    /// Help to choose an agent.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    tags: Vec<String>,
    /// Default: medium.
    #[schemars(with = "Option<OneOf<Priority>>")]
    priority: Option<Priority>,
    /// Difficulty.
    #[schemars(range(min = 1, max = 10))]
    complexity: Option<i64>,
    /// Agent to do it; default: chosen.
    #[schemars(length(min = 1, max = 128))]
    assigned_agent: Option<String>,
    /// Keys or ids of tasks to complete first.
    #[serde(default)]
    #[schemars(length(max = 200))]
    blocked_by: Vec<TaskRef>,
    /// Other agents discuss its result.
    #[serde(default)]
    requires_collaboration: bool,
    /// Who discusses it; default: chosen.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(min = 1, max = 128)))]
    collaborators: Vec<String>,
    /// For a task that judges others.
    #[schemars(with = "Option<OneOf<VerdictKind>>")]
    verdict: Option<VerdictKind>,
    /// Tasks it judges; default: `blockedBy`.
    #[serde(default)]
    #[schemars(length(max = 200))]
    verifies: Vec<TaskRef>,
    /// Default: 3.
    #[schemars(range(min = 0, max = 100))]
    max_retries: Option<i64>,
    /// JSON Schema of its result; default: its agent's.
    output_schema: Option<Map<String, Value>>,
}

impl TaskInput {
    fn to_new_task(
        &self,
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        workflow: Option<WorkflowId>,
        taken: &mut HashSet<String>,
    ) -> Result<NewTask> {
        let TaskInput { title, details } = self;
        let key = details.key.clone().unwrap_or_else(|| unused_key(title, taken));
        taken.insert(key.clone());
        let mut keys = |refs: &[TaskRef]| -> Result<Vec<String>> {
            refs.iter().map(|task| task.key_in_workflow(tx, writer, workflow)).collect()
        };
        Ok(NewTask {
            key,
            title: title.clone(),
            description: details.description.clone().unwrap_or_default(),
            kind: details.kind.clone().unwrap_or_default(),
            tags: details.tags.clone(),
            priority: details.priority.unwrap_or_default(),
            complexity: details.complexity,
            assigned_agent: details.assigned_agent.clone(),
            blocked_by: keys(&details.blocked_by)?,
            requires_collaboration: details.requires_collaboration,
            collaborators: details.collaborators.clone(),
            discussion: DiscussionDefaults::default(),
            verdict: details.verdict.unwrap_or_default(),
            verifies: keys(&details.verifies)?,
            max_retries: details.max_retries,
            output_schema: details.output_schema.clone().map(Value::Object),
        })
    }
}

/// Converts inputs to new tasks. A task without a key gets an unused one.
fn new_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: Option<WorkflowId>,
    inputs: &[TaskInput],
) -> Result<Vec<NewTask>> {
    let mut taken: HashSet<String> = inputs.iter().filter_map(|task| task.details.key.clone()).collect();
    if let Some(workflow) = workflow {
        taken.extend(tasks::list_keys(tx, writer.project.id, workflow)?.into_iter().map(|(key, _)| key));
    }
    inputs.iter().map(|input| input.to_new_task(tx, writer, workflow, &mut taken)).collect()
}

/// Adds tasks to a workflow, or starts a workflow with them. Without a description, the workflow is
/// described by the titles of its tasks.
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
    let titles: Vec<&str> = new.iter().map(|task| task.title.as_str()).collect();
    let description = description
        .map_or_else(|| titles.join("; ").chars().take(MAX_DESCRIPTION_CHARS).collect(), str::to_owned);
    let new = NewWorkflow { description, settings: WorkflowSettings::default(), tasks: new };
    let CreatedWorkflow { workflow, tasks } = create::create_workflow(tx, writer, &new)?;
    Ok((workflow.id, tasks))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "tasks": [
    { "key": "build", "title": "Implement tags", "kind": "implement" },
    { "title": "Test tags", "kind": "test", "verdict": "test", "blockedBy": ["build"] },
] }))]
struct CreateInput {
    /// What to do, in few words.
    #[schemars(length(min = 1, max = 500))]
    title: Option<String>,
    #[serde(flatten)]
    details: TaskDetails,
    /// Several tasks, instead of one.
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_TASKS_PER_CALL))]
    tasks: Vec<TaskInput>,
    /// Workflow to add them to; default: yours.
    #[schemars(with = "Option<Uuid>")]
    workflow_id: Option<WorkflowId>,
    /// Purpose of the workflow they start.
    #[schemars(length(min = 1, max = 4_000))]
    workflow: Option<String>,
}

async fn create(_: ToolContext, input: CreateInput) -> CallResult {
    let CreateInput { title, details, tasks: several, workflow_id, workflow: description } = input;
    let is_single = several.is_empty();
    let inputs = match (title, is_single) {
        (Some(title), true) => vec![TaskInput { title, details }],
        (None, false) => several,
        (None, true) => return Err(refuse("`title` is required, or several tasks in `tasks`")),
        (Some(_), false) => return Err(refuse("Give either one task or several in `tasks`, not both")),
    };
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        if let (Some(own), Some(other)) = (caller.link.workflow, workflow_id)
            && own != other
        {
            let message = format!("you work for the workflow `{own}` and can add tasks to that one only");
            return Err(Error::Conflict { message });
        }
        if workflow_id.is_some() {
            check_may_read(tx, writer.author, "workflowId")?;
        }
        let workflow = caller.workflow(tx, project, workflow_id)?;
        let new = new_tasks(tx, writer, workflow, &inputs)?;
        let created = create_tasks(tx, writer, workflow, description.as_deref(), new);
        let (workflow, created) =
            created.map_err(|error| if is_single { without_list_index(error) } else { error })?;
        Ok(json!({ "workflowId": workflow, "tasks": view(&created) }))
    })
}

/// The error of a single task, without the index of a list that the input does not have.
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

fn view(tasks: &[Object]) -> Vec<Value> {
    TaskFields::only(["key", "title", "status", "assignedAgent"]).tasks(tasks)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({
    "tasks": [{ "title": "Research tags in other tools" }, { "title": "Research how users sort" }],
    "synthesis": { "title": "Compare the results" },
}))]
struct SubtasksInput {
    /// The parts; they run in parallel unless `blockedBy` says otherwise.
    #[schemars(length(min = 1, max = MAX_TASKS_PER_CALL))]
    tasks: Vec<TaskInput>,
    /// Task that combines the results; fields as in `tasks`.
    #[schemars(extend("described_in" = "tasks"))]
    synthesis: Option<TaskInput>,
    /// Dependents of your own task also wait for these, or for the synthesis; default: yes.
    blocks_parent: Option<bool>,
}

async fn subtasks(_: ToolContext, input: SubtasksInput) -> CallResult {
    let SubtasksInput { tasks: parts, synthesis, blocks_parent } = input;
    graph_change(move |tx, writer| {
        let project = writer.project.id;
        let caller = Caller::load(tx, project, author_run(writer))?;
        let parent = caller.link.task;
        if blocks_parent == Some(true) && parent.is_none() {
            let message = "`blocksParent` is for a run that works at a task, and yours does not".to_owned();
            return Err(Error::Conflict { message });
        }
        let workflow = caller.workflow(tx, project, None)?;
        let inputs: Vec<TaskInput> = parts.iter().cloned().chain(synthesis.clone()).collect();
        let mut new = new_tasks(tx, writer, workflow, &inputs)?;
        if synthesis.is_some() {
            let keys: Vec<String> = new[..parts.len()].iter().map(|task| task.key.clone()).collect();
            new[parts.len()].blocked_by.extend(keys);
        }
        let (workflow, created) = create_tasks(tx, writer, workflow, None, new)?;
        let (part_objects, synthesis_objects) = created.split_at(parts.len());
        if let Some(parent) = parent.filter(|_| blocks_parent != Some(false)) {
            let blockers = if synthesis_objects.is_empty() { part_objects } else { synthesis_objects };
            block_dependents(tx, writer, parent, blockers, blocks_parent.is_none())?;
        }
        let mut answer = json!({ "workflowId": workflow, "tasks": view(part_objects) });
        if let [synthesis] = view(synthesis_objects).as_slice() {
            answer["synthesis"] = synthesis.clone();
        }
        Ok(answer)
    })
}

/// Lets the tasks that depend on `parent` wait for `blockers` as well. `skips_cycles`: a dependent that one of the
/// blockers waits for is left as it is, instead of refusing the call.
fn block_dependents(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    parent: ObjectId,
    blockers: &[Object],
    skips_cycles: bool,
) -> Result<()> {
    let (_, dependents) = tasks::neighbours(tx, writer.project.id, parent)?;
    let mut drafts = Vec::new();
    // Only pending tasks wait for blockers.
    for dependent in dependents.iter().filter(|task| Task::from_object(task).status == TaskStatus::Pending) {
        let is_blocker = |id: &ObjectId| blockers.iter().any(|blocker| blocker.id == *id);
        // If too many edges lead on from it, nobody knows, and the new edges would be refused.
        let is_cycle = skips_cycles && {
            let reached = tasks::reachable_blocks(tx, &[dependent.id])?;
            reached.is_cut || reached.edges.iter().any(|(_, to)| is_blocker(to))
        };
        if !is_cycle {
            for blocker in blockers {
                let edge = new_edge(BLOCKS_TYPE, blocker.id, dependent.id);
                drafts.push(relationships::RelationshipDraft::new(edge)?);
            }
        }
    }
    relationships::create_all(tx, writer, &drafts)?;
    Ok(())
}
