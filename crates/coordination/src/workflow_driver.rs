//! One workflow, walked from task to task: look, decide, write, wait. What is known is kept in
//! memory while nobody else changes it; a change from outside makes it look again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    task::{Task, TaskStatus},
    workflow::{OnFailure, Workflow, WorkflowStatus},
};
use emergent_rules::workflow::{
    conclude::{ConcludedAttempt, Transition, TransitionTo, conclude_in_snapshot},
    decide::{self, Action},
    summary,
    threading::append_failure,
};
use emergent_store::{Db, Tx, budget, workflows};
use tokio::time::Duration;

use crate::{
    Dispatcher, Error, Result,
    apply::{self, AttemptEnd, CommitResult, WorkflowWrite, WriteBatch},
    discussion,
    dispatcher::{LEASE, SlotShare},
    judge::{self, Judge, JudgeAnswers},
    loaded_workflow::{self, LoadedWorkflow, TASK_WAITING_EVENT},
    metrics::DecisionCounts,
    planning, prepare_attempt,
};

/// How often to look without being woken.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct WorkflowDriver {
    pub dispatcher: Dispatcher,
    pub project: ProjectId,
    pub id: WorkflowId,
    owner: Arc<str>,
    slots: SlotShare,
    /// What a model was asked, and what it said.
    pub judge_answers: JudgeAnswers,
    /// Tasks whose run could not be started, and why.
    refused: HashMap<ObjectId, RefusedStart>,
    /// Turns of discussions that could not be started, and why.
    failed_turns: discussion::FailedTurns,
    /// The planner could not be started.
    planner_refusal: Option<String>,
    /// What waits and is told already, with what was told of it.
    reported_waits: HashMap<ObjectId, String>,
    /// More could start if this server had more slots.
    needs_slots: bool,
}

struct RefusedStart {
    reason: String,
    /// What the workflow may spend is spent.
    budget: bool,
}

impl WorkflowDriver {
    pub fn new(dispatcher: &Dispatcher, workflow: &Workflow, owner: &Arc<str>) -> Self {
        Self {
            dispatcher: dispatcher.clone(),
            project: workflow.project,
            id: workflow.id,
            owner: Arc::clone(owner),
            slots: SlotShare::new(dispatcher),
            judge_answers: JudgeAnswers::default(),
            refused: HashMap::new(),
            failed_turns: discussion::FailedTurns::new(),
            planner_refusal: None,
            reported_waits: HashMap::new(),
            needs_slots: false,
        }
    }

    fn db(&self) -> &Db {
        self.dispatcher.executor().graph().db()
    }

