//! Schedules: the jobs of products and the cron triggers of agents. The server that fires a due schedule
//! locks its row, so that no other server fires it too. A schedule whose settings cannot be read is
//! returned with its `error` set, because it must not keep other schedules from being read.

use emergent_domain::{
    ids::{AgentId, ProjectId, RunId, ScheduleId, WorkflowId},
    stored_json,
    time::Timestamp,
    trigger::{Schedule, ScheduleConfig},
    workflow_template::WorkflowTemplate,
};

use crate::{
    error::{Error, Result},
    params,
    row::{RowReader, TableRow, row},
    tx::Tx,
    value::Param,
};

/// The channel that is woken when schedules or event triggers change.
pub const CHANGED_CHANNEL: &str = "triggers";

row! {
    Schedule in "schedules" {
        id: "id",
        project: "project_id",
        agent: "agent_id",
        product: ProductColumn("product"),
        name: "name",
        cron: "cron",
        config: ConfigColumn("config"),
        next_at: "next_at",
        last_at: "last_at",
        last_run: "last_run_id",
        last_workflow: "last_workflow_id",
        created_at: "created_at",
        updated_at: "updated_at",
        waiting_since: "waiting_since",
        paused_at: "paused_at",
        dispatch: DispatchColumn("dispatch"),
        error: ErrorColumn("error"),
    }
}

const COLUMNS: &str = Schedule::COLUMNS;
/// The rows of a deleted project stay, but its schedules must not fire.
const PROJECT_IS_LIVE: &str = "EXISTS (SELECT 1 FROM projects WHERE projects.id = schedules.project_id AND projects.deleted_at IS NULL)";

/// Codec of the product of a job. `None`, for the cron trigger of an agent, is stored as an empty text,
/// because the column is part of a unique index.
struct ProductColumn;

impl ProductColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Option<String>> {
        Ok(Some(reader.next::<String>(column)?).filter(|product| !product.is_empty()))
    }

    fn write<'a>(product: &'a Option<String>, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.push(Param::from(product.as_deref().unwrap_or_default()));
        Ok(())
    }
}

/// Codec of the settings. Unreadable settings do not make the row unreadable, since that would keep all
/// other schedules from firing: [`ErrorColumn`] reports them, and the caller suspends the schedule.
struct ConfigColumn;

impl ConfigColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<ScheduleConfig> {
        stored_json::from_str(&reader.next::<String>(column)?).or_else(|error| {
            reader.problem = Some(format!("the settings of the schedule cannot be read: {error}"));
            Ok(ScheduleConfig::default())
        })
    }

    fn write(config: &ScheduleConfig, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(config_param(config)?);
        Ok(())
    }
}

fn config_param(config: &ScheduleConfig) -> Result<Param<'static>> {
    let text = serde_json::to_string(config);
    let text =
        text.map_err(|source| Error::Unwritable { table: Schedule::TABLE, column: "config", source })?;
    Ok(Param::Json(text.into()))
}

/// Codec of the workflow that the schedule starts. Like [`ConfigColumn`], it reports what it cannot read. Such a
/// schedule must not become one that starts an agent, so it has an empty template.
struct DispatchColumn;

impl DispatchColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Option<WorkflowTemplate>> {
        let Some(text) = reader.next::<Option<String>>(column)? else { return Ok(None) };
        stored_json::from_str(&text).map(Some).or_else(|error| {
            reader.problem = Some(format!("the workflow of the schedule cannot be read: {error}"));
            Ok(Some(WorkflowTemplate::default()))
        })
    }

    fn write(template: &Option<WorkflowTemplate>, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(dispatch_param(template.as_ref())?);
        Ok(())
    }
}

fn dispatch_param(template: Option<&WorkflowTemplate>) -> Result<Param<'static>> {
    let Some(template) = template else { return Ok(Param::Null) };
    let text = serde_json::to_string(template);
    let text =
        text.map_err(|source| Error::Unwritable { table: Schedule::TABLE, column: "dispatch", source })?;
    Ok(Param::Json(text.into()))
}

/// Codec of the error: what [`ConfigColumn`] could not read, or else the recorded reason of a suspension.
struct ErrorColumn;

impl ErrorColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Option<String>> {
        let recorded = reader.next(column)?;
        Ok(reader.problem.take().or(recorded))
    }

    fn write<'a>(error: &'a Option<String>, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.push(Param::from(error.as_deref()));
        Ok(())
    }
}

