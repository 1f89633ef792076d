//! What the end of an attempt means for its task and for other tasks.

use emergent_domain::{
    ids::ObjectId,
    run::{Reason, RunStatus},
    task::{Task, TaskStatus, VerdictKind},
    text::{self, counted},
    workflow::OnFailure,
};
use serde_json::Value;

use crate::workflow::{
    decide::{BUDGET_OPTIONS, TASK_OPTIONS, person_needed},
    discussion::WantedChanges,
    snapshot::{Attempt, Snapshot},
    threading::append_failure,
    transition::{Transition, TransitionTo},
};

/// Says that a task has no retries left.
fn used_up_retries(task: &Task) -> String {
    match task.max_retries {
        0 => "it has no retries".to_owned(),
        1 => "its 1 retry is used up".to_owned(),
        retries => format!("its {retries} retries are used up"),
    }
}

/// What the judge, or the rules in its place, concluded about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The result is rejected and the task is done again.
    Redo {
        why: String,
    },
    /// The judge gave no usable answer about the result.
    NotEvaluated {
        why: String,
    },
    /// The task is tried again, and the next attempt reads this note.
    Retry {
        note: String,
    },
    Reassign {
        agent: String,
        why: String,
    },
    /// A person decided the review of the result: its agent does the task again.
    ChangesWanted(WantedChanges),
    /// The judge asks for a person.
    Escalate {
        why: String,
    },
    /// The rules say that trying again cannot help.
    GiveUp {
        why: String,
    },
}

/// Returns the transitions that follow from the end of this attempt at `task`.
pub fn conclude(
    snapshot: &Snapshot,
    task: &Task,
    attempt: &Attempt,
    judged: Option<&Judgement>,
) -> Vec<Transition> {
    if let (RunStatus::Completed, Some(Judgement::ChangesWanted(changes))) = (attempt.status, judged) {
        return return_to_agent(snapshot, task, attempt, changes);
    }
    match attempt.status {
        RunStatus::Completed if task.verdict != VerdictKind::None => apply_verdict(snapshot, task, attempt),
        RunStatus::Completed => match judged {
            Some(Judgement::Redo { why }) => {
                retry_or_fail(snapshot, task, format!("its result was rejected: {why}"), attempt, judged)
            }
            // A judge that fails must not hold up the work; the reason says that nobody has looked at the result.
            Some(Judgement::NotEvaluated { why }) => complete(
                task,
                attempt,
                format!("its run completed; its result was not evaluated, because {why}"),
            ),
            _ => complete(task, attempt, "its run completed".to_owned()),
        },
        RunStatus::Paused if task.resumes < snapshot.workflow.settings.max_resumes => {
            let why = format!("its run ended at a limit ({})", reason_label(attempt.reason));
            single(task, TransitionTo::Paused, why)
        }
        RunStatus::Paused => {
            let why = format!(
                "its run ended at a limit ({}) after it was resumed {}",
                reason_label(attempt.reason),
                counted(task.resumes, "time")
            );
            retry_or_fail(snapshot, task, why, attempt, judged)
        }
        RunStatus::Cancelled => {
            fail_without_retry(snapshot, task, "its run was cancelled".to_owned(), attempt, TASK_OPTIONS)
        }
        // Another attempt would be refused by the same budget.
        RunStatus::Failed if attempt.reason == Some(Reason::Budget) => {
            // The error says whose budget it is, and so what a person can do about it.
            let error = attempt.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let why = format!("the budget is too low{error}");
            fail_without_retry(snapshot, task, why, attempt, BUDGET_OPTIONS)
        }
        // The definition was deleted or cannot be used. Another attempt would find the same.
        RunStatus::Failed if attempt.reason == Some(Reason::Definition) => {
            fail_without_retry(snapshot, task, failed_run(attempt), attempt, TASK_OPTIONS)
        }
        // Another attempt could have the other system do the same work twice.
        RunStatus::Failed if attempt.reason == Some(Reason::UnknownOutcome) => {
            fail_without_retry(snapshot, task, failed_run(attempt), attempt, TASK_OPTIONS)
        }
        _ => retry_or_fail(snapshot, task, failed_run(attempt), attempt, judged),
    }
}

