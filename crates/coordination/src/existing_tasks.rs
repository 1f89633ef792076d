//! Tasks that are already in the graph become tasks of a workflow, with every task that `blocks` relationships
//! join with them. Only the dispatcher links a task to a workflow: it writes with the authority of that workflow.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    filter::{Filter, Op},
    ids::{ObjectId, ProjectId, WorkflowId},
    invalid::{Invalid, Problem},
    object::Object,
    query::ObjectFilter,
    task::{MAX_TASKS, TASK_TYPE, Task, TaskStatus, VerdictKind},
    workflow::{Workflow, WorkflowSettings, WorkflowStatus},
    workflow_event::WorkflowEventBody,
};
use emergent_graph::WriteContext;
use emergent_store::{
    Tx, objects as rows, tasks, transfer,
    unassigned_tasks::{self, JoinLimits, JoinedTasks, TaskHead},
    workflows,
};
use serde_json::{Map, Value, json};

use crate::{
    create::{author_run, check_key, unused_key},
    dispatchable::NameableAgents,
    error::{Error, Result},
    foreign_blockers::load_foreign_blockers,
    transactions::{new_event, update_properties},
};

/// The most bytes that the tasks of one request have: one transaction writes all of them.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The most characters of a title in the event that a task was added.
const MAX_EVENT_TITLE_CHARS: usize = 500;

/// The most tasks that the problem of a blocker names.
const MAX_NAMED_TASKS: usize = 5;

/// The request to execute tasks that are in the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct ExistingTasks {
    pub selection: TaskSelection,
    pub settings: WorkflowSettings,
}

/// Which tasks of the graph are meant.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskSelection {
    Ids(Vec<ObjectId>),
    /// The task and its whole graph.
    Root(ObjectId),
    /// The pending tasks without a workflow that have all of these labels and match all of these filters.
    Query {
        labels: Vec<String>,
        filters: Vec<Filter>,
    },
}

impl TaskSelection {
    /// The name of the field of the request.
    fn field(&self) -> &'static str {
        match self {
            TaskSelection::Ids(_) => "taskIds",
            TaskSelection::Root(_) => "rootTaskId",
            TaskSelection::Query { .. } => "query",
        }
    }

    /// The ids of the tasks that the request names or finds.
    fn ids(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<ObjectId>> {
        let ids = match self {
            TaskSelection::Ids(ids) => ids.clone(),
            TaskSelection::Root(id) => vec![*id],
            TaskSelection::Query { labels, filters } => find_by_query(tx, project, labels, filters)?,
        };
        let problem = match ids.len() {
            0 if matches!(self, TaskSelection::Query { .. }) => {
                nothing_found(find_by_query(tx, project, &[], &[])?.len())
            }
            0 => "is empty".to_owned(),
            count if count > MAX_TASKS => too_many(),
            _ => return Ok(ids),
        };
        Err(Invalid::new(self.field(), problem).into())
    }

    /// The path of a task in the request.
    fn path(&self, ids: &[ObjectId], task: ObjectId) -> String {
        match (self, ids.iter().position(|id| *id == task)) {
            (TaskSelection::Ids(_), Some(index)) => format!("taskIds[{index}]"),
            _ => self.field().to_owned(),
        }
    }
}

/// Why a query finds nothing: there is no such task, or the labels and filters match none of them.
fn nothing_found(pending: usize) -> String {
    match pending {
        0 => "finds no pending task without a workflow".to_owned(),
        1 => "does not match the only pending task without a workflow".to_owned(),
        count if count > MAX_TASKS => {
            format!("matches none of the more than {MAX_TASKS} pending tasks without a workflow")
        }
        count => format!("matches none of the {count} pending tasks without a workflow"),
    }
}

fn too_many() -> String {
    format!("there are more than {MAX_TASKS} tasks of one workflow: name fewer, or remove `blocks` edges")
}

