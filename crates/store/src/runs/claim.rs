//! Leases of runners, and claims of runs. A runner has one lease for all its runs. When the lease expires,
//! other runners can claim its runs, and the fence then rejects what the first runner still tries to write.

use std::{collections::HashSet, time::Duration};

use emergent_domain::{
    ids::{ProjectId, RunId},
    run::{Run, RunStatus},
    time::Timestamp,
};

use super::COLUMNS;
use crate::{
    engine::Engine, error::Result, leases, page, params, project_events, row::TableRow, tx::Tx, value::Param,
};

/// How long the lease of a runner stays stored after it expired.
const EXPIRED_LEASE_RETENTION: Duration = Duration::from_secs(3600);

fn lease_name(owner: &str) -> String {
    format!("runner:{owner}")
}

/// Extends the lease of a runner; false when the lease expired and was deleted. The runner then has to
/// register again under another name.
pub fn renew_lease(tx: &mut Tx<'_>, owner: &str, until: Timestamp) -> Result<bool> {
    leases::renew(tx, &lease_name(owner), owner, until)
}

/// Registers a runner; false when the lease of this name belongs to another owner. Also deletes leases that
/// expired long ago and whose runners own no run.
pub fn register(tx: &mut Tx<'_>, owner: &str, until: Timestamp, now: Timestamp) -> Result<bool> {
    // `substr` removes the prefix `runner:`.
    tx.execute(
        "DELETE FROM leases WHERE name LIKE 'runner:%' AND until < $1
             AND NOT EXISTS (SELECT 1 FROM agent_runs WHERE status = 'running' AND owner = substr(leases.name, 8))",
        params![now - EXPIRED_LEASE_RETENTION],
    )?;
    leases::acquire(tx, &lease_name(owner), owner, until, now)
}

/// Ends the lease of a runner that shuts down, so that others can claim its runs at once. The row of the
/// lease stays, because it records since when nobody drives these runs, and because a commit that is still
/// under way may add a run. A later [`register`] deletes the row.
pub fn retire(tx: &mut Tx<'_>, owner: &str, now: Timestamp) -> Result<()> {
    leases::renew(tx, &lease_name(owner), owner, now)?;
    tx.wake(super::QUEUED_CHANNEL)
}

/// The most projects that [`list_waiting_projects`] returns.
pub const MAX_WAITING_PROJECTS: usize = 1_000;

/// The live projects with queued runs whose ids come after `after`, in the order of their ids. Takes two index
/// lookups per project, however many runs are queued.
pub fn list_waiting_projects(tx: &mut Tx<'_>, after: ProjectId) -> Result<Vec<ProjectId>> {
    let next = |after: &str| {
        format!(
            "SELECT q.project_id FROM agent_runs AS q WHERE q.status = 'queued' AND q.project_id > {after}
             ORDER BY q.project_id LIMIT 1"
        )
    };
    let sql = format!(
        "WITH RECURSIVE waiting (project_id) AS (
             SELECT first.project_id FROM ({}) AS first
             UNION ALL
             SELECT ({}) FROM waiting WHERE waiting.project_id IS NOT NULL
         )
         SELECT project_id FROM waiting WHERE project_id IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM projects WHERE projects.id = waiting.project_id AND projects.deleted_at IS NOT NULL)
         LIMIT $2",
        next("$1"),
        next("waiting.project_id")
    );
    tx.query(&sql, params![after, MAX_WAITING_PROJECTS], |row| row.get(0))
}

/// The oldest queued runs of a project that this version can read, locked until the transaction ends. None of
/// a deleted project.
pub fn lock_queued(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<Vec<Run>> {
    let lock = tx.skip_locked();
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM agent_runs WHERE status = 'queued' AND project_id = $1
                 AND NOT EXISTS (SELECT 1 FROM projects WHERE projects.id = $1 AND projects.deleted_at IS NOT NULL){exclude}
             ORDER BY created_at, id LIMIT {limit}{lock}"
        )
    };
    tx.query_claimable::<Run, _>(params![project], limit, sql, Run::from_row)
}

