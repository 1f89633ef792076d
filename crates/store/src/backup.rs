//! Copies of an embedded database: a consistent copy while a server writes to it, and the check of a copy
//! before it is used.
//!
//! The copy is made by SQLite's online backup. Its connection holds one read transaction from the first page
//! to the last, so the copy has exactly what was committed when it began, and writers never wait for it.
//! Until it is done, SQLite cannot shorten the write-ahead log, which therefore grows with what is written
//! meanwhile.

use std::{path::Path, time::Duration};

use emergent_domain::ids::{ProjectId, RunId, WorkflowId};
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
    config::DbConfig,
};
use tokio::time::Instant;

use crate::{
    engine::sqlite_connection::BUSY_TIMEOUT,
    error::{Error, Result},
    migrate,
    tx::Tx,
};

/// How many pages are copied between two reports of progress: 8 MiB.
const PAGES_PER_STEP: i32 = 1_024;
/// The check ends at the first problem: SQLite describes it in its own words, of which the error shows none.
const MAX_PROBLEMS: usize = 1;
/// Why a file of which pages are missing or changed is refused.
const DAMAGED: &str = "the file is damaged";

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    pub copied_bytes: u64,
    pub total_bytes: u64,
}

/// How thoroughly a copy is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckDepth {
    /// The structure of every page. Enough for a copy that was just made.
    Structure,
    /// Also that every index has exactly the rows of its table.
    Everything,
}

/// What a copy contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub bytes: u64,
    pub schema_version: i64,
    pub projects: u64,
    pub objects: u64,
    pub relationships: u64,
    pub documents: u64,
    pub agents: u64,
    pub runs: u64,
    /// Runs that are queued or running. They continue when a server starts on the copy.
    pub active_runs: u64,
    /// Workflows that are planned or running. They continue as well.
    pub active_workflows: u64,
    pub secrets: u64,
    /// The ids of the keys that are needed to start a server on the copy and to open its secrets.
    pub secret_keys: Vec<String>,
}

/// Copies the database in `from` to the file `to`, which the caller has created empty. `from` may be in use by
/// a server. When this returns, `to` is one complete file without a write-ahead log, and it is on disk.
pub fn copy(from: &Path, to: &Path, mut on_progress: impl FnMut(CopyProgress)) -> Result<()> {
    let source = open(from)?;
    // Closing the last connection would otherwise move the write-ahead log into the database of the server.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let mut target = open(to)?;
    // The file is useless until it is complete, and is synced once, at the end.
    target.pragma_update(None, "synchronous", "off")?;
    // The read transaction starts with the first read, and pins what the copy contains.
    source.execute_batch("BEGIN DEFERRED")?;
    source
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(|error| not_a_database(from, &error))?;
    let page_bytes: u32 = source.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    copy_pages(&source, &mut target, page_bytes, &mut on_progress)?;
    source.execute_batch("COMMIT")?;
    // The server's database keeps a write-ahead log. A copy with it would be two files.
    target.pragma_update(None, "journal_mode", "delete")?;
    target.close().map_err(|(_, error)| error)?;
    std::fs::File::open(to).and_then(|file| file.sync_all()).map_err(|source| open_error(to, source))
}

fn copy_pages(
    source: &Connection,
    target: &mut Connection,
    page_bytes: u32,
    on_progress: &mut impl FnMut(CopyProgress),
) -> Result<()> {
    let backup = Backup::new(source, target)?;
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let progress = backup.progress();
        let pages = |count: i32| u64::try_from(count).unwrap_or(0) * u64::from(page_bytes);
        on_progress(CopyProgress {
            copied_bytes: pages(progress.pagecount - progress.remaining),
            total_bytes: pages(progress.pagecount),
        });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            // The connections have waited for `BUSY_TIMEOUT` already.
            _ => return Err(Error::Conflict("another process has locked the file".into())),
        }
    }
}

