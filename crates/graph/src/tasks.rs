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
    task::{BLOCKS, TASK_TYPE, TaskStatus},
};
use emergent_store::{Tx, tasks as rows, workflows};
use serde_json::{Map, Value};

use crate::{Error, Writer, error::Result, objects::Draft};

mod circles;
pub(crate) mod joining;

pub(crate) use circles::{check_coming_edge, refuse_circles};

const STATUS: &str = "status";

fn is_task(type_: &str) -> bool {
    type_ == TASK_TYPE
}

/// A task that says nothing of its status has not begun; one that comes with an agent keeps to it.
pub(crate) fn complete(new: &mut NewObject) {
    if !is_task(&new.type_) {
        return;
    }
    new.properties.entry(STATUS).or_insert_with(|| TaskStatus::Pending.as_str().into());
    let begins = new.properties[STATUS] == TaskStatus::Pending.as_str();
    if begins && new.properties.get("assigned_agent").is_some_and(Value::is_string) {
        new.properties.entry("agent_is_named").or_insert(true.into());
    }
}

fn workflow_of(properties: &Map<String, Value>) -> Option<WorkflowId> {
    properties.get("workflow_id").and_then(Value::as_str).and_then(|id| id.parse().ok())
}

/// Which new tasks may come in: they have not begun, and their workflow has room for them.
pub(crate) struct Gate<'a> {
    writer: &'a Writer,
    room: HashMap<WorkflowId, Room>,
}

struct Room {
    left: i64,
    most: usize,
}