fn failed_run(attempt: &Attempt) -> String {
    let error = attempt.error.as_deref().unwrap_or("no reason given");
    format!("its run failed ({}): {error}", reason_label(attempt.reason))
}

fn complete(task: &Task, attempt: &Attempt, why: String) -> Vec<Transition> {
    // A typed output is passed on as it is, so that the tasks after it get a value that matches its schema.
    let output = attempt.output.clone().unwrap_or_else(|| Value::String(attempt.summary.clone()));
    single(task, TransitionTo::Completed { output }, why)
}

fn single(task: &Task, to: TransitionTo, reason: String) -> Vec<Transition> {
    vec![Transition { task: task.id, to, reason }]
}

/// The task is attempted once more by its agent. A person asked for it, so that it uses up no retry, also if none is left.
fn return_to_agent(
    snapshot: &Snapshot,
    task: &Task,
    attempt: &Attempt,
    WantedChanges { reason, suggestions }: &WantedChanges,
) -> Vec<Transition> {
    let feedback = match suggestions.as_str() {
        "" => reason.clone(),
        suggestions => format!("{reason}\nWhat was suggested:\n{suggestions}"),
    };
    let failure_context = failure_context(snapshot, task, &feedback, attempt);
    let to = TransitionTo::ReturnedToAgent { failure_context, agent: attempt.agent.clone() };
    single(task, to, reason.clone())
}

/// A failed attempt is retried while the task has retries left; then the task has failed.
fn retry_or_fail(
    snapshot: &Snapshot,
    task: &Task,
    why: String,
    attempt: &Attempt,
    judged: Option<&Judgement>,
) -> Vec<Transition> {
    let why = match judged {
        Some(Judgement::Retry { note }) if !note.is_empty() => text::append(&why, ". ", note),
        _ => why,
    };
    let context = failure_context(snapshot, task, &why, attempt);
    match judged {
        Some(Judgement::Escalate { why: more }) => {
            let needs_person = Some(person_needed(task, more, TASK_OPTIONS));
            single(
                task,
                TransitionTo::Failed { failure_context: context, needs_person },
                text::append(&why, "; ", more),
            )
        }
        Some(Judgement::GiveUp { why: more }) => {
            fail_without_retry(snapshot, task, text::append(&why, "; ", more), attempt, TASK_OPTIONS)
        }
        _ if !task.has_retries_left() => {
            let why = text::append(&why, "; ", &used_up_retries(task));
            single(task, TransitionTo::Failed { failure_context: context, needs_person: None }, why)
        }
        Some(Judgement::Reassign { agent, why: more }) if !task.agent_is_named => {
            let to = TransitionTo::Retry { failure_context: context, agent: Some(agent.clone()) };
            single(task, to, text::append(&why, "; ", &format!("given to `{agent}`: {more}")))
        }
        _ => single(task, TransitionTo::Retry { failure_context: context, agent: None }, why),
    }
}

/// A failure that a retry cannot fix. A person is asked, unless the workflow skips what depends on
/// failed tasks.
fn fail_without_retry(
    snapshot: &Snapshot,
    task: &Task,
    why: String,
    attempt: &Attempt,
    options: &[&str],
) -> Vec<Transition> {
    let failure_context = failure_context(snapshot, task, &why, attempt);
    let asks = snapshot.workflow.settings.on_failure == OnFailure::Escalate;
    let needs_person = asks.then(|| person_needed(task, &why, options));
    single(task, TransitionTo::Failed { failure_context, needs_person }, why)
}

