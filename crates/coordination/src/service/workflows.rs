//! Loads, lists and resumes workflows.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    object::Object,
    task::{TASK_TYPE, Task, TaskStatus},
    workflow::{Limit, Workflow, WorkflowEvent, WorkflowStatus},
};
use emergent_graph::{Actor, Graph, WriteContext};
use emergent_rules::workflow::foreign_blockers::{ForeignBlocker, describe_wait};
use emergent_store::{
    Tx, budget,
    idempotency::accept_once,
    objects,
    runs::rehearsals,
    tasks, unassigned_tasks,
    workflows::{self, AttemptRun, WorkflowProgress},
};

use super::{
    cancel::TASK_BATCH,
    changes::{check_note, resume_workflow, retry_properties},
    decision_audit::{record_budget, record_resume},
    discussions::is_undecided,
    inbox::DecidedIn,
};
use crate::{
    decision_rights::{check_may_decide, check_may_raise},
    dispatcher::Dispatcher,
    error::{Error, Result},
    foreign_blockers::load_foreign_blockers,
    transactions::{get_workflow, lock_workflow, update_properties},
};

/// Describes a task whose run waits for an approval or an answer. The command line recognises it by its first words.
const WAITS_FOR_PERSON: &str = "waits for a person: emergent inbox list";

/// A workflow with its tasks and its spend.
#[derive(Debug, Clone)]
pub struct WorkflowDetail {
    pub workflow: Workflow,
    pub tasks: Vec<TaskDetail>,
    pub spent: budget::WorkflowSpend,
    /// Whether a script answered in one of its runs instead of a model.
    pub is_rehearsal: bool,
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
    /// Describes what the task waits for outside this workflow: a person, or other tasks; `None` if it waits for
    /// nothing there.
    pub waiting: Option<String>,
}

/// A workflow in a list, with the statuses of its tasks and its spend.
#[derive(Debug, Clone)]
pub struct ListedWorkflow {
    pub workflow: Workflow,
    pub progress: WorkflowProgress,
    /// Whether a script answered in one of its runs instead of a model.
    pub is_rehearsal: bool,
}

/// A task in a list.
#[derive(Debug, Clone)]
pub struct ListedTask {
    pub object: Object,
    /// Why the standing workflow of the project could not take the task as it is.
    pub refusal: Option<String>,
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

    /// Like [`Dispatcher::workflows`], each with the statuses of its tasks, its spend, and whether it is a rehearsal.
    pub async fn workflows_with_progress(
        &self,
        project: ProjectId,
        status: Option<WorkflowStatus>,
        page: Page,
    ) -> Result<ResultPage<ListedWorkflow>> {
        let read = move |tx: &mut Tx<'_>| -> Result<ResultPage<ListedWorkflow>> {
            let found = workflows::list(tx, project, status, &page)?;
            let ids: Vec<WorkflowId> = found.items.iter().map(|workflow| workflow.id).collect();
            let mut progress = workflows::progress(tx, project, &ids)?;
            let rehearsed = rehearsals::list_rehearsed_workflows(tx, &ids)?;
            Ok(found.map(|workflow| ListedWorkflow {
                progress: progress.remove(&workflow.id).unwrap_or_default(),
                is_rehearsal: rehearsed.contains(&workflow.id),
                workflow,
            }))
        };
        self.executor().graph().db().snapshot(read).await
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
    ) -> Result<ResultPage<ListedTask>> {
        let read = move |tx: &mut Tx<'_>| -> Result<ResultPage<ListedTask>> {
            let ResultPage { items, next } = tasks::list(tx, project, &filter, &page)?;
            let ids: Vec<ObjectId> = items.iter().map(|task| task.id).collect();
            let mut refusals = unassigned_tasks::list_refusals(tx, &ids)?;
            let listed = |object: Object| {
                let refusal = refusals.remove(&object.id).filter(|(version, _)| *version == object.version);
                ListedTask { object, refusal: refusal.map(|(_, reason)| reason) }
            };
            Ok(ResultPage { items: items.into_iter().map(listed).collect(), next })
        };
        self.executor().graph().db().read(read).await
    }

    /// Loads one task of any workflow, or of none.
    pub async fn task(&self, project: ProjectId, id: ObjectId) -> Result<ListedTask> {
        let read = move |tx: &mut Tx<'_>| -> Result<ListedTask> {
            let object = objects::get(tx, project, id)?.filter(|object| object.type_ == TASK_TYPE);
            let object = object.ok_or_else(|| Error::not_found("task", id))?;
            let refusal = unassigned_tasks::list_refusals(tx, &[id])?.remove(&id);
            let refusal = refusal.filter(|(version, _)| *version == object.version);
            Ok(ListedTask { object, refusal: refusal.map(|(_, reason)| reason) })
        };
        self.executor().graph().db().read(read).await
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
        self.resume_in(actor, id, note, budget, DecidedIn::Workflow).await
    }

    pub(super) async fn resume_in(
        &self,
        actor: Actor,
        id: WorkflowId,
        note: Option<String>,
        budget: Option<Limit>,
        decided_in: DecidedIn,
    ) -> Result<Workflow> {
        check_note("note", note.as_deref())?;
        match self.resume_at_once(actor, id, note.clone(), budget, decided_in).await {
            Err(error) if error.is_too_slow() => {}
            done => return done,
        }
        // There are too many large tasks for one transaction. They become pending in several while the workflow
        // still waits; if the server stops in between, resuming it again continues.
        let mut limit = TASK_BATCH;
        loop {
            match self.retry_some_tasks(actor, id, note.clone(), limit).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.is_too_slow() && limit > 1 => limit /= 2,
                Err(error) => return Err(error),
            }
        }
        self.resume_at_once(actor, id, note, budget, decided_in).await
    }

    /// Resumes a workflow in one transaction.
    async fn resume_at_once(
        &self,
        actor: Actor,
        id: WorkflowId,
        note: Option<String>,
        budget: Option<Limit>,
        decided_in: DecidedIn,
    ) -> Result<Workflow> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_workflow(tx, actor.project, id)?;
            check_resumable(tx, actor, &workflow)?;
            check_discussion_decided(tx, &workflow)?;
            let now = graph.clock().now();
            decided_in.check(tx, &workflow, now)?;
            record_resume(tx, actor, &workflow, decided_in, now)?;
            if let Some(limit) = budget {
                check_may_raise(tx, actor.author, &workflow, limit)?;
                record_budget(tx, actor, &workflow, limit, now)?;
                workflow.settings.budget = limit;
                workflows::set_settings(tx, id, &workflow.settings)?;
            }
            let (writer, _) = retry_tasks(tx, &graph, actor, id, note.as_deref(), usize::MAX)?;
            resume_workflow(tx, &writer, workflow, note.as_deref())
        };
        self.executor().graph().db().write(move |tx| accept_once(tx, &work)).await
    }

    /// Makes at most `limit` failed and skipped tasks of a workflow pending that waits, and returns their number.
    async fn retry_some_tasks(
        &self,
        actor: Actor,
        id: WorkflowId,
        note: Option<String>,
        limit: usize,
    ) -> Result<usize> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let workflow = lock_workflow(tx, actor.project, id)?;
            check_resumable(tx, actor, &workflow)?;
            let (_, count) = retry_tasks(tx, &graph, actor, id, note.as_deref(), limit)?;
            Ok::<_, Error>(count)
        };
        self.executor().graph().db().write(work).await
    }
}

