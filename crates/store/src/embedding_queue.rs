//! What waits for its vector: rows are queued in the transaction that changes their text.

use std::collections::HashMap;

use emergent_domain::{ids::ProjectId, indexed_text::indexed_text, json::JsonObject, time::Timestamp};

use crate::{
    engine::Engine,
    error::Result,
    jobs::{self, NewJob},
    page, params,
    row::{TableRow, read_row},
    search::{
        embeddings::{self, Embedding},
        postgres,
        write::SearchIndex,
    },
    tx::Tx,
    value::{Param, Row},
};

/// The job queue whose workers empty this one, a job per project.
pub const QUEUE: &str = "embed";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKind {
    Object,
    Chunk,
}

impl RowKind {
    pub fn as_str(self) -> &'static str {
        match self {
            RowKind::Object => "object",
            RowKind::Chunk => "chunk",
        }
    }
}

/// Queues rows, as `(no, version)`, for new vectors and sees to it that a job comes for them.
pub fn enqueue(
    tx: &mut Tx<'_>,
    kind: RowKind,
    project: ProjectId,
    rows: &[(i64, i64)],
    now: Timestamp,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let params: Vec<Vec<Param<'_>>> = rows
        .iter()
        .map(|(no, version)| {
            vec![Param::from(kind.as_str()), Param::from(*no), Param::from(project), Param::from(*version)]
        })
        .collect();
    tx.insert_many(
        "INSERT INTO embedding_queue (kind, no, project_id, version) VALUES",
        4,
        &params,
        "ON CONFLICT (kind, no) DO UPDATE SET version = excluded.version",
    )?;
    ensure_job(tx, project, now)
}

fn ensure_job(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    let key = project.to_string();
    let job = NewJob { project: Some(project), key: Some(&key), ..NewJob::new(QUEUE, now) };
    jobs::enqueue(tx, &job)?;
    Ok(())
}

/// Takes a row off the queue: it is gone, or has its vector.
pub fn remove(tx: &mut Tx<'_>, kind: RowKind, no: i64) -> Result<()> {
    tx.execute(
        "DELETE FROM embedding_queue WHERE kind = $1 AND no = $2",
        &[Param::from(kind.as_str()), Param::from(no)],
    )?;
    Ok(())
}

/// A row that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueuedRow {
    pub kind: RowKind,
    pub no: i64,
    pub version: i64,
}

read_row! {
    QueuedRow in "embedding_queue" { kind: "kind", no: "no", version: "version" }
}

impl RowKind {
    pub(crate) const ALL: [RowKind; 2] = [RowKind::Object, RowKind::Chunk];

    fn index(self) -> SearchIndex {
        match self {
            RowKind::Object => SearchIndex::Objects,
            RowKind::Chunk => SearchIndex::Chunks,
        }
    }

    /// The rows of this kind that should have a vector, as `o`, of the project `$1`.
    fn live_rows_sql(self) -> &'static str {
        match self {
            RowKind::Object => "graph_objects AS o WHERE o.project_id = $1 AND o.deleted_at IS NULL",
            RowKind::Chunk => {
                "(SELECT c.no, c.project_id, 1 AS version FROM document_chunks AS c
                  JOIN documents AS d ON d.id = c.document_id
                  WHERE d.project_id = $1 AND d.deleted_at IS NULL) AS o WHERE o.project_id = $1"
            }
        }
    }

    /// Those of [`RowKind::live_rows_sql`] that the model `$2` made no vector for and did not refuse.
    fn missing_rows_sql(self) -> String {
        format!(
            "{} AND NOT EXISTS (SELECT 1 FROM {} AS e WHERE e.no = o.no AND e.model = $2)
             AND NOT EXISTS (SELECT 1 FROM embedding_refusals AS r
                             WHERE r.kind = '{}' AND r.no = o.no AND r.version = o.version AND r.model = $2)",
            self.live_rows_sql(),
            embeddings::table(self.index()),
            self.as_str(),
        )
    }
}

