//! What holds for tasks, whichever way they come to be written: how their status moves, that none
//! of them wait for one another in a circle, how many a workflow takes, and that whoever walks a
//! workflow hears of it.
//!
//! Objects of other types and edges that are not `blocks` pass by after one comparison.
//!
//! On PostgreSQL locks are taken in one order wherever that is possible: a workflow's row, then the
//! project's `blocks`, then tasks. The dispatcher begins with the workflow, too.

use std::collections::{BTreeSet, HashMap};

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    invalid::Invalid,
    object::{NewObject, Object},
    relationship::Relationship,
    task::{BLOCKS_TYPE, TASK_TYPE, TaskStatus},
};
use emergent_store::{Tx, tasks as rows, workflows};
use serde_json::{Map, Value};

use crate::{Error, WriteContext, error::Result, objects::ObjectDraft};

mod cycles;
pub(crate) mod membership;

pub(crate) use cycles::{check_restored_edge, reject_cycles};

const STATUS: &str = "status";

fn is_task(type_: &str) -> bool {
    type_ == TASK_TYPE
}

/// A task that says nothing of its status has not begun; one that comes with an agent keeps to it.
pub(crate) fn fill_defaults(new: &mut NewObject) {
    if !is_task(&new.type_) {
        return;
    }
    new.properties.entry(STATUS).or_insert_with(|| TaskStatus::Pending.as_str().into());
    let begins = new.properties[STATUS] == TaskStatus::Pending.as_str();
    if begins && new.properties.get("assigned_agent").is_some_and(Value::is_string) {
        new.properties.entry("agent_is_named").or_insert(true.into());
    }
}

fn task_workflow(properties: &Map<String, Value>) -> Option<WorkflowId> {
    properties.get("workflow_id").and_then(Value::as_str).and_then(|id| id.parse().ok())
}

/// Which new tasks may come in: they have not begun, and their workflow has room for them.
pub(crate) struct NewTaskCheck<'a> {
    writer: &'a WriteContext,
    capacity: HashMap<WorkflowId, TaskCapacity>,
}

struct TaskCapacity {
    left: i64,
    max: usize,
}

impl<'a> NewTaskCheck<'a> {
    /// Tells the workflows of the tasks among these, which also keeps others from adding to them.
    pub(crate) fn load<'d>(
        tx: &mut Tx<'_>,
        writer: &'a WriteContext,
        drafts: impl Iterator<Item = &'d ObjectDraft>,
    ) -> Result<Self> {
        let tasks = drafts.filter(|draft| is_task(draft.type_()));
        Self::for_workflows(tx, writer, tasks.filter_map(|draft| task_workflow(draft.properties())).collect())
    }

    fn for_workflows(
        tx: &mut Tx<'_>,
        writer: &'a WriteContext,
        workflows: BTreeSet<WorkflowId>,
    ) -> Result<Self> {
        let mut room = HashMap::new();
        if !writer.is_dispatcher {
            let project = writer.project.id;
            for id in workflows {
                if workflows::bump_revision(tx, project, id)?
                    && let Some(workflow) = workflows::get(tx, project, id)?
                {
                    let most = workflow.settings.max_tasks;
                    let left = i64::try_from(most).unwrap_or(i64::MAX) - rows::count(tx, project, id)?;
                    room.insert(id, TaskCapacity { left, max: most });
                }
            }
        }
        Ok(Self { writer, capacity: room })
    }

    pub(crate) fn check(&mut self, draft: &ObjectDraft) -> Result<()> {
        if !is_task(draft.type_()) {
            return Ok(());
        }
        if !self.writer.is_dispatcher && !draft.is_imported() {
            check_new(draft.properties())?;
        }
        self.take_capacity(task_workflow(draft.properties()))
    }

    fn take_capacity(&mut self, workflow: Option<WorkflowId>) -> Result<()> {
        let Some((id, room)) = workflow.and_then(|id| Some((id, self.capacity.get_mut(&id)?))) else {
            return Ok(());
        };
        if room.left < 1 {
            let most = room.max;
            return Err(Error::Conflict {
                message: format!(
                    "the workflow `{id}` has {most} tasks, and max_tasks is {most}: it takes no more"
                ),
            });
        }
        room.left -= 1;
        Ok(())
    }
}

fn parse_status(status: &Value) -> Result<TaskStatus, Invalid> {
    status.as_str().and_then(TaskStatus::parse).ok_or_else(|| {
        let all: Vec<&str> = TaskStatus::ALL.iter().map(|one| one.as_str()).collect();
        Invalid::new("properties.status", format!("{status} is not one of {}", all.join(", ")))
    })
}

fn check_new(properties: &Map<String, Value>) -> Result<(), Invalid> {
    match properties.get(STATUS).map(parse_status).transpose()? {
        None | Some(TaskStatus::Pending) => Ok(()),
        Some(other) => Err(Invalid::new(
            "properties.status",
            format!("a new task is pending, not {other}: make it so, and move it on from there"),
        )),
    }
}

