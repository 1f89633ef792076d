//! What import and export ask: many rows by key or id in one statement, and everything in the
//! order it was made.

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

/// A place in an export: after the row made at this moment with this id.
pub type ExportCursor = (Timestamp, Uuid);

/// Live objects made until a moment, oldest first.
pub fn objects_after(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: Option<ExportCursor>,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<Object>> {
    let (condition, params) = after_cursor_sql(project, after, until, limit, "created_at", "id");
    let sql = format!(
        "SELECT {} FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL AND {condition}
         ORDER BY created_at, id LIMIT $3",
        Object::COLUMNS
    );
    tx.query(&sql, &params, Object::from_row)
}

/// A relationship with the types and keys of its ends.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedEdge {
    pub relationship: Relationship,
    pub from: (String, Option<String>),
    pub to: (String, Option<String>),
}

/// Live relationships made until a moment, oldest first.
pub fn edges_after(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: Option<ExportCursor>,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<ExportedEdge>> {
    let (condition, params) = after_cursor_sql(project, after, until, limit, "r.created_at", "r.id");
    let sql = format!(
        "SELECT a.type, a.key, b.type, b.key, {}
         FROM graph_relationships AS r JOIN graph_objects AS a ON a.id = r.from_id
             JOIN graph_objects AS b ON b.id = r.to_id
         WHERE r.project_id = $1 AND r.deleted_at IS NULL AND {condition}
         ORDER BY r.created_at, r.id LIMIT $3",
        Relationship::columns_of("r")
    );
    tx.query(&sql, &params, |row| {
        Ok(ExportedEdge {
            from: (row.get(0)?, row.get(1)?),
            to: (row.get(2)?, row.get(3)?),
            relationship: Relationship::from_row_at(row, 4)?,
        })
    })
}

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
    if let Some((moment, last)) = after {
        params.extend([Param::from(moment), Param::from(last)]);
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
    let mut found = Vec::with_capacity(keys.len());
    for list in page::in_chunks(keys) {
        let sql = format!(
            "SELECT {} FROM graph_objects
             WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NULL",
            Object::COLUMNS,
            page::placeholders(3, list.len())
        );
        found.extend(tx.query(&sql, &with_keys(project, type_, list), Object::from_row)?);
    }
    Ok(found)
}

/// The live objects of a project with these ids.
pub fn objects_by_id(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<Vec<Object>> {
    let mut found = Vec::with_capacity(ids.len());
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT {} FROM graph_objects WHERE id IN ({}) AND project_id = $1 AND deleted_at IS NULL",
            Object::COLUMNS,
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        found.extend(tx.query(&sql, &params, Object::from_row)?);
    }
    Ok(found)
}

/// The end of an edge to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockedEnd {
    pub id: ObjectId,
    pub updated_at: Timestamp,
}

/// The live objects of a type with these keys, held so that none is deleted before the
/// transaction ends.
pub fn lock_by_keys(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    keys: &[&str],
) -> Result<HashMap<String, LockedEnd>> {
    let mut found = HashMap::with_capacity(keys.len());
    for list in page::in_chunks(keys) {
        let lock = match tx.engine() {
            Engine::Sqlite => "",
            // In one order, so that two transactions do not wait for each other.
            Engine::Postgres => " ORDER BY id FOR SHARE",
        };
        let sql = format!(
            "SELECT key, id, updated_at FROM graph_objects
             WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NULL{lock}",
            page::placeholders(3, list.len())
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, LockedEnd { id: row.get(1)?, updated_at: row.get(2)? }));
        found.extend(tx.query(&sql, &with_keys(project, type_, list), read)?);
    }
    Ok(found)
}

fn with_keys<'a>(project: ProjectId, type_: &'a str, keys: Vec<&'a str>) -> Vec<Param<'a>> {
    let mut params = vec![Param::from(project), Param::from(type_)];
    params.extend(keys.into_iter().map(Param::from));
    params
}

/// Where an id is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdUse {
    pub project: ProjectId,
    pub live: bool,
}

/// Those of these ids that any object of any project has, a deleted one too.
pub fn ids_in_use(tx: &mut Tx<'_>, ids: &[ObjectId]) -> Result<HashMap<ObjectId, IdUse>> {
    let mut found = HashMap::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id, project_id, deleted_at IS NULL FROM graph_objects WHERE id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let read = |row: &Row<'_>| Ok((row.get(0)?, IdUse { project: row.get(1)?, live: row.get(2)? }));
        found.extend(tx.query(&sql, &params, read)?);
    }
    Ok(found)
}

/// The live relationships with these ends and types.
pub fn edges_between(
    tx: &mut Tx<'_>,
    places: &[(ObjectId, &str, ObjectId)],
) -> Result<HashMap<(ObjectId, String, ObjectId), Relationship>> {
    let found = match tx.engine() {
        Engine::Sqlite => sqlite_edges_between(tx, places)?,
        Engine::Postgres => postgres_edges_between(tx, places)?,
    };
    Ok(found.into_iter().map(|edge| ((edge.from, edge.type_.clone(), edge.to), edge)).collect())
}

/// A statement costs it nothing to send, and each uses the index.
fn sqlite_edges_between(tx: &mut Tx<'_>, places: &[(ObjectId, &str, ObjectId)]) -> Result<Vec<Relationship>> {
    let mut found = Vec::with_capacity(places.len());
    for (from, type_, to) in places {
        found.extend(relationships::find(tx, *from, type_, *to)?);
    }
    Ok(found)
}

/// One round trip for many, by a list of rows.
fn postgres_edges_between(
    tx: &mut Tx<'_>,
    places: &[(ObjectId, &str, ObjectId)],
) -> Result<Vec<Relationship>> {
    let mut found = Vec::with_capacity(places.len());
    for list in page::in_chunks(places) {
        let rows: Vec<String> =
            (0..list.len()).map(|row| format!("({})", page::placeholders(row * 3 + 1, 3))).collect();
        let sql = format!(
            "SELECT {} FROM graph_relationships WHERE (from_id, type, to_id) IN ({}) AND deleted_at IS NULL",
            Relationship::COLUMNS,
            rows.join(", ")
        );
        let params: Vec<Param<'_>> = list
            .iter()
            .flat_map(|(from, type_, to)| [Param::from(*from), Param::from(*type_), Param::from(*to)])
            .collect();
        found.extend(tx.query(&sql, &params, Relationship::from_row)?);
    }
    Ok(found)
}