/// The application id of a copy that has a digest behind its last page. The database that is copied has none (0).
const HAS_DIGEST: i32 = 0x656d_6462;

/// Writes into a copy whether a digest follows its last page, so that a copy that has lost it is told from one that
/// never had it. The file is on disk when this returns.
pub fn set_digest_mark(file: &Path, has_digest: bool) -> Result<()> {
    let conn = open(file)?;
    // The caller removes the file if this fails, so no journal is needed beside it.
    conn.pragma_update(None, "journal_mode", "off")?;
    conn.pragma_update(None, "application_id", if has_digest { HAS_DIGEST } else { 0 })?;
    conn.close().map_err(|(_, error)| error)?;
    std::fs::File::open(file).and_then(|file| file.sync_all()).map_err(|source| open_error(file, source))
}

/// Returns whether a digest followed the last page of a copy when it was made.
pub fn has_digest_mark(file: &Path) -> Result<bool> {
    let conn =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| open_error(file, error))?;
    let id: i32 = conn
        .query_row("PRAGMA application_id", [], |row| row.get(0))
        .map_err(|error| not_a_database(file, &error))?;
    Ok(id == HAS_DIGEST)
}

/// Checks that a file is a complete and undamaged database that this program can open, and returns what it
/// contains. Writes nothing to it.
pub fn check(file: &Path, depth: CheckDepth) -> Result<Contents> {
    read_checked(file, depth).map_err(|error| match error {
        // A page that the check did not read before.
        Error::StorageCorrupt(_) => refusal(file, DAMAGED),
        other => other,
    })
}

fn read_checked(file: &Path, depth: CheckDepth) -> Result<Contents> {
    let conn =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| open_error(file, error))?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // To SQLite, an empty file is a database without tables.
    if std::fs::metadata(file).map_err(|error| open_error(file, error))?.len() == 0 {
        return Err(refusal(file, "the file is empty"));
    }
    let has_migrations =
        has_table(&conn, "schema_migrations").map_err(|error| not_a_database(file, &error))?;
    if !has_migrations {
        return Err(refusal(file, "it is a SQLite database, but not one of Emergent"));
    }
    let schema_version =
        conn.query_row("SELECT coalesce(max(version), 0) FROM schema_migrations", [], |row| row.get(0))?;
    migrate::refuse_newer(schema_version)?;
    crate::search::sqlite::register(&conn)?;
    check_pages(&conn, file, depth)?;
    contents(&conn, file, schema_version)
}

fn check_pages(conn: &Connection, file: &Path, depth: CheckDepth) -> Result<()> {
    let pragma = match depth {
        CheckDepth::Structure => "quick_check",
        CheckDepth::Everything => "integrity_check",
    };
    let mut statement = conn.prepare(&format!("PRAGMA {pragma}({MAX_PROBLEMS})"))?;
    let problems = statement
        .query_map([], |row| row.get::<_, String>(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(|error| not_a_database(file, &error))?;
    match problems.first() {
        Some(problem) if problem != "ok" => Err(refusal(file, DAMAGED)),
        _ => Ok(()),
    }
}

fn contents(conn: &Connection, file: &Path, schema_version: i64) -> Result<Contents> {
    let count = |table: &str, condition: &str| -> Result<u64> {
        // A copy that an older version made does not have every table.
        if !has_table(conn, table)? {
            return Ok(0);
        }
        let sql = format!("SELECT count(*) FROM {table} {condition}");
        let count: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    };
    let mut secret_keys = Vec::new();
    if has_table(conn, "secret_keys")? {
        let mut statement = conn.prepare(
            "SELECT id FROM secret_keys WHERE retired_at IS NULL UNION SELECT key_id FROM secrets ORDER BY 1",
        )?;
        secret_keys = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    }
    Ok(Contents {
        bytes: std::fs::metadata(file).map_err(|error| open_error(file, error))?.len(),
        schema_version,
        projects: count("projects", "WHERE deleted_at IS NULL")?,
        objects: count("graph_objects", "WHERE deleted_at IS NULL")?,
        relationships: count("graph_relationships", "WHERE deleted_at IS NULL")?,
        documents: count("documents", "WHERE deleted_at IS NULL")?,
        agents: count("agent_definitions", "WHERE deleted_at IS NULL")?,
        runs: count("agent_runs", "")?,
        active_runs: count("agent_runs", "WHERE status IN ('queued', 'running', 'waiting')")?,
        active_workflows: count("workflows", "WHERE status IN ('planning', 'running')")?,
        secrets: count("secrets", "")?,
        secret_keys,
    })
}

fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        [name],
        |row| row.get(0),
    )
}

