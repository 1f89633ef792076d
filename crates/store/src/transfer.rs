//! Queries of import and export: many rows by key or id in one statement, and all live rows of a project in
//! the order of their creation.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::Object,
    relationship::Relationship,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    engine::Engine,
    error::Result,
    page, relationships,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The position of an export: the creation time and the id of the last exported row.
pub type ExportCursor = (Timestamp, Uuid);

/// The most edges that one statement looks up.
const MAX_LOOKUP: usize = 1_000;
/// The bytes of one page of an export, which are in memory while its client reads.
const EXPORT_PAGE_BYTES: usize = 256 << 10;

/// A page of an export.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportPage<T> {
    pub rows: Vec<T>,
    pub has_more: bool,
    /// How many rows to ask for next. Large rows make it small, so that the database reads about as many as
    /// the next page holds.
    pub next_limit: usize,
}

/// The number of rows to ask for first.
pub const FIRST_EXPORT_LIMIT: usize = 16;
/// The most rows of a page.
const MAX_EXPORT_LIMIT: usize = 500;

impl<T> ExportPage<T> {
    fn new(rows: Vec<T>, is_cut: bool, limit: usize) -> Self {
        let next_limit = if is_cut { rows.len() + rows.len() / 2 + 1 } else { limit * 2 };
        let has_more = is_cut || rows.len() == limit;
        Self { rows, has_more, next_limit: next_limit.min(MAX_EXPORT_LIMIT) }
    }
}

/// Live objects that were created by `until`, oldest first, after a cursor.
pub fn objects_after(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: Option<ExportCursor>,
    until: Timestamp,
    limit: usize,
) -> Result<ExportPage<Object>> {
    let (condition, params) = after_cursor_sql(project, after, until, limit, "created_at", "id");
    let sql = format!(
        "SELECT {} FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL AND {condition}
         ORDER BY created_at, id LIMIT $3",
        Object::COLUMNS
    );
    let (rows, is_cut) = tx.query_up_to(EXPORT_PAGE_BYTES, &sql, &params, Object::from_row)?;
    Ok(ExportPage::new(rows, is_cut, limit))
}

/// A relationship with the type and the key of each end; the key is `None` for an object without one.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedEdge {
    pub relationship: Relationship,
    pub from: (String, Option<String>),
    pub to: (String, Option<String>),
}

/// Live relationships that were created by `until`, oldest first, after a cursor.
pub fn edges_after(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: Option<ExportCursor>,
    until: Timestamp,
    limit: usize,
) -> Result<ExportPage<ExportedEdge>> {
    let (condition, params) = after_cursor_sql(project, after, until, limit, "r.created_at", "r.id");
    let sql = format!(
        "SELECT a.type, a.key, b.type, b.key, {}
         FROM graph_relationships AS r JOIN graph_objects AS a ON a.id = r.from_id
             JOIN graph_objects AS b ON b.id = r.to_id
         WHERE r.project_id = $1 AND r.deleted_at IS NULL AND a.deleted_at IS NULL AND b.deleted_at IS NULL
             AND {condition}
         ORDER BY r.created_at, r.id LIMIT $3",
        Relationship::columns_of("r")
    );
    let read = |row: &Row<'_>| {
        Ok(ExportedEdge {
            from: (row.get(0)?, row.get(1)?),
            to: (row.get(2)?, row.get(3)?),
            relationship: Relationship::from_row_at(row, 4)?,
        })
    };
    let (rows, is_cut) = tx.query_up_to(EXPORT_PAGE_BYTES, &sql, &params, read)?;
    Ok(ExportPage::new(rows, is_cut, limit))
}

/// A condition on the columns `time` and `id`, and the parameters of the statement: `$1` is the project, `$2`
/// is `until`, `$3` is the limit.
fn after_cursor_sql(
    project: ProjectId,
    after: Option<ExportCursor>,
    until: Timestamp,
    limit: usize,
    time: &str,
    id: &str,
) -> (String, Vec<Param<'static>>) {
    let mut params = vec![Param::from(project), Param::from(until), Param::from(limit)];
    let mut condition = format!("{time} <= $2");
    if let Some((created_at, last_id)) = after {
        params.extend([Param::from(created_at), Param::from(last_id)]);
        condition.push_str(&format!(" AND ({time}, {id}) > ($4, $5)"));
    }
    (condition, params)
}

/// The live objects of a type with these keys.
pub fn objects_by_key(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    keys: &[&str],
) -> Result<Vec<Object>> {
    let mut objects = Vec::with_capacity(keys.len());
    // Only the index of the keys has this order. While the table is small, PostgreSQL would as well take one that has all
    // objects of the type.
    let order = match tx.engine() {
        Engine::Sqlite => "",
        Engine::Postgres => " ORDER BY key",
    };
    for list in page::in_chunks(keys) {
        let sql = format!(
            "SELECT {} FROM graph_objects
             WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NULL{order}",
            Object::COLUMNS,
            page::placeholders(3, list.len())
        );
        objects.extend(tx.query(&sql, &key_params(project, type_, list), Object::from_row)?);
    }
    Ok(objects)
}

