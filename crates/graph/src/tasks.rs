//! The rules for tasks, which apply to every way of writing them: allowed status changes, no
//! dependency cycles, the maximum number of tasks in a workflow, who may link a task to a workflow or a run
//! (`links`), and who may change the tasks of a workflow (`authority`). Every change of a task also notifies the dispatcher that drives its workflow.
//!
//! Objects of other types and edges other than `blocks` are skipped after one comparison.
//!
//! On PostgreSQL, locks are taken in one order wherever possible: first the row of the workflow,
//! then the `blocks` lock of the project, then the tasks. The dispatcher also starts with the
//! workflow.

use std::collections::{BTreeSet, HashMap};

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    invalid::Invalid,
    object::{NewObject, Object, ObjectPatch},
    relationship::Relationship,
    task::{BLOCKS_TYPE, MAX_TITLE_BYTES, TASK_TYPE, TaskAuthority, TaskStatus},
    task_links::DISCUSSION_TYPE,
    task_rights::completes_without_verdict,
    text::truncate,
    token::Scope,
};
use emergent_store::{
    Tx,
    relationships::{self as edges, CascadeEdge},
    tasks as rows, workflows,
};
use serde_json::{Map, Value};

use crate::{Error, WriteContext, error::Result, objects::ObjectDraft, withheld::Compared};

mod authority;
mod cycles;
mod links;
pub(crate) mod membership;

pub(crate) use cycles::check_restored_edge;
use links::LinkCheck;

const STATUS: &str = "status";

fn is_task(type_: &str) -> bool {
    type_ == TASK_TYPE
}

/// Fills defaults of a new task: the status is pending, and a task that names an agent keeps it for
/// retries.
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

/// Checks which new tasks may be created: they must be pending, and their workflow must have
/// capacity.
pub(crate) struct NewTaskCheck<'a> {
    ctx: &'a WriteContext,
    links: LinkCheck,
    capacity: HashMap<WorkflowId, TaskCapacity>,
}

struct TaskCapacity {
    left: i64,
    max: usize,
}

impl<'a> NewTaskCheck<'a> {
    /// Notifies the workflows of the tasks among the drafts. This also locks them against
    /// concurrent additions.
    pub(crate) fn load<'d>(
        tx: &mut Tx<'_>,
        ctx: &'a WriteContext,
        drafts: impl Iterator<Item = &'d ObjectDraft>,
    ) -> Result<Self> {
        let tasks = drafts.filter(|draft| is_task(draft.type_()));
        let workflows: BTreeSet<WorkflowId> =
            tasks.filter_map(|draft| task_workflow(draft.properties())).collect();
        let links = LinkCheck::load(tx, ctx, !workflows.is_empty())?;
        Ok(Self { ctx, links, capacity: load_capacity(tx, ctx, workflows)? })
    }

    pub(crate) fn check(&mut self, draft: &ObjectDraft) -> Result<()> {
        self.links.check_new(draft)?;
        if !is_task(draft.type_()) {
            return Ok(());
        }
        // An import brings tasks as an earlier version may have stored them.
        if !draft.is_imported() {
            check_name_lengths(draft.properties(), |_| true)?;
        }
        let workflow = task_workflow(draft.properties());
        if self.ctx.task_authority(workflow) == TaskAuthority::Editor && !draft.is_imported() {
            check_new(draft.properties())?;
        }
        take_capacity(&mut self.capacity, workflow)
    }
}

/// Notifies the workflows, which also locks them, and returns how many more tasks each may have.
fn load_capacity(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    workflows: BTreeSet<WorkflowId>,
) -> Result<HashMap<WorkflowId, TaskCapacity>> {
    let mut capacity = HashMap::new();
    if ctx.notifies_workflows() {
        let project = ctx.project.id;
        for id in workflows {
            if workflows::bump_revision(tx, project, id)?
                && let Some(workflow) = workflows::get(tx, project, id)?
            {
                let max_tasks = workflow.settings.max_tasks;
                let left = i64::try_from(max_tasks).unwrap_or(i64::MAX) - rows::count(tx, project, id)?;
                capacity.insert(id, TaskCapacity { left, max: max_tasks });
            }
        }
    }
    Ok(capacity)
}

