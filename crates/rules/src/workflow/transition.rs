//! Changes of a workflow's state that were decided, and how a snapshot looks after them.
//!
//! The dispatcher decides several things before it writes them in one transaction, and later
//! decisions build on earlier ones. [`Snapshot::apply`](super::snapshot::Snapshot::apply) is the one
//! place that makes a decided change in memory, exactly as the transaction makes it in the graph.

use emergent_domain::{
    ids::{ObjectId, RunId},
    task::{NeedsPerson, Task, TaskStatus},
};
use serde_json::Value;

use crate::workflow::question::truncate;

/// The most characters of an attempt's summary that its task stores.
const MAX_SUMMARY_CHARS: usize = 2_000;

/// What a task stores of the summary of its attempt when the attempt has ended.
pub fn stored_summary(summary: &str) -> String {
    truncate(summary, MAX_SUMMARY_CHARS)
}

/// A change of one task, with the reason that is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub task: ObjectId,
    pub to: TransitionTo,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TransitionTo {
    Completed {
        output: Value,
    },
    /// The task is tried again, by this agent if one is named.
    Retry {
        failure_context: String,
        agent: Option<String>,
    },
    /// A person wants changes of the result, and its agent tries the task again. It uses up no retry.
    ReturnedToAgent {
        failure_context: String,
        agent: String,
    },
    /// The task was completed, but a verdict sends it back with this reason.
    SentBack {
        failure_context: String,
    },
    /// The task was sent back already; its next attempt reads this reason as well.
    FailureNoted {
        failure_context: String,
    },
    /// The task is pending again, and this does not count as a failed attempt.
    Reopened,
    Failed {
        failure_context: String,
        /// Set if a person has to decide about the task once nothing else can continue.
        needs_person: Option<NeedsPerson>,
    },
    Skipped,
    Paused,
    /// The run is resumed and asked for the verdict that it did not submit.
    AskedAgain,
}

/// One decided change of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    AttemptStarted {
        task: ObjectId,
        run: RunId,
        agent: &'a str,
        mode: AttemptMode,
    },
    /// The attempt at `task` has ended, and these transitions follow for it and for other tasks.
    AttemptConcluded {
        task: ObjectId,
        transitions: Vec<&'a Transition>,
    },
    TaskMoved(&'a Transition),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptMode {
    /// A new conversation.
    New,
    /// The paused run of the task continues.
    Resumed,
}

impl TransitionTo {
    /// Changes a task as the transaction changes it in the graph.
    pub(super) fn apply_to(&self, task: &mut Task) {
        if !matches!(self, TransitionTo::FailureNoted { .. }) {
            task.needs_person = None;
        }
        match self {
            TransitionTo::Completed { output } => {
                task.status = TaskStatus::Completed;
                task.output = Some(output.clone());
            }
            TransitionTo::Retry { failure_context, agent } => {
                reopen(task);
                task.retry_count += 1;
                task.failure_context.clone_from(failure_context);
                if agent.is_some() {
                    task.assigned_agent.clone_from(agent);
                }
            }
            TransitionTo::ReturnedToAgent { failure_context, agent } => {
                reopen(task);
                task.failure_context.clone_from(failure_context);
                task.assigned_agent = Some(agent.clone());
            }
            TransitionTo::SentBack { failure_context } => {
                reopen(task);
                task.retry_count += 1;
                task.failure_context.clone_from(failure_context);
            }
            TransitionTo::FailureNoted { failure_context } => {
                task.failure_context.clone_from(failure_context);
            }
            TransitionTo::Reopened => reopen(task),
            TransitionTo::Failed { failure_context, needs_person } => {
                task.status = TaskStatus::Failed;
                task.failure_context.clone_from(failure_context);
                task.needs_person.clone_from(needs_person);
            }
            TransitionTo::Skipped => task.status = TaskStatus::Skipped,
            TransitionTo::Paused | TransitionTo::AskedAgain => task.status = TaskStatus::Paused,
        }
    }
}

/// Makes a task pending, without its run. An agent stays only if the task names it.
fn reopen(task: &mut Task) {
    task.status = TaskStatus::Pending;
    task.run = None;
    task.resumes = 0;
    if !task.agent_is_named {
        task.assigned_agent = None;
    }
}