fn find_by_query(
    tx: &mut Tx<'_>,
    project: ProjectId,
    labels: &[String],
    filters: &[Filter],
) -> Result<Vec<ObjectId>> {
    let mut filter = ObjectFilter {
        types: vec![TASK_TYPE.to_owned()],
        labels: labels.to_vec(),
        filters: filters.to_vec(),
        ..ObjectFilter::default()
    };
    filter.check().map_err(|invalid| invalid.prefixed("query"))?;
    filter.filters.extend([
        Filter { path: "status".to_owned(), op: Op::Eq, value: Some(json!(TaskStatus::Pending.as_str())) },
        Filter { path: "workflow_id".to_owned(), op: Op::Exists, value: Some(json!(false)) },
    ]);
    let page = emergent_domain::cursor::Page::first(MAX_TASKS + 1);
    Ok(rows::list(tx, project, &filter, &page)?.items.into_iter().map(|task| task.id).collect())
}

/// Finds the tasks that a request is about, and checks that a workflow can execute them. Tasks of cancelled
/// workflows are among them: the caller takes them from these workflows.
pub(crate) fn find_tasks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    selection: &TaskSelection,
) -> Result<Vec<Object>> {
    let ids = selection.ids(tx, project)?;
    check_named(tx, project, selection, &ids)?;
    let limits = JoinLimits { max_tasks: MAX_TASKS, max_bytes: MAX_REQUEST_BYTES };
    let joined = list_free(tx, project, &ids, limits, FreeTasks::WithCancelled)?;
    if joined.heads.len() > MAX_TASKS {
        return Err(Invalid::new(selection.field(), too_many()).into());
    }
    if joined.is_cut {
        let reason = format!(
            "these tasks and those that `blocks` joins with them have more than {} MiB: name fewer, or move their \
             contents to other objects",
            MAX_REQUEST_BYTES >> 20
        );
        return Err(Invalid::new(selection.field(), reason).into());
    }
    let found = load_tasks(tx, project, &joined.heads)?;
    let is_open = |object: &Object| Task::from_object(object).status != TaskStatus::Completed;
    if !found.iter().any(is_open) {
        return Err(Invalid::new(selection.field(), "names no task that is left to be done").into());
    }
    check_blockers(tx, project, selection, &ids, &found)?;
    Ok(found)
}

/// Checks that each of these tasks can start some day: no task outside of them that it waits for has failed, was skipped,
/// or is left in a workflow that has ended.
fn check_blockers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    selection: &TaskSelection,
    ids: &[ObjectId],
    found: &[Object],
) -> Result<()> {
    let tasks: Vec<Task> = found.iter().map(Task::from_object).collect();
    let open: HashMap<ObjectId, &Task> = tasks
        .iter()
        .filter(|task| task.status != TaskStatus::Completed)
        .map(|task| (task.id, task))
        .collect();
    let mut open_ids: Vec<ObjectId> = open.keys().copied().collect();
    open_ids.sort_unstable();
    let blocks = tasks::list_blocks_of(tx, &open_ids)?;
    let mut problems = Vec::new();
    for blocker in load_foreign_blockers(tx, project, &tasks, &blocks)? {
        let Some(why) = &blocker.dead_reason else { continue };
        let waiting =
            blocks.iter().filter(|(from, _)| *from == blocker.id).filter_map(|(_, to)| open.get(to));
        let mut waiting: Vec<&&Task> = waiting.collect();
        waiting.sort_by_key(|task| task.id);
        let Some(first) = waiting.first() else { continue };
        let names: Vec<String> =
            waiting.iter().take(MAX_NAMED_TASKS).map(|task| format!("`{}`", task.key)).collect();
        let (names, more) = (names.join(", "), waiting.len().saturating_sub(MAX_NAMED_TASKS));
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        let remedy = match blocker.workflow {
            // A task without a workflow, or of one that is gone.
            None => retry_first(blocker.id),
            Some(_) => "retry it there, resume that workflow, or remove the `blocks` relationship".to_owned(),
        };
        let reason = format!("{names}{more} {verb} for {}, which {why}: {remedy}", blocker.name);
        problems.push(Problem::new(selection.path(ids, first.id), reason));
    }
    Ok(Invalid::if_any(problems)?)
}

/// What to do first about a task without a workflow that failed or was skipped.
fn retry_first(id: ObjectId) -> String {
    format!("make it pending first with POST /api/coordination/tasks/{id}/retry (`emergent task retry {id}`)")
}