/// The live objects of a project with these ids.
pub fn objects_by_id(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<Vec<Object>> {
    let mut objects = Vec::with_capacity(ids.len());
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT {} FROM graph_objects WHERE id IN ({}) AND {}",
            Object::COLUMNS,
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1 AND deleted_at IS NULL")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        objects.extend(tx.query(&sql, &params, Object::from_row)?);
    }
    Ok(objects)
}

/// An object that is locked as the end of a new edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockedEnd {
    pub id: ObjectId,
    pub updated_at: Timestamp,
}

/// The live objects of a type with these keys, by key. They are locked, so that none is deleted before the
/// transaction ends.
pub fn lock_by_keys(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    keys: &[&str],
) -> Result<HashMap<String, LockedEnd>> {
    let mut ends = HashMap::with_capacity(keys.len());
    for list in page::in_chunks(keys) {
        let lock = match tx.engine() {
            Engine::Sqlite => "",
            // All transactions lock in the order of the ids, so that they cannot deadlock.
            Engine::Postgres => " ORDER BY id FOR SHARE",
        };
        let sql = format!(
            "SELECT key, id, updated_at FROM graph_objects
             WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NULL{lock}",
            page::placeholders(3, list.len())
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, LockedEnd { id: row.get(1)?, updated_at: row.get(2)? }));
        ends.extend(tx.query(&sql, &key_params(project, type_, list), read)?);
    }
    Ok(ends)
}

/// The parameters project, type and keys.
fn key_params<'a>(project: ProjectId, type_: &'a str, keys: Vec<&'a str>) -> Vec<Param<'a>> {
    let mut params = vec![Param::from(project), Param::from(type_)];
    params.extend(keys.into_iter().map(Param::from));
    params
}

/// The object that uses an id: its project, and whether it is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdUse {
    pub project: ProjectId,
    pub live: bool,
}

/// Those of these ids that an object of any project uses, deleted objects included.
pub fn ids_in_use(tx: &mut Tx<'_>, ids: &[ObjectId]) -> Result<HashMap<ObjectId, IdUse>> {
    let mut uses = HashMap::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id, project_id, deleted_at IS NULL FROM graph_objects WHERE id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let read = |row: &Row<'_>| Ok((row.get(0)?, IdUse { project: row.get(1)?, live: row.get(2)? }));
        uses.extend(tx.query(&sql, &params, read)?);
    }
    Ok(uses)
}

/// The live relationships with these ends and types, each given as (from, type, to).
pub fn edges_between(
    tx: &mut Tx<'_>,
    keys: &[(ObjectId, &str, ObjectId)],
) -> Result<HashMap<(ObjectId, String, ObjectId), Relationship>> {
    let edges = match tx.engine() {
        Engine::Sqlite => sqlite_edges_between(tx, keys)?,
        Engine::Postgres => postgres_edges_between(tx, keys)?,
    };
    Ok(edges.into_iter().map(|edge| ((edge.from, edge.type_.clone(), edge.to), edge)).collect())
}

/// One statement per edge: SQLite has no round trips, and each statement uses the index.
fn sqlite_edges_between(tx: &mut Tx<'_>, keys: &[(ObjectId, &str, ObjectId)]) -> Result<Vec<Relationship>> {
    let mut edges = Vec::with_capacity(keys.len());
    for (from, type_, to) in keys {
        edges.extend(relationships::find(tx, *from, type_, *to)?);
    }
    Ok(edges)
}

/// One statement for many edges, which saves round trips. The keys are arrays, so that the text of the statement is always
/// the same. `LIMIT 1` changes nothing, since an edge is unique; it makes PostgreSQL look up each key by the index, whatever
/// the statistics say. A list of rows in `IN (…)` would be compared with the rows of the table.
fn postgres_edges_between(tx: &mut Tx<'_>, keys: &[(ObjectId, &str, ObjectId)]) -> Result<Vec<Relationship>> {
    let sql = format!(
        "SELECT {} FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS k (from_id, type, to_id)
         CROSS JOIN LATERAL (
             SELECT {} FROM graph_relationships AS e
             WHERE e.from_id = k.from_id AND e.type = k.type AND e.to_id = k.to_id AND e.deleted_at IS NULL
             LIMIT 1
         ) AS found",
        Relationship::columns_of("found"),
        Relationship::columns_of("e"),
    );
    let mut edges = Vec::with_capacity(keys.len());
    for keys in keys.chunks(MAX_LOOKUP) {
        let params = [
            Param::Array(keys.iter().map(|(from, _, _)| Param::from(*from)).collect()),
            Param::Array(keys.iter().map(|(_, type_, _)| Param::from(*type_)).collect()),
            Param::Array(keys.iter().map(|(_, _, to)| Param::from(*to)).collect()),
        ];
        edges.extend(tx.query(&sql, &params, Relationship::from_row)?);
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_asks_for_about_as_many_rows_as_fit() {
        let next = |rows: usize, is_cut, limit| ExportPage::new(vec![(); rows], is_cut, limit).next_limit;
        assert_eq!(next(1, true, FIRST_EXPORT_LIMIT), 2, "one large row, and one to see that there is more");
        assert_eq!(next(20, true, 500), 31);
        assert_eq!(next(2, false, 2), 4, "small rows again");
        assert_eq!(next(400, false, 400), MAX_EXPORT_LIMIT);
    }
}
