//! Workflows: their rows, their events, and which dispatcher owns them. Each transaction of a dispatcher
//! starts with [`lock_owned`] or [`fence`], which only the owner of the workflow passes.

use std::collections::HashSet;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::Run,
    time::Timestamp,
    workflow::{Workflow, WorkflowEvent, WorkflowSettings, WorkflowStatus},
};
use serde_json::Value;

use crate::{
    error::Result,
    inbox_items, page, params, project_events,
    row::{TableRow, read_row, row, to_param},
    tx::Tx,
    value::{Param, Row, json},
};

mod active;
mod claims;
mod decisions;
mod discussion_counts;
mod open_sessions;
mod progress;
mod standing;

pub use active::{count_active, count_active_in, has_active_for_schedule};
pub use claims::{ClaimLimits, claim};
pub use decisions::{lock_owned, write_decisions};
pub use discussion_counts::count_discussions;
pub use open_sessions::{OpenSession, list_open_sessions};
pub use progress::{WorkflowProgress, progress};
pub use standing::{end_standing, insert_standing, lock_standing};

/// The channel that is woken when a workflow waits for a dispatcher.
pub const CLAIMABLE_CHANNEL: &str = "workflows";

/// The channel that is woken when a workflow, its tasks or its runs are changed by anyone but its dispatcher.
pub fn changed_channel(id: WorkflowId) -> String {
    format!("workflow:{id}")
}

/// The channel that is woken when a workflow records an event.
pub fn events_channel(id: WorkflowId) -> String {
    format!("workflow-events:{id}")
}

row! {
    Workflow in "workflows" {
        id: "id",
        project: "project_id",
        description: "description",
        status: "status",
        settings: "settings",
        escalation: "escalation",
        summary: "summary",
        planner_run: "planner_run_id",
        plan_attempts: "plan_attempts",
        owner: "owner",
        revision: "revision",
        event_seq: "event_seq",
        started_by: "author_token",
        started_by_run: "author_run",
        origin: "origin",
        created_at: "created_at",
        updated_at: "updated_at",
        completed_at: "completed_at",
    }
}

const COLUMNS: &str = Workflow::COLUMNS;

read_row! {
    WorkflowEvent in "workflow_events" {
        seq: "seq",
        kind: "type",
        task: "task_id",
        run: "run_id",
        data: "data",
        at: "at",
    }
}

/// Inserts a workflow, which any dispatcher can claim.
pub fn insert(tx: &mut Tx<'_>, workflow: &Workflow) -> Result<()> {
    let more = [
        ("lease_until", Param::from(workflow.created_at)),
        ("schedule_id", Param::from(workflow.origin.schedule())),
    ];
    tx.insert_row(workflow, more, "")?;
    tx.wake(&project_events::channel(workflow.project))?;
    tx.wake(CLAIMABLE_CHANNEL)
}

/// As [`insert`], with the first events of the workflow, whose number becomes its `event_seq`.
pub fn insert_with_events(
    tx: &mut Tx<'_>,
    workflow: &mut Workflow,
    events: &[NewWorkflowEvent],
) -> Result<()> {
    workflow.event_seq = i64::try_from(events.len()).unwrap_or(i64::MAX);
    insert(tx, workflow)?;
    insert_events(tx, workflow.id, workflow.event_seq, events)
}

/// A workflow of a project.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Option<Workflow>> {
    let sql = format!("SELECT {COLUMNS} FROM workflows WHERE id = $1 AND coalesce(project_id = $2, false)");
    tx.query_opt(&sql, params![id, project], Workflow::from_row)
}

/// As [`get`], and locks the row until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Option<Workflow>> {
    let lock = tx.for_update();
    let sql =
        format!("SELECT {COLUMNS} FROM workflows WHERE id = $1 AND coalesce(project_id = $2, false){lock}");
    tx.query_opt(&sql, params![id, project], Workflow::from_row)
}

/// The newest active or escalated workflow that a run started; `None` when there is none.
pub fn find_started_by(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Option<WorkflowId>> {
    tx.query_opt(
        "SELECT id FROM workflows WHERE author_run = $1 AND project_id = $2
             AND status IN ('planning', 'running', 'escalated')
         ORDER BY created_at DESC, id DESC LIMIT 1",
        params![run, project],
        |row| row.get(0),
    )
}

/// The workflows of a project, newest first; with `status`, only those that have it.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    status: Option<WorkflowStatus>,
    page: &Page,
) -> Result<ResultPage<Workflow>> {
    let mut params = vec![Param::from(project)];
    let mut conditions = String::from("project_id = $1");
    if let Some(status) = status {
        params.push(Param::from(status.as_str()));
        conditions.push_str(" AND status = $2");
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM workflows WHERE {conditions}{after} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Workflow::from_row, |workflow| Cursor {
        created_at: workflow.created_at,
        id: workflow.id.0,
    })
}