/// The work that a server would continue, or that a person could resume: workflows and runs of live projects.
#[derive(Debug, Default)]
pub struct ActiveWork {
    pub workflows: Vec<(ProjectId, WorkflowId)>,
    pub runs: Vec<(ProjectId, RunId)>,
    /// The deleted projects that still have such work.
    pub deleted_projects: Vec<ProjectId>,
}

/// Lists the workflows and runs of all projects that have not ended, oldest first.
pub fn list_active(tx: &mut Tx<'_>) -> Result<ActiveWork> {
    const WORKFLOWS: &str = "workflows AS w WHERE w.status IN ('planning', 'running', 'escalated')";
    const RUNS: &str = "agent_runs AS w WHERE w.status IN ('queued', 'running', 'waiting')";
    let project = |deleted: &str| {
        format!("EXISTS (SELECT 1 FROM projects AS p WHERE p.id = w.project_id AND p.deleted_at {deleted})")
    };
    let live = |rows: &str| {
        let live = project("IS NULL");
        format!("SELECT w.project_id, w.id FROM {rows} AND {live} ORDER BY w.created_at, w.id")
    };
    let gone = project("IS NOT NULL");
    let deleted = format!(
        "SELECT w.project_id FROM {WORKFLOWS} AND {gone} UNION SELECT w.project_id FROM {RUNS} AND {gone}"
    );
    Ok(ActiveWork {
        workflows: tx.query(&live(WORKFLOWS), &[], |row| Ok((row.get(0)?, row.get(1)?)))?,
        runs: tx.query(&live(RUNS), &[], |row| Ok((row.get(0)?, row.get(1)?)))?,
        deleted_projects: tx.query(&deleted, &[], |row| row.get(0))?,
    })
}

/// How long [`merge_log`] waits until the last handle of a closed database is gone.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a database that was closed just now one complete file without a write-ahead log, on disk.
pub async fn merge_log(file: &Path) -> Result<()> {
    let end = Instant::now() + CLOSE_TIMEOUT;
    while !try_merge_log(file)? {
        if Instant::now() >= end {
            return Err(Error::Conflict("another connection has the file open".into()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::File::open(file).and_then(|file| file.sync_all()).map_err(|source| open_error(file, source))
}

/// False while another connection is open.
fn try_merge_log(file: &Path) -> Result<bool> {
    let conn = open(file)?;
    let mode = conn.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0));
    conn.close().map_err(|(_, error)| error)?;
    match mode {
        Err(error) if is_busy(&error) => Ok(false),
        mode => Ok(mode? == "delete"),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Opens an existing file for a copy from it or to it.
fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| open_error(path, error))?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(conn)
}

fn open_error(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Open { place: path.display().to_string(), source: Box::new(source) }
}

/// The error for a file that SQLite cannot read, or not to its end.
fn not_a_database(file: &Path, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => refusal(file, "it is not a SQLite database"),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => refusal(file, DAMAGED),
        _ => refusal(file, &error.to_string()),
    }
}

fn refusal(file: &Path, reason: &str) -> Error {
    Error::UnusableBackup { place: file.display().to_string(), reason: reason.to_owned() }
}