impl<'a> Gate<'a> {
    /// Tells the workflows of the tasks among these, which also keeps others from adding to them.
    pub(crate) fn open<'d>(
        tx: &mut Tx<'_>,
        writer: &'a Writer,
        drafts: impl Iterator<Item = &'d Draft>,
    ) -> Result<Self> {
        let tasks = drafts.filter(|draft| is_task(draft.type_()));
        Self::of(tx, writer, tasks.filter_map(|draft| workflow_of(draft.properties())).collect())
    }

    fn of(tx: &mut Tx<'_>, writer: &'a Writer, workflows: BTreeSet<WorkflowId>) -> Result<Self> {
        let mut room = HashMap::new();
        if !writer.dispatcher {
            let project = writer.project.id;
            for id in workflows {
                if workflows::touch(tx, project, id)?
                    && let Some(workflow) = workflows::get(tx, project, id)?
                {
                    let most = workflow.settings.max_tasks;
                    let left = i64::try_from(most).unwrap_or(i64::MAX) - rows::count(tx, project, id)?;
                    room.insert(id, Room { left, most });
                }
            }
        }
        Ok(Self { writer, room })
    }

    pub(crate) fn admit(&mut self, draft: &Draft) -> Result<()> {
        if !is_task(draft.type_()) {
            return Ok(());
        }
        if !self.writer.dispatcher && !draft.is_imported() {
            check_new(draft.properties())?;
        }
        self.seat(workflow_of(draft.properties()))
    }

    fn seat(&mut self, workflow: Option<WorkflowId>) -> Result<()> {
        let Some((id, room)) = workflow.and_then(|id| Some((id, self.room.get_mut(&id)?))) else {
            return Ok(());
        };
        if room.left < 1 {
            let most = room.most;
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

fn parse(status: &Value) -> Result<TaskStatus, Invalid> {
    status.as_str().and_then(TaskStatus::parse).ok_or_else(|| {
        let all: Vec<&str> = TaskStatus::ALL.iter().map(|one| one.as_str()).collect();
        Invalid::one("properties.status", format!("{status} is not one of {}", all.join(", ")))
    })
}

fn check_new(properties: &Map<String, Value>) -> Result<(), Invalid> {
    match properties.get(STATUS).map(parse).transpose()? {
        None | Some(TaskStatus::Pending) => Ok(()),
        Some(other) => Err(Invalid::one(
            "properties.status",
            format!("a new task is pending, not {other}: make it so, and move it on from there"),
        )),
    }
}

/// Whether a task's status may move like this.
fn check_move(
    writer: &Writer,
    before: &Object,
    was: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<()> {
    let (from, to) = (was.get(STATUS), after.get(STATUS));
    let Some(to) = to.filter(|to| from != Some(*to)) else { return Ok(()) };
    // What was written before there were rules is taken as the dispatcher takes it.
    let from = from.and_then(|from| parse(from).ok()).unwrap_or(TaskStatus::Pending);
    let to = parse(to)?;
    let run = was.get("run_id").and_then(Value::as_str).filter(|run| !run.is_empty());
    if let Some(run) = run.filter(|_| from == TaskStatus::InProgress && !writer.dispatcher) {
        let name = name_of(before.id, was);
        return Err(Error::Conflict {
            message: format!(
                "the task `{name}` is worked on by the run `{run}`: wait for its end, or cancel it"
            ),
        });
    }
    if from.may_become(to, writer.dispatcher) {
        return Ok(());
    }
    let possible: Vec<&str> = TaskStatus::ALL
        .iter()
        .filter(|one| **one != from && from.may_become(**one, writer.dispatcher))
        .map(|one| one.as_str())
        .collect();
    let then = match possible.as_slice() {
        [] => "and stays so".to_owned(),
        [one] => format!("and can only become {one}"),
        [most @ .., last] => format!("and can only become {} or {last}", most.join(", ")),
    };
    let name = name_of(before.id, was);
    Err(Error::Conflict { message: format!("the task `{name}` is {from} {then}, not {to}") })
}

/// As [`check_move`], of a dead object that is to come back changed.
pub(crate) fn check_restored(writer: &Writer, before: &Object, after: &Draft) -> Result<()> {
    if is_task(&before.type_) && is_task(after.type_()) {
        check_move(writer, before, &before.properties.to_map(), after.properties())?;
    }
    Ok(())
}

/// As [`check_move`], of a dead object that is to come back as it was before.
pub(crate) fn check_reverted(writer: &Writer, now: &Object, before: &Object) -> Result<()> {
    if is_task(&now.type_) && is_task(&before.type_) {
        check_move(writer, now, &now.properties.to_map(), &before.properties.to_map())?;
    }
    Ok(())
}

fn name_of(id: ObjectId, properties: &Map<String, Value>) -> String {
    let text = |name| properties.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("key").or_else(|| text("title")).map_or_else(|| id.to_string(), str::to_owned)
}

/// Before a living object is changed.
/// `was`: the properties it had.
pub(crate) fn change(
    tx: &mut Tx<'_>,
    writer: &Writer,
    before: &Object,
    was: &Map<String, Value>,
    after: &Draft,
) -> Result<()> {
    let (was_task, is_task) = (is_task(&before.type_), is_task(after.type_()));
    if !was_task && !is_task {
        return Ok(());
    }
    match (was_task, is_task) {
        (true, true) => check_move(writer, before, was, after.properties())?,
        (_, true) if !writer.dispatcher => check_new(after.properties())?,
        _ => {}
    }
    let left = if was_task { workflow_of(was) } else { None };
    let joined = if is_task { workflow_of(after.properties()) } else { None };
    let mut gate = Gate::of(tx, writer, left.into_iter().chain(joined).collect())?;
    if joined != left {
        gate.seat(joined)?;
    }
    if !was_task { circles::check_newcomer(tx, writer, before.id) } else { Ok(()) }
}

/// When an object goes with its edges.
pub(crate) fn gone(tx: &mut Tx<'_>, writer: &Writer, object: &Object, edges: &[Relationship]) -> Result<()> {
    announce(tx, writer, &concerned(object, edges))
}

/// Before an object comes back with its edges.
pub(crate) fn coming(
    tx: &mut Tx<'_>,
    writer: &Writer,
    object: &Object,
    edges: &[Relationship],
) -> Result<()> {
    let ids = concerned(object, edges);
    if ids.is_empty() {
        return Ok(());
    }
    announce(tx, writer, &ids)?;
    let tasks = rows::called(tx, writer.project.id, &ids)?;
    // Its row still has the type it died with; it may come back with another.
    let task = |id| if id == object.id { is_task(&object.type_) } else { tasks.contains_key(&id) };
    circles::check_coming(tx, writer, edges.iter().filter(|edge| task(edge.from) && task(edge.to)))
}

fn concerned(object: &Object, edges: &[Relationship]) -> Vec<ObjectId> {
    let own = is_task(&object.type_).then_some(object.id);
    own.into_iter()
        .chain(ends_of_blocks(edges.iter().map(|edge| (edge.type_.as_str(), edge.from, edge.to))))
        .collect()
}

fn ends_of_blocks<'e>(
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> impl Iterator<Item = ObjectId> {
    edges.filter(|(type_, _, _)| *type_ == BLOCKS).flat_map(|(_, from, to)| [from, to])
}

/// Tells the workflows at the ends of the `blocks` among these edges that something about them
/// changes, before it does.
pub(crate) fn announce_edges<'e>(
    tx: &mut Tx<'_>,
    writer: &Writer,
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> Result<()> {
    announce(tx, writer, &ends_of_blocks(edges).collect::<Vec<_>>())
}

pub(crate) fn announce_edge(tx: &mut Tx<'_>, writer: &Writer, edge: &Relationship) -> Result<()> {
    announce_edges(tx, writer, std::iter::once((edge.type_.as_str(), edge.from, edge.to)))
}

fn announce(tx: &mut Tx<'_>, writer: &Writer, tasks: &[ObjectId]) -> Result<()> {
    if writer.dispatcher || tasks.is_empty() {
        return Ok(());
    }
    let called = rows::called(tx, writer.project.id, tasks)?;
    // In order, so that two who tell several do not wait for each other.
    for id in called.into_values().filter_map(|task| task.workflow).collect::<BTreeSet<_>>() {
        workflows::touch(tx, writer.project.id, id)?;
    }
    Ok(())
}
