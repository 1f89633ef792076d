//! What a dispatcher does next with a workflow, as a value. It knows no clock, model or database:
//! the same snapshot gives the same plan on every server.

use emergent_domain::{
    ids::ObjectId,
    run::RunStatus,
    task::{Task, TaskStatus},
    workflow::{OnFailure, WorkflowStatus},
};

use crate::state::{Snapshot, Talk};

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The run of this task has ended: settle it.
    Settle(ObjectId),
    /// The attempt went well and the task wants others to look at it.
    Discuss(ObjectId),
    /// The discussion of this task may have something to do.
    Talk(ObjectId),
    /// Choose an agent and start an attempt.
    Start(ObjectId),
    /// Go on with the run that ended at a limit.
    Resume(ObjectId),
    Skip {
        task: ObjectId,
        why: String,
    },
    /// Nothing goes on by itself any more.
    Escalate(Trouble),
    End {
        status: WorkflowStatus,
        why: String,
    },
}

/// Why a person is asked, and what can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    pub reason: String,
    pub task: Option<ObjectId>,
    pub discussion: Option<ObjectId>,
    pub options: &'static [&'static str],
}

/// What a person can do about a task that failed.
pub const FOR_A_TASK: &[&str] = &["retry", "reassign", "skip", "cancel"];
/// What a person can do about a discussion that did not come to an end.
pub const FOR_A_DISCUSSION: &[&str] = &["decide", "cancel"];

/// What ended, before anything new is started: it may change what can be.
pub fn ended(snapshot: &Snapshot) -> Vec<Next> {
    let in_progress = snapshot.tasks().iter().filter(|task| task.status == TaskStatus::InProgress);
    in_progress.filter_map(|task| what_ended(snapshot, task)).collect()
}

fn what_ended(snapshot: &Snapshot, task: &Task) -> Option<Next> {
    let attempt = snapshot.attempts.get(&task.id)?;
    if !attempt.status.is_terminal() {
        return None;
    }
    // What failed is not worth talking about.
    if attempt.status != RunStatus::Completed {
        return Some(Next::Settle(task.id));
    }
    match snapshot.talks.get(&task.id) {
        Some(Talk::Open) => Some(Next::Talk(task.id)),
        Some(Talk::Escalated) => None,
        Some(Talk::Resolved) => Some(Next::Settle(task.id)),
        None if task.requires_collaboration => Some(Next::Discuss(task.id)),
        None => Some(Next::Settle(task.id)),
    }
}

/// What can start, in order, within the slots that are free here.
pub fn start(snapshot: &Snapshot, free_here: usize) -> Vec<Next> {
    let slots = snapshot.workflow.settings.max_concurrent.saturating_sub(snapshot.busy()).min(free_here);
    let paused = snapshot.tasks().iter().filter(|task| task.status == TaskStatus::Paused);
    let resumed = paused.map(|task| Next::Resume(task.id));
    let started = snapshot.available().into_iter().map(|task| Next::Start(task.id));
    resumed.chain(started).take(slots).collect()
}

/// What follows when nothing is under way and nothing can start.
pub fn at_rest(snapshot: &Snapshot) -> Vec<Next> {
    let tasks = snapshot.tasks();
    let on_failure = snapshot.workflow.settings.on_failure;
    // Skipping one is skipping what waits for it; a failure is only where that is wanted.
    let in_vain = |blocker: &Task| match blocker.status {
        TaskStatus::Skipped => true,
        TaskStatus::Failed => on_failure == OnFailure::Skip,
        _ => false,
    };
    let skip = |task: &Task| {
        let blocker = snapshot.blockers(task.id).find(|blocker| in_vain(blocker))?;
        let why = format!("`{}`, which it waits for, is {}", blocker.key, blocker.status);
        Some(Next::Skip { task: task.id, why })
    };
    let pending = || tasks.iter().filter(|task| task.status == TaskStatus::Pending);
    let skipped: Vec<Next> = pending().filter_map(skip).collect();
    if !skipped.is_empty() {
        return skipped;
    }
    let can_move = |task: &&Task| match task.status {
        TaskStatus::InProgress => snapshot.talks.get(&task.id) != Some(&Talk::Escalated),
        TaskStatus::Paused => true,
        TaskStatus::Pending => snapshot.is_free(task),
        _ => false,
    };
    if tasks.iter().any(|task| can_move(&task)) {
        return Vec::new();
    }
    let escalated = tasks.iter().find(|task| snapshot.talks.get(&task.id) == Some(&Talk::Escalated));
    if let Some(task) = escalated {
        let reason = format!("the discussion of `{}` did not come to an end by itself", task.key);
        return vec![Next::Escalate(Trouble {
            reason,
            task: Some(task.id),
            discussion: None,
            options: FOR_A_DISCUSSION,
        })];
    }
    let still_so = |task: ObjectId| snapshot.get(task).is_some_and(|task| task.status == TaskStatus::Failed);
    // What a person has mended meanwhile is no trouble any more.
    let escalation = snapshot.workflow.escalation.as_ref().filter(|waits| waits.task.is_none_or(still_so));
    if let Some(waits) = escalation {
        let trouble = Trouble {
            reason: waits.reason.clone(),
            task: waits.task,
            discussion: waits.discussion,
            options: FOR_A_TASK,
        };
        return vec![Next::Escalate(trouble)];
    }
    let failed: Vec<&Task> = tasks.iter().filter(|task| task.status == TaskStatus::Failed).collect();
    match failed.first() {
        Some(first) if on_failure == OnFailure::Escalate => {
            let reason = match failed.len() {
                1 => format!("task `{}` failed", first.key),
                many => format!("{many} tasks failed, `{}` among them", first.key),
            };
            vec![Next::Escalate(Trouble {
                reason,
                task: Some(first.id),
                discussion: None,
                options: FOR_A_TASK,
            })]
        }
        Some(first) => {
            let why = format!("task `{}` failed", first.key);
            vec![Next::End { status: WorkflowStatus::Failed, why }]
        }
        // Held up from another workflow: time will tell.
        None if pending().next().is_some() => Vec::new(),
        None => vec![Next::End { status: WorkflowStatus::Completed, why: "every task is done".to_owned() }],
    }
}
