//! The job queue. Work that must follow a commit is a job that is inserted in the same transaction.
//!
//! A worker claims a job with a lease and extends the lease while it works. When the worker dies, the
//! lease expires and another worker claims the job, which counts as an attempt. Each change compares
//! the owner of the job: a worker whose lease expired can neither complete nor fail a job that another
//! worker has claimed. Therefore each claim uses a new owner name.
//!
//! Callers pass the time in; this module reads no clock.

mod claim;

use std::time::Duration;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{JobId, ProjectId},
    json::JsonObject,
    time::Timestamp,
};
use emergent_net::backoff::{Backoff, spread_of};

use crate::{
    engine::Engine,
    error::Result,
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};
use claim::mark_dead;
pub use claim::{claim, claim_in_shares};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobStatus {
    Queued,
    Running,
    Done,
    /// The job is out of attempts or past its maximum age. It is stored until a person requeues it or it is
    /// pruned.
    Dead,
}

impl JobStatus {
    pub const ALL: [JobStatus; 4] = [JobStatus::Queued, JobStatus::Running, JobStatus::Done, JobStatus::Dead];

    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::Running => "running",
            JobStatus::Done => "done",
            JobStatus::Dead => "dead",
        }
    }
}

/// A stored job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub queue: String,
    pub project: Option<ProjectId>,
    pub key: Option<String>,
    pub payload: JsonObject,
    pub status: JobStatus,
    /// How often the job was claimed, including the current claim.
    pub attempts: i64,
    pub max_attempts: i64,
    pub run_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub lease_owner: Option<String>,
    pub lease_until: Option<Timestamp>,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// A job to enqueue.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob<'a> {
    pub queue: &'a str,
    pub project: Option<ProjectId>,
    /// Two active jobs of one queue never have the same key.
    pub key: Option<&'a str>,
    pub payload: JsonObject,
    pub created_at: Timestamp,
    /// The job is not claimed before this time.
    pub run_at: Timestamp,
    pub max_attempts: i64,
    /// The maximum age: after this time the job is not tried again.
    pub expires_at: Option<Timestamp>,
}

const DEFAULT_MAX_ATTEMPTS: i64 = 10;

impl<'a> NewJob<'a> {
    /// A job that can run at once, with the default number of attempts and no maximum age.
    pub fn new(queue: &'a str, now: Timestamp) -> Self {
        Self {
            queue,
            project: None,
            key: None,
            payload: JsonObject::empty(),
            created_at: now,
            run_at: now,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            expires_at: None,
        }
    }
}

/// The channel that is woken when a queue has a new job.
pub fn queue_channel(queue: &str) -> String {
    format!("jobs:{queue}")
}

row! {
    Job in "jobs" {
        id: "id",
        queue: "queue",
        project: "project_id",
        key: "key",
        payload: "payload",
        status: "status",
        attempts: "attempts",
        max_attempts: "max_attempts",
        run_at: "run_at",
        expires_at: "expires_at",
        lease_owner: "lease_owner",
        lease_until: "lease_until",
        last_error: "last_error",
        created_at: "created_at",
        finished_at: "finished_at",
    }
}

const COLUMNS: &str = Job::COLUMNS;

/// Adds a job and wakes the workers of the queue; `None` when an active job has its key.
///
/// In the latter case, the active job cannot complete before this transaction ends, as long as its worker
/// calls [`lock_owned`] before it reads its work. The worker then sees what this transaction wrote.
pub fn enqueue(tx: &mut Tx<'_>, new: &NewJob<'_>) -> Result<Option<JobId>> {
    loop {
        let id = JobId::new();
        let inserted = tx.execute(
            "INSERT INTO jobs (id, queue, project_id, key, payload, status, attempts, max_attempts, run_at,
                               expires_at, created_at)
             VALUES ($1, $2, $3, $4, $5, 'queued', 0, $6, $7, $8, $9)
             ON CONFLICT (queue, key) WHERE key IS NOT NULL AND status IN ('queued', 'running') DO NOTHING",
            params![
                id,
                new.queue,
                new.project,
                new.key,
                &new.payload,
                new.max_attempts,
                new.run_at,
                new.expires_at,
                new.created_at
            ],
        )?;
        if inserted == 1 {
            tx.wake(&queue_channel(new.queue))?;
            return Ok(Some(id));
        }
        if lock_active_job(tx, new.queue, new.key)? {
            return Ok(None);
        }
        // The other job finished between the two statements, so the key is free now.
    }
}