/// Whether a task's status may move like this.
fn check_transition(
    writer: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<()> {
    let (from, to) = (was.get(STATUS), after.get(STATUS));
    let Some(to) = to.filter(|to| from != Some(*to)) else { return Ok(()) };
    // What was written before there were rules is taken as the dispatcher takes it.
    let from = from.and_then(|from| parse_status(from).ok()).unwrap_or(TaskStatus::Pending);
    let to = parse_status(to)?;
    let run = was.get("run_id").and_then(Value::as_str).filter(|run| !run.is_empty());
    if let Some(run) = run.filter(|_| from == TaskStatus::InProgress && !writer.is_dispatcher) {
        let name = task_name(before.id, was);
        return Err(Error::Conflict {
            message: format!(
                "the task `{name}` is worked on by the run `{run}`: wait for its end, or cancel it"
            ),
        });
    }
    if from.can_become(to, writer.is_dispatcher) {
        return Ok(());
    }
    let possible: Vec<&str> = TaskStatus::ALL
        .iter()
        .filter(|one| **one != from && from.can_become(**one, writer.is_dispatcher))
        .map(|one| one.as_str())
        .collect();
    let then = match possible.as_slice() {
        [] => "and stays so".to_owned(),
        [one] => format!("and can only become {one}"),
        [most @ .., last] => format!("and can only become {} or {last}", most.join(", ")),
    };
    let name = task_name(before.id, was);
    Err(Error::Conflict { message: format!("the task `{name}` is {from} {then}, not {to}") })
}

/// As [`check_move`], of a dead object that is to come back changed.
pub(crate) fn check_restored(writer: &WriteContext, before: &Object, after: &ObjectDraft) -> Result<()> {
    if is_task(&before.type_) && is_task(after.type_()) {
        check_transition(writer, before, &before.properties.to_map(), after.properties())?;
    }
    Ok(())
}

/// As [`check_move`], of a dead object that is to come back as it was before.
pub(crate) fn check_reverted(writer: &WriteContext, now: &Object, before: &Object) -> Result<()> {
    if is_task(&now.type_) && is_task(&before.type_) {
        check_transition(writer, now, &now.properties.to_map(), &before.properties.to_map())?;
    }
    Ok(())
}

fn task_name(id: ObjectId, properties: &Map<String, Value>) -> String {
    let text = |name| properties.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("key").or_else(|| text("title")).map_or_else(|| id.to_string(), str::to_owned)
}

/// Before a living object is changed.
/// `was`: the properties it had.
pub(crate) fn before_update(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    after: &ObjectDraft,
) -> Result<()> {
    let (was_task, is_task) = (is_task(&before.type_), is_task(after.type_()));
    if !was_task && !is_task {
        return Ok(());
    }
    match (was_task, is_task) {
        (true, true) => check_transition(writer, before, was, after.properties())?,
        (_, true) if !writer.is_dispatcher => check_new(after.properties())?,
        _ => {}
    }
    let left = if was_task { task_workflow(was) } else { None };
    let joined = if is_task { task_workflow(after.properties()) } else { None };
    let mut gate = NewTaskCheck::for_workflows(tx, writer, left.into_iter().chain(joined).collect())?;
    if joined != left {
        gate.take_capacity(joined)?;
    }
    if !was_task { cycles::check_new_task(tx, writer, before.id) } else { Ok(()) }
}

/// When an object goes with its edges.
pub(crate) fn after_delete(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    object: &Object,
    edges: &[Relationship],
) -> Result<()> {
    notify_workflows(tx, writer, &affected_tasks(object, edges))
}

/// Before an object comes back with its edges.
pub(crate) fn before_restore(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    object: &Object,
    edges: &[Relationship],
) -> Result<()> {
    let ids = affected_tasks(object, edges);
    if ids.is_empty() {
        return Ok(());
    }
    notify_workflows(tx, writer, &ids)?;
    let tasks = rows::task_names(tx, writer.project.id, &ids)?;
    // Its row still has the type it died with; it may come back with another.
    let task = |id| if id == object.id { is_task(&object.type_) } else { tasks.contains_key(&id) };
    cycles::check_restored_edges(tx, writer, edges.iter().filter(|edge| task(edge.from) && task(edge.to)))
}

fn affected_tasks(object: &Object, edges: &[Relationship]) -> Vec<ObjectId> {
    let own = is_task(&object.type_).then_some(object.id);
    own.into_iter()
        .chain(blocks_ends(edges.iter().map(|edge| (edge.type_.as_str(), edge.from, edge.to))))
        .collect()
}

fn blocks_ends<'e>(
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> impl Iterator<Item = ObjectId> {
    edges.filter(|(type_, _, _)| *type_ == BLOCKS_TYPE).flat_map(|(_, from, to)| [from, to])
}

/// Tells the workflows at the ends of the `blocks` among these edges that something about them
/// changes, before it does.
pub(crate) fn notify_workflows_of_edges<'e>(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> Result<()> {
    notify_workflows(tx, writer, &blocks_ends(edges).collect::<Vec<_>>())
}

pub(crate) fn notify_workflows_of_edge(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edge: &Relationship,
) -> Result<()> {
    notify_workflows_of_edges(tx, writer, std::iter::once((edge.type_.as_str(), edge.from, edge.to)))
}

fn notify_workflows(tx: &mut Tx<'_>, writer: &WriteContext, tasks: &[ObjectId]) -> Result<()> {
    if writer.is_dispatcher || tasks.is_empty() {
        return Ok(());
    }
    let called = rows::task_names(tx, writer.project.id, tasks)?;
    // In order, so that two who tell several do not wait for each other.
    for id in called.into_values().filter_map(|task| task.workflow).collect::<BTreeSet<_>>() {
        workflows::bump_revision(tx, writer.project.id, id)?;
    }
    Ok(())
}