/// Applies the verdict of a verifying task to the tasks that it verifies.
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
    // The verifying task runs again after its blockers. A task that it does not wait for would not be
    // done again before that, so it is not sent back.
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
    let mut transitions = Vec::new();
    for one in &judged {
        let failure_context = append_failure(&one.failure_context, snapshot.attempt_number(one), &why);
        // Another verdict has sent the task back already.
        if one.status != TaskStatus::Completed {
            if one.status == TaskStatus::Pending {
                transitions.push(Transition {
                    task: one.id,
                    to: TransitionTo::FailureNoted { failure_context },
                    reason: why.clone(),
                });
            }
            continue;
        }
        if one.has_retries_left() {
            let to = TransitionTo::SentBack { failure_context };
            transitions.push(Transition { task: one.id, to, reason: why.clone() });
            continue;
        }
        let used = text::append(&why, "; ", &used_up_retries(one));
        let needs_person = Some(person_needed(one, &used, TASK_OPTIONS));
        transitions.push(Transition {
            task: one.id,
            to: TransitionTo::Failed { failure_context, needs_person },
            reason: used,
        });
    }
    // Tasks between the two were built on the rejected result, so they and the verdict are done again.
    let mut again: Vec<&Task> = judged.iter().flat_map(|one| snapshot.between(one.id, task.id)).collect();
    again.sort_by_key(|one| one.id);
    again.dedup_by_key(|one| one.id);
    let sent_back: Vec<ObjectId> = judged.iter().map(|one| one.id).collect();
    for one in again {
        if one.status == TaskStatus::Completed && !sent_back.contains(&one.id) {
            let why = format!("what it stands on goes back: {why}");
            transitions.push(Transition { task: one.id, to: TransitionTo::Reopened, reason: why });
        }
    }
    transitions.push(Transition { task: task.id, to: TransitionTo::Reopened, reason: why });
    transitions
}

/// The transition of a task whose attempt could not be started.
pub fn fail_unstarted(snapshot: &Snapshot, task: &Task, why: &str, options: &[&str]) -> Transition {
    let reason = format!("it could not be started: {why}");
    let asks = snapshot.workflow.settings.on_failure == OnFailure::Escalate;
    let to = TransitionTo::Failed {
        failure_context: append_failure(&task.failure_context, snapshot.next_attempt_number(task), &reason),
        needs_person: asks.then(|| person_needed(task, &reason, options)),
    };
    Transition { task: task.id, to, reason }
}

fn failure_context(snapshot: &Snapshot, task: &Task, why: &str, attempt: &Attempt) -> String {
    let said = match attempt.summary.trim() {
        "" => why.to_owned(),
        said => format!("{why}\nWhat it said: {said}"),
    };
    append_failure(&task.failure_context, snapshot.attempt_number(task), &said)
}

fn reason_label(reason: Option<Reason>) -> &'static str {
    reason.map_or("no reason given", Reason::as_str)
}

/// An attempt that has ended, and the transitions that follow, each with its task as it was before.
#[derive(Debug, Clone, PartialEq)]
pub struct ConcludedAttempt {
    pub attempt: Attempt,
    pub transitions: Vec<(Transition, Task)>,
}

/// Concludes the attempt at a task. The snapshot is not changed: the caller applies the transitions
/// with [`Snapshot::apply`] when it decides to write them.
pub fn conclude_attempt(
    snapshot: &Snapshot,
    id: ObjectId,
    judged: Option<&Judgement>,
) -> Option<ConcludedAttempt> {
    let task = snapshot.get(id)?;
    let attempt = snapshot.attempts.get(&id)?;
    let transitions = conclude(snapshot, task, attempt, judged)
        .into_iter()
        .filter_map(|transition| {
            let before = snapshot.get(transition.task)?.clone();
            Some((transition, before))
        })
        .collect();
    Some(ConcludedAttempt { attempt: attempt.clone(), transitions })
}

#[cfg(test)]
mod tests;
