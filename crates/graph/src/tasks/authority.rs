//! Applies who may change the tasks of a workflow (`emergent_domain::task_rights`), however they are written:
//! their properties, their type, their existence, and the relationships that the dispatcher reads.

use std::collections::{BTreeSet, HashMap};

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RunId, TokenId, WorkflowId},
    invalid::{Invalid, Problem},
    object::Object,
    relationship::Relationship,
    task::{Task, TaskAuthority, TaskStatus},
    task_links::{DISCUSSION_TYPE, DiscussionRemoval, discussion_removal},
    task_rights::{TaskAuthor, WORKFLOW_EDGES, WORKFLOW_SCOPE, find_outsider_changes, is_workflow_edge},
    token::Scope,
};
use emergent_store::{Tx, agents, relationships as edge_rows, runs, tasks as rows, tokens, workflows};
use serde_json::{Map, Value};

use super::{is_task, task_name, task_workflow};
use crate::{
    Error, WriteContext,
    error::Result,
    objects::ObjectDraft,
    withheld::{Compared, may_read},
};

/// Returns what the author may do to the tasks of a workflow, or to tasks without one.
fn load_authority(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    workflow: Option<WorkflowId>,
) -> Result<TaskAuthority> {
    let Some(workflow) = workflow.filter(|_| !ctx.is_trusted_with_tasks()) else {
        return Ok(ctx.task_authority(workflow));
    };
    let author = match ctx.author {
        Author::System => TaskAuthor::Server,
        Author::Token { id } => TaskAuthor::Scopes(token_scopes(tx, id)?),
        Author::Run { run_id, .. } => load_run_author(tx, ctx, run_id, workflow)?,
    };
    Ok(author.authority())
}

fn load_run_author(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    run: RunId,
    workflow: WorkflowId,
) -> Result<TaskAuthor> {
    let started = workflows::get(tx, ctx.project.id, workflow)?;
    if started.is_some_and(|workflow| workflow.started_by_run == Some(run)) {
        return Ok(TaskAuthor::RunOfWorkflow);
    }
    let Some(run) = runs::get(tx, ctx.project.id, run)? else {
        return Ok(TaskAuthor::Scopes(BTreeSet::new()));
    };
    if run.workflow_link.workflow == Some(workflow) {
        return Ok(TaskAuthor::RunOfWorkflow);
    }
    Ok(match agents::definition_author(tx, run.agent, run.agent_version)? {
        Some(Author::System) => TaskAuthor::Server,
        Some(Author::Token { id }) => TaskAuthor::Scopes(token_scopes(tx, id)?),
        Some(Author::Run { .. }) | None => TaskAuthor::Scopes(BTreeSet::new()),
    })
}

fn token_scopes(tx: &mut Tx<'_>, id: TokenId) -> Result<BTreeSet<Scope>> {
    Ok(tokens::get(tx, id)?.map(|token| token.scopes).unwrap_or_default())
}

fn is_outsider(tx: &mut Tx<'_>, ctx: &WriteContext, workflow: Option<WorkflowId>) -> Result<bool> {
    Ok(load_authority(tx, ctx, workflow)? == TaskAuthority::Outsider)
}

/// Checks a change of an object that was or becomes a task or a discussion. `was` has its current properties, `compared`
/// those that the change is compared with.
pub(super) fn check_update(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (before, was): (&Object, &Map<String, Value>),
    compared: &Compared<'_>,
    after: &ObjectDraft,
) -> Result<()> {
    if before.type_ == DISCUSSION_TYPE && after.type_() != DISCUSSION_TYPE {
        check_discussion_removal(tx, ctx, before.id, was)?;
    }
    let workflow_before = is_task(&before.type_).then(|| task_workflow(was)).flatten();
    let workflow_after = is_task(after.type_()).then(|| task_workflow(after.properties())).flatten();
    let Some(workflow) = workflow_before.or(workflow_after) else { return Ok(()) };
    if !is_outsider(tx, ctx, Some(workflow))? {
        return Ok(());
    }
    if !is_task(after.type_()) {
        let what = task_label(&task_name(before.id, was), compared.may_read);
        return Err(missing_scope(tx, ctx, what, workflow));
    }
    let named = if compared.may_read { format!(" `{workflow}`") } else { String::new() };
    let was = is_task(&before.type_).then_some(&*compared.properties);
    let problems = find_outsider_changes(was, after.properties()).into_iter().map(|property| {
        let reason = format!(
            "belongs to the workflow{named} of the task: changing it needs the scope `{WORKFLOW_SCOPE}`"
        );
        Problem::new(format!("properties.{property}"), reason)
    });
    Ok(Invalid::if_any(problems.collect())?)
}

