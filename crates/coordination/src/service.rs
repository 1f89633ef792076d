//! Workflows as people see them, and as people end them or take them up again. Single tasks are
//! steered in `steer`.

use std::collections::HashMap;

use emergent_domain::{
    author::Author,
    cursor::{Page, Paged},
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    invalid::Invalid,
    object::{Object, ObjectPatch},
    task::{Task, TaskStatus},
    workflow::{Limit, Workflow, WorkflowEvent, WorkflowStatus},
};
use emergent_graph::{Actor, Writer, objects};
use emergent_store::{
    Tx, budget, tasks,
    workflows::{self, NewEvent},
};
use serde_json::{Value, json};

use crate::{
    Dispatcher, Error, Result,
    outside::{self, Outside},
    steer::again,
};

const LONGEST_WORDS: usize = 20_000;

/// A workflow with everything that is shown of it.
#[derive(Debug, Clone)]
pub struct Shown {
    pub workflow: Workflow,
    pub tasks: Vec<ShownTask>,
    pub spent: budget::Spent,
}

#[derive(Debug, Clone)]
pub struct ShownTask {
    pub task: Task,
    /// Its attempts, the oldest first.
    pub runs: Vec<RunId>,
    /// Keys of the tasks it waits for; ids of those that are of another workflow.
    pub blocked_by: Vec<String>,
    /// What it waits for that is not done in this workflow, in words.
    pub waiting: Option<String>,
}

impl Dispatcher {
    pub async fn workflow(&self, project: ProjectId, id: WorkflowId) -> Result<Shown> {
        self.executor().graph().db().snapshot(move |tx| shown(tx, project, id)).await
    }

    pub async fn workflows(
        &self,
        project: ProjectId,
        status: Option<WorkflowStatus>,
        page: Page,
    ) -> Result<Paged<Workflow>> {
        let read = move |tx: &mut Tx<'_>| workflows::list(tx, project, status, &page);
        Ok(self.executor().graph().db().read(read).await?)
    }

    /// What happened after a place, in order.
    pub async fn events(
        &self,
        project: ProjectId,
        id: WorkflowId,
        after: i64,
        most: usize,
    ) -> Result<Vec<WorkflowEvent>> {
        let read = move |tx: &mut Tx<'_>| {
            found(tx, project, id)?;
            Ok(workflows::events(tx, id, after, most)?)
        };
        self.executor().graph().db().read(read).await
    }

    pub async fn tasks(
        &self,
        project: ProjectId,
        wanted: tasks::Wanted,
        page: Page,
    ) -> Result<Paged<Object>> {
        let read = move |tx: &mut Tx<'_>| tasks::list(tx, project, &wanted, &page);
        Ok(self.executor().graph().db().read(read).await?)
    }

    /// Ends a workflow and every run of it.
    pub async fn cancel(&self, actor: Actor, id: WorkflowId) -> Result<Workflow> {
        let graph = self.executor().graph().clone();
        let executor = self.executor().clone();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = held(tx, actor.project, id)?;
            if workflow.status.is_over() {
                let message = format!("workflow `{id}` is over: it is {}", workflow.status);
                return Err(Error::Conflict(message));
            }
            let now = graph.clock().now();
            let from = workflow.status;
            workflow.status = WorkflowStatus::Cancelled;
            workflow.escalation = None;
            workflow.completed_at = Some(now);
            workflow.updated_at = now;
            workflows::update(tx, from, &workflow)?;
            let cancelled =
                executor.cancel_runs_of_workflow(tx, actor.project, id, "its workflow was cancelled")?;
            let mut writer = graph.writer(tx, actor)?;
            writer.dispatcher = true;
            writer.reason = Some("its workflow was cancelled".to_owned());
            for object in tasks::of_workflow(tx, actor.project, id)? {
                let task = Task::of(&object);
                let to = match task.status {
                    TaskStatus::Pending | TaskStatus::Paused => TaskStatus::Skipped,
                    TaskStatus::InProgress => TaskStatus::Failed,
                    _ => continue,
                };
                set(tx, &writer, task.id, json!({ "status": to.as_str() }))?;
            }
            workflows::touch(tx, actor.project, id)?;
            let data = json!({ "status": "cancelled", "reason": "cancelled by request" });
            workflows::record(tx, id, &[event("workflow_ended", None, data, now)])?;
            Ok((workflow, cancelled))
        };
        let (workflow, cancelled) = self.executor().graph().db().write(work).await?;
        self.executor().stop_driving(&cancelled);
        self.counters().workflow_ended(WorkflowStatus::Cancelled);
        Ok(workflow)
    }

    /// Goes on with a workflow that waits for a person, or has failed: what failed or was skipped is
    /// tried again. A budget given here takes the place of the one it had.
    pub async fn resume(
        &self,
        actor: Actor,
        id: WorkflowId,
        note: Option<String>,
        budget: Option<Limit>,
    ) -> Result<Workflow> {
        check_words("note", note.as_deref())?;
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = held(tx, actor.project, id)?;
            may_go_on(&workflow)?;
            if let Some(limit) = budget {
                workflow.settings.budget = limit;
                workflows::set_settings(tx, id, &workflow.settings)?;
            }
            let mut writer = graph.writer(tx, actor)?;
            writer.dispatcher = true;
            writer.reason = Some("its workflow was resumed".to_owned());
            for object in tasks::of_workflow(tx, actor.project, id)? {
                let task = Task::of(&object);
                if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) {
                    set(tx, &writer, task.id, again(&task, note.as_deref(), None))?;
                }
            }
            go_on(tx, &writer, workflow, note.as_deref())
        };
        self.executor().graph().db().write(work).await
    }
}