/// Inserts a schedule. The caller has checked that its name is free.
pub fn insert(tx: &mut Tx<'_>, schedule: &Schedule) -> Result<()> {
    let more = [
        ("time_zone", Param::from(&schedule.config.time_zone)),
        ("missed", Param::from(schedule.config.missed.as_str())),
    ];
    tx.insert_row(schedule, more, "")?;
    Ok(())
}

/// Writes a schedule after its agent definition or job changed, and clears the error. Whether it is paused stays.
pub fn update(tx: &mut Tx<'_>, schedule: &Schedule) -> Result<()> {
    let columns = [
        ("agent_id", Param::from(schedule.agent)),
        ("name", Param::from(&schedule.name)),
        ("cron", Param::from(&schedule.cron)),
        ("time_zone", Param::from(&schedule.config.time_zone)),
        ("missed", Param::from(schedule.config.missed.as_str())),
        ("config", config_param(&schedule.config)?),
        ("next_at", Param::from(schedule.next_at)),
        ("updated_at", Param::from(schedule.updated_at)),
        ("waiting_since", Param::from(schedule.waiting_since)),
        ("dispatch", dispatch_param(schedule.dispatch.as_ref())?),
        ("error", Param::Null),
    ];
    tx.update_columns(Schedule::TABLE, columns, "id = $1", [Param::from(schedule.id)])?;
    Ok(())
}

/// A product's job by its name, locked until the transaction ends.
pub fn lock_job(tx: &mut Tx<'_>, project: ProjectId, product: &str, name: &str) -> Result<Option<Schedule>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM schedules WHERE project_id = $1 AND product = $2 AND name = $3{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![project, product, name], Schedule::from_row)
}

/// An agent's own schedule, locked until the transaction ends.
pub fn lock_agent_schedule(tx: &mut Tx<'_>, agent: AgentId) -> Result<Option<Schedule>> {
    let sql =
        format!("SELECT {COLUMNS} FROM schedules WHERE agent_id = $1 AND product = ''{}", tx.for_update());
    tx.query_opt(&sql, params![agent], Schedule::from_row)
}

/// A schedule of a project, locked until the transaction ends.
pub fn lock_by_id(tx: &mut Tx<'_>, project: ProjectId, id: ScheduleId) -> Result<Option<Schedule>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE id = $1 AND project_id = $2{}", tx.for_update());
    tx.query_opt(&sql, params![id, project], Schedule::from_row)
}

/// Writes since when a locked schedule is paused, or that it no longer is, and its next time.
pub fn set_paused(tx: &mut Tx<'_>, schedule: &Schedule) -> Result<()> {
    let columns = [
        ("paused_at", Param::from(schedule.paused_at)),
        ("next_at", Param::from(schedule.next_at)),
        ("waiting_since", Param::from(schedule.waiting_since)),
        ("updated_at", Param::from(schedule.updated_at)),
    ];
    tx.update_columns(Schedule::TABLE, columns, "id = $1", [Param::from(schedule.id)])?;
    Ok(())
}

/// The schedules of a project, by product and name; those of agents come first.
pub fn list(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Schedule>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE project_id = $1 ORDER BY product, name");
    tx.query(&sql, params![project], Schedule::from_row)
}

pub fn delete(tx: &mut Tx<'_>, id: ScheduleId) -> Result<()> {
    tx.execute("DELETE FROM schedules WHERE id = $1", params![id])?;
    Ok(())
}

/// Deletes the jobs of a product and returns how many there were.
pub fn delete_jobs(tx: &mut Tx<'_>, project: ProjectId, product: &str) -> Result<u64> {
    tx.execute("DELETE FROM schedules WHERE project_id = $1 AND product = $2", params![project, product])
}

/// What a schedule starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleTarget {
    Agent,
    Workflow,
}

/// The due schedules of live projects that start this, the longest due first, locked until the transaction ends.
/// Those that another server has locked are left to it.
pub fn lock_due(
    tx: &mut Tx<'_>,
    target: ScheduleTarget,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Schedule>> {
    let dispatch = match target {
        ScheduleTarget::Agent => "dispatch IS NULL",
        ScheduleTarget::Workflow => "dispatch IS NOT NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM schedules
         WHERE next_at IS NOT NULL AND next_at <= $1 AND {dispatch} AND {PROJECT_IS_LIVE}
         ORDER BY next_at LIMIT $2{}",
        tx.skip_locked()
    );
    tx.query(&sql, params![now, limit], Schedule::from_row)
}

/// A schedule of a live project if it is due, locked until the transaction ends.
pub fn lock_if_due(tx: &mut Tx<'_>, id: ScheduleId, now: Timestamp) -> Result<Option<Schedule>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM schedules
         WHERE id = $1 AND next_at IS NOT NULL AND next_at <= $2 AND {PROJECT_IS_LIVE}{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, now], Schedule::from_row)
}