/// Checks that an object may be deleted with its edges.
pub(super) fn check_delete(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object) -> Result<()> {
    if object.type_ == DISCUSSION_TYPE {
        check_discussion_removal(tx, ctx, object.id, &object.properties.to_map())?;
    }
    check_existence(tx, ctx, object, true)?;
    if !is_task(&object.type_) {
        return Ok(());
    }
    let task = Task::from_object(object);
    let is_worked_at = task.workflow.is_some() && task.status == TaskStatus::InProgress;
    match task.run.filter(|_| is_worked_at) {
        Some(run) if ctx.task_authority(task.workflow) != TaskAuthority::Workflow => Err(Error::Conflict {
            message: format!(
                "the run `{run}` is working on the task `{}`: wait for its end, or cancel it",
                task.key
            ),
        }),
        _ => Ok(()),
    }
}

/// Checks that a deleted object may be restored with its edges.
pub(super) fn check_restore(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object) -> Result<()> {
    check_existence(tx, ctx, object, false)?;
    if !is_task(&object.type_) {
        return Ok(());
    }
    let task = Task::from_object(object);
    let Some(id) = task.workflow.filter(|_| !task.status.is_terminal() && task.run.is_some()) else {
        return Ok(());
    };
    match workflows::get(tx, ctx.project.id, id)? {
        Some(workflow) if workflow.status.is_terminal() => Err(Error::Conflict {
            message: format!(
                "the task `{}` is {} in the workflow `{id}`, which has ended: nothing would continue it; create a \
                 new task instead",
                task.key, task.status
            ),
        }),
        _ => Ok(()),
    }
}

/// Checks that the author may delete a live object or restore a deleted one: the tasks of a workflow, and what they
/// wait for.
fn check_existence(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object, is_live: bool) -> Result<()> {
    if ctx.is_trusted_with_tasks() {
        return Ok(());
    }
    if is_task(&object.type_) {
        let properties = object.properties.to_map();
        let workflow = task_workflow(&properties);
        if let Some(id) = workflow
            && is_outsider(tx, ctx, workflow)?
        {
            let what = task_label(&task_name(object.id, &properties), may_read(tx, ctx)?);
            return Err(missing_scope(tx, ctx, what, id));
        }
    }
    let mut others: Vec<ObjectId> = Vec::new();
    for type_ in WORKFLOW_EDGES {
        let ends = edge_rows::list_ends(tx, object.id, type_, is_live)?;
        others.extend(ends.into_iter().map(|(_, to)| to).filter(|end| *end != object.id));
    }
    match TaskEnds::load(tx, ctx, &others)?.foreign(&others) {
        Some((name, workflow)) => {
            let what = format!("{}, which waits for it,", task_label(&name, may_read(tx, ctx)?));
            Err(missing_scope(tx, ctx, what, workflow))
        }
        None => Ok(()),
    }
}