/// Checks each task that a request names: it exists, no workflow has it, and it can start.
fn check_named(
    tx: &mut Tx<'_>,
    project: ProjectId,
    selection: &TaskSelection,
    ids: &[ObjectId],
) -> Result<()> {
    let mut problems = Vec::new();
    for id in ids {
        let object = rows::get(tx, project, *id)?.filter(|object| object.type_ == TASK_TYPE);
        let reason = match object.as_ref().map(Task::from_object) {
            None => format!("there is no task `{id}`"),
            Some(task) => match assigned_workflow(tx, project, &task)? {
                // Nobody goes on with a cancelled workflow, so another one takes its tasks.
                Some(workflow) if workflow.status == WorkflowStatus::Cancelled => continue,
                Some(workflow) => format!(
                    "the task `{}` belongs to the workflow `{}`, which is {}: {}",
                    task.key,
                    workflow.id,
                    workflow.status,
                    next_step(workflow.status)
                ),
                None if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) => {
                    format!("the task `{}` is {}: {}", task.key, task.status, retry_first(*id))
                }
                None => continue,
            },
        };
        problems.push(Problem::new(selection.path(ids, *id), reason));
    }
    Ok(Invalid::if_any(problems)?)
}

/// What somebody can do who wants a task of a workflow with this status to be executed.
fn next_step(status: WorkflowStatus) -> &'static str {
    match status {
        WorkflowStatus::Planning | WorkflowStatus::Running => "it is executed there",
        WorkflowStatus::Escalated | WorkflowStatus::Failed => "retry it there, or resume that workflow",
        WorkflowStatus::Completed | WorkflowStatus::Cancelled => {
            "create a new task for what is left to be done"
        }
    }
}

/// The workflow that a task belongs to. A task that was imported may name a workflow of another server, which
/// does not count.
pub(crate) fn assigned_workflow(
    tx: &mut Tx<'_>,
    project: ProjectId,
    task: &Task,
) -> Result<Option<Workflow>> {
    Ok(match task.workflow {
        Some(id) => workflows::get(tx, project, id)?,
        None => None,
    })
}

/// Which tasks a workflow can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeTasks {
    /// Those that no workflow has and that did not fail.
    Unassigned,
    /// Also those of cancelled workflows, however they ended.
    WithCancelled,
}

/// These tasks and those that `blocks` edges join with them, as far as a workflow can take them.
pub(crate) fn list_free(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
    limits: JoinLimits,
    free: FreeTasks,
) -> Result<JoinedTasks> {
    let mut statuses: HashMap<WorkflowId, Option<WorkflowStatus>> = HashMap::new();
    let is_free = |tx: &mut Tx<'_>, head: &TaskHead| {
        let workflow = match head.workflow {
            None => None,
            Some(id) => match statuses.get(&id) {
                Some(status) => *status,
                None => {
                    let status = workflows::get(tx, project, id)?.map(|workflow| workflow.status);
                    *statuses.entry(id).or_insert(status)
                }
            },
        };
        Ok(match workflow {
            Some(status) => free == FreeTasks::WithCancelled && status == WorkflowStatus::Cancelled,
            None => !matches!(head.status, TaskStatus::Failed | TaskStatus::Skipped),
        })
    };
    Ok(unassigned_tasks::list_joined(tx, project, ids, limits, is_free)?)
}

/// The tasks of these heads in their order. Those that were changed since their heads were read are left out.
pub(crate) fn load_tasks(tx: &mut Tx<'_>, project: ProjectId, heads: &[TaskHead]) -> Result<Vec<Object>> {
    let ids: Vec<ObjectId> = heads.iter().map(|head| head.id).collect();
    let mut objects: HashMap<ObjectId, Object> =
        transfer::objects_by_id(tx, project, &ids)?.into_iter().map(|object| (object.id, object)).collect();
    let is_same = |object: &Object, head: &TaskHead| object.version == head.version;
    Ok(heads
        .iter()
        .filter_map(|head| objects.remove(&head.id).filter(|object| is_same(object, head)))
        .collect())
}

