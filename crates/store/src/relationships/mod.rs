//! Relationships and their versions, kept like objects: the newest version in
//! `graph_relationships`, what was before in `graph_relationship_versions`.

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
};

use crate::{author, error::Result, params, tx::Tx, value::Row};

mod list;
mod write;

pub use list::{RelationshipFilter, history, list, list_for_object};
pub use write::{CascadeAction, apply_cascade, insert_many, update};

/// The columns [`read`] reads, of a row without an alias.
pub const COLUMNS: &str = "id, project_id, type, from_id, to_id, properties, weight, version, created_at, updated_at, \
                           deleted_at, deleted_with, author_token, author_run, author_tool_call, reason";

/// The columns [`read`] reads, of a row of `graph_relationship_versions`.
pub const VERSION_COLUMNS: &str = "relationship_id, project_id, type, from_id, to_id, properties, weight, version, \
                                   created_at, updated_at, deleted_at, deleted_with, author_token, author_run, \
                                   author_tool_call, reason";

/// Reads a relationship from the columns from `first` on.
pub fn from_row(row: &Row<'_>, first: usize) -> Result<Relationship> {
    Ok(Relationship {
        id: row.get(first)?,
        project: row.get(first + 1)?,
        type_: row.get(first + 2)?,
        from: row.get(first + 3)?,
        to: row.get(first + 4)?,
        properties: row.get(first + 5)?,
        weight: row.get(first + 6)?,
        version: row.get(first + 7)?,
        created_at: row.get(first + 8)?,
        updated_at: row.get(first + 9)?,
        deleted_at: row.get(first + 10)?,
        deleted_with: row.get(first + 11)?,
        author: author::from_row(row, first + 12)?,
        reason: row.get(first + 15)?,
    })
}

/// The living relationship of this type between these ends.
pub fn find(tx: &mut Tx<'_>, from: ObjectId, type_: &str, to: ObjectId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships
         WHERE from_id = $1 AND type = $2 AND to_id = $3 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![from, type_, to], |row| from_row(row, 0))
}

/// A living relationship.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![id, project], |row| from_row(row, 0))
}

/// A living relationship, held until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project], |row| from_row(row, 0))
}

/// A `WITH` that finds the row numbers of the edges at `object`, a parameter. It comes first and is joined with
/// `CROSS JOIN`, or the embedded engine would read a project's edges in the order of the page
/// instead; and it asks about one end at a time, since no partial index serves an `OR`.
fn edges_of_object_sql(object: &str, direction: Direction, state: &str) -> String {
    let out = format!("SELECT no FROM graph_relationships WHERE from_id = {object} AND {state}");
    let into = format!("SELECT no FROM graph_relationships WHERE to_id = {object} AND {state}");
    match direction {
        Direction::Out => format!("WITH near AS ({out})"),
        Direction::In => format!("WITH near AS ({into})"),
        Direction::Both => format!("WITH near AS ({out} UNION ALL {into} AND from_id <> {object})"),
    }
}

const IS_LIVE: &str = "deleted_at IS NULL";
const IS_DELETED: &str = "deleted_at IS NOT NULL";

pub(crate) fn columns(alias: &str) -> String {
    let names: Vec<String> = COLUMNS.split(", ").map(|name| format!("{alias}.{name}")).collect();
    names.join(", ")
}

/// The living relationships of an object, held until the transaction ends. The object is held
/// already, so none can join them.
pub fn lock_live_of(tx: &mut Tx<'_>, object: ObjectId) -> Result<Vec<Relationship>> {
    let sql = format!(
        "{} SELECT {} FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND r.deleted_at IS NULL ORDER BY r.id{}",
        edges_of_object_sql("$1", Direction::Both, IS_LIVE),
        columns("r"),
        tx.for_update()
    );
    tx.query(&sql, params![object], |row| from_row(row, 0))
}

/// The relationships of an object that went when one of their ends was deleted, held until the
/// transaction ends; those that went last come first.
pub fn lock_deleted_with(tx: &mut Tx<'_>, object: ObjectId) -> Result<Vec<Relationship>> {
    let sql = format!(
        "{} SELECT {} FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND r.deleted_at IS NOT NULL AND r.deleted_with IS NOT NULL
         ORDER BY r.updated_at DESC, r.id{}",
        edges_of_object_sql("$1", Direction::Both, IS_DELETED),
        columns("r"),
        tx.for_update()
    );
    tx.query(&sql, params![object], |row| from_row(row, 0))
}