/// Some of the queued rows of a project, in no order. Rows of a kind that this version does not know are
/// left to a newer server; otherwise one of them would keep the project without embeddings.
pub fn peek(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<Vec<QueuedRow>> {
    let columns = QueuedRow::COLUMNS;
    let kinds = RowKind::ALL.map(|kind| format!("'{}'", kind.as_str())).join(", ");
    let sql =
        format!("SELECT {columns} FROM embedding_queue WHERE project_id = $1 AND kind IN ({kinds}) LIMIT $2");
    tx.query(&sql, params![project, limit], QueuedRow::from_row)
}

pub fn is_empty(tx: &mut Tx<'_>, project: ProjectId) -> Result<bool> {
    Ok(peek(tx, project, 1)?.is_empty())
}

/// What of these rows is to be embedded; rows that are deleted have no text.
pub fn load_texts(tx: &mut Tx<'_>, kind: RowKind, nos: &[i64]) -> Result<Vec<(i64, String)>> {
    let sql = match kind {
        RowKind::Object => {
            "SELECT no, key, labels, properties, type FROM graph_objects WHERE deleted_at IS NULL AND no IN"
        }
        RowKind::Chunk => {
            "SELECT c.no, c.heading, c.text FROM document_chunks AS c JOIN documents AS d ON d.id = c.document_id
             WHERE d.deleted_at IS NULL AND c.no IN"
        }
    };
    let mut texts = Vec::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let sql = format!("{sql} ({})", page::placeholders(1, list.len()));
        let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        texts.extend(tx.query(&sql, &list, |row| {
            let text = match kind {
                RowKind::Object => object_text(row)?,
                RowKind::Chunk => {
                    join_text(&row.get::<Option<String>>(1)?.unwrap_or_default(), &row.get::<String>(2)?)
                }
            };
            Ok((row.get(0)?, text))
        })?);
    }
    Ok(texts)
}

fn object_text(row: &Row<'_>) -> Result<String> {
    let (key, labels): (Option<String>, Vec<String>) = (row.get(1)?, row.get(2)?);
    let properties = row.get::<JsonObject>(3)?.to_map();
    let text = indexed_text(&row.get::<String>(4)?, key.as_deref(), &labels, &properties);
    Ok(join_text(&text.name, &text.body))
}

fn join_text(name: &str, body: &str) -> String {
    if name.is_empty() { body.to_owned() } else { format!("{name}\n{body}") }
}

/// What became of a row that waited.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedOutcome {
    Vector(Vec<f32>),
    /// The model will not have this text.
    Refused,
    /// There was no text, or it is not known whose fault it is that there is no vector.
    Deleted,
}

