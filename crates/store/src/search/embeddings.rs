//! The stored vectors: one for each embedded object and chunk, with the embedding model and the version of
//! the row that was embedded.

use std::sync::Arc;

use emergent_domain::ids::ProjectId;

use super::{
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

/// The table of the vectors.
pub(crate) fn table(index: SearchIndex) -> &'static str {
    match index {
        SearchIndex::Objects => "graph_embeddings",
        SearchIndex::Chunks => "chunk_embeddings",
    }
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
            index,
            project,
            no: row.no,
            new_vector: Some(NewVector { model: Arc::clone(&model), vector: row.vector.clone() }),
        }));
    }
    Ok(())
}

/// Deletes the vectors of deleted rows.
pub fn remove(tx: &mut Tx<'_>, index: SearchIndex, project: ProjectId, nos: &[i64]) -> Result<()> {
    for list in page::in_chunks(nos) {
        let sql = format!("DELETE FROM {} WHERE no IN ({})", table(index), page::placeholders(1, list.len()));
        let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.execute(&sql, &list)?;
    }
    if tx.engine() == Engine::Sqlite {
        tx.vectors.extend(nos.iter().map(|no| VectorChange { index, project, no: *no, new_vector: None }));
    }
    Ok(())
}

/// The embedding model and the vector of a row; `None` when the row has no vector.
pub fn get(tx: &mut Tx<'_>, index: SearchIndex, no: i64) -> Result<Option<(String, Vec<f32>)>> {
    let sql = format!("SELECT model, vector FROM {} WHERE no = $1", table(index));
    tx.query_opt(&sql, params![no], |row| Ok((row.get(0)?, row.get(1)?)))
}
