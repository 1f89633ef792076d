//! The indexes of vectors on PostgreSQL: one HNSW index for each table of vectors and each number of dimensions.
//!
//! Inserting into such an index costs about a hundred times as much as inserting the row, and building it for rows that
//! exist costs a fraction of inserting them one by one. An index is therefore built when most of its vectors are there,
//! while others write to the table. Until then, and while a build is under way or was interrupted, every search
//! compares all vectors of its project, which gives the same result.

use crate::{
    embedding_queue::RowKind,
    engine::Engine,
    error::Result,
    params,
    search::{embeddings::VectorTable, postgres},
    tx::Tx,
};

/// Fewer vectors than this are compared one by one within a few milliseconds, so they need no index.
const MIN_VECTORS: i64 = 5_000;
/// An index is not built while more than this part of its vectors is queued, or came since the previous look.
const MAX_NEW_PART: i64 = 10;
/// What a row has besides the numbers of its vector, in bytes.
const ROW_BYTES: i64 = 64;

/// An index of vectors that does not exist yet, or that an interrupted build left unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingIndex {
    table: VectorTable,
    dims: usize,
    /// About how many vectors it would have, from the size of the table.
    vectors: i64,
    /// How many rows wait for a vector; counting stops where there are too many for the index to be built.
    queued: i64,
}

impl MissingIndex {
    /// Whether the index is to be built now, given what the previous look found. It is not while many vectors are
    /// added, because each would be inserted into the index by itself.
    pub fn is_due(&self, previous: &[MissingIndex]) -> bool {
        let same_index = |other: &&MissingIndex| other.table == self.table && other.dims == self.dims;
        let Some(previous) = previous.iter().find(same_index) else { return false };
        let max_new = max_new(self.vectors);
        self.vectors >= MIN_VECTORS && self.queued <= max_new && self.vectors - previous.vectors <= max_new
    }

    /// The name of the index.
    pub(crate) fn name(&self) -> String {
        name(self.table, self.dims)
    }

    /// The statement that creates the index, in the form of [`crate::migrate::build_index`]; `None` when pgvector cannot
    /// index so many dimensions.
    pub(crate) fn create_sql(&self) -> Option<String> {
        let type_ = postgres::index_type(self.dims)?;
        Some(format!(
            "CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw ((vector::{type_}) {}) WHERE vector_dims(vector) = {}",
            self.name(),
            self.table.name(),
            postgres::index_operators(self.dims),
            self.dims
        ))
    }
}

fn name(table: VectorTable, dims: usize) -> String {
    format!("{}_hnsw_{dims}", table.name())
}

/// How many of these vectors may be new when the index is built.
fn max_new(vectors: i64) -> i64 {
    vectors / MAX_NEW_PART
}

/// The indexes that vectors of the models in use lack. It reads only the catalogue, the sizes of tables and the queue.
/// SQLite has none: it searches in memory.
pub fn list_missing(tx: &mut Tx<'_>) -> Result<Vec<MissingIndex>> {
    if tx.engine() == Engine::Sqlite {
        return Ok(Vec::new());
    }
    let dims: Vec<i64> =
        tx.query("SELECT DISTINCT dims FROM embedding_models ORDER BY dims", &[], |row| row.get(0))?;
    let mut missing = Vec::new();
    for dims in dims.into_iter().filter_map(|dims| usize::try_from(dims).ok()) {
        if postgres::index_type(dims).is_none() {
            continue;
        }
        for table in VectorTable::ALL {
            missing.extend(find_missing(tx, table, dims)?);
        }
    }
    Ok(missing)
}

/// The rows whose vectors are written to this table.
fn queued_kind(table: VectorTable) -> RowKind {
    match table {
        VectorTable::Objects | VectorTable::ObjectParts => RowKind::Object,
        VectorTable::Chunks => RowKind::Chunk,
    }
}

/// The index of these vectors, if it is missing.
fn find_missing(tx: &mut Tx<'_>, table: VectorTable, dims: usize) -> Result<Option<MissingIndex>> {
    let found = tx.query_opt(
        "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid),
             pg_table_size(to_regclass($2))",
        params![name(table, dims), table.name()],
        |row| Ok((row.get::<bool>(0)?, row.get::<i64>(1)?)),
    )?;
    let Some((false, bytes)) = found else { return Ok(None) };
    let vector_bytes = i64::try_from(dims * size_of::<f32>()).unwrap_or(i64::MAX - ROW_BYTES);
    let vectors = bytes / (vector_bytes + ROW_BYTES);
    let queued = tx.query_opt(
        "SELECT count(*) FROM (SELECT 1 FROM embedding_queue WHERE kind = $1 LIMIT $2) AS queued",
        params![queued_kind(table).as_str(), max_new(vectors) + 1],
        |row| row.get(0),
    )?;
    Ok(Some(MissingIndex { table, dims, vectors, queued: queued.unwrap_or(0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(vectors: i64, queued: i64) -> MissingIndex {
        MissingIndex { table: VectorTable::Objects, dims: 384, vectors, queued }
    }

    #[test]
    fn an_index_is_due_when_there_are_many_vectors_and_few_new_ones() {
        assert!(missing(60_000, 0).is_due(&[missing(60_000, 500)]));
        assert!(missing(60_000, 6_000).is_due(&[missing(54_000, 12_000)]), "a tenth may be new");
        assert!(!missing(60_000, 0).is_due(&[]), "nothing says how fast the table grows");
        assert!(!missing(60_000, 0).is_due(&[missing(40_000, 0)]), "the table grows");
        assert!(!missing(60_000, 6_001).is_due(&[missing(60_000, 6_001)]), "the table will grow");
        assert!(!missing(4_999, 0).is_due(&[missing(4_999, 0)]), "few vectors need no index");
        let others = [
            MissingIndex { dims: 768, ..missing(60_000, 0) },
            MissingIndex { table: VectorTable::Chunks, ..missing(60_000, 0) },
        ];
        assert!(!missing(60_000, 0).is_due(&others), "another index says nothing about this one");
    }
}