fn take_capacity(
    capacity: &mut HashMap<WorkflowId, TaskCapacity>,
    workflow: Option<WorkflowId>,
) -> Result<()> {
    let Some((id, capacity)) = workflow.and_then(|id| Some((id, capacity.get_mut(&id)?))) else {
        return Ok(());
    };
    if capacity.left < 1 {
        let max_tasks = capacity.max;
        return Err(Error::Conflict {
            message: format!(
                "the workflow `{id}` is full: it has {max_tasks} tasks, the limit is `max_tasks`"
            ),
        });
    }
    capacity.left -= 1;
    Ok(())
}

fn parse_status(status: &Value) -> Result<TaskStatus, Invalid> {
    status.as_str().and_then(TaskStatus::parse).ok_or_else(|| {
        let all: Vec<&str> = TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
        Invalid::new("properties.status", format!("{status} is not one of {}", all.join(", ")))
    })
}

fn check_new(properties: &Map<String, Value>) -> Result<(), Invalid> {
    match properties.get(STATUS).map(parse_status).transpose()? {
        None | Some(TaskStatus::Pending) => Ok(()),
        Some(status) => Err(Invalid::new(
            "properties.status",
            format!("a new task must be pending, not {status}: create it as pending, then change its status"),
        )),
    }
}

/// Checks the length of those names of a task that are new: they are in messages, in lists and in prompts.
fn check_name_lengths(properties: &Map<String, Value>, is_new: impl Fn(&str) -> bool) -> Result<(), Invalid> {
    let is_long = |name: &&str| {
        let length = properties.get(*name).and_then(Value::as_str).map_or(0, str::len);
        length > MAX_TITLE_BYTES && is_new(name)
    };
    match ["title", "key"].iter().find(|name| is_long(name)) {
        Some(name) => {
            let reason = format!("must have at most {MAX_TITLE_BYTES} bytes in a `{TASK_TYPE}`");
            Err(Invalid::new(format!("properties.{name}"), reason))
        }
        None => Ok(()),
    }
}