/// Extends the leases of a dispatcher and returns the workflows it still owns. Skips rows that are
/// locked right now: a transaction that passes the [`fence`] or [`write_decisions`] extends the lease as well.
pub fn renew(tx: &mut Tx<'_>, owner: &str, until: Timestamp) -> Result<Vec<WorkflowId>> {
    let skip = tx.skip_locked();
    let owned = "SELECT id FROM workflows WHERE owner = $1 AND status IN ('planning', 'running')";
    let sql = format!("UPDATE workflows SET lease_until = $2 WHERE id IN ({owned}{skip})");
    tx.execute(&sql, params![owner, until])?;
    tx.query(owned, params![owner], |row| row.get(0))
}

/// Releases all workflows of a dispatcher.
pub fn release_all(tx: &mut Tx<'_>, owner: &str, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE workflows SET owner = NULL, lease_until = $2 WHERE owner = $1", params![owner, now])?;
    tx.wake(CLAIMABLE_CHANNEL)
}

/// Passes only for the dispatcher that owns the workflow. Locks the row until the transaction ends and
/// extends the lease. Returns the revision and the `seq` of the newest event; `None` when the
/// dispatcher no longer owns the workflow.
pub fn fence(tx: &mut Tx<'_>, id: WorkflowId, owner: &str, until: Timestamp) -> Result<Option<(i64, i64)>> {
    tx.query_opt(
        "UPDATE workflows SET revision = revision + 1, lease_until = $3
         WHERE id = $1 AND coalesce(owner = $2 AND status IN ('planning', 'running'), false)
         RETURNING revision, event_seq",
        params![id, owner, until],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Records that tasks or edges of a workflow changed, and locks its row until the transaction ends.
/// False when the project has no such workflow.
pub fn bump_revision(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<bool> {
    let updated = tx.execute(
        "UPDATE workflows SET revision = revision + 1 WHERE id = $1 AND coalesce(project_id = $2, false)",
        params![id, project],
    )?;
    tx.wake(&changed_channel(id))?;
    Ok(updated == 1)
}

/// Writes the status, escalation, summary and planning of a workflow, if its status is still `from`;
/// otherwise returns false. A caller that is not the dispatcher calls [`bump_revision`] as well.
pub fn update(tx: &mut Tx<'_>, from: WorkflowStatus, workflow: &Workflow) -> Result<bool> {
    let columns = [
        ("status", Param::from(workflow.status)),
        ("escalation", to_param(&workflow.escalation, Workflow::TABLE, "escalation")?),
        ("summary", Param::from(workflow.summary.as_deref())),
        ("planner_run_id", Param::from(workflow.planner_run)),
        ("plan_attempts", Param::from(workflow.plan_attempts)),
        ("updated_at", Param::from(workflow.updated_at)),
        ("completed_at", Param::from(workflow.completed_at)),
    ];
    let id_and_status = [Param::from(workflow.id), Param::from(from)];
    let updated = tx.update_columns(Workflow::TABLE, columns, "id = $1 AND status = $2", id_and_status)?;
    tx.wake(&changed_channel(workflow.id))?;
    tx.wake(&project_events::channel(workflow.project))?;
    // What an escalated workflow waits for may change as well.
    if updated == 1 && [from, workflow.status].contains(&WorkflowStatus::Escalated) {
        inbox_items::record_workflow(tx, workflow)?;
    }
    Ok(updated == 1)
}

/// Replaces the settings of a workflow.
pub fn set_settings(tx: &mut Tx<'_>, id: WorkflowId, settings: &WorkflowSettings) -> Result<()> {
    let settings = to_param(settings, Workflow::TABLE, "settings")?;
    tx.execute("UPDATE workflows SET settings = $2 WHERE id = $1", &[Param::from(id), settings])?;
    Ok(())
}

/// Takes a workflow from its owner and wakes the dispatchers, so that any of them can claim it.
pub fn make_claimable(tx: &mut Tx<'_>, id: WorkflowId, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE workflows SET owner = NULL, lease_until = $2 WHERE id = $1", params![id, now])?;
    tx.wake(CLAIMABLE_CHANNEL)
}

/// Appends events to a workflow and wakes its dispatcher. The caller has locked the row of the workflow.
pub fn append_events(tx: &mut Tx<'_>, id: WorkflowId, events: &[NewWorkflowEvent]) -> Result<()> {
    tx.wake(&changed_channel(id))?;
    append_own_events(tx, id, events)
}

/// As [`append_events`], by the dispatcher of the workflow, which needs no wake-up for its own changes.
pub fn append_own_events(tx: &mut Tx<'_>, id: WorkflowId, events: &[NewWorkflowEvent]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let newest: i64 = tx
        .query_opt(
            "UPDATE workflows SET event_seq = event_seq + $2 WHERE id = $1 RETURNING event_seq",
            params![id, count],
            |row| row.get(0),
        )?
        .unwrap_or(count);
    insert_events(tx, id, newest, events)
}

/// Inserts events, of which the last one gets the `seq` `newest`.
fn insert_events(tx: &mut Tx<'_>, id: WorkflowId, newest: i64, events: &[NewWorkflowEvent]) -> Result<()> {
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let texts: Vec<String> = events.iter().map(NewWorkflowEvent::data_text).collect();
    let rows: Vec<Vec<Param<'_>>> = events
        .iter()
        .zip(&texts)
        .zip(newest - count + 1..)
        .map(|((event, data), seq)| {
            vec![
                Param::from(id),
                Param::from(seq),
                Param::from(event.kind),
                Param::from(event.task),
                Param::from(event.run),
                json(data),
                Param::from(event.at),
            ]
        })
        .collect();
    tx.insert_many_later(
        "INSERT INTO workflow_events (workflow_id, seq, type, task_id, run_id, data, at) VALUES",
        7,
        &rows,
    )?;
    tx.wake(&events_channel(id))
}

/// An event to append; its `seq` is assigned when it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflowEvent {
    pub kind: &'static str,
    pub task: Option<ObjectId>,
    pub run: Option<RunId>,
    pub data: Value,
    pub at: Timestamp,
}

impl NewWorkflowEvent {
    /// The data as it is stored. A model can write NUL, which PostgreSQL does not store in JSON, so it is replaced.
    fn data_text(&self) -> String {
        self.data.to_string().replace("\\u0000", "\\ufffd")
    }
}

/// Events after a `seq`, in order.
pub fn list_events(tx: &mut Tx<'_>, id: WorkflowId, after: i64, limit: usize) -> Result<Vec<WorkflowEvent>> {
    let sql = format!(
        "SELECT {} FROM workflow_events WHERE workflow_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        WorkflowEvent::COLUMNS
    );
    tx.query(&sql, params![id, after, limit], WorkflowEvent::from_row)
}

/// A person was asked about a workflow or one of its discussions, or that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscalationChange {
    Escalated {
        reason: String,
    },
    Resumed,
    /// A discussion asks a person, also while its workflow goes on with other tasks.
    DiscussionEscalated {
        discussion: String,
        reason: String,
    },
    /// A person decided the discussion, or it was resolved otherwise.
    DiscussionEnded {
        discussion: String,
    },
}

/// When a person was asked about a workflow and its discussions, and when that ended, in order.
pub fn list_escalations(tx: &mut Tx<'_>, id: WorkflowId) -> Result<Vec<EscalationChange>> {
    tx.query(
        "SELECT type, data FROM workflow_events
         WHERE workflow_id = $1 AND type IN ('escalated', 'workflow_resumed', 'discussion_escalated',
             'discussion_decided', 'discussion_resolved') ORDER BY seq",
        params![id],
        |row| {
            let (type_, data): (String, Value) = (row.get(0)?, row.read(1, "workflow_events", "data")?);
            let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok(match type_.as_str() {
                "escalated" => EscalationChange::Escalated { reason: text("reason") },
                "workflow_resumed" => EscalationChange::Resumed,
                "discussion_escalated" => EscalationChange::DiscussionEscalated {
                    discussion: text("discussion"),
                    reason: text("reason"),
                },
                _ => EscalationChange::DiscussionEnded { discussion: text("discussion") },
            })
        },
    )
}

/// The type and the data of the newest event about a task; `None` when there is none. Retries of model calls
/// change nothing about a task and are left out.
pub fn latest_task_event(tx: &mut Tx<'_>, id: WorkflowId, task: ObjectId) -> Result<Option<(String, Value)>> {
    tx.query_opt(
        "SELECT type, data FROM workflow_events
         WHERE workflow_id = $1 AND task_id = $2 AND type <> 'model_retry' ORDER BY seq DESC LIMIT 1",
        params![id, task],
        |row| Ok((row.get(0)?, row.read(1, "workflow_events", "data")?)),
    )
}

/// The live sessions of a workflow as (task, session), the newest last. Each session is looked up by its id: PostgreSQL
/// might join the runs with all live objects.
pub fn list_sessions(tx: &mut Tx<'_>, id: WorkflowId) -> Result<Vec<(ObjectId, ObjectId)>> {
    tx.query(
        "SELECT r.task_id, r.session_id FROM agent_runs AS r
         WHERE r.workflow_id = $1 AND r.session_id IS NOT NULL AND r.task_id IS NOT NULL
             AND (SELECT o.deleted_at IS NULL FROM graph_objects AS o WHERE o.id = r.session_id)
         ORDER BY r.created_at, r.id",
        params![id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Those of these runs that have ended, in no order.
pub fn list_ended(tx: &mut Tx<'_>, project: ProjectId, ids: &[RunId]) -> Result<Vec<Run>> {
    select_runs(tx, project, ids, " AND status NOT IN ('queued', 'running', 'waiting')")
}

/// Those of these runs that wait for a person.
pub fn list_waiting(tx: &mut Tx<'_>, project: ProjectId, ids: &[RunId]) -> Result<HashSet<RunId>> {
    let mut waiting = HashSet::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id FROM agent_runs WHERE id IN ({}) AND {}",
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1 AND status = 'waiting'")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        waiting.extend(tx.query(&sql, &params, |row| row.get::<RunId>(0))?);
    }
    Ok(waiting)
}

/// These runs, in no order.
pub fn list_runs(tx: &mut Tx<'_>, project: ProjectId, ids: &[RunId]) -> Result<Vec<Run>> {
    select_runs(tx, project, ids, "")
}

fn select_runs(tx: &mut Tx<'_>, project: ProjectId, ids: &[RunId], condition: &str) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT {} FROM agent_runs WHERE id IN ({}) AND {}{condition}",
            Run::COLUMNS,
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        runs.extend(tx.query(&sql, &params, Run::from_row)?);
    }
    Ok(runs)
}

/// The turns of a discussion, in order.
pub fn list_turns(tx: &mut Tx<'_>, discussion: ObjectId) -> Result<Vec<Run>> {
    let sql = format!("SELECT {} FROM agent_runs WHERE discussion_id = $1 ORDER BY part", Run::COLUMNS);
    tx.query(&sql, params![discussion], Run::from_row)
}

/// Active runs that were started for a workflow, without the runs that these spawned.
pub fn list_active_runs(tx: &mut Tx<'_>, id: WorkflowId) -> Result<Vec<RunId>> {
    tx.query(
        "SELECT id FROM agent_runs WHERE workflow_id = $1 AND parent_run_id IS NULL
             AND status IN ('queued', 'running', 'waiting') ORDER BY created_at, id",
        params![id],
        |row| row.get(0),
    )
}

/// A run that was started for an attempt at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRun {
    pub run: RunId,
    /// Whether it continues the attempt of an earlier run.
    pub is_resumed: bool,
}

/// The runs of attempts of a workflow, each with its task, the oldest first. Turns of discussions are not attempts.
pub fn list_attempts(tx: &mut Tx<'_>, id: WorkflowId) -> Result<Vec<(ObjectId, AttemptRun)>> {
    tx.query(
        "SELECT task_id, id, resumed_from FROM agent_runs WHERE workflow_id = $1 AND task_id IS NOT NULL
             AND session_id IS NOT NULL ORDER BY created_at, id",
        params![id],
        |row| {
            let is_resumed = row.get::<Option<RunId>>(2)?.is_some();
            Ok((row.get(0)?, AttemptRun { run: row.get(1)?, is_resumed }))
        },
    )
}

/// The runs that were started for a task of a workflow, the oldest first: of its attempts, and of the turns of its
/// discussions.
pub fn list_task_runs(tx: &mut Tx<'_>, workflow: WorkflowId, task: ObjectId) -> Result<Vec<Run>> {
    let sql = format!(
        "SELECT {} FROM agent_runs WHERE workflow_id = $1 AND task_id = $2 ORDER BY created_at, id",
        Run::COLUMNS
    );
    tx.query(&sql, params![workflow, task], Run::from_row)
}

/// What the conversation of a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversationStats {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// How many messages the model wrote.
    pub model_calls: i64,
}

pub fn conversation_stats(tx: &mut Tx<'_>, run: RunId) -> Result<ConversationStats> {
    let sql = "SELECT CAST(coalesce(sum(input_tokens), 0) AS bigint),
                   CAST(coalesce(sum(output_tokens), 0) AS bigint),
                   coalesce(sum(CASE WHEN role = 'assistant' THEN 1 ELSE 0 END), 0)
               FROM agent_run_messages WHERE run_id = $1";
    let read = |row: &Row<'_>| {
        Ok(ConversationStats {
            input_tokens: row.get(0)?,
            output_tokens: row.get(1)?,
            model_calls: row.get(2)?,
        })
    };
    Ok(tx.query_opt(sql, params![run], read)?.unwrap_or_default())
}
