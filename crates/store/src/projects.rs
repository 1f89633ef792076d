//! Projects. The rows of a deleted project stay until they are removed ([`crate::purge`]), but only
//! [`deleted_since`] and [`list_to_purge`] return such a project.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::ProjectId,
    inbox::Webhook,
    project::{DeletedCounts, Project, Retention},
    time::Timestamp,
};

use crate::{
    engine::Engine,
    error::Result,
    page, params,
    row::{RowReader, TableRow, read_row, to_param},
    tx::Tx,
    value::{Param, Row},
};

read_row! {
    Project in "projects" {
        id: "id",
        no: "no",
        name: "name",
        strict: "strict",
        packs_revision: "packs_revision",
        retention: Retention {
            runs_days: "retention_runs_days",
            events_days: "retention_events_days",
            firings_days: "retention_firings_days",
        },
        deleted: DeletedCounts { runs: "deleted_runs", events: "deleted_events", firings: "deleted_firings" },
        auto_dispatch_since: "auto_dispatch_since",
        coordination: "coordination",
        webhook: WebhookColumns("webhook_url", "webhook_secret"),
        created_at: "created_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = Project::COLUMNS;

/// Codec of the address for notices and the name of its secret: both, or neither.
struct WebhookColumns;

impl WebhookColumns {
    fn read(reader: &mut RowReader<'_, '_>, [url, secret]: [&'static str; 2]) -> Result<Option<Webhook>> {
        let (url, secret): (Option<String>, Option<String>) = (reader.next(url)?, reader.next(secret)?);
        Ok(url.zip(secret).map(|(url, secret)| Webhook { url, secret }))
    }
}

/// Inserts a project; `None` when a live project has the name.
pub fn insert(tx: &mut Tx<'_>, name: &str, strict: bool, now: Timestamp) -> Result<Option<Project>> {
    let no = match tx.engine() {
        Engine::Sqlite => "(SELECT coalesce(max(no), 0) + 1 FROM projects)",
        Engine::Postgres => "nextval('projects_no_seq')",
    };
    let sql = format!(
        "INSERT INTO projects (no, id, name, strict, packs_revision, created_at, updated_at)
         VALUES ({no}, $1, $2, $3, 0, $4, $4)
         ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING RETURNING {COLUMNS}"
    );
    tx.query_opt(&sql, params![ProjectId::new(), name, strict, now], Project::from_row)
}

pub fn get(tx: &mut Tx<'_>, id: ProjectId) -> Result<Option<Project>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![id], Project::from_row)
}

/// A live project, locked until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, id: ProjectId) -> Result<Option<Project>> {
    let sql =
        format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL{}", tx.for_update());
    tx.query_opt(&sql, params![id], Project::from_row)
}

/// As [`get`]; the project stays live until the transaction ends, as with [`hold_live`].
pub fn hold(tx: &mut Tx<'_>, id: ProjectId) -> Result<Option<Project>> {
    let sql =
        format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL{}", tx.for_share());
    tx.query_opt(&sql, params![id], Project::from_row)
}

/// Whether a project is live. It stays so until the transaction ends: its deletion waits for this transaction.
pub fn hold_live(tx: &mut Tx<'_>, id: ProjectId) -> Result<bool> {
    let sql = format!("SELECT 1 FROM projects WHERE id = $1 AND deleted_at IS NULL{}", tx.for_share());
    Ok(tx.query_opt(&sql, params![id], |_| Ok(()))?.is_some())
}

pub fn get_by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<Project>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE name = $1 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![name], Project::from_row)
}

/// Live projects, newest first.
pub fn list(tx: &mut Tx<'_>, page: &Page) -> Result<ResultPage<Project>> {
    let (after, params) = page::after_cursor_sql(page, "created_at", "id", 1);
    let sql = format!(
        "SELECT {COLUMNS} FROM projects WHERE deleted_at IS NULL{after} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Project::from_row, |project| Cursor {
        created_at: project.created_at,
        id: project.id.0,
    })
}

