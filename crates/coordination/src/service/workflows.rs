//! Loads, lists, cancels and resumes workflows.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    object::Object,
    task::{Task, TaskStatus},
    workflow::{Limit, Workflow, WorkflowEvent, WorkflowStatus},
    workflow_event::{WorkflowEventBody, WorkflowMove},
};
use emergent_graph::{Actor, WriteContext};
use emergent_rules::workflow::foreign_blockers::{ForeignBlocker, describe_wait};
use emergent_store::{
    Tx, budget, tasks,
    workflows::{self, AttemptRun},
};
use serde_json::{Value, json};

use super::changes::{check_note, resume_workflow, retry_properties};
use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
    foreign_blockers::load_foreign_blockers,
    transactions::{get_workflow, lock_workflow, new_event, update_properties},
    workflow_runs::cancel_workflow_runs,
};

/// The reason that the runs and tasks of a cancelled workflow record.
const CANCELLED_REASON: &str = "its workflow was cancelled";

/// A workflow with its tasks and its spend.
#[derive(Debug, Clone)]
pub struct WorkflowDetail {
    pub workflow: Workflow,
    pub tasks: Vec<TaskDetail>,
    pub spent: budget::WorkflowSpend,
}

/// A task with its attempts and what it waits for.
#[derive(Debug, Clone)]
pub struct TaskDetail {
    pub task: Task,
    /// The runs of its attempts, the oldest first. An attempt has several if its run was resumed.
    pub runs: Vec<RunId>,
    /// How many attempts were started.
    pub attempts: usize,
    /// Its blockers: the keys of tasks of this workflow, and the ids of other objects.
    pub blocked_by: Vec<String>,
    /// Describes what the task waits for outside this workflow; `None` if it waits for nothing there.
    pub waiting: Option<String>,
}

impl Dispatcher {
    pub async fn workflow(&self, project: ProjectId, id: WorkflowId) -> Result<WorkflowDetail> {
        self.executor().graph().db().snapshot(move |tx| workflow_detail(tx, project, id)).await
    }

    pub async fn workflows(
        &self,
        project: ProjectId,
        status: Option<WorkflowStatus>,
        page: Page,
    ) -> Result<ResultPage<Workflow>> {
        let read = move |tx: &mut Tx<'_>| workflows::list(tx, project, status, &page);
        Ok(self.executor().graph().db().read(read).await?)
    }

    /// Lists at most `max` events after the `seq` in `after`, in order.
    pub async fn events(
        &self,
        project: ProjectId,
        id: WorkflowId,
        after: i64,
        max: usize,
    ) -> Result<Vec<WorkflowEvent>> {
        let read = move |tx: &mut Tx<'_>| {
            get_workflow(tx, project, id)?;
            Ok(workflows::list_events(tx, id, after, max)?)
        };
        self.executor().graph().db().read(read).await
    }

    pub async fn tasks(
        &self,
        project: ProjectId,
        filter: tasks::TaskFilter,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        let read = move |tx: &mut Tx<'_>| tasks::list(tx, project, &filter, &page);
        Ok(self.executor().graph().db().read(read).await?)
    }

    /// Cancels a workflow and all of its runs.
    pub async fn cancel(&self, actor: Actor, id: WorkflowId) -> Result<Workflow> {
        let graph = self.executor().graph().clone();
        let executor = self.executor().clone();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_workflow(tx, actor.project, id)?;
            if workflow.status.is_terminal() {
                let message = format!("workflow `{id}` has ended: it is {}", workflow.status);
                return Err(Error::Conflict(message));
            }
            let now = graph.clock().now();
            let from = workflow.status;
            workflow.status = WorkflowStatus::Cancelled;
            workflow.escalation = None;
            workflow.completed_at = Some(now);
            workflow.updated_at = now;
            workflows::update(tx, from, &workflow)?;
            let cancelled = cancel_workflow_runs(tx, &executor, actor.project, id, CANCELLED_REASON)?;
            let (mut writer, _) = graph.workflow_write_context(tx, actor, id)?;
            writer.reason = Some(CANCELLED_REASON.to_owned());
            let objects = tasks::list_for_workflow(tx, actor.project, id)?;
            abandon_discussions(tx, &writer, &objects)?;
            for object in objects {
                let task = Task::from_object(&object);
                let to = match task.status {
                    TaskStatus::Pending | TaskStatus::Paused => TaskStatus::Skipped,
                    TaskStatus::InProgress => TaskStatus::Failed,
                    _ => continue,
                };
                update_properties(tx, &writer, task.id, json!({ "status": to.as_str() }))?;
            }
            workflows::bump_revision(tx, actor.project, id)?;
            let ended = WorkflowEventBody::WorkflowEnded(WorkflowMove {
                status: WorkflowStatus::Cancelled,
                reason: "cancelled by request".to_owned(),
                options: None,
                summary: None,
            });
            workflows::append_events(tx, id, &[new_event(None, None, &ended, now)])?;
            Ok((workflow, cancelled))
        };
        let (workflow, cancelled) = self.executor().graph().db().write(work).await?;
        self.executor().stop_driving(&cancelled);
        self.counters().record_workflow_end(WorkflowStatus::Cancelled);
        Ok(workflow)
    }

    /// Resumes an escalated or failed workflow. Failed and skipped tasks are retried. A budget in the
    /// request replaces the current one.
    pub async fn resume(
        &self,
        actor: Actor,
        id: WorkflowId,
        note: Option<String>,
        budget: Option<Limit>,
    ) -> Result<Workflow> {
        check_note("note", note.as_deref())?;
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_workflow(tx, actor.project, id)?;
            check_resumable(&workflow)?;
            if let Some(limit) = budget {
                workflow.settings.budget = limit;
                workflows::set_settings(tx, id, &workflow.settings)?;
            }
            let (mut writer, _) = graph.workflow_write_context(tx, actor, id)?;
            writer.reason = Some("its workflow was resumed".to_owned());
            for object in tasks::list_for_workflow(tx, actor.project, id)? {
                let task = Task::from_object(&object);
                if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) {
                    update_properties(tx, &writer, task.id, retry_properties(&task, note.as_deref(), None))?;
                }
            }
            resume_workflow(tx, &writer, workflow, note.as_deref())
        };
        self.executor().graph().db().write(work).await
    }
}