fn shown(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Shown> {
    let workflow = found(tx, project, id)?;
    let all: Vec<Task> = tasks::of_workflow(tx, project, id)?.iter().map(Task::of).collect();
    let keys: HashMap<ObjectId, String> = all.iter().map(|task| (task.id, task.key.clone())).collect();
    let mut blocked: HashMap<ObjectId, Vec<String>> = HashMap::new();
    let blocks = tasks::blocks(tx, project, id)?;
    let elsewhere = outside::read(tx, project, &all, &blocks)?;
    let mut outside: HashMap<ObjectId, Vec<Outside>> = HashMap::new();
    for (from, to) in blocks {
        let name = keys.get(&from).cloned().unwrap_or_else(|| from.to_string());
        blocked.entry(to).or_default().push(name);
        let open = elsewhere.iter().filter(|one| one.id == from).cloned();
        outside.entry(to).or_default().extend(open);
    }
    let mut runs: HashMap<ObjectId, Vec<RunId>> = HashMap::new();
    for (task, run) in workflows::attempts(tx, id)? {
        runs.entry(task).or_default().push(run);
    }
    let shown = |task: Task| {
        let runs = runs.remove(&task.id).unwrap_or_default();
        let attempted = task.run.is_some_and(|run| runs.contains(&run));
        let outside = outside.remove(&task.id).unwrap_or_default();
        let waiting = outside::waiting(&task, attempted, &outside);
        ShownTask { runs, blocked_by: blocked.remove(&task.id).unwrap_or_default(), waiting, task }
    };
    let tasks = all.into_iter().map(shown).collect();
    let spent = budget::spent_of(tx, project, id)?;
    Ok(Shown { workflow, tasks, spent })
}

pub(crate) fn found(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Workflow> {
    workflows::get(tx, project, id)?.ok_or_else(|| Error::not_found("workflow", id))
}

pub(crate) fn held(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Workflow> {
    workflows::lock(tx, project, id)?.ok_or_else(|| Error::not_found("workflow", id))
}

/// Words of a person, as they are kept.
pub(crate) fn check_words(field: &str, words: Option<&str>) -> Result<()> {
    let Some(words) = words else { return Ok(()) };
    if words.contains('\0') {
        return Err(Invalid::one(field, "has a NUL character").into());
    }
    if words.len() > LONGEST_WORDS {
        return Err(Invalid::one(field, format!("must have at most {LONGEST_WORDS} bytes")).into());
    }
    Ok(())
}

/// What is over takes no more decisions.
pub(crate) fn is_not_over(workflow: &Workflow) -> Result<()> {
    match workflow.status {
        WorkflowStatus::Completed | WorkflowStatus::Cancelled => Err(Error::Conflict(format!(
            "workflow `{}` is {}: nothing of it goes on",
            workflow.id, workflow.status
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn event(
    kind: &'static str,
    task: Option<ObjectId>,
    data: Value,
    at: emergent_domain::time::Timestamp,
) -> NewEvent {
    NewEvent { kind, task, run: None, data, at }
}

fn may_go_on(workflow: &Workflow) -> Result<()> {
    match workflow.status {
        WorkflowStatus::Escalated | WorkflowStatus::Failed => Ok(()),
        status => Err(Error::Conflict(format!(
            "workflow `{}` is {status}: only one that waits for a person or has failed is resumed",
            workflow.id
        ))),
    }
}

/// Makes a held workflow run again.
pub(crate) fn go_on(
    tx: &mut Tx<'_>,
    writer: &Writer,
    mut workflow: Workflow,
    note: Option<&str>,
) -> Result<Workflow> {
    let (from, now, id) = (workflow.status, writer.now, workflow.id);
    // One that failed before it had tasks is planned again.
    let planned = tasks::count(tx, workflow.project, id)? > 0;
    workflow.status = if planned { WorkflowStatus::Running } else { WorkflowStatus::Planning };
    if !planned {
        (workflow.plan_attempts, workflow.planner_run) = (0, None);
    }
    workflow.escalation = None;
    workflow.completed_at = None;
    workflow.summary = None;
    workflow.updated_at = now;
    workflows::update(tx, from, &workflow)?;
    workflows::touch(tx, workflow.project, id)?;
    workflows::release(tx, id, now)?;
    let by = match writer.author {
        Author::Run { run_id, .. } => json!(run_id),
        _ => json!("person"),
    };
    let data = json!({ "reason": note.unwrap_or("resumed by request"), "by": by });
    workflows::record(tx, id, &[event("workflow_resumed", None, data, now)])?;
    Ok(workflow)
}

pub(crate) fn set(tx: &mut Tx<'_>, writer: &Writer, id: ObjectId, properties: Value) -> Result<Object> {
    let Value::Object(properties) = properties else { return Err(Error::not_found("object", id)) };
    let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
    Ok(objects::update(tx, writer, id, &patch)?)
}