/// Makes at most `limit` failed and skipped tasks pending. Returns who wrote that, and their number.
fn retry_tasks(
    tx: &mut Tx<'_>,
    graph: &Graph,
    actor: Actor,
    id: WorkflowId,
    note: Option<&str>,
    limit: usize,
) -> Result<(WriteContext, usize)> {
    let (mut writer, _) = graph.workflow_write_context(tx, actor, id)?;
    writer.reason = Some("its workflow was resumed".to_owned());
    let ended = [TaskStatus::Failed, TaskStatus::Skipped];
    let objects = tasks::list_in_status(tx, actor.project, id, &ended, limit)?;
    for object in &objects {
        let task = Task::from_object(object);
        update_properties(tx, &writer, task.id, retry_properties(&task, note, None))?;
    }
    Ok((writer, objects.len()))
}

fn workflow_detail(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<WorkflowDetail> {
    let workflow = get_workflow(tx, project, id)?;
    let tasks: Vec<Task> = tasks::list_for_workflow(tx, project, id)?.iter().map(Task::from_object).collect();
    let keys: HashMap<ObjectId, String> = tasks.iter().map(|task| (task.id, task.key.clone())).collect();
    let mut blocked_by: HashMap<ObjectId, Vec<String>> = HashMap::new();
    let task_ids: Vec<ObjectId> = tasks.iter().map(|task| task.id).collect();
    let blocks = tasks::list_blocks_of(tx, &task_ids)?;
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
    let current_runs: Vec<RunId> = tasks.iter().filter_map(|task| task.run).collect();
    let waiting_runs = workflows::list_waiting(tx, project, &current_runs)?;
    let task_detail = |task: Task| {
        let runs = runs.remove(&task.id).unwrap_or_default();
        let attempted = task.run.is_some_and(|run| runs.contains(&run));
        let foreign_blockers = foreign_by_task.remove(&task.id).unwrap_or_default();
        let waiting = match task.run.is_some_and(|run| waiting_runs.contains(&run)) {
            true => Some(WAITS_FOR_PERSON.to_owned()),
            false => describe_wait(&task, attempted, &foreign_blockers),
        };
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
    let is_rehearsal = rehearsals::list_rehearsed_workflows(tx, &[id])?.contains(&id);
    Ok(WorkflowDetail { workflow, tasks, spent, is_rehearsal })
}

/// Refuses to resume a workflow that waits for the decision about a discussion: it would wait for the same decision
/// again at once.
fn check_discussion_decided(tx: &mut Tx<'_>, workflow: &Workflow) -> Result<()> {
    let Some(id) = workflow.escalation.as_ref().and_then(|escalation| escalation.discussion) else {
        return Ok(());
    };
    let discussion = objects::get(tx, workflow.project, id)?;
    if !discussion.is_some_and(|discussion| is_undecided(&discussion)) {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "workflow `{}` waits for a decision about the discussion `{id}`: decide it with `emergent discussion decide {id} \
         DECISION`, or accept its last proposal with `emergent inbox approve {id}`; the workflow continues by itself then",
        workflow.id
    )))
}

fn check_resumable(tx: &mut Tx<'_>, actor: Actor, workflow: &Workflow) -> Result<()> {
    match workflow.status {
        // This is checked before the tasks are changed, because many tasks are changed in several transactions.
        WorkflowStatus::Escalated => check_may_decide(tx, actor.author, "workflow", workflow.id),
        WorkflowStatus::Failed => Ok(()),
        status => Err(Error::Conflict(format!(
            "workflow `{}` is {status}: only one that waits for a person or has failed is resumed",
            workflow.id
        ))),
    }
}