fn check_discussion_removal(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: ObjectId,
    properties: &Map<String, Value>,
) -> Result<()> {
    if ctx.is_trusted_with_tasks() {
        return Ok(());
    }
    match discussion_removal(properties) {
        DiscussionRemoval::Anybody => Ok(()),
        DiscussionRemoval::Nobody => Err(Error::Conflict {
            message: format!(
                "the dispatcher conducts the discussion `{id}`: wait for its end, decide it with `POST \
                 /api/coordination/discussions/{id}/decide` if it is escalated, or cancel its workflow"
            ),
        }),
        DiscussionRemoval::EditorOfWorkflow => {
            let task = properties.get("task_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
            let tasks: Vec<ObjectId> = task.into_iter().collect();
            match TaskEnds::load(tx, ctx, &tasks)?.foreign(&tasks) {
                Some((_, workflow)) => {
                    Err(missing_scope(tx, ctx, format!("the discussion `{id}`"), workflow))
                }
                None => Ok(()),
            }
        }
    }
}

/// Checks that the author may change, delete or restore an edge.
pub(super) fn check_edge(tx: &mut Tx<'_>, ctx: &WriteContext, edge: &Relationship) -> Result<()> {
    if ctx.is_trusted_with_tasks() || !is_workflow_edge(&edge.type_) {
        return Ok(());
    }
    let ends = [edge.from, edge.to];
    match TaskEnds::load(tx, ctx, &ends)?.foreign(&ends) {
        Some((name, workflow)) => {
            let task = task_label(&name, may_read(tx, ctx)?);
            let what = format!("{task}, at an end of this `{}` relationship,", edge.type_);
            Err(missing_scope(tx, ctx, what, workflow))
        }
        None => Ok(()),
    }
}

/// Rejects those of the new edges that the author may not create. One that exists is not created again, which is told to
/// those only who may read.
pub(super) fn reject_foreign_edges(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    if ctx.is_trusted_with_tasks() {
        return Ok(());
    }
    let guarded = |edge: &Result<Relationship, Invalid>| {
        let edge = edge.as_ref().ok().filter(|edge| is_workflow_edge(&edge.type_))?;
        Some((edge.from, edge.type_.clone(), edge.to))
    };
    let ids: Vec<ObjectId> = edges.iter().filter_map(guarded).flat_map(|(from, _, to)| [from, to]).collect();
    let ends = TaskEnds::load(tx, ctx, &ids)?;
    for edge in edges {
        let Some((from, type_, to)) = guarded(edge) else { continue };
        let Some((field, (name, workflow))) = [("toId", to), ("fromId", from)]
            .into_iter()
            .find_map(|(field, end)| Some((field, ends.foreign(&[end])?)))
        else {
            continue;
        };
        let may_read = may_read(tx, ctx)?;
        if !may_read || edge_rows::find(tx, from, &type_, to)?.is_none() {
            let belongs = match may_read {
                true => format!("the task `{name}` belongs to the workflow `{workflow}`"),
                false => "the task belongs to a workflow".to_owned(),
            };
            let reason =
                format!("{belongs}: a `{type_}` relationship of it needs the scope `{WORKFLOW_SCOPE}`");
            *edge = Err(Invalid::new(field, reason));
        }
    }
    Ok(())
}

/// The tasks among some objects that the author may not change, with their names and workflows.
struct TaskEnds(HashMap<ObjectId, (String, WorkflowId)>);

impl TaskEnds {
    fn load(tx: &mut Tx<'_>, ctx: &WriteContext, ids: &[ObjectId]) -> Result<Self> {
        let mut foreign = HashMap::new();
        if ids.is_empty() {
            return Ok(Self(foreign));
        }
        let mut outsider: HashMap<WorkflowId, bool> = HashMap::new();
        for (id, task) in rows::task_names(tx, ctx.project.id, ids)? {
            let Some(workflow) = task.workflow else { continue };
            let is_foreign = match outsider.get(&workflow) {
                Some(known) => *known,
                None => is_outsider(tx, ctx, Some(workflow))?,
            };
            outsider.insert(workflow, is_foreign);
            if is_foreign {
                foreign.insert(id, (task.name, workflow));
            }
        }
        Ok(Self(foreign))
    }

    /// The first of these objects that is such a task.
    fn foreign(&self, ids: &[ObjectId]) -> Option<(String, WorkflowId)> {
        ids.iter().find_map(|id| self.0.get(id).cloned())
    }
}

/// A task in an error. Its name is for those only who may read it.
fn task_label(name: &str, may_read: bool) -> String {
    if may_read { format!("the task `{name}`") } else { "the task".to_owned() }
}

/// The error about something of a workflow, which is named to those only who may read it.
fn missing_scope(tx: &mut Tx<'_>, ctx: &WriteContext, what: String, workflow: WorkflowId) -> Error {
    match may_read(tx, ctx) {
        Ok(may_read) => {
            Error::MissingScope { what, workflow: may_read.then_some(workflow), scope: WORKFLOW_SCOPE }
        }
        Err(error) => error,
    }
}