/// Keeps the active job with this key from finishing until this transaction ends; false when there is
/// none. SQLite has one writer and needs no lock.
fn lock_active_job(tx: &mut Tx<'_>, queue: &str, key: Option<&str>) -> Result<bool> {
    match tx.engine() {
        Engine::Sqlite => Ok(true),
        // A key share lock conflicts neither with other enqueuers nor with heartbeats; only
        // `lock_owned` waits for it.
        Engine::Postgres => {
            let sql = "SELECT id FROM jobs WHERE queue = $1 AND key = $2 AND status IN ('queued', 'running')
                       FOR KEY SHARE";
            Ok(tx.query_opt(sql, params![queue, key], |row| row.get::<JobId>(0))?.is_some())
        }
    }
}

/// Extends the lease of a running job; false when the caller no longer owns it.
pub fn heartbeat(tx: &mut Tx<'_>, id: JobId, owner: &str, until: Timestamp) -> Result<bool> {
    let extended = tx.execute(
        "UPDATE jobs SET lease_until = $3 WHERE id = $1 AND coalesce(lease_owner = $2 AND status = 'running', false)",
        params![id, owner, until],
    )?;
    Ok(extended == 1)
}

/// Locks a running job until this transaction ends; false when the caller no longer owns it. Waits for
/// every transaction whose [`enqueue`] found this job active.
pub fn lock_owned(tx: &mut Tx<'_>, id: JobId, owner: &str) -> Result<bool> {
    let sql = format!(
        "SELECT id FROM jobs WHERE id = $1 AND coalesce(lease_owner = $2 AND status = 'running', false){}",
        tx.for_update()
    );
    Ok(tx.query_opt(&sql, params![id, owner], |row| row.get::<JobId>(0))?.is_some())
}

/// Marks a job as done; false when the caller no longer owns it.
pub fn complete(tx: &mut Tx<'_>, id: JobId, owner: &str, now: Timestamp) -> Result<bool> {
    let completed = tx.execute(
        "UPDATE jobs SET status = 'done', finished_at = $3, lease_owner = NULL, lease_until = NULL
         WHERE id = $1 AND coalesce(lease_owner = $2 AND status = 'running', false)",
        params![id, owner, now],
    )?;
    Ok(completed == 1)
}

/// Returns an unfinished job to the queue, where any worker can claim it at once; the attempt does not
/// count. False when the caller no longer owns it.
pub fn release(tx: &mut Tx<'_>, id: JobId, owner: &str, now: Timestamp) -> Result<bool> {
    let queue = tx.query_opt(
        "UPDATE jobs SET status = 'queued', attempts = attempts - 1, run_at = $3, lease_owner = NULL,
                         lease_until = NULL
         WHERE id = $1 AND coalesce(lease_owner = $2 AND status = 'running', false) RETURNING queue",
        params![id, owner, now],
        |row| row.get::<String>(0),
    )?;
    if let Some(queue) = &queue {
        tx.wake(&queue_channel(queue))?;
    }
    Ok(queue.is_some())
}

/// What happens to a job whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOutcome {
    Retry {
        at: Timestamp,
    },
    Dead,
    /// The caller no longer owns the job; nothing was changed.
    NotYours,
}

/// Records a failed attempt. The job is queued for the next attempt, or marked as dead when it has no attempt
/// left or the next one would be past its maximum age.
pub fn fail(tx: &mut Tx<'_>, id: JobId, owner: &str, error: &str, now: Timestamp) -> Result<FailOutcome> {
    let sql = format!(
        "SELECT {COLUMNS} FROM jobs WHERE id = $1 AND coalesce(lease_owner = $2 AND status = 'running', false){}",
        tx.for_update()
    );
    let Some(job) = tx.query_opt(&sql, params![id, owner], Job::from_row)? else {
        return Ok(FailOutcome::NotYours);
    };
    let retry_at = now + backoff(id, job.attempts);
    if job.attempts >= job.max_attempts || job.expires_at.is_some_and(|end| end <= retry_at) {
        mark_dead(tx, id, error, now)?;
        return Ok(FailOutcome::Dead);
    }
    tx.execute(
        "UPDATE jobs SET status = 'queued', run_at = $2, last_error = $3, lease_owner = NULL, lease_until = NULL
         WHERE id = $1",
        params![id, retry_at, error],
    )?;
    Ok(FailOutcome::Retry { at: retry_at })
}