/// When the next schedule of a live project is due; `None` when none is scheduled.
pub fn next_due_at(tx: &mut Tx<'_>) -> Result<Option<Timestamp>> {
    let sql = format!(
        "SELECT next_at FROM schedules WHERE next_at IS NOT NULL AND {PROJECT_IS_LIVE} ORDER BY next_at LIMIT 1"
    );
    tx.query_opt(&sql, &[], |row| row.get(0))
}

/// Records when a locked schedule is due again and, if it fired, for which time and as which run.
pub fn advance(
    tx: &mut Tx<'_>,
    id: ScheduleId,
    next_at: Option<Timestamp>,
    fired: Option<(Timestamp, RunId)>,
) -> Result<()> {
    match fired {
        Some((at, run)) => tx.execute(
            "UPDATE schedules SET next_at = $2, waiting_since = NULL, last_at = $3, last_run_id = $4 WHERE id = $1",
            params![id, next_at, at, run],
        ),
        None => {
            let sql = "UPDATE schedules SET next_at = $2, waiting_since = NULL WHERE id = $1";
            tx.execute(sql, params![id, next_at])
        }
    }?;
    Ok(())
}

/// Records when a locked schedule is due again, and which workflow it started for which time.
pub fn advance_with_workflow(
    tx: &mut Tx<'_>,
    id: ScheduleId,
    next_at: Option<Timestamp>,
    at: Timestamp,
    workflow: WorkflowId,
) -> Result<()> {
    tx.execute(
        "UPDATE schedules SET next_at = $2, waiting_since = NULL, last_at = $3, last_workflow_id = $4 WHERE id = $1",
        params![id, next_at, at, workflow],
    )?;
    Ok(())
}

/// Suspends a locked schedule until it is saved again, and records the reason.
pub fn suspend(tx: &mut Tx<'_>, id: ScheduleId, reason: &str) -> Result<()> {
    tx.execute(
        "UPDATE schedules SET next_at = NULL, waiting_since = NULL, error = $2 WHERE id = $1",
        params![id, reason],
    )?;
    Ok(())
}

/// Marks every due schedule as waiting since `now`, because the run queue is full, and returns how many were
/// marked. The schedules stay due; the mark shows that they were not missed.
pub fn mark_waiting(tx: &mut Tx<'_>, now: Timestamp) -> Result<u64> {
    let sql = format!(
        "UPDATE schedules SET waiting_since = $1 WHERE id IN (
             SELECT id FROM schedules
             WHERE next_at IS NOT NULL AND next_at <= $1 AND waiting_since IS NULL AND {PROJECT_IS_LIVE}{})",
        tx.skip_locked()
    );
    tx.execute(&sql, params![now])
}

/// How many schedules of live projects are due and wait because the run queue is full.
pub fn count_waiting(tx: &mut Tx<'_>) -> Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM schedules WHERE next_at IS NOT NULL AND waiting_since IS NOT NULL AND {PROJECT_IS_LIVE}"
    );
    Ok(tx.query_opt(&sql, &[], |row| row.get(0))?.unwrap_or(0))
}

/// Locks a schedule until the transaction ends; false when it was deleted.
pub fn lock(tx: &mut Tx<'_>, id: ScheduleId) -> Result<bool> {
    let sql = format!("SELECT 1 FROM schedules WHERE id = $1{}", tx.for_update());
    Ok(tx.query_opt(&sql, params![id], |_| Ok(()))?.is_some())
}

/// The active run of a schedule. There is one at most; the caller has locked the schedule.
pub fn active_run(tx: &mut Tx<'_>, id: ScheduleId) -> Result<Option<RunId>> {
    let sql = "SELECT id FROM agent_runs WHERE schedule_id = $1 AND status IN ('queued', 'running', 'waiting') LIMIT 1";
    tx.query_opt(sql, params![id], |row| row.get(0))
}