/// Checks that a task may change its status in this way.
fn check_transition(
    ctx: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Result<()> {
    let (from, to) = (was.get(STATUS), after.get(STATUS));
    let Some(to) = to.filter(|to| from != Some(*to)) else { return Ok(()) };
    // A status that was stored before these rules existed is treated as pending, as the dispatcher
    // does.
    let from = from.and_then(|from| parse_status(from).ok()).unwrap_or(TaskStatus::Pending);
    let to = parse_status(to)?;
    let authority = ctx.task_authority(task_workflow(was));
    let run = was.get("run_id").and_then(Value::as_str).filter(|run| !run.is_empty());
    if let Some(run) = run.filter(|_| from == TaskStatus::InProgress && authority == TaskAuthority::Editor) {
        let name = task_name(before.id, was);
        return Err(Error::Conflict {
            message: format!(
                "the run `{run}` is working on the task `{name}`: wait for its end, or cancel it"
            ),
        });
    }
    let is_driven = task_workflow(was).is_some();
    if is_driven && authority == TaskAuthority::Editor && completes_without_verdict(was, to) {
        return Err(Error::Conflict {
            message: format!(
                "the task `{}` ends with the verdict of its run, and is not completed without one; skip it with `POST \
                 /api/coordination/tasks/{}/skip` if no verdict is needed",
                task_name(before.id, was),
                before.id
            ),
        });
    }
    if from.can_become(to, authority) {
        return Ok(());
    }
    let possible: Vec<&str> = TaskStatus::ALL
        .iter()
        .filter(|status| **status != from && from.can_become(**status, authority))
        .map(|status| status.as_str())
        .collect();
    let then = match possible.as_slice() {
        [] => "which is final".to_owned(),
        [status] => format!("which can only become {status}"),
        [others @ .., last] => format!("which can only become {} or {last}", others.join(", ")),
    };
    let name = task_name(before.id, was);
    Err(Error::Conflict { message: format!("the task `{name}` is {from}, {then}; it cannot become {to}") })
}

/// Checks the links and the status change of a deleted object that is restored with changes.
pub(crate) fn check_restored(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: &Object,
    after: &ObjectDraft,
) -> Result<()> {
    links::check_restored(tx, ctx, before, (after.type_(), after.properties()))?;
    if is_task(&before.type_) && is_task(after.type_()) {
        check_transition(ctx, before, &before.properties.to_map(), after.properties())?;
    }
    Ok(())
}

/// Checks the links and the status change of a deleted object that is restored to its previous version.
pub(crate) fn check_reverted(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    now: &Object,
    before: &Object,
) -> Result<()> {
    links::check_restored(tx, ctx, now, (before.type_.as_str(), &before.properties.to_map()))?;
    if is_task(&now.type_) && is_task(&before.type_) {
        check_transition(ctx, now, &now.properties.to_map(), &before.properties.to_map())?;
    }
    Ok(())
}

fn task_name(id: ObjectId, properties: &Map<String, Value>) -> String {
    let text = |name| properties.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("key").or_else(|| text("title"));
    name.map_or_else(|| id.to_string(), |name| truncate(name, rows::MAX_NAME_CHARS))
}

/// Checks an update of a live object, which may change nothing. `was` holds its current properties.
pub(crate) fn check_update(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (before, was): (&Object, &Map<String, Value>),
    patch: &ObjectPatch,
    after: &ObjectDraft,
) -> Result<()> {
    let is_guarded = |type_: &str| is_task(type_) || type_ == DISCUSSION_TYPE;
    if !is_guarded(&before.type_) && !is_guarded(after.type_()) {
        return Ok(());
    }
    let compared = Compared::load(tx, ctx, was, patch)?;
    links::check_change(tx, ctx, before, &compared.properties, after)?;
    authority::check_update(tx, ctx, (before, was), &compared, after)?;
    let changed = (after.type_(), after.properties());
    links::check_key(ctx, (before.type_.as_str(), was), &compared.properties, changed)?;
    links::check_type_change(ctx, before, was, after.type_())?;
    if is_task(after.type_()) {
        // A long name that is there already may stay: earlier versions stored such tasks.
        let stays = |name: &str| {
            is_task(&before.type_) && compared.properties.get(name) == after.properties().get(name)
        };
        check_name_lengths(after.properties(), |name| !stays(name))?;
    }
    match (is_task(&before.type_), is_task(after.type_())) {
        (true, true) if compared.may_read => check_transition(ctx, before, was, after.properties()),
        (true, true) => check_hidden_transition(ctx, before, was, patch, after.properties()),
        (_, true) if ctx.task_authority(task_workflow(after.properties())) == TaskAuthority::Editor => {
            Ok(check_new(after.properties())?)
        }
        _ => Ok(()),
    }
}

/// Like [`check_transition`], for an author who may not read the status: the same refusal whatever it is, also if it stays.
fn check_hidden_transition(
    ctx: &WriteContext,
    before: &Object,
    was: &Map<String, Value>,
    patch: &ObjectPatch,
    after: &Map<String, Value>,
) -> Result<()> {
    let sent = patch.properties.as_ref().and_then(|sent| sent.get(STATUS)).filter(|status| !status.is_null());
    let Some(to) = sent else { return Ok(()) };
    match check_transition(ctx, before, was, after) {
        Ok(()) if was.get(STATUS) != Some(to) => Ok(()),
        Ok(()) | Err(Error::Conflict { .. }) => Err(Error::Conflict {
            message: format!(
                "the task cannot become {to} from its present status, which is shown with the scope `{}` only",
                Scope::GraphRead
            ),
        }),
        Err(other) => Err(other),
    }
}

/// Prepares a checked update of a live object: notifies the workflows of tasks. `was` holds its current properties.
pub(crate) fn before_update(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (before, was): (&Object, &Map<String, Value>),
    after: &ObjectDraft,
) -> Result<()> {
    let (was_task, is_task) = (is_task(&before.type_), is_task(after.type_()));
    if !was_task && !is_task {
        return Ok(());
    }
    let left = if was_task { task_workflow(was) } else { None };
    let joined = if is_task { task_workflow(after.properties()) } else { None };
    let mut capacity = load_capacity(tx, ctx, left.into_iter().chain(joined).collect())?;
    if joined != left {
        take_capacity(&mut capacity, joined)?;
    }
    if !was_task { cycles::check_new_task(tx, ctx, before.id) } else { Ok(()) }
}

/// Checks an object before it is deleted with its edges, and notifies workflows.
pub(crate) fn before_delete(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object) -> Result<()> {
    authority::check_delete(tx, ctx, object)?;
    if !ctx.notifies_workflows() {
        return Ok(());
    }
    let blocks = edges::list_ends(tx, object.id, BLOCKS_TYPE, true)?;
    notify_workflows(tx, ctx, &affected_tasks(object, &blocks))
}

/// Checks an object before it is restored with its edges.
pub(crate) fn before_restore(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object) -> Result<()> {
    let mut blocks = edges::list_ends(tx, object.id, BLOCKS_TYPE, false)?;
    let ids = affected_tasks(object, &blocks);
    if ids.is_empty() {
        return Ok(());
    }
    authority::check_restore(tx, ctx, object)?;
    notify_workflows(tx, ctx, &ids)?;
    let tasks = rows::task_names(tx, ctx.project.id, &ids)?;
    // The stored row still has the type from before the deletion; the object may be restored with
    // another one.
    let task = |id| if id == object.id { is_task(&object.type_) } else { tasks.contains_key(&id) };
    blocks.retain(|(from, to)| task(*from) && task(*to));
    cycles::check_restored_edges(tx, ctx, blocks)
}

/// Leaves out those of the edges to restore that would close a cycle of tasks.
pub(crate) fn retain_without_cycles(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut Vec<CascadeEdge>,
) -> Result<()> {
    let ends = edges.iter().map(|edge| (edge.type_.as_str(), edge.from, edge.to));
    notify_workflows_of_edges(tx, ctx, ends)?;
    cycles::retain_without_cycles(tx, ctx, edges)
}

fn affected_tasks(object: &Object, blocks: &[(ObjectId, ObjectId)]) -> Vec<ObjectId> {
    let own = is_task(&object.type_).then_some(object.id);
    own.into_iter().chain(blocks.iter().flat_map(|(from, to)| [*from, *to])).collect()
}

fn blocks_ends<'e>(
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> impl Iterator<Item = ObjectId> {
    edges.filter(|(type_, _, _)| *type_ == BLOCKS_TYPE).flat_map(|(_, from, to)| [from, to])
}

/// Notifies the workflows at the ends of the `blocks` edges among these. This happens before the
/// edges are written.
pub(crate) fn notify_workflows_of_edges<'e>(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: impl Iterator<Item = (&'e str, ObjectId, ObjectId)>,
) -> Result<()> {
    notify_workflows(tx, ctx, &blocks_ends(edges).collect::<Vec<_>>())
}

