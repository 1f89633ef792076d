//! What the end of an attempt means for its task and for others, as values.

use emergent_domain::{
    ids::ObjectId,
    run::{Reason, RunStatus},
    task::{NeedsPerson, Task, TaskStatus, VerdictKind},
    workflow::OnFailure,
};
use serde_json::Value;

use crate::workflow::{
    decide::{BUDGET_OPTIONS, TASK_OPTIONS, person_needed},
    snapshot::{Attempt, Snapshot},
    threading::append_failure,
};

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
    /// Tried again, by this agent if one is named.
    Retry {
        failure_context: String,
        agent: Option<String>,
    },
    /// Completed before, to be done again with what was found.
    SentBack {
        failure_context: String,
    },
    /// On its way back already: this is told to the next attempt as well.
    FailureNoted {
        failure_context: String,
    },
    /// Open again, without counting as an attempt that failed.
    Reopened,
    Failed {
        failure_context: String,
        /// Set when a person has to look at it, once everything else is done.
        needs_person: Option<NeedsPerson>,
    },
    Skipped,
    Paused,
    /// Paused until it is asked, in the same conversation, for the verdict it owes.
    AskedAgain,
}

/// What a look at an attempt came to, where somebody looked.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The output will not do.
    Redo {
        why: String,
    },
    /// Once more, with this for the next attempt.
    Retry {
        note: String,
    },
    Reassign {
        agent: String,
        why: String,
    },
    /// Somebody said that a person has to look at it.
    Escalate {
        why: String,
    },
    /// Rules say that trying again cannot help.
    GiveUp {
        why: String,
    },
}

/// The attempt at `task` has ended.
pub fn conclude(
    snapshot: &Snapshot,
    task: &Task,
    attempt: &Attempt,
    judged: Option<&Judgement>,
) -> Vec<Transition> {
    match attempt.status {
        RunStatus::Completed if task.verdict != VerdictKind::None => apply_verdict(snapshot, task, attempt),
        RunStatus::Completed => match judged {
            Some(Judgement::Redo { why }) => {
                retry_or_fail(snapshot, task, format!("what it brought will not do: {why}"), attempt, judged)
            }
            _ => complete(task, attempt, "its run completed".to_owned()),
        },
        RunStatus::Paused if task.resumes < snapshot.workflow.settings.max_resumes => {
            let why = format!("its run ended at a limit ({})", reason_label(attempt.reason));
            single(task, TransitionTo::Paused, why)
        }
        RunStatus::Paused => {
            let why = format!(
                "its run ended at a limit ({}) after it was resumed {} times",
                reason_label(attempt.reason),
                task.resumes
            );
            retry_or_fail(snapshot, task, why, attempt, judged)
        }
        RunStatus::Cancelled => {
            fail_without_retry(snapshot, task, "its run was cancelled".to_owned(), attempt, TASK_OPTIONS)
        }
        // Another try would meet the same wall.
        RunStatus::Failed if attempt.reason == Some(Reason::Budget) => {
            fail_without_retry(snapshot, task, "the budget is used up".to_owned(), attempt, BUDGET_OPTIONS)
        }
        _ => {
            let error = attempt.error.as_deref().unwrap_or("no reason given");
            let why = format!("its run failed ({}): {error}", reason_label(attempt.reason));
            retry_or_fail(snapshot, task, why, attempt, judged)
        }
    }
}

fn complete(task: &Task, attempt: &Attempt, why: String) -> Vec<Transition> {
    single(task, TransitionTo::Completed { output: Value::String(attempt.summary.clone()) }, why)
}

fn single(task: &Task, to: TransitionTo, reason: String) -> Vec<Transition> {
    vec![Transition { task: task.id, to, reason }]
}

