//! The queue of objects and chunks that need a vector. A row is queued in the transaction that changes its
//! text; a background job embeds the text and completes the row.

use std::collections::HashMap;

use emergent_domain::{ids::ProjectId, indexed_text::indexed_text, json::JsonObject, time::Timestamp};

use crate::{
    error::Result,
    jobs::{self, NewJob},
    page, params,
    row::{TableRow, read_row},
    search::{
        embeddings::{self, Embedding},
        parts::{self, ObjectParts},
        write::SearchIndex,
    },
    tx::Tx,
    value::{Param, Row},
};

/// The job queue whose workers embed the queued rows. A project has at most one active job in it.
pub const QUEUE: &str = "embed";

/// What kind of row a vector is for.
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

/// Queues rows, given as `(no, version)`, for new vectors, and makes sure that the project has a job.
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

/// Queues the job of a project unless an active one exists.
fn ensure_job(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    let key = project.to_string();
    let job = NewJob { project: Some(project), key: Some(&key), ..NewJob::new(QUEUE, now) };
    jobs::enqueue(tx, &job)?;
    Ok(())
}

/// Removes a row from the queue, because it was deleted or has its vector.
pub fn remove(tx: &mut Tx<'_>, kind: RowKind, no: i64) -> Result<()> {
    tx.execute(
        "DELETE FROM embedding_queue WHERE kind = $1 AND no = $2",
        &[Param::from(kind.as_str()), Param::from(no)],
    )?;
    Ok(())
}

/// A queued row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueuedRow {
    pub kind: RowKind,
    /// The row number of the object or chunk.
    pub no: i64,
    /// The version of the object whose text is to be embedded; 1 for chunks, which never change.
    pub version: i64,
}

read_row! {
    QueuedRow in "embedding_queue" { kind: "kind", no: "no", version: "version" }
}

impl RowKind {
    pub const ALL: [RowKind; 2] = [RowKind::Object, RowKind::Chunk];

    pub(crate) fn index(self) -> SearchIndex {
        match self {
            RowKind::Object => SearchIndex::Objects,
            RowKind::Chunk => SearchIndex::Chunks,
        }
    }

    /// The table and conditions of the live rows of project `$1`, with the alias `o`. All of them should have
    /// a vector.
    fn live_rows_sql(self) -> &'static str {
        match self {
            // Sessions and their messages are written without a vector, so a restart does not add one.
            RowKind::Object => {
                "graph_objects AS o WHERE o.project_id = $1 AND o.deleted_at IS NULL
                 AND o.type NOT IN ('Session', 'SessionMessage')"
            }
            RowKind::Chunk => {
                "(SELECT c.no, c.project_id, 1 AS version FROM document_chunks AS c
                  JOIN documents AS d ON d.id = c.document_id
                  WHERE d.project_id = $1 AND d.deleted_at IS NULL) AS o WHERE o.project_id = $1"
            }
        }
    }

    /// As [`RowKind::live_rows_sql`], for rows without a vector of model `$2` that this model did not refuse.
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