/// The delay before a retry. It has jitter of up to a quarter, so that jobs that failed together do not retry
/// together.
const BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(1), Duration::from_secs(300)).with_jitter(1.0, 1.25);

/// The delay after a failed attempt, counted from 1. It is the same for the same job and attempt.
pub fn backoff(id: JobId, attempt: i64) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(0);
    // The lower half of an id is random, as `spread_of` requires.
    BACKOFF.jittered(doublings, spread_of(id.0.as_u64_pair().1, attempt.unsigned_abs()))
}

pub fn get(tx: &mut Tx<'_>, id: JobId) -> Result<Option<Job>> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM jobs WHERE id = $1"), params![id], Job::from_row)
}

/// A page of dead jobs, newest first, of one queue or, with `None`, of all queues.
pub fn dead_letters(tx: &mut Tx<'_>, queue: Option<&str>, page: Page) -> Result<ResultPage<Job>> {
    let mut sql = format!("SELECT {COLUMNS} FROM jobs WHERE status = 'dead'");
    let mut params: Vec<Param<'_>> = vec![(page.limit + 1).into()];
    if let Some(queue) = queue {
        params.push(queue.into());
        sql.push_str(&format!(" AND queue = ${}", params.len()));
    }
    if let Some(after) = page.after {
        params.extend([after.created_at.into(), after.id.into()]);
        sql.push_str(&format!(" AND (created_at, id) < (${}, ${})", params.len() - 1, params.len()));
    }
    sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT $1");
    page::query_page(tx, page.limit, &sql, &params, Job::from_row, |job| Cursor {
        created_at: job.created_at,
        id: job.id.0,
    })
}

/// Queues a dead job again with all its attempts and no maximum age; false when the job is not dead, or when
/// an active job has its key.
pub fn requeue_dead(tx: &mut Tx<'_>, id: JobId, now: Timestamp) -> Result<bool> {
    let requeued = tx.query(
        "UPDATE jobs SET status = 'queued', attempts = 0, run_at = $2, expires_at = NULL, finished_at = NULL
         WHERE id = $1 AND status = 'dead' AND NOT EXISTS (
             SELECT 1 FROM jobs AS live WHERE live.queue = jobs.queue AND live.key = jobs.key
             AND live.status IN ('queued', 'running'))
         RETURNING queue",
        params![id, now],
        |row| row.get::<String>(0),
    )?;
    for queue in &requeued {
        tx.wake(&queue_channel(queue))?;
    }
    Ok(!requeued.is_empty())
}

/// Deletes up to `limit` jobs with this status that finished before a time, and returns how many there were.
pub fn prune(tx: &mut Tx<'_>, status: JobStatus, before: Timestamp, limit: usize) -> Result<usize> {
    let sql = "DELETE FROM jobs WHERE id IN (
                   SELECT id FROM jobs WHERE status = $1 AND finished_at IS NOT NULL AND finished_at < $2 LIMIT $3)";
    let deleted = tx.execute(sql, params![status.as_str(), before, limit])?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

/// The number of jobs of one queue with one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCount {
    pub queue: String,
    pub status: JobStatus,
    pub jobs: i64,
}

/// How many jobs there are, by queue and status.
pub fn counts(tx: &mut Tx<'_>) -> Result<Vec<QueueCount>> {
    let mut counts = Vec::new();
    for status in JobStatus::ALL {
        counts.extend(tx.query(
            "SELECT queue, count(*) FROM jobs WHERE status = $1 GROUP BY queue ORDER BY queue",
            params![status.as_str()],
            |row| Ok(QueueCount { queue: row.get(0)?, status, jobs: row.get(1)? }),
        )?);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes_with_jitter() {
        for attempt in 1..100 {
            let id = JobId::new();
            let delay = backoff(id, attempt);
            let without_jitter =
                Duration::from_secs(1 << (attempt - 1).min(20)).min(Duration::from_secs(300));
            assert!(
                delay >= without_jitter && delay <= without_jitter.mul_f64(1.25),
                "attempt {attempt}: {delay:?}"
            );
            assert_eq!(delay, backoff(id, attempt), "the same job waits the same time");
        }
        let delays: std::collections::BTreeSet<_> = (0..100).map(|_| backoff(JobId::new(), 1)).collect();
        assert!(delays.len() > 90, "jobs that failed together retry at different times");
    }
}
