//! The next actions for a workflow. The same snapshot gives the same actions on every server.

use emergent_domain::{
    ids::ObjectId,
    run::RunStatus,
    task::{NeedsPerson, Task, TaskStatus},
    text::on_one_line,
    workflow::{OnFailure, WorkflowStatus},
};

use crate::workflow::{
    snapshot::{DiscussionProgress, Snapshot},
    summary,
};

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The run of this task has ended: conclude the attempt.
    ConcludeAttempt(ObjectId),
    /// The attempt succeeded and the task requires a review.
    OpenReview(ObjectId),
    /// A discussion of this task may have to record entries, start turns or end.
    AdvanceDiscussions(ObjectId),
    /// Choose an agent and start an attempt.
    StartAttempt(ObjectId),
    /// Resume the run that ended at a limit, or without its verdict.
    ResumeAttempt(ObjectId),
    SkipTask {
        task: ObjectId,
        why: String,
    },
    /// Ask a person, because nothing can continue without a decision.
    Escalate(NewEscalation),
    EndWorkflow {
        status: WorkflowStatus,
        why: String,
    },
}

/// Why a person is asked, and what the person can do.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEscalation {
    pub reason: String,
    pub task: Option<ObjectId>,
    pub discussion: Option<ObjectId>,
    pub options: Vec<String>,
}

/// What a person can do about a task that failed.
pub const TASK_OPTIONS: &[&str] = &["retry", "reassign", "skip", "cancel"];
/// What a person can do about a task that the budget stopped: resume with more budget, or skip it.
pub const BUDGET_OPTIONS: &[&str] = &["resume", "skip", "cancel"];
/// What a person can do about a task whose blocker in another workflow will not complete: check again
/// once that is fixed, or skip the task.
pub const WAIT_OPTIONS: &[&str] = &["retry", "skip", "cancel"];
/// What a person can do about a discussion without an outcome.
pub const DISCUSSION_OPTIONS: &[&str] = &["decide", "cancel"];

/// Marks a failed task as needing a person. The mark stays on the task until a person has decided, so
/// that a workflow with several such tasks asks about each of them, one after the other.
pub fn person_needed(task: &Task, why: &str, options: &[&str]) -> NeedsPerson {
    // What the agent said last is part of some reasons, and a reason is one line in every list.
    let why = on_one_line(why);
    NeedsPerson { reason: format!("task `{}` failed: {why}", task.key), options: to_strings(options) }
}

fn to_strings(options: &[&str]) -> Vec<String> {
    options.iter().map(|&option| option.to_owned()).collect()
}

/// Actions for runs that have ended. They come before new attempts, because they change what can start.
pub fn after_ended_runs(snapshot: &Snapshot) -> Vec<Action> {
    let in_progress = snapshot.tasks().iter().filter(|task| task.status == TaskStatus::InProgress);
    in_progress.filter_map(|task| after_ended_run(snapshot, task)).collect()
}

fn after_ended_run(snapshot: &Snapshot, task: &Task) -> Option<Action> {
    let attempt = snapshot.attempts.get(&task.id)?;
    if !attempt.status.is_terminal() {
        return None;
    }
    // A failed attempt is not discussed.
    if attempt.status != RunStatus::Completed {
        return Some(Action::ConcludeAttempt(task.id));
    }
    match snapshot.discussions.get(&task.id) {
        Some(DiscussionProgress::Open) => Some(Action::AdvanceDiscussions(task.id)),
        Some(DiscussionProgress::Escalated) => None,
        Some(DiscussionProgress::Reviewed) => Some(Action::ConcludeAttempt(task.id)),
        // A discussion that the agent started does not replace the review that the task requires.
        Some(DiscussionProgress::Resolved) | None if task.requires_collaboration => {
            Some(Action::OpenReview(task.id))
        }
        Some(DiscussionProgress::Resolved) | None => Some(Action::ConcludeAttempt(task.id)),
    }
}

/// Attempts that can start, in order, within the limit of the workflow and the free slots of this server.
pub fn startable(snapshot: &Snapshot, free_here: usize) -> Vec<Action> {
    let slots =
        snapshot.workflow.settings.max_concurrent.saturating_sub(snapshot.running_attempts()).min(free_here);
    let paused = snapshot.tasks().iter().filter(|task| task.status == TaskStatus::Paused);
    let resumed = paused.map(|task| Action::ResumeAttempt(task.id));
    let started = snapshot.available().into_iter().map(|task| Action::StartAttempt(task.id));
    resumed.chain(started).take(slots).collect()
}

/// Tasks that wait for something this workflow does not drive, with a description. A blocker that will
/// not complete is left out: it is reported when a person is asked.
pub fn foreign_waits(snapshot: &Snapshot) -> Vec<(ObjectId, String)> {
    let is_next = |task: &Task| match task.status {
        TaskStatus::Pending => {
            snapshot.foreign_blockers(task.id).iter().all(|one| one.dead_reason.is_none())
                && snapshot.blockers(task.id).all(|blocker| blocker.status == TaskStatus::Completed)
        }
        _ => true,
    };
    let waiting = |task: &Task| Some((task.id, snapshot.describe_wait(task)?));
    snapshot.tasks().iter().filter(|task| is_next(task)).filter_map(waiting).collect()
}