/// Takes embedded rows off the queue. A row that was queued again or removed in the meantime keeps its
/// place and its old vector. Returns how many rows were taken off.
pub fn complete(
    tx: &mut Tx<'_>,
    project: ProjectId,
    model: &str,
    rows: &[(QueuedRow, EmbedOutcome)],
) -> Result<usize> {
    let mut ended = 0;
    for kind in RowKind::ALL {
        let rows: Vec<_> = rows.iter().filter(|(row, _)| row.kind == kind).collect();
        let nos: Vec<i64> = rows.iter().map(|(row, _)| row.no).collect();
        let mut current: HashMap<i64, i64> = HashMap::with_capacity(nos.len());
        for list in page::in_chunks(&nos) {
            let sql = format!(
                "SELECT no, version FROM embedding_queue WHERE kind = $1 AND no IN ({}) ORDER BY no{}",
                page::placeholders(2, list.len()),
                tx.for_update()
            );
            let mut params = vec![Param::from(kind.as_str())];
            params.extend(list.into_iter().map(Param::from));
            current.extend(tx.query(&sql, &params, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?);
        }
        let rows: Vec<_> =
            rows.into_iter().filter(|(row, _)| current.get(&row.no) == Some(&row.version)).collect();
        let mut vectors = Vec::new();
        let mut refused: Vec<Vec<Param<'_>>> = Vec::new();
        for (QueuedRow { no, version, .. }, made) in &rows {
            match made {
                EmbedOutcome::Vector(vector) => {
                    vectors.push(Embedding { no: *no, version: *version, vector: vector.clone() });
                }
                EmbedOutcome::Refused => {
                    refused.push(vec![kind.as_str().into(), (*no).into(), model.into(), (*version).into()]);
                }
                EmbedOutcome::Deleted => {}
            }
        }
        embeddings::upsert(tx, kind.index(), project, model, &vectors)?;
        tx.insert_many(
            "INSERT INTO embedding_refusals (kind, no, model, version) VALUES",
            4,
            &refused,
            "ON CONFLICT (kind, no) DO UPDATE SET model = excluded.model, version = excluded.version",
        )?;
        let nos: Vec<i64> = rows.iter().map(|(row, _)| row.no).collect();
        for list in page::in_chunks(&nos) {
            let sql = format!(
                "DELETE FROM embedding_queue WHERE kind = $1 AND no IN ({})",
                page::placeholders(2, list.len())
            );
            let mut params = vec![Param::from(kind.as_str())];
            params.extend(list.into_iter().map(Param::from));
            tx.execute(&sql, &params)?;
        }
        ended += nos.len();
    }
    Ok(ended)
}

/// Queues every row of a project that has no vector of this model: the model is another one, or
/// embeddings were off when the row was written. Rows that have one, and those the model refused
/// as they are, are left alone.
pub fn enqueue_missing(tx: &mut Tx<'_>, project: ProjectId, model: &str, now: Timestamp) -> Result<u64> {
    let mut queued = 0;
    for kind in RowKind::ALL {
        let sql = format!(
            "INSERT INTO embedding_queue (kind, no, project_id, version)
             SELECT '{}', o.no, o.project_id, o.version FROM {}
             ON CONFLICT (kind, no) DO NOTHING",
            kind.as_str(),
            kind.missing_rows_sql(),
        );
        queued += tx.execute(&sql, params![project, model])?;
    }
    // Also for what was waiting: its job may have been given up.
    if !is_empty(tx, project)? {
        ensure_job(tx, project, now)?;
    }
    Ok(queued)
}

/// Whether [`enqueue_missing`] has something to do, asked without holding up writers.
pub fn has_missing(tx: &mut Tx<'_>, project: ProjectId, model: &str) -> Result<bool> {
    for kind in RowKind::ALL {
        let sql = format!("SELECT 1 FROM {} LIMIT 1", kind.missing_rows_sql());
        if tx.query_opt(&sql, params![project, model], |row| row.get::<i64>(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(!is_empty(tx, project)?)
}

/// How far a project's embeddings are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmbeddingProgress {
    pub pending: i64,
    pub done: i64,
    /// The model that made the newest vectors, and their length.
    pub model: Option<String>,
    pub dims: Option<i64>,
}

pub fn progress(tx: &mut Tx<'_>, project: ProjectId) -> Result<EmbeddingProgress> {
    let count = |tx: &mut Tx<'_>, from: &str| -> Result<i64> {
        let found =
            tx.query_opt(&format!("SELECT count(*) FROM {from}"), params![project], |row| row.get(0))?;
        Ok(found.unwrap_or(0))
    };
    let pending = count(tx, "embedding_queue WHERE project_id = $1")?;
    let rows = count(tx, RowKind::Object.live_rows_sql())? + count(tx, RowKind::Chunk.live_rows_sql())?;
    let made = tx.query_opt(
        "SELECT model, dims FROM embedding_models WHERE project_id = $1",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (model, dims) = made.unzip();
    let done = if model.is_some() { (rows - pending).max(0) } else { 0 };
    Ok(EmbeddingProgress { pending, done, model, dims })
}

/// How many rows of all projects wait for a vector.
pub fn len(tx: &mut Tx<'_>) -> Result<i64> {
    Ok(tx.query_opt("SELECT count(*) FROM embedding_queue", &[], |row| row.get(0))?.unwrap_or(0))
}

/// Notes which model makes a project's vectors; the first time, the engine prepares for vectors
/// of that length.
pub fn record_model(
    tx: &mut Tx<'_>,
    project: ProjectId,
    model: &str,
    dims: usize,
    now: Timestamp,
) -> Result<()> {
    let known = tx.query_opt(
        "SELECT 1 FROM embedding_models WHERE project_id = $1 AND model = $2 AND dims = $3",
        params![project, model, dims],
        |row| row.get::<i64>(0),
    )?;
    if known.is_some() {
        return Ok(());
    }
    if tx.engine() == Engine::Postgres {
        for kind in RowKind::ALL {
            postgres::ensure_index(tx, kind.index(), dims)?;
        }
    }
    tx.execute(
        "INSERT INTO embedding_models (project_id, model, dims, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (project_id) DO UPDATE
         SET model = excluded.model, dims = excluded.dims, updated_at = excluded.updated_at",
        params![project, model, dims, now],
    )?;
    Ok(())
}
