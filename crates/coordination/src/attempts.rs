//! Loads the attempts at the tasks of a workflow.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId},
    run::{Run, RunStatus},
    task::{Task, TaskStatus, VerdictKind},
};
use emergent_rules::workflow::{snapshot::Attempt, verdicts::parse_verdict};
use emergent_store::{Tx, runs, workflows};
use serde_json::Value;

/// Loads the current attempt of each task that is in progress or paused.
pub(crate) fn load_attempts(
    tx: &mut Tx<'_>,
    project: ProjectId,
    tasks: &[Task],
) -> Result<HashMap<ObjectId, Attempt>, emergent_store::Error> {
    let active: Vec<&Task> = tasks
        .iter()
        .filter(|task| matches!(task.status, TaskStatus::InProgress | TaskStatus::Paused))
        .collect();
    let ids: Vec<RunId> = active.iter().filter_map(|task| task.run).collect();
    let runs = workflows::list_runs(tx, project, &ids)?;
    let mut attempts = HashMap::new();
    for run in runs {
        if let Some(task) = active.iter().find(|task| task.run == Some(run.id)) {
            attempts.insert(task.id, load_attempt(tx, task, &run)?);
        }
    }
    Ok(attempts)
}

/// The run of a task as the rules see it. Its verdict is read once the run has ended.
pub(crate) fn load_attempt(
    tx: &mut Tx<'_>,
    task: &Task,
    run: &Run,
) -> Result<Attempt, emergent_store::Error> {
    let mut attempt = attempt_from_run(run);
    if task.verdict != VerdictKind::None {
        if run.status.is_terminal() {
            let submission = last_submission(tx, run)?;
            attempt.verdict = parse_verdict(task.verdict, submission.as_ref(), &attempt.summary);
        }
        attempt.asked_again = attempt.verdict.is_none() && was_asked_again(tx, run)?;
    }
    Ok(attempt)
}

/// The attempt of a task that owes no verdict.
pub(crate) fn attempt_from_run(run: &Run) -> Attempt {
    Attempt {
        run: run.id,
        agent: run.agent_name.clone(),
        status: run.status,
        reason: run.reason,
        summary: run.summary.clone().unwrap_or_default(),
        output: run.output.clone(),
        error: run.error.clone(),
        verdict: None,
        asked_again: false,
    }
}

/// The newest submission of an attempt: of its run, or of a run that this one resumes.
fn last_submission(tx: &mut Tx<'_>, run: &Run) -> Result<Option<Value>, emergent_store::Error> {
    if let Some(submission) = runs::submission(tx, run.id)? {
        return Ok(Some(submission));
    }
    for resumed in runs::resume_chain(tx, run)? {
        if let Some(submission) = runs::submission(tx, resumed)? {
            return Ok(Some(submission));
        }
    }
    Ok(None)
}

/// A completed run is resumed only to ask for the verdict that it owes, so a completed run in the
/// resume chain shows that this was done.
fn was_asked_again(tx: &mut Tx<'_>, run: &Run) -> Result<bool, emergent_store::Error> {
    let resumed = runs::resume_chain(tx, run)?;
    let resumed = workflows::list_runs(tx, run.project, &resumed)?;
    Ok(resumed.iter().any(|run| run.status == RunStatus::Completed))
}

/// Returns the first run of the attempt that `run` belongs to; later runs of an attempt resume it. `None`
/// if the run does not exist.
pub(crate) fn first_run_of_attempt(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
) -> Result<Option<RunId>, emergent_store::Error> {
    let Some(run) = runs::get(tx, project, run)? else { return Ok(None) };
    Ok(Some(runs::resume_chain(tx, &run)?.pop().unwrap_or(run.id)))
}