/// Actions when no attempt is running and none can start. A task that somebody took by hand counts as
/// running, however long that takes.
pub fn when_idle(snapshot: &Snapshot) -> Vec<Action> {
    let skipped = unreachable_tasks(snapshot);
    if !skipped.is_empty() {
        return skipped;
    }
    let tasks = snapshot.tasks();
    let can_move = |task: &&Task| match task.status {
        TaskStatus::InProgress => snapshot.discussions.get(&task.id) != Some(&DiscussionProgress::Escalated),
        TaskStatus::Paused => true,
        TaskStatus::Pending => snapshot.is_unblocked(task),
        _ => false,
    };
    if tasks.iter().any(|task| can_move(&task)) {
        return Vec::new();
    }
    if let Some(escalation) = needed_escalation(snapshot) {
        return vec![Action::Escalate(escalation)];
    }
    // A blocker in another workflow may still complete, so this workflow waits.
    if tasks.iter().any(|task| task.status == TaskStatus::Pending) {
        return Vec::new();
    }
    vec![match failure_reason(snapshot) {
        Some(why) => Action::EndWorkflow { status: WorkflowStatus::Failed, why },
        None => {
            Action::EndWorkflow { status: WorkflowStatus::Completed, why: "every task is done".to_owned() }
        }
    }]
}

/// Tasks to skip, because a blocker will not complete. A skipped blocker always skips its dependents. A
/// failed one does so only if the workflow says so and no person is asked about it.
fn unreachable_tasks(snapshot: &Snapshot) -> Vec<Action> {
    let skips = snapshot.workflow.settings.on_failure == OnFailure::Skip;
    let will_not_complete = |blocker: &&Task| match blocker.status {
        TaskStatus::Skipped => true,
        TaskStatus::Failed => skips && blocker.needs_person.is_none(),
        _ => false,
    };
    let skip = |task: &Task| {
        let blocker = snapshot.blockers(task.id).find(will_not_complete);
        let why = match blocker {
            Some(blocker) => format!("`{}`, which it waits for, is {}", blocker.key, blocker.status),
            None => dead_blocker_reason(snapshot, task).filter(|_| skips)?,
        };
        Some(Action::SkipTask { task: task.id, why })
    };
    let pending = snapshot.tasks().iter().filter(|task| task.status == TaskStatus::Pending);
    pending.filter_map(skip).collect()
}

/// Why a blocker in another workflow will not complete, if there is one.
fn dead_blocker_reason(snapshot: &Snapshot, task: &Task) -> Option<String> {
    let blocker = snapshot.foreign_blockers(task.id).iter().find(|one| one.dead_reason.is_some())?;
    let why = blocker.dead_reason.as_deref().unwrap_or_default();
    Some(format!("`{}` waits for {}, which {why}", task.key, blocker.name))
}

/// The escalation that is needed, if any.
fn needed_escalation(snapshot: &Snapshot) -> Option<NewEscalation> {
    let tasks = snapshot.tasks();
    let about = |task: &Task, reason: String, options: &[&str]| {
        Some(NewEscalation { reason, task: Some(task.id), discussion: None, options: to_strings(options) })
    };
    let undecided =
        tasks.iter().find(|task| snapshot.discussions.get(&task.id) == Some(&DiscussionProgress::Escalated));
    if let Some(task) = undecided {
        let reason = format!("the discussion of `{}` did not come to an end by itself", task.key);
        return about(task, reason, DISCUSSION_OPTIONS);
    }
    let failed: Vec<&Task> = tasks.iter().filter(|task| task.status == TaskStatus::Failed).collect();
    if let Some((task, needs)) = failed.iter().find_map(|task| Some((task, task.needs_person.clone()?))) {
        let NeedsPerson { reason, options } = needs;
        return Some(NewEscalation { reason, task: Some(task.id), discussion: None, options });
    }
    if snapshot.workflow.settings.on_failure == OnFailure::Skip {
        return None;
    }
    if let Some(first) = failed.first() {
        let why = failure_with_cause(first);
        let reason = match failed.len() {
            1 => why,
            many => format!("{many} tasks failed; {why}"),
        };
        return about(first, reason, TASK_OPTIONS);
    }
    let mut pending = tasks.iter().filter(|task| task.status == TaskStatus::Pending);
    let (task, reason) = pending.find_map(|task| Some((task, dead_blocker_reason(snapshot, task)?)))?;
    about(task, reason, WAIT_OPTIONS)
}

/// Says that a task failed, and what went wrong last.
fn failure_with_cause(task: &Task) -> String {
    match summary::last_failure(task).as_str() {
        "" => format!("task `{}` failed", task.key),
        why => format!("task `{}` failed: {why}", task.key),
    }
}

/// Why a workflow has failed, if it has and no person is asked.
fn failure_reason(snapshot: &Snapshot) -> Option<String> {
    let of = |status: TaskStatus| snapshot.tasks().iter().filter(move |task| task.status == status);
    if let Some(first) = of(TaskStatus::Failed).next() {
        return Some(failure_with_cause(first));
    }
    if snapshot.workflow.settings.on_failure == OnFailure::Escalate {
        // A person was asked, and decided to skip the task.
        return None;
    }
    of(TaskStatus::Skipped).find_map(|task| dead_blocker_reason(snapshot, task))
}

#[cfg(test)]
mod tests;