/// Writes the name, strictness, pack revision, retention, coordination and webhook of a project that the caller
/// has locked.
pub fn update(tx: &mut Tx<'_>, project: &Project) -> Result<()> {
    let Retention { runs_days, events_days, firings_days } = project.retention;
    tx.execute(
        "UPDATE projects SET name = $2, strict = $3, packs_revision = $4, updated_at = $5, retention_runs_days = $6,
             retention_events_days = $7, retention_firings_days = $8, auto_dispatch_since = $9, coordination = $10,
             webhook_url = $11, webhook_secret = $12
         WHERE id = $1",
        &[
            Param::from(project.id),
            Param::from(&project.name),
            Param::from(project.strict),
            Param::from(project.packs_revision),
            Param::from(project.updated_at),
            Param::from(runs_days),
            Param::from(events_days),
            Param::from(firings_days),
            Param::from(project.auto_dispatch_since),
            to_param(&project.coordination, Project::TABLE, "coordination")?,
            Param::from(project.webhook.as_ref().map(|webhook| webhook.url.as_str())),
            Param::from(project.webhook.as_ref().map(|webhook| webhook.secret.as_str())),
        ],
    )?;
    Ok(())
}

/// The live projects whose new tasks are executed by themselves.
pub fn list_auto_dispatch(tx: &mut Tx<'_>) -> Result<Vec<Project>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM projects WHERE deleted_at IS NULL AND auto_dispatch_since IS NOT NULL ORDER BY no"
    );
    tx.query(&sql, &[], Project::from_row)
}

/// The live projects that do not keep everything.
pub fn list_with_retention(tx: &mut Tx<'_>) -> Result<Vec<Project>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM projects WHERE deleted_at IS NULL
             AND (retention_runs_days IS NOT NULL OR retention_events_days IS NOT NULL OR retention_firings_days IS NOT NULL)
         ORDER BY no"
    );
    tx.query(&sql, &[], Project::from_row)
}

/// Adds to the counts of what was deleted in a project.
pub fn count_deleted(tx: &mut Tx<'_>, id: ProjectId, by: DeletedCounts) -> Result<()> {
    tx.execute(
        "UPDATE projects SET deleted_runs = deleted_runs + $2, deleted_events = deleted_events + $3,
             deleted_firings = deleted_firings + $4
         WHERE id = $1",
        params![id, by.runs, by.events, by.firings],
    )?;
    Ok(())
}

/// What was deleted in all projects because they do not keep it any longer.
pub fn count_all_deleted(tx: &mut Tx<'_>) -> Result<DeletedCounts> {
    let sql = "SELECT CAST(coalesce(sum(deleted_runs), 0) AS bigint),
                   CAST(coalesce(sum(deleted_events), 0) AS bigint),
                   CAST(coalesce(sum(deleted_firings), 0) AS bigint)
               FROM projects";
    let read =
        |row: &Row<'_>| Ok(DeletedCounts { runs: row.get(0)?, events: row.get(1)?, firings: row.get(2)? });
    Ok(tx.query_opt(sql, &[], read)?.unwrap_or_default())
}

/// A deleted project whose rows are to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedProject {
    pub id: ProjectId,
    pub no: i64,
}

/// The projects that were deleted before a time and still have rows.
pub fn list_to_purge(tx: &mut Tx<'_>, before: Timestamp) -> Result<Vec<DeletedProject>> {
    let sql = "SELECT id, no FROM projects WHERE deleted_at < $1 AND purged_at IS NULL ORDER BY deleted_at";
    tx.query(sql, params![before], |row| Ok(DeletedProject { id: row.get(0)?, no: row.get(1)? }))
}

/// Records that a deleted project has no rows any more, and removes its name.
pub fn mark_purged(tx: &mut Tx<'_>, id: ProjectId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE projects SET purged_at = $2, name = '' WHERE id = $1 AND deleted_at IS NOT NULL",
        params![id, now],
    )?;
    Ok(())
}

/// The projects that were deleted at or after `since`.
pub fn deleted_since(tx: &mut Tx<'_>, since: Timestamp) -> Result<Vec<ProjectId>> {
    tx.query("SELECT id FROM projects WHERE deleted_at >= $1", params![since], |row| row.get(0))
}

/// Marks a project as deleted. Its rows stay.
pub fn delete(tx: &mut Tx<'_>, id: ProjectId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE projects SET deleted_at = $2, updated_at = $2 WHERE id = $1 AND deleted_at IS NULL",
        &[Param::from(id), Param::from(now)],
    )?;
    Ok(())
}