/// Rejects those of the new edges that their author may not create, or that would close a cycle.
pub(crate) fn check_new_edges(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    authority::reject_foreign_edges(tx, ctx, edges)?;
    cycles::reject_cycles(tx, ctx, edges)
}

/// Rejects those of the new edges that their author may not create. The caller knows that they close no cycle.
pub(crate) fn check_authority_of_edges(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    authority::reject_foreign_edges(tx, ctx, edges)
}

/// Checks that an edge may be changed, deleted or restored.
pub(crate) fn check_edge(tx: &mut Tx<'_>, ctx: &WriteContext, edge: &Relationship) -> Result<()> {
    authority::check_edge(tx, ctx, edge)
}

/// Checks that an edge may be changed, deleted or restored, and notifies the workflows at its ends.
pub(crate) fn before_edge_change(tx: &mut Tx<'_>, ctx: &WriteContext, edge: &Relationship) -> Result<()> {
    check_edge(tx, ctx, edge)?;
    notify_workflows_of_edges(tx, ctx, std::iter::once((edge.type_.as_str(), edge.from, edge.to)))
}

fn notify_workflows(tx: &mut Tx<'_>, ctx: &WriteContext, tasks: &[ObjectId]) -> Result<()> {
    if !ctx.notifies_workflows() || tasks.is_empty() {
        return Ok(());
    }
    let tasks_by_id = rows::task_names(tx, ctx.project.id, tasks)?;
    // The ids are sorted, so that two concurrent writers lock several workflows in the same order
    // and cannot deadlock.
    for id in tasks_by_id.into_values().filter_map(|task| task.workflow).collect::<BTreeSet<_>>() {
        workflows::bump_revision(tx, ctx.project.id, id)?;
    }
    Ok(())
}
