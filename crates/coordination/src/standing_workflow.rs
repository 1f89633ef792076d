//! The standing workflow of a project: it takes the project's new tasks that belong to no workflow, if the project
//! says so (`autoDispatch`). It ends when all of its tasks are done, and the next new task starts another one.
//! `task_adoption` finds these tasks; this module takes some of them in one transaction.

use std::collections::HashSet;

use emergent_domain::{
    author::Author,
    ids::ProjectId,
    invalid::{Invalid, Problem},
    object::Object,
    task::Task,
    workflow::{Workflow, WorkflowOrigin, WorkflowSettings, WorkflowStatus},
};
use emergent_graph::{Actor, Graph};
use emergent_store::{
    Tx, projects, tasks,
    unassigned_tasks::{self, TaskHead},
    workflows,
};

use crate::{
    create::{record_start, workflow_row},
    dispatchable::NameableAgents,
    error::Result,
    existing_tasks::{assign_tasks, load_tasks},
};

const DESCRIPTION: &str = "The tasks of this project that belong to no other workflow";

/// Adds tasks to the standing workflow of their project, or starts one. Tasks that were changed since their heads
/// were read are left for later.
pub(crate) fn adopt_tasks(
    tx: &mut Tx<'_>,
    graph: &Graph,
    project: ProjectId,
    heads: &[TaskHead],
) -> Result<()> {
    // A driver locks its workflow before the project, so this does as well: otherwise they could wait for each
    // other.
    workflows::lock_standing(tx, project)?;
    // The lock makes servers do this one after the other.
    if projects::lock(tx, project)?.and_then(|project| project.auto_dispatch_since).is_none() {
        return Ok(());
    }
    let found = load_tasks(tx, project, heads)?;
    if found.is_empty() {
        return Ok(());
    }
    check_wishes(tx, project, &found)?;
    let actor = Actor { project, author: Author::System };
    let workflow = match workflow_with_room(tx, project, found.len())? {
        Some(workflow) => {
            workflows::bump_revision(tx, project, workflow.id)?;
            workflow
        }
        None => {
            let writer = graph.write_context(tx, actor)?;
            let settings = WorkflowSettings::default();
            let (status, origin) = (WorkflowStatus::Running, WorkflowOrigin::default());
            let workflow = workflow_row(&writer, status, DESCRIPTION, &settings, origin);
            workflows::insert_standing(tx, &workflow)?;
            record_start(tx, &workflow, found.len())?;
            workflow
        }
    };
    let taken: HashSet<String> =
        tasks::list_keys(tx, project, workflow.id)?.into_iter().map(|(key, _)| key).collect();
    let (writer, _) = graph.workflow_write_context(tx, actor, workflow.id)?;
    assign_tasks(tx, &writer, workflow.id, &found, taken)?;
    Ok(())
}

/// Refuses tasks that name an internal agent which their author may not name. A token may write tasks without the
/// right to start agents, so a task that a token wrote or changed counts as a wish of that token.
fn check_wishes(tx: &mut Tx<'_>, project: ProjectId, found: &[Object]) -> Result<()> {
    let mut problems = Vec::new();
    for object in found {
        let task = Task::from_object(object);
        let mut names = task.assigned_agent.iter().chain(&task.collaborators).peekable();
        if names.peek().is_none() {
            continue;
        }
        let author = match (object.author, unassigned_tasks::has_token_author(tx, object.id)?) {
            (author, false) => author,
            (author @ Author::Token { .. }, true) => author,
            (_, true) => Author::Token { id: emergent_domain::ids::TokenId(uuid::Uuid::nil()) },
        };
        let agents = NameableAgents::load(tx, project, author)?;
        let refused = names.filter(|name| agents.is_internal(name));
        problems.extend(refused.filter_map(|name| agents.problem(name, false)).map(|problem| {
            Problem::new("assigned_agent", format!("the task `{}` ({}): {problem}", task.key, task.id))
        }));
    }
    Ok(Invalid::if_any(problems)?)
}

/// The running standing workflow, if it can take so many more tasks. A full one goes on as an ordinary workflow.
fn workflow_with_room(tx: &mut Tx<'_>, project: ProjectId, more: usize) -> Result<Option<Workflow>> {
    let Some(workflow) = workflows::lock_standing(tx, project)? else { return Ok(None) };
    let count = usize::try_from(tasks::count(tx, project, workflow.id)?).unwrap_or(usize::MAX);
    if count.saturating_add(more) <= workflow.settings.max_tasks {
        return Ok(Some(workflow));
    }
    workflows::end_standing(tx, workflow.id)?;
    Ok(None)
}
