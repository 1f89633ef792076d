//! Drives one workflow in a loop: refresh the state, decide, write, wait. The state stays in memory while
//! nobody else changes the workflow; after a change from outside, the driver loads it again.

mod pass;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::Run,
    task::Task,
    workflow::{Limit, SelectorKind, Workflow, WorkflowSettings, WorkflowStatus},
    workflow_event::WorkflowEventBody,
};
use emergent_rules::workflow::{
    conclude::{ConcludedAttempt, Judgement, conclude_attempt},
    decide::{self, Action},
    summary,
    transition::{Transition, TransitionTo},
};
use emergent_store::{Db, Tx, budget, runs, workflows};
use pass::Pass;
use tokio::time::{Duration, Instant};

use crate::{
    apply::{self, AttemptEnd, WorkflowWrite, WriteBatch},
    attempts, discussion,
    dispatcher::{Dispatcher, LEASE},
    error::{Error, Result},
    judge::{self, AttemptJudgement, Judge, JudgeAnswers, JudgeFailure, QuestionKey},
    loaded_workflow::{self, LoadedWorkflow},
    metrics::DecisionCounts,
    open_choices::OpenChoices,
    planning,
    prepare_attempt::{self, Models, PreparedAttempt},
    run_times::RunTimes,
    task_slots::SlotShare,
    workflow_tx::CommitResult,
};

/// How often the driver checks the database without being woken.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The driver of one workflow that this server owns.
pub(crate) struct WorkflowDriver {
    dispatcher: Dispatcher,
    project: ProjectId,
    id: WorkflowId,
    owner: Arc<str>,
    slots: SlotShare,
    /// Questions to the judge, and their answers.
    judge_answers: JudgeAnswers,
    /// Tasks whose run could not be started, and why.
    refused: HashMap<ObjectId, RefusedStart>,
    /// Turns of discussions that could not be started, and why.
    failed_turns: discussion::FailedTurns,
    /// Why the planner could not be started; `None` as long as it could.
    planner_refusal: Option<String>,
    /// The tasks whose wait an event reports already, with its reason.
    reported_waits: HashMap<ObjectId, String>,
    /// True if more attempts could start if this server had more free slots.
    needs_slots: bool,
}

struct RefusedStart {
    reason: String,
    /// The budget that the workflow has spent; `None` if something else is the reason.
    spent_budget: Option<Limit>,
}

impl RefusedStart {
    /// Whether the reason holds while the workflow has this budget.
    fn applies_with(&self, budget: Limit) -> bool {
        self.spent_budget.is_none_or(|spent| spent == budget)
    }
}