/// An attempt that failed is tried again while there are retries, then the task has failed.
fn retry_or_fail(
    snapshot: &Snapshot,
    task: &Task,
    why: String,
    attempt: &Attempt,
    judged: Option<&Judgement>,
) -> Vec<Transition> {
    let why = match judged {
        Some(Judgement::Retry { note }) if !note.is_empty() => format!("{why}. {note}"),
        _ => why,
    };
    let context = failure_context(task, &why, attempt);
    match judged {
        Some(Judgement::Escalate { why: more }) => {
            let needs_person = Some(person_needed(task, more, TASK_OPTIONS));
            single(
                task,
                TransitionTo::Failed { failure_context: context, needs_person },
                format!("{why}; {more}"),
            )
        }
        Some(Judgement::GiveUp { why: more }) => {
            fail_without_retry(snapshot, task, format!("{why}; {more}"), attempt, TASK_OPTIONS)
        }
        _ if !task.has_retries_left() => {
            let why = format!("{why}; {} retries are used up", task.max_retries);
            single(task, TransitionTo::Failed { failure_context: context, needs_person: None }, why)
        }
        Some(Judgement::Reassign { agent, why: more }) if !task.agent_is_named => {
            let to = TransitionTo::Retry { failure_context: context, agent: Some(agent.clone()) };
            single(task, to, format!("{why}; given to `{agent}`: {more}"))
        }
        _ => single(task, TransitionTo::Retry { failure_context: context, agent: None }, why),
    }
}

/// A failure that no retry mends: a person is asked, unless what waits for it is to be skipped.
fn fail_without_retry(
    snapshot: &Snapshot,
    task: &Task,
    why: String,
    attempt: &Attempt,
    options: &[&str],
) -> Vec<Transition> {
    let failure_context = failure_context(task, &why, attempt);
    let asks = snapshot.workflow.settings.on_failure == OnFailure::Escalate;
    let needs_person = asks.then(|| person_needed(task, &why, options));
    single(task, TransitionTo::Failed { failure_context, needs_person }, why)
}

/// A verifying task says what becomes of those it judges.
fn apply_verdict(snapshot: &Snapshot, task: &Task, attempt: &Attempt) -> Vec<Transition> {
    let Some(verdict) = &attempt.verdict else {
        if !attempt.asked_again {
            return single(task, TransitionTo::AskedAgain, "its run ended without a verdict".to_owned());
        }
        return retry_or_fail(
            snapshot,
            task,
            "its run ended without a verdict, asked twice".to_owned(),
            attempt,
            None,
        );
    };
    let word = verdict.word;
    if !word.is_negative() {
        return complete(task, attempt, format!("its verdict is {word}"));
    }
    let mut judged = snapshot.verified_tasks(task);
    // What it does not wait for cannot be done again before it is asked again.
    judged.retain(|one| snapshot.waits_for(task.id, one.id));
    judged.retain(|one| !matches!(one.status, TaskStatus::Failed | TaskStatus::Skipped));
    if judged.is_empty() {
        let why = format!("its verdict is {word}, and there is nothing to send back");
        return fail_without_retry(snapshot, task, why, attempt, TASK_OPTIONS);
    }
    let issues = match verdict.issues.is_empty() {
        true if verdict.summary.is_empty() => attempt.summary.clone(),
        true => verdict.summary.clone(),
        false => verdict.issues.join("\n"),
    };
    let why = format!("`{}` says {word}: {issues}", task.key);
    let mut moves = Vec::new();
    for one in &judged {
        let failure_context = append_failure(&one.failure_context, one.retry_count + 1, &why);
        // Another verdict was faster.
        if one.status != TaskStatus::Completed {
            if one.status == TaskStatus::Pending {
                let failure_context = append_failure(&one.failure_context, one.retry_count, &why);
                moves.push(Transition {
                    task: one.id,
                    to: TransitionTo::FailureNoted { failure_context },
                    reason: why.clone(),
                });
            }
            continue;
        }
        if one.has_retries_left() {
            let to = TransitionTo::SentBack { failure_context };
            moves.push(Transition { task: one.id, to, reason: why.clone() });
            continue;
        }
        let used = format!("{why}; {} retries are used up", one.max_retries);
        let needs_person = Some(person_needed(one, &used, TASK_OPTIONS));
        moves.push(Transition {
            task: one.id,
            to: TransitionTo::Failed { failure_context, needs_person },
            reason: used,
        });
    }
    // What was built on it in between is done again, and so is the verdict.
    let mut again: Vec<&Task> = judged.iter().flat_map(|one| snapshot.between(one.id, task.id)).collect();
    again.sort_by_key(|one| one.id);
    again.dedup_by_key(|one| one.id);
    let sent_back: Vec<ObjectId> = judged.iter().map(|one| one.id).collect();
    for one in again {
        if one.status == TaskStatus::Completed && !sent_back.contains(&one.id) {
            let why = format!("what it stands on goes back: {why}");
            moves.push(Transition { task: one.id, to: TransitionTo::Reopened, reason: why });
        }
    }
    moves.push(Transition { task: task.id, to: TransitionTo::Reopened, reason: why });
    moves
}