    /// Until the workflow is over, waits for a person, or is another server's.
    /// After an error it can go on: what was asked meanwhile, and answered, is kept.
    pub async fn run(&mut self) -> Result<()> {
        let mut changed = self.db().waiter(&workflows::changed_channel(self.id));
        let mut ended = self.dispatcher.executor().subscribe_ended_runs(self.id);
        let mut known = None;
        // Whether what happened since is to be looked for in the database.
        let mut looks = true;
        let mut heard = false;
        loop {
            let mut now = match known.take() {
                Some(known) => known,
                None => match self.load().await? {
                    Some(known) if known.workflow().status.is_active() => known,
                    _ => return Ok(()),
                },
            };
            if std::mem::replace(&mut looks, true) && !self.refresh(&mut now).await? {
                continue;
            }
            let items = self.decide(&mut now).await?;
            if !items.is_empty() {
                let (answered, tally) =
                    (judge::questions_behind(&items), DecisionCounts::from_writes(&items));
                let reload = items.iter().any(|item| {
                    !matches!(item, WorkflowWrite::StartAttempt(_) | WorkflowWrite::ConcludeAttempt(_))
                });
                match self.commit(&now, items).await {
                    Ok(applied) => {
                        self.judge_answers.discard_used(&answered);
                        self.dispatcher.counters().record_commit(tally, &applied);
                        if !reload {
                            record_commit(&mut now, &applied);
                            known = Some(now);
                            // Whatever came meanwhile has woken us.
                            (looks, heard) = (false, false);
                        }
                    }
                    Err(Error::Stale(_)) => {}
                    Err(Error::NotStarted { turn: Some(turn), why, .. }) => {
                        self.failed_turns.insert(turn, why);
                    }
                    Err(Error::NotStarted { task: Some(task), why, budget, .. }) => {
                        self.refused.insert(task, RefusedStart { reason: why, budget });
                    }
                    Err(Error::NotStarted { task: None, why, .. }) => self.planner_refusal = Some(why),
                    Err(Error::Lost(_)) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            // What woke us may have been more than what was heard.
            if std::mem::take(&mut heard) {
                known = Some(now);
                continue;
            }
            self.slots.shrink_to(now.snapshot.running_attempts());
            tokio::select! {
                () = changed.wait(POLL_INTERVAL) => {
                    heard = now.apply_ended_runs(&mut ended);
                    looks = !heard;
                }
                () = self.dispatcher.slots().freed.notified(), if self.needs_slots => {}
                true = self.judge_answers.next_answer() => {}
            }
            known = (!now.snapshot.has_foreign_blockers()).then_some(now);
        }
    }

    async fn load(&self) -> Result<Option<LoadedWorkflow>> {
        let (project, id) = (self.project, self.id);
        Ok(self.db().snapshot(move |tx| loaded_workflow::load_workflow(tx, project, id)).await?)
    }

    /// Which runs have ended meanwhile; false when tasks were changed by others.
    async fn refresh(&self, known: &mut LoadedWorkflow) -> Result<bool> {
        let (project, id, seen, awaited) =
            (self.project, self.id, known.workflow().revision, known.pending_runs());
        let waits: HashSet<RunId> = awaited.iter().copied().collect();
        let at_work = known.snapshot.tasks().iter().filter_map(|task| Some((task.run?, task)));
        let tasks: HashMap<RunId, Task> =
            at_work.filter(|(run, _)| waits.contains(run)).map(|(run, task)| (run, task.clone())).collect();
        let read = move |tx: &mut Tx<'_>| {
            let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
            if workflow.revision != seen || !workflow.status.is_active() {
                return Ok(None);
            }
            let mut attempts = Vec::new();
            let mut others = Vec::new();
            for run in workflows::list_ended(tx, project, &awaited)? {
                match tasks.get(&run.id) {
                    Some(task) => attempts.push((task.id, loaded_workflow::load_attempt(tx, task, &run)?)),
                    None => others.push(run),
                }
            }
            Ok::<_, emergent_store::Error>(Some((attempts, others)))
        };
        let Some((attempts, others)) = self.db().read(read).await? else { return Ok(false) };
        attempts.into_iter().for_each(|(task, attempt)| known.record_attempt_end(task, attempt));
        if !others.is_empty() {
            // A turn of a discussion, or the planner: read what it said with everything else.
            let fresh = self.load().await?;
            match fresh {
                Some(fresh) if fresh.workflow().revision == seen => *known = fresh,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// What is to be written now, in order. The snapshot is moved along as if it were.
    async fn decide(&mut self, known: &mut LoadedWorkflow) -> Result<Vec<WorkflowWrite>> {
        if known.workflow().status == WorkflowStatus::Planning {
            return planning::planning_writes(self, known, self.planner_refusal.clone()).await;
        }
        let mut items = match known.unreported_waits.take() {
            Some(waits) => self.unreported_waits(waits).await?,
            None => Vec::new(),
        };
        for next in decide::after_ended_runs(&known.snapshot) {
            match next {
                Action::ConcludeAttempt(task) => items.extend(self.conclude(known, task)),
                Action::OpenReview(task) => match discussion::open_review(known, task) {
                    Some(item) => items.push(item),
                    // Nobody to talk to: what it brought stands.
                    None => items.extend(self.conclude(known, task)),
                },
                Action::AdvanceDiscussions(task) => {
                    items.extend(discussion::advance_all(known, task, &self.failed_turns))
                }
                _ => {}
            }
        }
        self.start_attempts(known, &mut items);
        if items.is_empty() && self.judge_answers.is_idle() && !self.needs_slots {
            for next in decide::when_idle(&known.snapshot) {
                items.extend(self.idle_writes(known, next).await?);
            }
        }
        Ok(items)
    }

    /// What waits, as far as the newest event about it does not say so already. That is looked up once,
    /// not at every look.
    async fn unreported_waits(&mut self, waits: Vec<(ObjectId, String)>) -> Result<Vec<WorkflowWrite>> {
        // One that waits no longer may wait again, for the same: that is told again.
        self.reported_waits.retain(|task, _| waits.iter().any(|(one, _)| one == task));
        let mut items = Vec::new();
        for (task, why) in waits {
            if self.reported_waits.get(&task) == Some(&why) {
                continue;
            }
            let id = self.id;
            let read = move |tx: &mut Tx<'_>| workflows::latest_task_event(tx, id, task);
            let newest: Result<_, emergent_store::Error> = self.db().read(read).await;
            if newest?
                .is_some_and(|(kind, data)| kind == TASK_WAITING_EVENT && data["reason"] == why.as_str())
            {
                self.reported_waits.insert(task, why);
            } else {
                items.push(WorkflowWrite::ReportWait { task, why });
            }
        }
        Ok(items)
    }

    fn conclude(&mut self, known: &mut LoadedWorkflow, id: ObjectId) -> Vec<WorkflowWrite> {
        let (Some(task), Some(attempt)) =
            (known.snapshot.get(id).cloned(), known.snapshot.attempts.get(&id).cloned())
        else {
            return Vec::new();
        };
        let judge = self.judge();
        let judged = judge::judge_attempt(judge.as_ref(), &mut self.judge_answers, known, &task, &attempt);
        let Some(judged) = judged else { return Vec::new() };
        let Some(ConcludedAttempt { attempt, moves }) =
            conclude_in_snapshot(&mut known.snapshot, id, judged.as_ref())
        else {
            return Vec::new();
        };
        vec![WorkflowWrite::ConcludeAttempt(Box::new(AttemptEnd {
            task: id,
            run: attempt.run,
            status: attempt.status,
            session: known.sessions.get(&id).copied(),
            transitions: moves,
            verdict: attempt.verdict,
            summary: attempt.summary,
        }))]
    }

    fn start_attempts(&mut self, known: &mut LoadedWorkflow, items: &mut Vec<WorkflowWrite>) {
        self.slots.shrink_to(known.snapshot.running_attempts());
        let mut wanted = decide::startable(&known.snapshot, usize::MAX);
        wanted.retain(|next| match next {
            Action::StartAttempt(task) => !self.judge_answers.blocks_attempt(*task),
            _ => true,
        });
        let got = self.slots.acquire(wanted.len());
        self.needs_slots = got < wanted.len();
        wanted.truncate(got);
        for next in wanted {
            let (Action::StartAttempt(id) | Action::ResumeAttempt(id)) = next else { continue };
            let Some(task) = known.snapshot.get(id).cloned() else { continue };
            if let Some(refused) = self.refused.remove(&id) {
                let options = if refused.budget { decide::BUDGET_OPTIONS } else { decide::TASK_OPTIONS };
                items.push(fail_unstarted(known, &task, &refused.reason, options));
                continue;
            }
            let begun = match next {
                Action::ResumeAttempt(_) => prepare_attempt::prepare_resumed_attempt(self, known, &task),
                _ => prepare_attempt::prepare_attempt(self, known, &task),
            };
            match begun {
                prepare_attempt::PreparedAttempt::Ready(begun) => {
                    record_start(known, &begun);
                    items.push(WorkflowWrite::StartAttempt(begun));
                }
                prepare_attempt::PreparedAttempt::WaitingForJudge => {}
                prepare_attempt::PreparedAttempt::NoAgent(why) => {
                    items.push(fail_unstarted(known, &task, &why, decide::TASK_OPTIONS));
                }
            }
        }
    }

    /// The model that is asked where rules leave something open, if there is one.
    pub fn judge(&self) -> Option<Judge> {
        Judge::for_workflow(&self.dispatcher, self.project, self.id)
    }

    async fn idle_writes(&mut self, known: &mut LoadedWorkflow, next: Action) -> Result<Vec<WorkflowWrite>> {
        Ok(match next {
            Action::SkipTask { task, why } => {
                let Some(found) = known.snapshot.get_mut(task) else { return Ok(Vec::new()) };
                let before = Box::new(found.clone());
                found.status = TaskStatus::Skipped;
                vec![WorkflowWrite::ChangeTask {
                    step: Transition { task, to: TransitionTo::Skipped, reason: why },
                    before,
                }]
            }
            Action::Escalate(mut trouble) => {
                trouble.discussion = trouble.task.and_then(|task| known.escalated_discussion(task));
                let why = trouble.reason.clone();
                vec![WorkflowWrite::MoveWorkflow {
                    to: WorkflowStatus::Escalated,
                    why,
                    summary: None,
                    escalation: Some(trouble),
                }]
            }
            Action::EndWorkflow { status, why } => {
                let (project, id) = (self.project, self.id);
                let read = move |tx: &mut Tx<'_>| budget::workflow_spend(tx, project, id);
                let spend: Result<budget::WorkflowSpend, emergent_store::Error> = self.db().read(read).await;
                let now = self.dispatcher.executor().graph().clock().now();
                let summary = summary::summary_text(&known.snapshot, status, spend?.spent, now);
                vec![WorkflowWrite::MoveWorkflow {
                    to: status,
                    why,
                    summary: Some(summary),
                    escalation: None,
                }]
            }
            _ => Vec::new(),
        })
    }

    async fn commit(&self, known: &LoadedWorkflow, items: Vec<WorkflowWrite>) -> Result<CommitResult> {
        let work = WriteBatch {
            project: self.project,
            workflow: self.id,
            owner: Arc::clone(&self.owner),
            lease_until: self.dispatcher.executor().graph().clock().now() + LEASE,
            revision: known.workflow().revision,
            writes: items,
        };
        let executor = self.dispatcher.executor().clone();
        let places = executor.try_acquire_slots(work.writes.iter().map(WorkflowWrite::run_count).sum());
        let on = executor.clone();
        executor.commit_and_drive(places, move |tx, doorman| apply::apply(tx, doorman, &on, &work)).await
    }
}

/// A task that nobody can do, or whose run was refused.
fn fail_unstarted(known: &mut LoadedWorkflow, task: &Task, why: &str, options: &[&str]) -> WorkflowWrite {
    if let Some(found) = known.snapshot.get_mut(task.id) {
        found.status = TaskStatus::Failed;
    }
    let why = format!("it could not be started: {why}");
    let asks = known.workflow().settings.on_failure == OnFailure::Escalate;
    let to = TransitionTo::Failed {
        failure_context: append_failure(&task.failure_context, task.retry_count + 1, &why),
        needs_person: asks.then(|| decide::person_needed(task, &why, options)),
    };
    WorkflowWrite::ChangeTask {
        step: Transition { task: task.id, to, reason: why },
        before: Box::new(task.clone()),
    }
}

/// The attempt is on its way: the snapshot knows it as queued.
fn record_start(known: &mut LoadedWorkflow, begun: &apply::NewAttempt) {
    let id = begun.task.id;
    known.snapshot.record_attempt_start(id, begun.run, &begun.agent_name, begun.resumed_run.is_some());
    known.sessions.insert(id, begun.session);
}

/// What was decided is written: the snapshot's versions are the graph's.
fn record_commit(known: &mut LoadedWorkflow, applied: &CommitResult) {
    for (task, version) in &applied.versions {
        if let Some(task) = known.snapshot.get_mut(*task) {
            task.version = *version;
        }
    }
    known.snapshot.workflow.revision = applied.revision;
}