impl WorkflowDriver {
    pub fn new(dispatcher: &Dispatcher, workflow: &Workflow, owner: &Arc<str>) -> Self {
        Self {
            dispatcher: dispatcher.clone(),
            project: workflow.project,
            id: workflow.id,
            owner: Arc::clone(owner),
            slots: SlotShare::new(dispatcher.slots(), workflow.project),
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

    /// Returns when the workflow has ended, waits for a person, or belongs to another server. After an
    /// error it can be called again: answers of the judge are not lost.
    pub async fn run(&mut self) -> Result<()> {
        let mut changed = self.db().waiter(&workflows::changed_channel(self.id));
        let mut ended = self.dispatcher.ended_runs().subscribe(self.id);
        // The state of the previous pass; `None` if it has to be loaded again.
        let mut cached = None;
        // Whether this pass reads the database for changes since the state was loaded.
        let mut check_database = true;
        let mut last_check = Instant::now();
        // Whether this pass is based on ends of runs that this process notified.
        let mut applied_runs = false;
        loop {
            let mut loaded = match cached.take() {
                Some(loaded) => loaded,
                None => match self.load().await? {
                    Some(loaded) if loaded.workflow().status.is_active() => loaded,
                    _ => return Ok(()),
                },
            };
            if std::mem::replace(&mut check_database, true) {
                last_check = Instant::now();
                if !self.refresh(&mut loaded).await? {
                    continue;
                }
            }
            // With more budget the tasks may start. Other changes of the workflow say nothing about a refusal.
            let budget = loaded.workflow().settings.budget;
            self.refused.retain(|_, refused| refused.applies_with(budget));
            let writes = self.decide(&mut loaded).await?;
            if !writes.is_empty() {
                let (used_questions, counts) =
                    (judge::questions_behind(&writes), DecisionCounts::from_writes(&writes));
                let reload = writes.iter().any(|write| {
                    !matches!(write, WorkflowWrite::StartAttempt(_) | WorkflowWrite::ConcludeAttempt(_))
                });
                match self.commit(&loaded, writes).await {
                    Ok(commit) => {
                        // Refusals are kept until a commit succeeds. A commit fails as a whole when one task cannot
                        // be started, so the next one has to contain the refusals of all tasks.
                        self.refused.clear();
                        self.judge_answers.discard_used(&used_questions);
                        self.dispatcher.counters().record_commit(counts, &commit);
                        if !reload {
                            loaded.snapshot.set_committed(&commit.versions, commit.revision);
                            cached = Some(loaded);
                            // No check is needed: a change in the meantime wakes the driver.
                            (check_database, applied_runs) = (false, false);
                        }
                    }
                    Err(Error::Stale(_)) => {}
                    Err(Error::NotStarted { turn: Some(turn), why, .. }) => {
                        self.failed_turns.insert(turn, why);
                    }
                    Err(Error::NotStarted { task: Some(task), why, budget, .. }) => {
                        let spent_budget = budget.then_some(loaded.workflow().settings.budget);
                        self.refused.insert(task, RefusedStart { reason: why, spent_budget });
                    }
                    Err(Error::NotStarted { task: None, why, .. }) => self.planner_refusal = Some(why),
                    Err(Error::Lost(_)) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            // The wake-up may have had other causes too, so the next pass checks the database.
            if std::mem::take(&mut applied_runs) {
                cached = Some(loaded);
                continue;
            }
            self.slots.shrink_to(loaded.snapshot.running_attempts());
            tokio::select! {
                () = changed.wait(POLL_INTERVAL) => {
                    applied_runs = loaded.apply_ended_runs(&mut ended);
                    check_database = !applied_runs;
                }
                () = self.slots.freed(), if self.needs_slots => {
                    // A free slot changes nothing about the workflow, so the state in memory is enough: a commit on an
                    // outdated one fails as stale. While slots become free again and again, the wait above
                    // never ends by its timeout, and a lost wake-up has to be found here.
                    check_database = last_check.elapsed() >= POLL_INTERVAL;
                }
                true = self.judge_answers.next_answer() => {}
            }
            // Changes of foreign blockers do not wake this driver, so they are loaded after every wait.
            cached = (!loaded.snapshot.has_foreign_blockers()).then_some(loaded);
        }
    }

    async fn load(&self) -> Result<Option<LoadedWorkflow>> {
        let (project, id) = (self.project, self.id);
        Ok(self.db().snapshot(move |tx| loaded_workflow::load_workflow(tx, project, id)).await?)
    }

    /// Loads the runs that have ended in the meantime, and which of the others wait for a person. Returns false if somebody else changed the workflow.
    async fn refresh(&self, loaded: &mut LoadedWorkflow) -> Result<bool> {
        let (project, id, revision, pending_runs) =
            (self.project, self.id, loaded.workflow().revision, loaded.pending_runs());
        let pending: HashSet<RunId> = pending_runs.iter().copied().collect();
        let attempted = loaded.snapshot.tasks().iter().filter_map(|task| Some((task.run?, task)));
        let tasks: HashMap<RunId, Task> = attempted
            .filter(|(run, _)| pending.contains(run))
            .map(|(run, task)| (run, task.clone()))
            .collect();
        let read = move |tx: &mut Tx<'_>| {
            let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
            if workflow.revision != revision || !workflow.status.is_active() {
                return Ok(None);
            }
            let mut attempts = Vec::new();
            let mut other_runs = Vec::new();
            for run in workflows::list_ended(tx, project, &pending_runs)? {
                match tasks.get(&run.id) {
                    Some(task) => {
                        let attempt = attempts::load_attempt(tx, task, &run)?;
                        attempts.push((task.id, RunTimes::from(&run), attempt));
                    }
                    None => other_runs.push(run),
                }
            }
            let waiting = workflows::list_waiting(tx, project, &pending_runs)?;
            Ok::<_, emergent_store::Error>(Some((attempts, other_runs, waiting)))
        };
        let Some((attempts, other_runs, waiting)) = self.db().read(read).await? else { return Ok(false) };
        for (task, times, attempt) in attempts {
            loaded.run_times.insert(attempt.run, times);
            loaded.record_attempt_end(task, attempt);
        }
        loaded.set_waiting_runs(&waiting);
        if !other_runs.is_empty() {
            // The run of a turn or of the planner has ended; only a full load reads its result.
            let fresh = self.load().await?;
            match fresh {
                Some(fresh) if fresh.workflow().revision == revision => *loaded = fresh,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the writes of this pass, in order.
    async fn decide(&mut self, loaded: &mut LoadedWorkflow) -> Result<Vec<WorkflowWrite>> {
        if loaded.workflow().status == WorkflowStatus::Planning {
            let run = self.planner_run(loaded.workflow()).await?;
            return Ok(planning::planning_writes(loaded, run.as_ref(), self.planner_refusal.as_deref()));
        }
        let waits = match loaded.unreported_waits.take() {
            Some(waits) => self.unreported_waits(waits).await?,
            None => Vec::new(),
        };
        let mut pass = Pass { loaded, writes: waits };
        for action in decide::after_ended_runs(&pass.loaded.snapshot) {
            self.after_ended_run(&mut pass, action);
        }
        self.start_attempts(&mut pass).await;
        if pass.writes.is_empty() && self.judge_answers.is_idle() && !self.needs_slots {
            for action in decide::when_idle(&pass.loaded.snapshot) {
                let write = self.idle_write(pass.loaded, action).await?;
                write.into_iter().for_each(|write| pass.push(write));
            }
        }
        Ok(pass.writes)
    }

    async fn planner_run(&self, workflow: &Workflow) -> Result<Option<Run>> {
        let Some(run) = workflow.planner_run else { return Ok(None) };
        let project = self.project;
        let read = move |tx: &mut Tx<'_>| runs::get(tx, project, run);
        let planner_run: Result<Option<Run>, emergent_store::Error> = self.db().read(read).await;
        Ok(planner_run?)
    }

    /// Returns writes that report the waits which the newest event of their task does not report yet. That
    /// event is read once per wait, not in every pass.
    async fn unreported_waits(&mut self, waits: Vec<(ObjectId, String)>) -> Result<Vec<WorkflowWrite>> {
        // A task that stopped waiting may wait for the same again, which is reported again.
        self.reported_waits.retain(|task, _| waits.iter().any(|(waiting, _)| waiting == task));
        let mut writes = Vec::new();
        for (task, reason) in waits {
            if self.reported_waits.get(&task) == Some(&reason) {
                continue;
            }
            let id = self.id;
            let read = move |tx: &mut Tx<'_>| workflows::latest_task_event(tx, id, task);
            let newest: Result<_, emergent_store::Error> = self.db().read(read).await;
            let waiting = WorkflowEventBody::TaskWaiting { reason: reason.clone() };
            let is_reported = newest?.is_some_and(|(kind, data)| {
                WorkflowEventBody::from_stored(&kind, &data).is_ok_and(|stored| stored == waiting)
            });
            if is_reported {
                self.reported_waits.insert(task, reason);
            } else {
                writes.push(WorkflowWrite::ReportWait { task, why: reason });
            }
        }
        Ok(writes)
    }

    fn after_ended_run(&mut self, pass: &mut Pass<'_>, action: Action) {
        match action {
            Action::ConcludeAttempt(task) => self.conclude(pass, task),
            Action::OpenReview(task) if pass.loaded.fail_if_discussed_too_often(task) => {
                self.conclude(pass, task);
            }
            Action::OpenReview(task) => {
                if let Some(write) = open_review(pass.loaded, task) {
                    pass.push(write);
                }
            }
            Action::AdvanceDiscussions(task) => {
                let discussions = pass.loaded.discussions.get(&task).map(Vec::as_slice).unwrap_or_default();
                let writes =
                    discussion::advance_all(task, discussions, &pass.loaded.agents, &self.failed_turns);
                for write in writes {
                    pass.push(WorkflowWrite::AdvanceDiscussion(Box::new(write)));
                }
            }
            _ => {}
        }
    }

    /// Concludes an ended attempt, unless the judge has not answered yet.
    fn conclude(&mut self, pass: &mut Pass<'_>, id: ObjectId) {
        let snapshot = &pass.loaded.snapshot;
        let (Some(task), Some(attempt)) = (snapshot.get(id), snapshot.attempts.get(&id)) else { return };
        let judge = self.judge(&snapshot.workflow.settings);
        let evaluates = snapshot.workflow.settings.evaluate;
        let cards = pass.loaded.agent_cards();
        let judgement = match pass.loaded.wanted_changes(id) {
            // The decision of a person counts, and no model is asked about the result.
            Some(changes) => Some(Judgement::ChangesWanted(changes)),
            None => {
                match judge::judge_attempt(
                    judge.as_ref(),
                    &mut self.judge_answers,
                    evaluates,
                    cards,
                    task,
                    attempt,
                ) {
                    AttemptJudgement::Pending => return,
                    AttemptJudgement::Accepted => None,
                    AttemptJudgement::Judged(judgement) => Some(judgement),
                }
            }
        };
        let is_only_run = snapshot.attempt_number(task) <= 1
            && task.resumes == 0
            && !pass.loaded.discussions.contains_key(&id);
        let Some(ConcludedAttempt { attempt, transitions }) =
            conclude_attempt(snapshot, id, judgement.as_ref())
        else {
            return;
        };
        let failure = self.judge_answers.failure(QuestionKey::Attempt(id, attempt.run)).cloned();
        let is_unjudged = judge.is_none() && matches!(judgement, Some(Judgement::NotEvaluated { .. }));
        let failure = failure.or_else(|| is_unjudged.then(|| judge::no_judge("evaluator")));
        pass.report_judge_failures(id, failure.into_iter().collect());
        pass.push(WorkflowWrite::ConcludeAttempt(Box::new(AttemptEnd {
            task: id,
            run: attempt.run,
            times: pass.loaded.run_times.get(&attempt.run).copied(),
            status: attempt.status,
            session: pass.loaded.sessions.get(&id).copied(),
            transitions,
            verdict: attempt.verdict,
            summary: attempt.summary,
            is_only_run,
        })));
    }

    /// Starts as many attempts as this server has free slots for.
    async fn start_attempts(&mut self, pass: &mut Pass<'_>) {
        let mut actions = decide::startable(&pass.loaded.snapshot, usize::MAX);
        actions.retain(|action| match action {
            Action::StartAttempt(task) => !self.judge_answers.blocks_attempt(*task),
            _ => true,
        });
        let acquired = self.slots.exchange(pass.loaded.snapshot.running_attempts(), actions.len());
        self.needs_slots = acquired < actions.len();
        actions.truncate(acquired);
        let snapshot = &pass.loaded.snapshot;
        let starting = actions.iter().filter_map(|action| match action {
            Action::StartAttempt(task) => snapshot.get(*task),
            _ => None,
        });
        let choices = OpenChoices::new(pass.loaded, starting);
        let mut selections = choices.select(self.dispatcher.selection_pool(), self.project).await;
        let models = Models {
            judge: self.judge(&pass.loaded.workflow().settings),
            sentences: self.dispatcher.sentence_model().cloned(),
        };
        for action in actions {
            let (Action::StartAttempt(id) | Action::ResumeAttempt(id)) = action else { continue };
            let Some(task) = pass.loaded.snapshot.get(id).cloned() else { continue };
            if let Some(refused) = self.refused.get(&id) {
                let options = match refused.spent_budget {
                    Some(_) => decide::BUDGET_OPTIONS,
                    None => decide::TASK_OPTIONS,
                };
                pass.fail_unstarted(&task, &refused.reason, options);
                continue;
            }
            let prepare = match action {
                Action::ResumeAttempt(_) => prepare_attempt::prepare_resumed_attempt,
                _ => prepare_attempt::prepare_attempt,
            };
            match prepare(&models, &mut self.judge_answers, pass.loaded, &task, &mut selections) {
                PreparedAttempt::Ready(attempt) => {
                    let asks_judge = pass.loaded.workflow().settings.selector == SelectorKind::Llm
                        && task.assigned_agent.is_none();
                    if asks_judge && models.judge.is_none() {
                        pass.report_judge_failures(id, vec![judge::no_judge("selector")]);
                    }
                    pass.report_judge_failures(id, self.judge_answers.failures_before_attempt(id));
                    pass.push(WorkflowWrite::StartAttempt(attempt));
                }
                PreparedAttempt::WaitingForJudge => {}
                PreparedAttempt::NoAgent(reason) => {
                    let failures = self.judge_answers.failures_before_attempt(id);
                    let reasons = std::iter::once(reason).chain(failures.iter().map(JudgeFailure::describe));
                    let reason = reasons.collect::<Vec<_>>().join("; ");
                    pass.report_judge_failures(id, failures);
                    pass.fail_unstarted(&task, &reason, decide::TASK_OPTIONS);
                }
            }
        }
    }

    /// The model that is asked where the rules do not decide, if one is configured or the workflow brings one.
    fn judge(&self, settings: &WorkflowSettings) -> Option<Judge> {
        let model = self.dispatcher.settings().judge.clone().or_else(|| settings.judge.clone())?;
        Some(Judge::new(self.dispatcher.executor().clone(), model, self.project, self.id))
    }

    /// The write for an action that is decided when nothing runs or can start.
    async fn idle_write(&self, loaded: &LoadedWorkflow, action: Action) -> Result<Option<WorkflowWrite>> {
        Ok(match action {
            Action::SkipTask { task, why } => loaded.snapshot.get(task).map(|before| {
                let step = Transition { task, to: TransitionTo::Skipped, reason: why };
                WorkflowWrite::ChangeTask { step, before: Box::new(before.clone()) }
            }),
            Action::Escalate(mut escalation) => {
                if let Some(discussion) = escalation.task.and_then(|task| loaded.escalated_discussion(task)) {
                    escalation.discussion = Some(discussion.id);
                    if let Some(why) = &discussion.escalation {
                        escalation.reason = format!("{}: {why}", escalation.reason);
                    }
                }
                Some(WorkflowWrite::MoveWorkflow {
                    to: WorkflowStatus::Escalated,
                    why: escalation.reason.clone(),
                    summary: None,
                    escalation: Some(escalation),
                })
            }
            Action::EndWorkflow { status, why } => {
                let (project, id) = (self.project, self.id);
                let read = move |tx: &mut Tx<'_>| budget::workflow_spend(tx, project, id);
                let spend: Result<budget::WorkflowSpend, emergent_store::Error> = self.db().read(read).await;
                let now = self.dispatcher.executor().graph().clock().now();
                let summary = Some(summary::summary_text(&loaded.snapshot, status, spend?.spent, now));
                Some(WorkflowWrite::MoveWorkflow { to: status, why, summary, escalation: None })
            }
            _ => None,
        })
    }

    async fn commit(&self, loaded: &LoadedWorkflow, writes: Vec<WorkflowWrite>) -> Result<CommitResult> {
        let batch = WriteBatch {
            project: self.project,
            workflow: self.id,
            owner: Arc::clone(&self.owner),
            lease_until: self.dispatcher.executor().graph().clock().now() + LEASE,
            revision: loaded.workflow().revision,
            writes,
        };
        let executor = self.dispatcher.executor().clone();
        let run_count = batch.writes.iter().map(WorkflowWrite::run_count).sum();
        let slots = executor.try_acquire_slots(self.project, run_count);
        let tx_executor = executor.clone();
        executor
            .commit_and_drive(slots, move |tx, admissions| apply::apply(tx, admissions, &tx_executor, &batch))
            .await
    }
}

/// Opens the review of an attempt. Returns `None` if the task or its attempt is not there any more.
fn open_review(loaded: &LoadedWorkflow, id: ObjectId) -> Option<WorkflowWrite> {
    let (task, attempt) = (loaded.snapshot.get(id)?, loaded.snapshot.attempts.get(&id)?);
    let blockers = loaded.snapshot.blockers(id);
    let earlier_agents: Vec<&str> = blockers.filter_map(|task| task.assigned_agent.as_deref()).collect();
    let defaults = &loaded.coordination.discussions;
    let write = discussion::open_review(task, attempt, loaded.agent_cards(), &earlier_agents, defaults);
    Some(WorkflowWrite::AdvanceDiscussion(Box::new(write)))
}
