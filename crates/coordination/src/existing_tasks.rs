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
    workflow::{Workflow, WorkflowSettings},
    workflow_event::WorkflowEventBody,
};
use emergent_graph::WriteContext;
use emergent_store::{Tx, objects as rows, tasks, workflows};
use serde_json::{Map, Value, json};

use crate::{
    create::{author_run, check_key, unused_key},
    error::{Error, Result},
    transactions::{new_event, update_properties},
};

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
                "finds no pending task without a workflow".to_owned()
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

/// Finds the tasks that a request is about, and checks that a workflow can execute them.
pub(crate) fn find_tasks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    selection: &TaskSelection,
) -> Result<Vec<Object>> {
    let ids = selection.ids(tx, project)?;
    check_named(tx, project, selection, &ids)?;
    let found = list_free(tx, project, &ids)?;
    if found.len() > MAX_TASKS {
        return Err(Invalid::new(selection.field(), too_many()).into());
    }
    let is_open = |object: &Object| Task::from_object(object).status != TaskStatus::Completed;
    if !found.iter().any(is_open) {
        return Err(Invalid::new(selection.field(), "names no task that is left to be done").into());
    }
    Ok(found)
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
                Some(workflow) => format!(
                    "the task `{}` belongs to the workflow `{}`, which is {}: retry it there, or resume that \
                     workflow",
                    task.key, workflow.id, workflow.status
                ),
                None if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) => format!(
                    "the task `{}` is {}: make it pending first with POST /api/coordination/tasks/{id}/retry \
                     (`emergent task retry {id}`)",
                    task.key, task.status
                ),
                None => continue,
            },
        };
        problems.push(Problem::new(selection.path(ids, *id), reason));
    }
    Ok(Invalid::if_any(problems)?)
}

/// The workflow that a task belongs to. A task that was imported may name a workflow of another server, which
/// does not count.
fn assigned_workflow(tx: &mut Tx<'_>, project: ProjectId, task: &Task) -> Result<Option<Workflow>> {
    Ok(match task.workflow {
        Some(id) => workflows::get(tx, project, id)?,
        None => None,
    })
}

/// These tasks and those that `blocks` edges join with them, as far as no workflow has them and they did not
/// fail. Returns at most one more than a workflow can have.
pub(crate) fn list_free(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<Vec<Object>> {
    let mut known: HashMap<WorkflowId, bool> = HashMap::new();
    let is_free = |tx: &mut Tx<'_>, object: &Object| {
        let task = Task::from_object(object);
        let has_workflow = match task.workflow {
            None => false,
            Some(id) => match known.get(&id) {
                Some(exists) => *exists,
                None => {
                    let exists = workflows::get(tx, project, id)?.is_some();
                    *known.entry(id).or_insert(exists)
                }
            },
        };
        Ok(!has_workflow && !matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped))
    };
    let mut found = tasks::list_joined(tx, project, ids, MAX_TASKS, is_free)?;
    found.truncate(MAX_TASKS + 1);
    Ok(found)
}

/// Returns why these tasks cannot be executed. An agent that a task names is a wish: it must be one that
/// workflows of the project may start.
pub(crate) fn task_problems(found: &[Object], agents: &HashSet<String>) -> Vec<Problem> {
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
        for name in task.assigned_agent.iter().chain(&task.collaborators) {
            if !agents.contains(name) {
                add(format!(
                    "names the agent `{name}`, which workflows of this project cannot start: there is none of that \
                     name, or it is internal without `config.dispatchable`"
                ));
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
            title: task.title.clone(),
            kind: task.kind.clone(),
            assigned_agent: task.assigned_agent.clone(),
            blocked_by: blocked_by.get(&task.id).cloned().unwrap_or_default(),
        };
        new_event(Some(task.id), run, &added, writer.now)
    };
    let events: Vec<_> = all.iter().map(event).collect();
    Ok(workflows::append_events(tx, workflow, &events)?)
}
