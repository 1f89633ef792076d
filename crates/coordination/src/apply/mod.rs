//! Commits the decisions of one pass over a workflow in a single transaction. The transaction starts
//! with a fence that only the dispatcher holding the lease can pass. If anyone changed a task in the
//! meantime, the commit fails as stale and writes nothing.

mod conclude_attempt;
mod start_attempt;
mod workflow;

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    author::Author,
    ids::{AgentId, ObjectId, ProjectId, RunId, WorkflowId},
    run::RunStatus,
    task::Task,
    time::Timestamp,
    verdict::Verdict,
    workflow::{Deliverable, WorkflowStatus},
    workflow_event::{TaskMove, WorkflowEventBody},
};
use emergent_executor::{AdmissionBatch, Executor};
use emergent_graph::{Actor, objects};
use emergent_rules::workflow::{
    decide::NewEscalation,
    transition::{AttemptMode, Change, Transition},
};
use emergent_store::{Tx, objects as rows, workflows};

use crate::{
    discussion,
    error::{Error, Result},
    run_times::RunTimes,
    session_end,
    sessions::{self, GraphDrafts},
    workflow_tx::{CommitResult, WorkflowTx},
};

/// How many sessions one write ends, besides those of the attempts that it concludes.
const MAX_SESSIONS_ENDED: usize = 64;

/// The writes of one pass over a workflow, decided on a snapshot at `revision`.
pub(crate) struct WriteBatch {
    pub project: ProjectId,
    pub workflow: WorkflowId,
    pub owner: Arc<str>,
    /// Until when the owner keeps the workflow.
    pub lease_until: Timestamp,
    pub revision: i64,
    pub writes: Vec<WorkflowWrite>,
}

/// One write that was decided about a workflow.
pub(crate) enum WorkflowWrite {
    StartAttempt(Box<NewAttempt>),
    ConcludeAttempt(Box<AttemptEnd>),
    /// Skips a task, or fails a task whose attempt could not be started.
    ChangeTask {
        step: Transition,
        before: Box<Task>,
    },
    AdvanceDiscussion(Box<discussion::DiscussionWrite>),
    /// Starts the planner, for the first time or after a plan was rejected.
    StartPlanner {
        agent: AgentId,
        prompt: String,
        run: RunId,
    },
    /// Records that a task waits for something that this workflow does not drive.
    ReportWait {
        task: ObjectId,
        why: String,
    },
    /// Records that a model gave no usable answer to a question about a task.
    ReportJudgeFailure {
        task: ObjectId,
        role: &'static str,
        why: String,
    },
    /// Changes the status of the workflow.
    MoveWorkflow {
        to: WorkflowStatus,
        why: String,
        summary: Option<String>,
        escalation: Option<NewEscalation>,
    },
    /// Records that the plan fails the checks.
    RejectPlan {
        why: String,
    },
    /// Deletes a task of a rejected plan.
    DeleteTask {
        task: ObjectId,
    },
}

impl WorkflowWrite {
    /// The change of the snapshot that goes with this write, if any. Every other write is followed by
    /// loading the workflow again.
    pub fn change(&self) -> Option<Change<'_>> {
        Some(match self {
            WorkflowWrite::StartAttempt(attempt) => Change::AttemptStarted {
                task: attempt.task.id,
                run: attempt.run,
                agent: &attempt.agent_name,
                mode: match attempt.resumed_run {
                    Some(_) => AttemptMode::Resumed,
                    None => AttemptMode::New,
                },
            },
            WorkflowWrite::ConcludeAttempt(end) => Change::AttemptConcluded {
                task: end.task,
                transitions: end.transitions.iter().map(|(transition, _)| transition).collect(),
            },
            WorkflowWrite::ChangeTask { step, .. } => Change::TaskMoved(step),
            _ => return None,
        })
    }

    /// The tasks and sessions that the write changes. Others can follow from it; they are locked when they are changed.
    fn changed_objects(&self) -> Vec<ObjectId> {
        match self {
            WorkflowWrite::StartAttempt(attempt) => vec![attempt.task.id],
            WorkflowWrite::ConcludeAttempt(end) => {
                end.session.into_iter().chain(end.transitions.iter().map(|(step, _)| step.task)).collect()
            }
            WorkflowWrite::ChangeTask { step, .. } => vec![step.task],
            _ => Vec::new(),
        }
    }

    /// How many runs the write starts.
    pub fn run_count(&self) -> usize {
        match self {
            WorkflowWrite::StartAttempt(_) | WorkflowWrite::StartPlanner { .. } => 1,
            WorkflowWrite::AdvanceDiscussion(step) => step.run_count(),
            _ => 0,
        }
    }
}

/// A new attempt at a task: its session and its run.
pub(crate) struct NewAttempt {
    pub task: Task,
    /// The number of the attempt, from 1. A resumed run continues its attempt.
    pub number: i64,
    pub agent: AgentId,
    pub agent_name: String,
    pub reason: String,
    pub prompt: String,
    pub run: RunId,
    pub session: ObjectId,
    /// The session of the previous attempt.
    pub previous_session: Option<ObjectId>,
    /// The sessions of the direct blockers whose results are in the prompt.
    pub informed_by: Vec<ObjectId>,
    /// The sessions of tasks behind them whose results are in the prompt as well.
    pub earlier_sessions: Vec<ObjectId>,
    pub deliverable: Option<Deliverable>,
    /// The run to resume, instead of a new conversation.
    pub resumed_run: Option<RunId>,
    /// True if a task of another workflow blocks this one, even if that task is completed by now.
    pub has_foreign_blocker: bool,
}

