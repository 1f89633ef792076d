//! What the end of an attempt means for its task and for others, as values.

use emergent_domain::{
    ids::ObjectId,
    run::{Reason, RunStatus},
    task::{NeedsPerson, Task, TaskStatus, VerdictKind},
    workflow::OnFailure,
};
use serde_json::Value;

use crate::{
    plan::{FOR_A_BUDGET, FOR_A_TASK, needs_person},
    state::{Attempt, Snapshot},
    threading::failure_note,
};

/// A change of one task, with the reason that is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    pub task: ObjectId,
    pub to: To,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum To {
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
    Noted {
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
pub enum Judged {
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
pub fn settle(snapshot: &Snapshot, task: &Task, attempt: &Attempt, judged: Option<&Judged>) -> Vec<Move> {
    match attempt.status {
        RunStatus::Completed if task.verdict != VerdictKind::None => verdict(snapshot, task, attempt),
        RunStatus::Completed => match judged {
            Some(Judged::Redo { why }) => {
                failed(snapshot, task, format!("what it brought will not do: {why}"), attempt, judged)
            }
            _ => completed(task, attempt, "its run completed".to_owned()),
        },
        RunStatus::Paused if task.resumes < snapshot.workflow.settings.max_resumes => {
            let why = format!("its run ended at a limit ({})", word(attempt.reason));
            one(task, To::Paused, why)
        }
        RunStatus::Paused => {
            let why = format!(
                "its run ended at a limit ({}) after it was resumed {} times",
                word(attempt.reason),
                task.resumes
            );
            failed(snapshot, task, why, attempt, judged)
        }
        RunStatus::Cancelled => gone(snapshot, task, "its run was cancelled".to_owned(), attempt, FOR_A_TASK),
        // Another try would meet the same wall.
        RunStatus::Failed if attempt.reason == Some(Reason::Budget) => {
            gone(snapshot, task, "the budget is used up".to_owned(), attempt, FOR_A_BUDGET)
        }
        _ => {
            let error = attempt.error.as_deref().unwrap_or("no reason given");
            let why = format!("its run failed ({}): {error}", word(attempt.reason));
            failed(snapshot, task, why, attempt, judged)
        }
    }
}

fn completed(task: &Task, attempt: &Attempt, why: String) -> Vec<Move> {
    one(task, To::Completed { output: Value::String(attempt.summary.clone()) }, why)
}

fn one(task: &Task, to: To, why: String) -> Vec<Move> {
    vec![Move { task: task.id, to, why }]
}

/// An attempt that failed is tried again while there are retries, then the task has failed.
fn failed(
    snapshot: &Snapshot,
    task: &Task,
    why: String,
    attempt: &Attempt,
    judged: Option<&Judged>,
) -> Vec<Move> {
    let why = match judged {
        Some(Judged::Retry { note }) if !note.is_empty() => format!("{why}. {note}"),
        _ => why,
    };
    let context = note(task, &why, attempt);
    match judged {
        Some(Judged::Escalate { why: more }) => {
            let needs_person = Some(needs_person(task, more, FOR_A_TASK));
            one(task, To::Failed { failure_context: context, needs_person }, format!("{why}; {more}"))
        }
        Some(Judged::GiveUp { why: more }) => {
            gone(snapshot, task, format!("{why}; {more}"), attempt, FOR_A_TASK)
        }
        _ if !task.has_retries_left() => {
            let why = format!("{why}; {} retries are used up", task.max_retries);
            one(task, To::Failed { failure_context: context, needs_person: None }, why)
        }
        Some(Judged::Reassign { agent, why: more }) if !task.agent_is_named => {
            let to = To::Retry { failure_context: context, agent: Some(agent.clone()) };
            one(task, to, format!("{why}; given to `{agent}`: {more}"))
        }
        _ => one(task, To::Retry { failure_context: context, agent: None }, why),
    }
}

/// A failure that no retry mends: a person is asked, unless what waits for it is to be skipped.
fn gone(snapshot: &Snapshot, task: &Task, why: String, attempt: &Attempt, options: &[&str]) -> Vec<Move> {
    let failure_context = note(task, &why, attempt);
    let asks = snapshot.workflow.settings.on_failure == OnFailure::Escalate;
    let needs_person = asks.then(|| needs_person(task, &why, options));
    one(task, To::Failed { failure_context, needs_person }, why)
}

/// A verifying task says what becomes of those it judges.
fn verdict(snapshot: &Snapshot, task: &Task, attempt: &Attempt) -> Vec<Move> {
    let Some(verdict) = &attempt.verdict else {
        if !attempt.asked_again {
            return one(task, To::AskedAgain, "its run ended without a verdict".to_owned());
        }
        return failed(
            snapshot,
            task,
            "its run ended without a verdict, asked twice".to_owned(),
            attempt,
            None,
        );
    };
    let word = verdict.word;
    if !word.sends_back() {
        return completed(task, attempt, format!("its verdict is {word}"));
    }
    let mut judged = snapshot.verified_by(task);
    // What it does not wait for cannot be done again before it is asked again.
    judged.retain(|one| snapshot.waits_for(task.id, one.id));
    judged.retain(|one| !matches!(one.status, TaskStatus::Failed | TaskStatus::Skipped));
    if judged.is_empty() {
        let why = format!("its verdict is {word}, and there is nothing to send back");
        return gone(snapshot, task, why, attempt, FOR_A_TASK);
    }
    let issues = match verdict.issues.is_empty() {
        true if verdict.summary.is_empty() => attempt.summary.clone(),
        true => verdict.summary.clone(),
        false => verdict.issues.join("\n"),
    };
    let why = format!("`{}` says {word}: {issues}", task.key);
    let mut moves = Vec::new();
    for one in &judged {
        let failure_context = failure_note(&one.failure_context, one.retry_count + 1, &why);
        // Another verdict was faster.
        if one.status != TaskStatus::Completed {
            if one.status == TaskStatus::Pending {
                let failure_context = failure_note(&one.failure_context, one.retry_count, &why);
                moves.push(Move { task: one.id, to: To::Noted { failure_context }, why: why.clone() });
            }
            continue;
        }
        if one.has_retries_left() {
            let to = To::SentBack { failure_context };
            moves.push(Move { task: one.id, to, why: why.clone() });
            continue;
        }
        let used = format!("{why}; {} retries are used up", one.max_retries);
        let needs_person = Some(needs_person(one, &used, FOR_A_TASK));
        moves.push(Move { task: one.id, to: To::Failed { failure_context, needs_person }, why: used });
    }
    // What was built on it in between is done again, and so is the verdict.
    let mut again: Vec<&Task> = judged.iter().flat_map(|one| snapshot.between(one.id, task.id)).collect();
    again.sort_by_key(|one| one.id);
    again.dedup_by_key(|one| one.id);
    let sent_back: Vec<ObjectId> = judged.iter().map(|one| one.id).collect();
    for one in again {
        if one.status == TaskStatus::Completed && !sent_back.contains(&one.id) {
            let why = format!("what it stands on goes back: {why}");
            moves.push(Move { task: one.id, to: To::Reopened, why });
        }
    }
    moves.push(Move { task: task.id, to: To::Reopened, why });
    moves
}

fn note(task: &Task, why: &str, attempt: &Attempt) -> String {
    let said = match attempt.summary.trim() {
        "" => why.to_owned(),
        said => format!("{why}\nWhat it said: {said}"),
    };
    failure_note(&task.failure_context, task.retry_count + 1, &said)
}

fn word(reason: Option<Reason>) -> &'static str {
    reason.map_or("no reason given", Reason::as_str)
}

/// What the end of an attempt came to, with each task as it was before its move.
#[derive(Debug, Clone, PartialEq)]
pub struct Enacted {
    pub attempt: Attempt,
    pub moves: Vec<(Move, Task)>,
}

/// Settles an attempt that has ended and moves the snapshot along, as the transaction will move the
/// graph.
pub fn enact(snapshot: &mut Snapshot, id: ObjectId, judged: Option<&Judged>) -> Option<Enacted> {
    let task = snapshot.get(id)?.clone();
    let attempt = snapshot.attempts.get(&id)?.clone();
    let moves = settle(snapshot, &task, &attempt, judged);
    let mut made = Vec::with_capacity(moves.len());
    for step in moves {
        let Some(moved) = snapshot.get_mut(step.task) else { continue };
        let before = moved.clone();
        make(moved, &step.to);
        made.push((step, before));
    }
    // A run that goes on takes along what was discussed in it.
    if snapshot.get(id).is_some_and(|task| task.status != TaskStatus::Paused) {
        snapshot.attempts.remove(&id);
        snapshot.talks.remove(&id);
    }
    Some(Enacted { attempt, moves: made })
}

/// Makes a move in memory, as the transaction makes it in the graph.
fn make(task: &mut Task, to: &To) {
    if !matches!(to, To::Noted { .. }) {
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
        To::Completed { output } => {
            task.status = TaskStatus::Completed;
            task.output = Some(output.clone());
        }
        To::Retry { failure_context, agent } => {
            leave(task);
            task.status = TaskStatus::Pending;
            task.retry_count += 1;
            task.failure_context.clone_from(failure_context);
            if agent.is_some() {
                task.assigned_agent.clone_from(agent);
            }
        }
        To::SentBack { failure_context } => {
            leave(task);
            task.status = TaskStatus::Pending;
            task.retry_count += 1;
            task.failure_context.clone_from(failure_context);
        }
        To::Noted { failure_context } => task.failure_context.clone_from(failure_context),
        To::Reopened => {
            leave(task);
            task.status = TaskStatus::Pending;
        }
        To::Failed { failure_context, needs_person } => {
            task.status = TaskStatus::Failed;
            task.failure_context.clone_from(failure_context);
            task.needs_person.clone_from(needs_person);
        }
        To::Skipped => task.status = TaskStatus::Skipped,
        To::Paused | To::AskedAgain => task.status = TaskStatus::Paused,
    }
}

#[cfg(test)]
mod tests;