fn failure_context(task: &Task, why: &str, attempt: &Attempt) -> String {
    let said = match attempt.summary.trim() {
        "" => why.to_owned(),
        said => format!("{why}\nWhat it said: {said}"),
    };
    append_failure(&task.failure_context, task.retry_count + 1, &said)
}

fn reason_label(reason: Option<Reason>) -> &'static str {
    reason.map_or("no reason given", Reason::as_str)
}

/// What the end of an attempt came to, with each task as it was before its move.
#[derive(Debug, Clone, PartialEq)]
pub struct ConcludedAttempt {
    pub attempt: Attempt,
    pub moves: Vec<(Transition, Task)>,
}

/// Settles an attempt that has ended and moves the snapshot along, as the transaction will move the
/// graph.
pub fn conclude_in_snapshot(
    snapshot: &mut Snapshot,
    id: ObjectId,
    judged: Option<&Judgement>,
) -> Option<ConcludedAttempt> {
    let task = snapshot.get(id)?.clone();
    let attempt = snapshot.attempts.get(&id)?.clone();
    let moves = conclude(snapshot, &task, &attempt, judged);
    let mut made = Vec::with_capacity(moves.len());
    for step in moves {
        let Some(moved) = snapshot.get_mut(step.task) else { continue };
        let before = moved.clone();
        apply_transition(moved, &step.to);
        made.push((step, before));
    }
    // A run that goes on takes along what was discussed in it.
    if snapshot.get(id).is_some_and(|task| task.status != TaskStatus::Paused) {
        snapshot.attempts.remove(&id);
        snapshot.discussions.remove(&id);
    }
    Some(ConcludedAttempt { attempt, moves: made })
}

/// Makes a move in memory, as the transaction makes it in the graph.
fn apply_transition(task: &mut Task, to: &TransitionTo) {
    if !matches!(to, TransitionTo::FailureNoted { .. }) {
        task.needs_person = None;
    }
    let leave = |task: &mut Task| {
        task.run = None;
        task.resumes = 0;
        if !task.agent_is_named {
            task.assigned_agent = None;
        }
    };
    match to {
        TransitionTo::Completed { output } => {
            task.status = TaskStatus::Completed;
            task.output = Some(output.clone());
        }
        TransitionTo::Retry { failure_context, agent } => {
            leave(task);
            task.status = TaskStatus::Pending;
            task.retry_count += 1;
            task.failure_context.clone_from(failure_context);
            if agent.is_some() {
                task.assigned_agent.clone_from(agent);
            }
        }
        TransitionTo::SentBack { failure_context } => {
            leave(task);
            task.status = TaskStatus::Pending;
            task.retry_count += 1;
            task.failure_context.clone_from(failure_context);
        }
        TransitionTo::FailureNoted { failure_context } => task.failure_context.clone_from(failure_context),
        TransitionTo::Reopened => {
            leave(task);
            task.status = TaskStatus::Pending;
        }
        TransitionTo::Failed { failure_context, needs_person } => {
            task.status = TaskStatus::Failed;
            task.failure_context.clone_from(failure_context);
            task.needs_person.clone_from(needs_person);
        }
        TransitionTo::Skipped => task.status = TaskStatus::Skipped,
        TransitionTo::Paused | TransitionTo::AskedAgain => task.status = TaskStatus::Paused,
    }
}

#[cfg(test)]
mod tests;