/// Ends the discussions of these tasks that are not decided: nobody conducts them any more.
fn abandon_discussions(tx: &mut Tx<'_>, writer: &WriteContext, tasks: &[Object]) -> Result<()> {
    let ids: Vec<ObjectId> = tasks.iter().map(|task| task.id).collect();
    for (_, discussion) in tasks::list_discussions(tx, writer.project.id, &ids)? {
        let properties = discussion.properties.to_map();
        let status = properties.get("status").and_then(Value::as_str).unwrap_or_default();
        if matches!(status, "active" | "escalated") {
            update_properties(tx, writer, discussion.id, json!({ "status": "abandoned" }))?;
        }
    }
    Ok(())
}

fn workflow_detail(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<WorkflowDetail> {
    let workflow = get_workflow(tx, project, id)?;
    let tasks: Vec<Task> = tasks::list_for_workflow(tx, project, id)?.iter().map(Task::from_object).collect();
    let keys: HashMap<ObjectId, String> = tasks.iter().map(|task| (task.id, task.key.clone())).collect();
    let mut blocked_by: HashMap<ObjectId, Vec<String>> = HashMap::new();
    let blocks = tasks::list_blocks(tx, project, id)?;
    let foreign_blockers = load_foreign_blockers(tx, project, &tasks, &blocks)?;
    let mut foreign_by_task: HashMap<ObjectId, Vec<ForeignBlocker>> = HashMap::new();
    for (from, to) in blocks {
        let blocker = keys.get(&from).cloned().unwrap_or_else(|| from.to_string());
        blocked_by.entry(to).or_default().push(blocker);
        let open_blockers = foreign_blockers.iter().filter(|blocker| blocker.id == from).cloned();
        foreign_by_task.entry(to).or_default().extend(open_blockers);
    }
    let mut runs: HashMap<ObjectId, Vec<RunId>> = HashMap::new();
    let mut attempts: HashMap<ObjectId, usize> = HashMap::new();
    for (task, AttemptRun { run, is_resumed }) in workflows::list_attempts(tx, id)? {
        runs.entry(task).or_default().push(run);
        *attempts.entry(task).or_default() += usize::from(!is_resumed);
    }
    let task_detail = |task: Task| {
        let runs = runs.remove(&task.id).unwrap_or_default();
        let attempted = task.run.is_some_and(|run| runs.contains(&run));
        let foreign_blockers = foreign_by_task.remove(&task.id).unwrap_or_default();
        let waiting = describe_wait(&task, attempted, &foreign_blockers);
        TaskDetail {
            runs,
            attempts: attempts.remove(&task.id).unwrap_or_default(),
            blocked_by: blocked_by.remove(&task.id).unwrap_or_default(),
            waiting,
            task,
        }
    };
    let tasks = tasks.into_iter().map(task_detail).collect();
    let spent = budget::workflow_spend(tx, project, id)?;
    Ok(WorkflowDetail { workflow, tasks, spent })
}

fn check_resumable(workflow: &Workflow) -> Result<()> {
    match workflow.status {
        WorkflowStatus::Escalated | WorkflowStatus::Failed => Ok(()),
        status => Err(Error::Conflict(format!(
            "workflow `{}` is {status}: only one that waits for a person or has failed is resumed",
            workflow.id
        ))),
    }
}
