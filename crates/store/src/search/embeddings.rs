//! The stored vectors: one for each embedded object and chunk, with the embedding model and the version of
//! the row that was embedded. Long objects have further ones (`parts`).

use std::sync::Arc;

use emergent_domain::ids::ProjectId;

use super::{
    parts,
    vectors::{NewVector, VectorChange},
    write::SearchIndex,
};
use crate::{engine::Engine, error::Result, page, params, tx::Tx, value::Param};

/// This many vectors are inserted by one statement, since long vectors make it large.
const INSERT_BATCH: usize = 100;

/// The vector of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The row number of the object or chunk.
    pub no: i64,
    /// The version of the row that was embedded.
    pub version: i64,
    pub vector: Vec<f32>,
}

/// A table of vectors. Each has an index of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorTable {
    Objects,
    Chunks,
    /// The parts of long objects.
    ObjectParts,
}

impl VectorTable {
    pub(crate) const ALL: [Self; 3] = [Self::Objects, Self::Chunks, Self::ObjectParts];

    pub(crate) fn name(self) -> &'static str {
        match self {
            VectorTable::Objects => "graph_embeddings",
            VectorTable::Chunks => "chunk_embeddings",
            VectorTable::ObjectParts => "object_part_embeddings",
        }
    }
}

impl From<SearchIndex> for VectorTable {
    fn from(index: SearchIndex) -> Self {
        match index {
            SearchIndex::Objects => VectorTable::Objects,
            SearchIndex::Chunks => VectorTable::Chunks,
        }
    }
}

/// The table of the vectors.
pub(crate) fn table(index: SearchIndex) -> &'static str {
    VectorTable::from(index).name()
}

/// Writes vectors and replaces the previous ones of the same rows.
pub fn upsert(
    tx: &mut Tx<'_>,
    index: SearchIndex,
    project: ProjectId,
    model: &str,
    rows: &[Embedding],
) -> Result<()> {
    let values: Vec<Vec<Param<'_>>> = rows
        .iter()
        .map(|row| {
            vec![
                row.no.into(),
                project.into(),
                model.into(),
                row.version.into(),
                row.vector.as_slice().into(),
            ]
        })
        .collect();
    let head = format!("INSERT INTO {} (no, project_id, model, version, vector) VALUES", table(index));
    let tail = "ON CONFLICT (no) DO UPDATE
                SET model = excluded.model, version = excluded.version, vector = excluded.vector";
    for batch in values.chunks(INSERT_BATCH) {
        tx.insert_many(&head, 5, batch, tail)?;
    }
    if tx.engine() == Engine::Sqlite {
        let model: Arc<str> = model.into();
        tx.vectors.extend(rows.iter().map(|row| VectorChange {
            index: index.into(),
            project,
            no: row.no,
            new_vector: Some(NewVector { model: Arc::clone(&model), vector: row.vector.clone() }),
        }));
    }
    Ok(())
}

/// Deletes the vectors of deleted rows, and those of their parts.
pub fn remove(tx: &mut Tx<'_>, index: SearchIndex, project: ProjectId, nos: &[i64]) -> Result<()> {
    for list in page::in_chunks(nos) {
        let sql = format!("DELETE FROM {} WHERE no IN ({})", table(index), page::placeholders(1, list.len()));
        let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.execute(&sql, &list)?;
    }
    if tx.engine() == Engine::Sqlite {
        let index = index.into();
        tx.vectors.extend(nos.iter().map(|no| VectorChange { index, project, no: *no, new_vector: None }));
    }
    match index {
        SearchIndex::Objects => parts::remove(tx, project, nos),
        SearchIndex::Chunks => Ok(()),
    }
}

/// The embedding model and the vector of a row; `None` when the row has no vector.
pub fn get(tx: &mut Tx<'_>, index: SearchIndex, no: i64) -> Result<Option<(String, Vec<f32>)>> {
    let sql = format!("SELECT model, vector FROM {} WHERE no = $1", table(index));
    tx.query_opt(&sql, params![no], |row| Ok((row.get(0)?, row.get(1)?)))
}