/// Up to `limit` queued rows of a project, in no particular order. Rows of a kind that this version does not
/// know are left to a newer server; otherwise one of them would block all embeddings of the project.
pub fn peek(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<Vec<QueuedRow>> {
    let columns = QueuedRow::COLUMNS;
    let kinds = RowKind::ALL.map(|kind| format!("'{}'", kind.as_str())).join(", ");
    let sql =
        format!("SELECT {columns} FROM embedding_queue WHERE project_id = $1 AND kind IN ({kinds}) LIMIT $2");
    tx.query(&sql, params![project, limit], QueuedRow::from_row)
}

/// Whether [`peek`] would return no row.
pub fn is_empty(tx: &mut Tx<'_>, project: ProjectId) -> Result<bool> {
    Ok(peek(tx, project, 1)?.is_empty())
}

/// The texts to embed of these rows, by row number. Deleted rows are left out.
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
    for batch in page::in_chunks(nos) {
        let sql = format!("{sql} ({})", page::placeholders(1, batch.len()));
        let params: Vec<Param<'_>> = batch.into_iter().map(Param::from).collect();
        texts.extend(tx.query(&sql, &params, |row| {
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

/// The result of embedding a queued row.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedOutcome {
    Vector(Vec<f32>),
    /// A long object: the vector of its beginning, and those of the parts after it.
    Parts {
        first: Vec<f32>,
        further: Vec<Vec<f32>>,
    },
    /// The model rejected the text. It is not sent to this model again until it changes.
    Refused,
    /// The row is deleted, or embedding failed for a reason that may not be its text. It leaves the queue
    /// without a vector.
    Deleted,
}

/// Stores the outcomes of rows and removes the rows from the queue. The outcome of a row that was removed
/// from the queue in the meantime, or queued again with another version, is ignored. Returns how many rows
/// were removed.
pub fn complete(
    tx: &mut Tx<'_>,
    project: ProjectId,
    model: &str,
    rows: &[(QueuedRow, EmbedOutcome)],
) -> Result<usize> {
    let mut removed = 0;
    for kind in RowKind::ALL {
        let rows: Vec<_> = rows.iter().filter(|(row, _)| row.kind == kind).collect();
        let nos: Vec<i64> = rows.iter().map(|(row, _)| row.no).collect();
        let mut queued_versions: HashMap<i64, i64> = HashMap::with_capacity(nos.len());
        for batch in page::in_chunks(&nos) {
            let sql = format!(
                "SELECT no, version FROM embedding_queue WHERE kind = $1 AND no IN ({}) ORDER BY no{}",
                page::placeholders(2, batch.len()),
                tx.for_update()
            );
            let mut params = vec![Param::from(kind.as_str())];
            params.extend(batch.into_iter().map(Param::from));
            queued_versions
                .extend(tx.query(&sql, &params, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?);
        }
        let rows: Vec<_> =
            rows.into_iter().filter(|(row, _)| queued_versions.get(&row.no) == Some(&row.version)).collect();
        let mut vectors = Vec::new();
        let mut object_parts = Vec::new();
        let mut refused: Vec<Vec<Param<'_>>> = Vec::new();
        for (QueuedRow { no, version, .. }, outcome) in &rows {
            let mut add = |first: &[f32], further: &[Vec<f32>]| {
                vectors.push(Embedding { no: *no, version: *version, vector: first.to_vec() });
                object_parts.push(ObjectParts { no: *no, version: *version, vectors: further.to_vec() });
            };
            match outcome {
                EmbedOutcome::Vector(vector) => add(vector, &[]),
                EmbedOutcome::Parts { first, further } => add(first, further),
                EmbedOutcome::Refused => {
                    refused.push(vec![kind.as_str().into(), (*no).into(), model.into(), (*version).into()]);
                }
                EmbedOutcome::Deleted => {}
            }
        }
        embeddings::upsert(tx, kind.index(), project, model, &vectors)?;
        if kind == RowKind::Object {
            // An object that is no longer long loses its parts.
            parts::replace(tx, project, model, &object_parts)?;
        }
        tx.insert_many(
            "INSERT INTO embedding_refusals (kind, no, model, version) VALUES",
            4,
            &refused,
            "ON CONFLICT (kind, no) DO UPDATE SET model = excluded.model, version = excluded.version",
        )?;
        let nos: Vec<i64> = rows.iter().map(|(row, _)| row.no).collect();
        for batch in page::in_chunks(&nos) {
            let sql = format!(
                "DELETE FROM embedding_queue WHERE kind = $1 AND no IN ({})",
                page::placeholders(2, batch.len())
            );
            let mut params = vec![Param::from(kind.as_str())];
            params.extend(batch.into_iter().map(Param::from));
            tx.execute(&sql, &params)?;
        }
        removed += nos.len();
    }
    Ok(removed)
}

/// The row numbers, after `after`, of live rows of a project that have no vector of this model, because the
/// model was changed or embeddings were off when the row was written. Rows that the model refused are left out.
pub fn list_missing(
    tx: &mut Tx<'_>,
    kind: RowKind,
    project: ProjectId,
    model: &str,
    after: i64,
    limit: usize,
) -> Result<Vec<i64>> {
    let sql = format!("SELECT o.no FROM {} AND o.no > $3 ORDER BY o.no LIMIT $4", kind.missing_rows_sql());
    tx.query(&sql, params![project, model, after, limit], |row| row.get(0))
}

/// Queues those of these rows that still have no vector of this model. Returns how many were queued.
pub fn enqueue_missing(
    tx: &mut Tx<'_>,
    kind: RowKind,
    project: ProjectId,
    model: &str,
    numbers: &[i64],
    now: Timestamp,
) -> Result<u64> {
    let mut queued = 0;
    for list in page::in_chunks(numbers) {
        let sql = format!(
            "INSERT INTO embedding_queue (kind, no, project_id, version)
             SELECT '{}', o.no, o.project_id, o.version FROM {} AND o.no IN ({})
             ON CONFLICT (kind, no) DO NOTHING",
            kind.as_str(),
            kind.missing_rows_sql(),
            page::placeholders(3, list.len()),
        );
        let mut params = vec![Param::from(project), Param::from(model)];
        params.extend(list.into_iter().map(Param::from));
        queued += tx.execute(&sql, &params)?;
    }
    ensure_queue_job(tx, project, now)?;
    Ok(queued)
}

/// Makes sure that there is a job for the queued rows of a project. They may have been queued before, and their
/// job may be dead.
pub fn ensure_queue_job(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    if !is_empty(tx, project)? {
        ensure_job(tx, project, now)?;
    }
    Ok(())
}

/// Whether rows have to be queued or need a job. It only reads, so it does not block writers.
pub fn has_missing(tx: &mut Tx<'_>, project: ProjectId, model: &str) -> Result<bool> {
    for kind in RowKind::ALL {
        let sql = format!("SELECT 1 FROM {} LIMIT 1", kind.missing_rows_sql());
        if tx.query_opt(&sql, params![project, model], |row| row.get::<i64>(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(!is_empty(tx, project)?)
}

/// The progress of a project's embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmbeddingProgress {
    /// How many rows are queued.
    pub pending: i64,
    /// How many live rows are not queued; 0 while the project has no model.
    pub done: i64,
    /// The model that made the newest vectors; `None` before the first one.
    pub model: Option<String>,
    /// The length of its vectors.
    pub dims: Option<i64>,
}

pub fn progress(tx: &mut Tx<'_>, project: ProjectId) -> Result<EmbeddingProgress> {
    let count = |tx: &mut Tx<'_>, from: &str| -> Result<i64> {
        let rows =
            tx.query_opt(&format!("SELECT count(*) FROM {from}"), params![project], |row| row.get(0))?;
        Ok(rows.unwrap_or(0))
    };
    let pending = count(tx, "embedding_queue WHERE project_id = $1")?;
    let live_rows = count(tx, RowKind::Object.live_rows_sql())? + count(tx, RowKind::Chunk.live_rows_sql())?;
    let model_and_dims = tx.query_opt(
        "SELECT model, dims FROM embedding_models WHERE project_id = $1",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (model, dims) = model_and_dims.unzip();
    let done = if model.is_some() { (live_rows - pending).max(0) } else { 0 };
    Ok(EmbeddingProgress { pending, done, model, dims })
}

/// How many rows of all projects wait for a vector.
pub fn len(tx: &mut Tx<'_>) -> Result<i64> {
    Ok(tx.query_opt("SELECT count(*) FROM embedding_queue", &[], |row| row.get(0))?.unwrap_or(0))
}

/// Records which model makes the vectors of a project, and their length, by which PostgreSQL indexes them later
/// ([`crate::search::vector_index`]).
pub fn record_model(
    tx: &mut Tx<'_>,
    project: ProjectId,
    model: &str,
    dims: usize,
    now: Timestamp,
) -> Result<()> {
    let recorded = tx.query_opt(
        "SELECT 1 FROM embedding_models WHERE project_id = $1 AND model = $2 AND dims = $3",
        params![project, model, dims],
        |row| row.get::<i64>(0),
    )?;
    if recorded.is_some() {
        return Ok(());
    }
    tx.execute(
        "INSERT INTO embedding_models (project_id, model, dims, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (project_id) DO UPDATE
         SET model = excluded.model, dims = excluded.dims, updated_at = excluded.updated_at",
        params![project, model, dims, now],
    )?;
    Ok(())
}
