//! Claims due jobs.

use std::{collections::BTreeMap, time::Duration};

use emergent_domain::{
    ids::{JobId, ProjectId},
    time::Timestamp,
};

use super::{COLUMNS, Job, JobStatus};
use crate::{error::Result, page, params, row::TableRow, tx::Tx, value::Param};

/// Claims up to `limit` due jobs: first those whose lease expired, then queued ones, longest due first. Jobs
/// past their maximum age or out of attempts are marked as dead instead.
pub fn claim(
    tx: &mut Tx<'_>,
    queue: &str,
    owner: &str,
    lease: Duration,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Job>> {
    claim_without(tx, queue, owner, lease, now, limit, &[])
}

/// Like [`claim`], but leaves a project at most `per_project` running jobs of the queue. A project with fewer of them
/// comes first, so that one whose jobs take long does not hold up those of others.
pub fn claim_in_shares(
    tx: &mut Tx<'_>,
    queue: &str,
    owner: &str,
    lease: Duration,
    now: Timestamp,
    limit: usize,
    per_project: usize,
) -> Result<Vec<Job>> {
    let mut running = count_running(tx, queue, now)?;
    let mut claimed = Vec::new();
    for share in 1..=per_project {
        while claimed.len() < limit {
            let full: Vec<ProjectId> =
                running.iter().filter(|(_, jobs)| **jobs >= share).map(|(project, _)| *project).collect();
            let Some(job) = claim_without(tx, queue, owner, lease, now, 1, &full)?.pop() else { break };
            if let Some(project) = job.project {
                *running.entry(project).or_default() += 1;
            }
            claimed.push(job);
        }
    }
    Ok(claimed)
}

/// How many jobs of a queue each project has that a worker works at.
fn count_running(tx: &mut Tx<'_>, queue: &str, now: Timestamp) -> Result<BTreeMap<ProjectId, usize>> {
    let sql = "SELECT project_id FROM jobs
               WHERE queue = $1 AND status = 'running' AND lease_until > $2 AND project_id IS NOT NULL";
    let mut running = BTreeMap::new();
    for project in tx.query(sql, params![queue, now], |row| row.get::<ProjectId>(0))? {
        *running.entry(project).or_default() += 1;
    }
    Ok(running)
}

/// Claims due jobs, except those of some projects.
fn claim_without(
    tx: &mut Tx<'_>,
    queue: &str,
    owner: &str,
    lease: Duration,
    now: Timestamp,
    limit: usize,
    excluded: &[ProjectId],
) -> Result<Vec<Job>> {
    let mut claimed = Vec::new();
    // Jobs that were marked as dead leave free capacity, so more due jobs are selected.
    while claimed.len() < limit {
        let due = select_due(tx, queue, now, limit - claimed.len(), excluded)?;
        if due.is_empty() {
            break;
        }
        for job in due {
            match claim_decision(&job, now) {
                ClaimDecision::Run => claimed.push(lease_job(tx, job, owner, now + lease)?),
                ClaimDecision::MarkDead(reason) => mark_dead(tx, job.id, &reason, now)?,
            }
        }
    }
    Ok(claimed)
}

/// Selects and locks due jobs, except those of some projects.
fn select_due(
    tx: &mut Tx<'_>,
    queue: &str,
    now: Timestamp,
    limit: usize,
    excluded: &[ProjectId],
) -> Result<Vec<Job>> {
    let lock = tx.skip_locked();
    let others = match excluded.len() {
        0 => String::new(),
        count => {
            format!(" AND (project_id IS NULL OR project_id NOT IN ({}))", page::placeholders(3, count))
        }
    };
    let mut params = params![queue, now].to_vec();
    params.extend(excluded.iter().copied().map(Param::from));
    let expired_sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM jobs
             WHERE queue = $1 AND status = 'running' AND lease_until <= $2{others}{exclude}
             ORDER BY lease_until, id LIMIT {limit}{lock}"
        )
    };
    let mut due = tx.query_claimable::<Job, _>(&params, limit, expired_sql, Job::from_row)?;
    if due.len() < limit {
        let queued_sql = |limit: &str, exclude: &str| {
            format!(
                "SELECT {COLUMNS} FROM jobs
                 WHERE queue = $1 AND status = 'queued' AND run_at <= $2{others}{exclude}
                 ORDER BY run_at, id LIMIT {limit}{lock}"
            )
        };
        let remaining = limit - due.len();
        due.extend(tx.query_claimable::<Job, _>(&params, remaining, queued_sql, Job::from_row)?);
    }
    Ok(due)
}

/// What to do with a due job.
enum ClaimDecision {
    Run,
    /// With the reason, which becomes the last error of the job.
    MarkDead(String),
}

fn claim_decision(job: &Job, now: Timestamp) -> ClaimDecision {
    let previous_error =
        job.last_error.as_deref().map(|error| format!("; before that: {error}")).unwrap_or_default();
    if let Some(end) = job.expires_at.filter(|end| *end <= now) {
        return ClaimDecision::MarkDead(format!("it was not done by {end}, its maximum age{previous_error}"));
    }
    if job.attempts >= job.max_attempts {
        let attempts = job.attempts;
        return ClaimDecision::MarkDead(format!(
            "its worker vanished on attempt {attempts} of {attempts}{previous_error}"
        ));
    }
    ClaimDecision::Run
}

/// Gives the owner a lease on a job and counts the attempt.
fn lease_job(tx: &mut Tx<'_>, job: Job, owner: &str, until: Timestamp) -> Result<Job> {
    tx.execute(
        "UPDATE jobs SET status = 'running', attempts = $2, lease_owner = $3, lease_until = $4 WHERE id = $1",
        params![job.id, job.attempts + 1, owner, until],
    )?;
    Ok(Job {
        status: JobStatus::Running,
        attempts: job.attempts + 1,
        lease_owner: Some(owner.to_owned()),
        lease_until: Some(until),
        ..job
    })
}

pub(super) fn mark_dead(tx: &mut Tx<'_>, id: JobId, reason: &str, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE jobs SET status = 'dead', finished_at = $3, last_error = $2, lease_owner = NULL, lease_until = NULL
         WHERE id = $1",
        params![id, reason, now],
    )?;
    Ok(())
}
