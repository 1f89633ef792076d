//! The vectors of the parts of long objects. A sentence model reads only the beginning of a long text, so the vector of
//! an object says nothing about the rest. Each further part has a vector of its own, and an object is as near to a query
//! as its nearest part.
//!
//! The number of a part follows from that of its object, so it needs no counter: object 5 has the parts 80 to 95.

use std::collections::HashSet;

use emergent_domain::{fusion::RankedHit, ids::ProjectId};

use super::{
    SearchTarget, VectorQuery,
    embeddings::VectorTable,
    postgres, project_no,
    sqlite::{self, Candidates},
    vectors::{Key, NewVector, VectorChange, VectorIndexes, row_in_project},
};
use crate::{engine::Engine, error::Result, page, params, row_numbers, tx::Tx, value::Param};

/// An object has at most this many vectors besides its first one.
pub const MAX_PARTS: usize = 16;
/// [`MAX_PARTS`] as a factor of row numbers.
const PARTS: i64 = MAX_PARTS as i64;
/// This many vectors are inserted by one statement, since long vectors make it large.
const INSERT_BATCH: usize = 100;
/// This many times as many parts as objects are searched at first, since several of them may be of one object, and some
/// of objects that do not match the filter. If they are of too few objects, [`MAX_PARTS`] times as many are searched,
/// which are of enough objects if there are as many.
const FIRST_FACTOR: usize = 4;

/// The vectors of the parts of an object, without the first part. It is empty for an object that is not long.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectParts {
    /// The row number of the object.
    pub no: i64,
    /// The version of the object that was embedded.
    pub version: i64,
    pub vectors: Vec<Vec<f32>>,
}

/// The row number of a part. On SQLite it is one of the same project.
fn part_no(object_no: i64, part: i64) -> i64 {
    let rows_per_project = row_numbers::range(1).start;
    let row = object_no % rows_per_project;
    object_no - row + row * PARTS + part
}

/// Writes the vectors of the parts of objects and deletes the previous ones.
pub fn replace(tx: &mut Tx<'_>, project: ProjectId, model: &str, objects: &[ObjectParts]) -> Result<()> {
    let nos: Vec<i64> = objects.iter().map(|object| object.no).collect();
    remove(tx, project, &nos)?;
    let mut rows: Vec<(i64, &ObjectParts, &Vec<f32>)> = Vec::new();
    for object in objects {
        let vectors = object.vectors.iter().take(MAX_PARTS).zip(0..);
        rows.extend(vectors.map(|(vector, part)| (part_no(object.no, part), object, vector)));
    }
    let values: Vec<Vec<Param<'_>>> = rows
        .iter()
        .map(|(no, object, vector)| {
            vec![
                (*no).into(),
                object.no.into(),
                project.into(),
                model.into(),
                object.version.into(),
                vector.as_slice().into(),
            ]
        })
        .collect();
    let head =
        "INSERT INTO object_part_embeddings (no, object_no, project_id, model, version, vector) VALUES";
    for batch in values.chunks(INSERT_BATCH) {
        tx.insert_many(head, 6, batch, "")?;
    }
    if tx.engine() == Engine::Sqlite {
        tx.vectors.extend(rows.iter().map(|(no, _, vector)| VectorChange {
            index: VectorTable::ObjectParts,
            project,
            no: *no,
            new_vector: Some(NewVector { model: model.into(), vector: (*vector).clone() }),
        }));
    }
    Ok(())
}

/// Deletes the vectors of the parts of objects.
pub(super) fn remove(tx: &mut Tx<'_>, project: ProjectId, object_nos: &[i64]) -> Result<()> {
    for list in page::in_chunks(object_nos) {
        let placeholders = page::placeholders(1, list.len());
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let sql = format!("SELECT no FROM object_part_embeddings WHERE object_no IN ({placeholders})");
        let parts: Vec<i64> = tx.query(&sql, &params, |row| row.get(0))?;
        if parts.is_empty() {
            continue;
        }
        let sql = format!("DELETE FROM object_part_embeddings WHERE object_no IN ({placeholders})");
        tx.execute(&sql, &params)?;
        if tx.engine() == Engine::Sqlite {
            tx.vectors.extend(parts.into_iter().map(|no| VectorChange {
                index: VectorTable::ObjectParts,
                project,
                no,
                new_vector: None,
            }));
        }
    }
    Ok(())
}