/// Makes a runner the owner of queued runs that this transaction has locked. A run that waited for a person
/// keeps its start, and the time in which it waited does not count towards its timeout.
pub fn mark_started(tx: &mut Tx<'_>, owner: &str, now: Timestamp, runs: &mut [Run]) -> Result<()> {
    let ids: Vec<RunId> = runs.iter().filter(|run| run.waiting_since.is_none()).map(|run| run.id).collect();
    for list in page::in_chunks(&ids) {
        let sql = format!(
            "UPDATE agent_runs SET status = 'running', owner = $1, started_at = $2, clock_from = $2
             WHERE id IN ({})",
            page::placeholders(3, list.len())
        );
        let mut params = vec![Param::from(owner), Param::from(now)];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    for run in runs {
        tx.wake(&project_events::channel(run.project))?;
        (run.status, run.owner) = (RunStatus::Running, Some(owner.to_owned()));
        match run.waiting_since {
            Some(since) => continue_waited(tx, owner, now.since(since), run)?,
            None => (run.started_at, run.deadline_base) = (Some(now), Some(now)),
        }
    }
    Ok(())
}

/// Makes a runner the owner of a run that waited for a person. The run keeps `waiting_since` in memory, which
/// tells its driver that it continues.
fn continue_waited(tx: &mut Tx<'_>, owner: &str, waited: Duration, run: &mut Run) -> Result<()> {
    run.deadline_base = run.deadline_base.map(|from| from + waited);
    tx.execute(
        "UPDATE agent_runs SET status = 'running', owner = $2, clock_from = $3, waiting_since = NULL WHERE id = $1",
        params![run.id, owner, run.deadline_base],
    )?;
    Ok(())
}

/// A running run whose runner has lost its lease.
#[derive(Debug, Clone, PartialEq)]
pub struct OrphanedRun {
    pub run: Run,
    /// When the lease of its runner ended; `None` when the lease is not stored any more.
    lease_ended: Option<Timestamp>,
}

/// Finds runs whose runner has lost its lease, and locks them until the transaction ends; never those of
/// `owner` itself, even if its own lease seems expired because the clock jumped. Runs of the projects in
/// `without` are left out.
pub fn lock_orphaned(
    tx: &mut Tx<'_>,
    owner: &str,
    without: &[ProjectId],
    now: Timestamp,
    limit: usize,
) -> Result<Vec<OrphanedRun>> {
    let lock = match tx.engine() {
        Engine::Sqlite => "",
        Engine::Postgres => " FOR UPDATE OF agent_runs SKIP LOCKED",
    };
    let mut params = vec![Param::from(now), Param::from(owner)];
    let projects = match without.len() {
        0 => String::new(),
        count => format!(" AND agent_runs.project_id NOT IN ({})", page::placeholders(3, count)),
    };
    params.extend(without.iter().copied().map(Param::from));
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {}, leases.until FROM agent_runs
             LEFT JOIN leases ON leases.name = 'runner:' || agent_runs.owner
             WHERE agent_runs.status = 'running' AND (leases.until IS NULL OR leases.until <= $1)
                 AND agent_runs.owner <> $2{projects}{exclude}
             LIMIT {limit}{lock}",
            Run::columns_of(Run::TABLE)
        )
    };
    tx.query_claimable::<Run, _>(&params, limit, sql, |row| {
        Ok(OrphanedRun { run: Run::from_row(row)?, lease_ended: row.get(Run::COLUMN_COUNT)? })
    })
}

/// Makes a runner the owner of an orphaned run; `None` when the run changed in the meantime. `lease` is the
/// duration of a lease. The time in which nobody drove the run does not count towards its timeout.
pub fn claim_orphan(
    tx: &mut Tx<'_>,
    owner: &str,
    orphan: OrphanedRun,
    lease: Duration,
    now: Timestamp,
) -> Result<Option<Run>> {
    let OrphanedRun { mut run, lease_ended } = orphan;
    // The lease was last renewed at `until - lease`. That is the last sign that the run was driven. A run that waited
    // before was not driven since then.
    let undriven = match run.waiting_since {
        Some(since) => now.since(since),
        None => lease_ended.map_or(Duration::ZERO, |until| now.since(until - lease)),
    };
    let clock_from = run.deadline_base.map(|from| from + undriven);
    let updated = tx.execute(
        "UPDATE agent_runs SET owner = $2, clock_from = $3, waiting_since = NULL
         WHERE id = $1 AND coalesce(status = 'running' AND owner = $4, false)",
        params![run.id, owner, clock_from, run.owner.as_deref()],
    )?;
    if updated == 0 {
        return Ok(None);
    }
    run.owner = Some(owner.to_owned());
    (run.deadline_base, run.waiting_since) = (clock_from, None);
    Ok(Some(run))
}

/// The running runs that a runner owns.
pub fn list_owned(tx: &mut Tx<'_>, owner: &str) -> Result<HashSet<RunId>> {
    let sql = "SELECT id FROM agent_runs WHERE owner = $1 AND status = 'running'";
    Ok(tx.query(sql, params![owner], |row| row.get(0))?.into_iter().collect())
}

/// Those of these runs that a runner no longer owns, because they were cancelled or claimed by another
/// runner. A run that ended otherwise keeps its owner.
pub fn list_lost(tx: &mut Tx<'_>, owner: &str, ids: &[RunId]) -> Result<Vec<RunId>> {
    let mut lost = Vec::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id FROM agent_runs WHERE (status = 'cancelled' OR owner IS NULL OR owner <> $1) AND id IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(owner)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        lost.extend(tx.query(&sql, &params, |row| row.get::<RunId>(0))?);
    }
    Ok(lost)
}

/// A running run that a runner owns; `None` when it does not own the run or the run is not running.
pub fn get_owned(tx: &mut Tx<'_>, owner: &str, id: RunId) -> Result<Option<Run>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM agent_runs WHERE id = $1 AND {}",
        page::on_row("owner = $2 AND status = 'running'")
    );
    tx.query_opt(&sql, params![id, owner], Run::from_row)
}

/// Whether a runner without a lease owns a run that runs, or that waits with its owner.
pub fn has_orphaned(tx: &mut Tx<'_>, now: Timestamp) -> Result<bool> {
    // `owners.owner` is qualified, because `leases` has a column `owner` too.
    let sql = "SELECT owner FROM (
                   SELECT DISTINCT owner FROM agent_runs WHERE status = 'running'
                   UNION SELECT DISTINCT owner FROM agent_runs WHERE status = 'waiting' AND owner IS NOT NULL) AS owners
               WHERE NOT EXISTS (SELECT 1 FROM leases WHERE name = 'runner:' || owners.owner AND until > $1) LIMIT 1";
    Ok(tx.query_opt(sql, params![now], |_| Ok(()))?.is_some())
}