/// An attempt that has ended, and what follows.
pub(crate) struct AttemptEnd {
    pub task: ObjectId,
    pub run: RunId,
    /// When the run was started and ended; `None` if it has to be read.
    pub times: Option<RunTimes>,
    pub status: RunStatus,
    pub session: Option<ObjectId>,
    /// Each transition with its task as it was before.
    pub transitions: Vec<(Transition, Task)>,
    pub verdict: Option<Verdict>,
    pub summary: String,
    /// True if no other run worked at the task: no earlier attempt, and no turn of a discussion.
    pub is_only_run: bool,
}

/// Writes a batch. Fails with [`Error::Lost`] if this server does not own the workflow any more, and with
/// [`Error::Stale`] if the workflow was changed since the batch was decided.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    admissions: &mut AdmissionBatch,
    executor: &Executor,
    batch: &WriteBatch,
) -> Result<CommitResult> {
    let id = batch.workflow;
    let actor = Actor { project: batch.project, author: Author::System };
    let starts_runs = batch.writes.iter().any(|write| write.run_count() > 0);
    let context = executor.graph().dispatcher_write_context(tx, actor, id, &batch.owner, starts_runs)?;
    let Some((writer, workflow)) = context else { return Err(Error::Lost(id)) };
    if workflow.revision != batch.revision {
        return Err(Error::Stale(id));
    }
    if starts_runs {
        admissions.set_locked(batch.project, id, workflow.settings.budget);
    }
    let now = writer.now;
    // If another write of this transaction increments the revision as well, the driver loads the workflow again.
    let applied = CommitResult { revision: batch.revision + 1, ..CommitResult::default() };
    let mut writing = WorkflowTx {
        tx,
        executor,
        admissions,
        writer,
        workflow,
        now,
        events: Vec::new(),
        applied,
        drafts: GraphDrafts::default(),
        agents: HashMap::new(),
    };
    let changed: Vec<ObjectId> = batch.writes.iter().flat_map(WorkflowWrite::changed_objects).collect();
    rows::lock_many(writing.tx, batch.project, &changed)?;
    for write in &batch.writes {
        writing.apply_write(write)?;
    }
    let WorkflowTx { tx, admissions, writer, events, applied, drafts, .. } = writing;
    sessions::write_drafts(tx, &writer, drafts, admissions)?;
    workflows::write_decisions(tx, id, batch.lease_until, &events)?;
    Ok(applied)
}

impl WorkflowTx<'_, '_> {
    fn apply_write(&mut self, write: &WorkflowWrite) -> Result<()> {
        match write {
            WorkflowWrite::StartAttempt(attempt) => self.start_attempt(attempt),
            WorkflowWrite::ConcludeAttempt(end) => self.conclude_attempt(end),
            WorkflowWrite::ChangeTask { step, before } => {
                self.update_task(
                    step.task,
                    before.version,
                    conclude_attempt::transition_properties(step, before),
                    &step.reason,
                )?;
                let moved = TaskMove { from: Some(before.status), ..TaskMove::new(step.reason.clone()) };
                let event = conclude_attempt::transition_event(step, false, moved);
                self.push_event(Some(step.task), None, &event);
                Ok(())
            }
            WorkflowWrite::AdvanceDiscussion(step) => {
                discussion::write_discussion(self, step)?;
                self.end_open_sessions()
            }
            WorkflowWrite::StartPlanner { agent, prompt, run } => self.start_planner(*agent, prompt, *run),
            WorkflowWrite::ReportWait { task, why } => {
                let waiting = WorkflowEventBody::TaskWaiting { reason: why.clone() };
                self.push_event(Some(*task), None, &waiting);
                Ok(())
            }
            WorkflowWrite::ReportJudgeFailure { task, role, why } => {
                let (role, reason) = ((*role).to_owned(), why.clone());
                let failed = WorkflowEventBody::JudgeFailed { role, reason };
                self.push_event(Some(*task), None, &failed);
                Ok(())
            }
            WorkflowWrite::MoveWorkflow { to, why, summary, escalation } => {
                self.move_to(*to, why, summary.clone(), escalation.as_ref())?;
                self.end_open_sessions()
            }
            WorkflowWrite::RejectPlan { why } => {
                let run = self.workflow.planner_run;
                self.push_event(None, run, &WorkflowEventBody::PlanRefused { reason: why.clone() });
                Ok(())
            }
            WorkflowWrite::DeleteTask { task } => {
                objects::delete(self.tx, &self.writer, *task, None)?;
                Ok(())
            }
        }
    }

    /// Ends the sessions of attempts whose runs have ended and which are concluded later.
    fn end_open_sessions(&mut self) -> Result<()> {
        session_end::end_open_sessions(self.tx, &self.writer, self.workflow.id, MAX_SESSIONS_ENDED)?;
        Ok(())
    }
}