/// The objects with the nearest parts, in no order. An object may be in the result several times.
pub(super) fn search(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    match tx.engine() {
        Engine::Sqlite => search_sqlite(tx, indexes, project, target, query),
        Engine::Postgres => search_postgres(tx, project, target, query),
    }
}

fn search_sqlite(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    let Some(project_no) = project_no(tx, project)? else { return Ok(Vec::new()) };
    let first_no = row_numbers::range(project_no).start;
    let key = Key { index: VectorTable::ObjectParts, project, model: query.model, dims: query.vector.len() };
    let search_index = |tx: &mut Tx<'_>, limit: usize, rows: Option<&[u32]>| -> Result<Candidates> {
        let rows_and_scores = indexes.with_index(
            key,
            |index| tx.without_time_limit(|tx| sqlite::load_index(tx, key, first_no, index)),
            |index| index.search(query.vector, limit, rows),
        )?;
        Ok(Candidates::new(rows_and_scores, limit, query.min_score, first_no))
    };
    let limit = query.limit * FIRST_FACTOR;
    let parts = search_index(tx, limit, None)?;
    let hits = sqlite::exact_scores(tx, target, query, key.index, &parts.nos)?;
    if count_objects(&hits) >= query.limit || parts.is_complete {
        return Ok(hits);
    }
    // The nearest parts are of few objects, or few of those match the filter. In the second case, only the parts of
    // matching objects are searched.
    let limit = query.limit * MAX_PARTS;
    let (conditions, values) = target.conditions(Engine::Sqlite, 2);
    if conditions.is_empty() {
        let parts = search_index(tx, limit, None)?;
        return sqlite::exact_scores(tx, target, query, key.index, &parts.nos);
    }
    let sql = format!(
        "SELECT e.no FROM graph_objects AS o JOIN object_part_embeddings AS e ON e.object_no = o.no
         WHERE o.project_id = $1{}{conditions}",
        target.live_sql()
    );
    let mut params = vec![Param::from(project)];
    params.extend(values);
    let rows: Vec<u32> =
        tx.query(&sql, &params, |row| row.get(0))?.into_iter().filter_map(row_in_project).collect();
    let parts = search_index(tx, limit, Some(&rows))?;
    sqlite::exact_scores(tx, target, query, key.index, &parts.nos)
}

/// Of how many objects the parts are.
fn count_objects(parts: &[RankedHit<i64>]) -> usize {
    parts.iter().map(|part| part.id).collect::<HashSet<i64>>().len()
}

/// Uses the settings of the search for objects, which comes before it in the same transaction.
fn search_postgres(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    // Most projects have no long objects.
    let sql = "SELECT 1 FROM object_part_embeddings WHERE project_id = $1 LIMIT 1";
    if tx.query_opt(sql, params![project], |row| row.get::<i64>(0))?.is_none() {
        return Ok(Vec::new());
    }
    if let Some(type_) = postgres::index_type(query.vector.len()) {
        for factor in [FIRST_FACTOR, MAX_PARTS] {
            let limit = query.limit * factor;
            let parts = nearest_parts(tx, project, target, query, &format!("::{type_}"), limit)?;
            if count_objects(&parts) >= query.limit {
                return Ok(parts);
            }
            if parts.len() < limit {
                break;
            }
        }
    }
    // There are no more objects, or the scan of the index ended before it found enough that match. Without the cast the
    // index is not used, and every vector is compared.
    nearest_parts(tx, project, target, query, "", query.limit * MAX_PARTS)
}

/// `cast` is the cast to the type of the index, `::vector(384)`, or nothing.
fn nearest_parts(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
    cast: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let mut params: Vec<Param<'_>> =
        vec![query.vector.into(), project.into(), query.model.into(), limit.into()];
    let (conditions, values) = target.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT e.object_no, (e.vector{cast}) <=> ($1::vector{cast}) AS distance
         FROM object_part_embeddings AS e JOIN graph_objects AS o ON o.no = e.object_no
         WHERE e.project_id = $2 AND e.model = $3 AND vector_dims(e.vector) = {}{}{conditions}
         ORDER BY distance LIMIT $4",
        query.vector.len(),
        target.live_sql()
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: 1.0 - row.get::<f64>(1)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_numbers_of_their_own_in_the_project_of_their_object() {
        let first = row_numbers::range(7).start;
        assert_eq!(part_no(first + 5, 0), first + 80);
        assert_eq!(part_no(first + 5, PARTS - 1) + 1, part_no(first + 6, 0));
        assert!(row_numbers::range(7).contains(&part_no(first + 1_000_000, 3)));
    }
}
