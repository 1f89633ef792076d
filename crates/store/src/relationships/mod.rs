//! Relationships and their versions. `graph_relationships` holds the newest version of each, which may be a
//! tombstone. Earlier versions are in `graph_relationship_versions` and never change.

use std::sync::LazyLock;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
};

use crate::{
    author,
    error::Result,
    params,
    row::{TableRow, row},
    tx::Tx,
};

mod list;
mod write;

pub use list::{RelationshipFilter, history, list, list_for_object};
pub use write::{CascadeAction, apply_cascade, insert_many, update};

row! {
    Relationship in "graph_relationships" {
        id: "id",
        project: "project_id",
        type_: "type",
        from: "from_id",
        to: "to_id",
        properties: "properties",
        weight: "weight",
        version: "version",
        created_at: "created_at",
        updated_at: "updated_at",
        deleted_at: "deleted_at",
        deleted_with: "deleted_with",
        author: author("author_token", "author_run", "author_tool_call"),
        reason: "reason",
    }
}

const COLUMNS: &str = Relationship::COLUMNS;

/// The columns of a relationship in `graph_relationship_versions`, where its id has another name.
pub(crate) static VERSION_COLUMNS: LazyLock<String> =
    LazyLock::new(|| COLUMNS.replacen("id", "relationship_id", 1));

/// The live relationship of this type between two objects; there is one at most.
pub fn find(tx: &mut Tx<'_>, from: ObjectId, type_: &str, to: ObjectId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships
         WHERE from_id = $1 AND type = $2 AND to_id = $3 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![from, type_, to], Relationship::from_row)
}

/// How many live relationships of this type start at an object.
pub fn count_from(tx: &mut Tx<'_>, project: ProjectId, from: ObjectId, type_: &str) -> Result<i64> {
    let sql = "SELECT count(*) FROM graph_relationships
               WHERE from_id = $1 AND type = $2 AND project_id = $3 AND deleted_at IS NULL";
    Ok(tx.query_opt(sql, params![from, type_, project], |row| row.get(0))?.unwrap_or(0))
}

/// A live relationship.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![id, project], Relationship::from_row)
}

/// A live relationship, locked until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project], Relationship::from_row)
}

/// A `WITH` clause `near` with the row numbers of the edges of an object. `object` is a placeholder, `state`
/// is [`IS_LIVE`] or [`IS_DELETED`]. Callers join it first and with `CROSS JOIN`; otherwise SQLite would scan
/// the edges of the whole project in the order of the page. Each end is a separate `SELECT`, because no
/// partial index serves an `OR`.
fn edges_of_object_sql(object: &str, direction: Direction, state: &str) -> String {
    let outgoing = format!("SELECT no FROM graph_relationships WHERE from_id = {object} AND {state}");
    let incoming = format!("SELECT no FROM graph_relationships WHERE to_id = {object} AND {state}");
    match direction {
        Direction::Out => format!("WITH near AS ({outgoing})"),
        Direction::In => format!("WITH near AS ({incoming})"),
        Direction::Both => format!("WITH near AS ({outgoing} UNION ALL {incoming} AND from_id <> {object})"),
    }
}

const IS_LIVE: &str = "deleted_at IS NULL";
const IS_DELETED: &str = "deleted_at IS NOT NULL";

/// The live relationships of an object, locked until the transaction ends. The caller has locked the object,
/// so that no relationship can be added.
pub fn lock_live_of(tx: &mut Tx<'_>, object: ObjectId) -> Result<Vec<Relationship>> {
    let sql = format!(
        "{} SELECT {} FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND r.deleted_at IS NULL ORDER BY r.id{}",
        edges_of_object_sql("$1", Direction::Both, IS_LIVE),
        Relationship::columns_of("r"),
        tx.for_update()
    );
    tx.query(&sql, params![object], Relationship::from_row)
}

/// The relationships of an object that were deleted together with one of their ends, locked until the
/// transaction ends. The last deleted come first.
pub fn lock_deleted_with(tx: &mut Tx<'_>, object: ObjectId) -> Result<Vec<Relationship>> {
    let sql = format!(
        "{} SELECT {} FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND r.deleted_at IS NOT NULL AND r.deleted_with IS NOT NULL
         ORDER BY r.updated_at DESC, r.id{}",
        edges_of_object_sql("$1", Direction::Both, IS_DELETED),
        Relationship::columns_of("r"),
        tx.for_update()
    );
    tx.query(&sql, params![object], Relationship::from_row)
}
