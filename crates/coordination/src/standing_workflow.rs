//! The standing workflow of a project: it takes the project's new tasks that belong to no workflow, if the project
//! says so (`autoDispatch`). It ends when all of its tasks are done, and the next new task starts another one.

use std::collections::HashSet;

use emergent_domain::{
    author::Author,
    ids::ProjectId,
    task::MAX_TASKS,
    time::Timestamp,
    workflow::{Workflow, WorkflowSettings, WorkflowStatus},
};
use emergent_graph::{Actor, Graph};
use emergent_store::{Tx, projects, tasks, workflows};
use tokio::time::Duration;
use tracing::warn;

use crate::{
    create::{record_start, workflow_row},
    dispatcher::Dispatcher,
    error::Result,
    existing_tasks::{assign_tasks, list_free},
};

/// A new task is taken when nobody has changed it for this long: whoever creates tasks one by one needs time to say
/// what blocks them.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The most tasks that one transaction looks for. Tasks that are joined with them come on top.
const BATCH: usize = 200;
const DESCRIPTION: &str = "The tasks of this project that belong to no other workflow";

impl Dispatcher {
    /// Makes the new tasks of projects with `autoDispatch` tasks of their standing workflows.
    pub(crate) async fn adopt_new_tasks(&self) -> Result<()> {
        let db = self.executor().graph().db();
        let settled = self.executor().graph().clock().now() - SETTLE_TIME;
        let read = move |tx: &mut Tx<'_>| {
            let mut waiting = Vec::new();
            for project in projects::list_auto_dispatch(tx)? {
                let Some(since) = project.auto_dispatch_since else { continue };
                if !tasks::list_unassigned(tx, project.id, since, settled, 1)?.is_empty() {
                    waiting.push(project.id);
                }
            }
            Ok::<_, emergent_store::Error>(waiting)
        };
        for project in db.read(read).await? {
            let graph = self.executor().graph().clone();
            let work = move |tx: &mut Tx<'_>| adopt_tasks(tx, &graph, project, settled);
            // One project whose tasks cannot be taken must not stop the others.
            if let Err(error) = db.write(work).await {
                warn!(project.id = %project, error = %error, "could not take the new tasks of a project");
            }
        }
        Ok(())
    }
}

/// Adds the new tasks of a project to its standing workflow, or starts one.
fn adopt_tasks(tx: &mut Tx<'_>, graph: &Graph, project: ProjectId, settled: Timestamp) -> Result<()> {
    // The lock makes servers do this one after the other.
    let Some(since) = projects::lock(tx, project)?.and_then(|project| project.auto_dispatch_since) else {
        return Ok(());
    };
    let new = tasks::list_unassigned(tx, project, since, settled, BATCH)?;
    if new.is_empty() {
        return Ok(());
    }
    let mut found = list_free(tx, project, &new)?;
    found.truncate(MAX_TASKS);
    let actor = Actor { project, author: Author::System };
    let workflow = match workflow_with_room(tx, project, found.len())? {
        Some(workflow) => {
            workflows::bump_revision(tx, project, workflow.id)?;
            workflow
        }
        None => {
            let writer = graph.write_context(tx, actor)?;
            let settings = WorkflowSettings::default();
            let workflow = workflow_row(&writer, WorkflowStatus::Running, DESCRIPTION, &settings);
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