/// Returns why these tasks cannot be executed. An agent that a task names is a wish: it must be one that the
/// author of the request may name.
pub(crate) fn task_problems(found: &[Object], agents: &NameableAgents) -> Vec<Problem> {
    let all: Vec<Task> = found.iter().map(Task::from_object).collect();
    let keys: HashSet<&str> = all.iter().map(|task| task.key.as_str()).collect();
    let mut problems = Vec::new();
    for task in all.iter().filter(|task| task.status != TaskStatus::Completed) {
        let mut add = |reason: String| {
            problems.push(Problem::new("tasks", format!("task `{}` ({}) {reason}", task.key, task.id)));
        };
        if task.title.trim().is_empty() && task.description.trim().is_empty() {
            add("has neither a title nor a description".to_owned());
        }
        for name in task.named_agents() {
            if let Some(problem) = agents.problem(name, true) {
                add(format!("names the agent `{name}`, which this request cannot start: {problem}"));
            }
        }
        if task.verdict != VerdictKind::None
            && let Some(key) = task.verifies.iter().find(|key| !keys.contains(key.as_str()))
        {
            add(format!("judges the task `{key}`, which is not joined with it by `blocks`"));
        }
    }
    problems
}

/// Makes these tasks tasks of the workflow, whose row the transaction has locked. `taken` are the keys of its
/// other tasks. Returns the tasks as they are now.
pub(crate) fn assign_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    found: &[Object],
    mut taken: HashSet<String>,
) -> Result<Vec<Object>> {
    let mut changes: Vec<(&Object, Map<String, Value>)> = Vec::with_capacity(found.len());
    for object in found {
        let task = Task::from_object(object);
        let key = workflow_key(&task, object, &taken);
        taken.insert(key.clone());
        let mut properties = Map::from_iter([
            ("workflow_id".to_owned(), json!(workflow.to_string())),
            ("key".to_owned(), json!(key)),
        ]);
        if task.status == TaskStatus::Pending && task.assigned_agent.is_some() {
            properties.insert("agent_is_named".to_owned(), json!(true));
        }
        changes.push((object, properties));
    }
    // Rows are locked in the order of their ids, so that two requests cannot wait for each other.
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|index| changes[*index].0.id);
    let mut assigned: HashMap<ObjectId, Object> = HashMap::new();
    for index in order {
        let (object, properties) = &changes[index];
        let changed = update_properties(tx, writer, object.id, Value::Object(properties.clone()))?;
        // Somebody else changed the task since it was read, and may have given it to another workflow.
        if changed.version != object.version + 1 {
            let message = format!("the task `{}` was changed at the same time: try again", object.id);
            return Err(Error::Conflict(message));
        }
        assigned.insert(changed.id, changed);
    }
    let assigned: Vec<Object> = found.iter().filter_map(|object| assigned.remove(&object.id)).collect();
    let ids: Vec<ObjectId> = assigned.iter().map(|object| object.id).collect();
    unassigned_tasks::delete_refusals(tx, &ids)?;
    record_added(tx, writer, workflow, &assigned)?;
    Ok(assigned)
}

/// The name of a task within the workflow: its own, or else one made from its title.
fn workflow_key(task: &Task, object: &Object, taken: &HashSet<String>) -> String {
    let own = task.key != object.id.to_string() && check_key(&task.key).is_ok();
    match own && !taken.contains(&task.key) {
        true => task.key.clone(),
        false if own => unused_key(&task.key, taken),
        false => unused_key(&task.title, taken),
    }
}

fn record_added(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    assigned: &[Object],
) -> Result<()> {
    let project = writer.project.id;
    let all: Vec<Task> = assigned.iter().map(Task::from_object).collect();
    let keys: HashMap<ObjectId, &str> = all.iter().map(|task| (task.id, task.key.as_str())).collect();
    let mut blocked_by: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (from, to) in tasks::list_blocks(tx, project, workflow)? {
        let blocker = keys.get(&from).map_or_else(|| from.to_string(), |&key| key.to_owned());
        blocked_by.entry(to).or_default().push(blocker);
    }
    let run = author_run(writer);
    let event = |task: &Task| {
        let added = WorkflowEventBody::TaskAdded {
            key: task.key.clone(),
            title: task.title.chars().take(MAX_EVENT_TITLE_CHARS).collect(),
            kind: task.kind.clone(),
            assigned_agent: task.assigned_agent.clone(),
            blocked_by: blocked_by.get(&task.id).cloned().unwrap_or_default(),
        };
        new_event(Some(task.id), run, &added, writer.now)
    };
    let events: Vec<_> = all.iter().map(event).collect();
    Ok(workflows::append_events(tx, workflow, &events)?)
}
