//! Relationships and their versions. `graph_relationships` holds the newest version of each, which may be a
//! tombstone. Earlier versions are in `graph_relationship_versions` and never change.

use std::{collections::HashSet, sync::LazyLock};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
};

use crate::{
    author,
    error::Result,
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::{Param, Row},
};

mod as_of;
mod cascade;
mod list;
mod parents;
mod write;

pub use as_of::{get_at, list_at, list_for_object_at};
pub use cascade::{
    CASCADE_BATCH, CascadeEdge, DeletedEdges, RestoreCursor, has_live, latest_live_update, list_ends,
    lock_deleted_batch, lock_live_batch,
};
pub use list::{RelationshipFilter, history, list, list_deleted, list_for_object};
pub use parents::parents;
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

/// The condition that both ends of the edge `r` are live. The edges of a deleted object with very many of them are
/// deleted some time after the object, and until then nobody may see them. Each part is a lookup by id: as a
/// scalar subquery, which PostgreSQL never turns into a join with all objects.
pub(crate) const HAS_LIVE_ENDS: &str =
    "(SELECT e.deleted_at FROM graph_objects AS e WHERE e.id = r.from_id) IS NULL
    AND (SELECT e.deleted_at FROM graph_objects AS e WHERE e.id = r.to_id) IS NULL";

/// The live relationship of this type between two live objects; there is one at most.
pub fn find(tx: &mut Tx<'_>, from: ObjectId, type_: &str, to: ObjectId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships
         WHERE from_id = $1 AND type = $2 AND to_id = $3 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![from, type_, to], Relationship::from_row)
}

/// How many live relationships of this type start at an object. The order is that of the index to be used: to
/// PostgreSQL any index is as good while the table is empty, and another one would need sorting.
pub fn count_from(tx: &mut Tx<'_>, project: ProjectId, from: ObjectId, type_: &str) -> Result<i64> {
    let sql = format!(
        "SELECT 1 FROM graph_relationships WHERE from_id = $1 AND deleted_at IS NULL AND {} ORDER BY type",
        page::on_row("type = $2 AND project_id = $3")
    );
    let mut count = 0;
    tx.for_each_row(&sql, params![from, type_, project], |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// A live relationship.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {} FROM graph_relationships AS r
         WHERE r.id = $1 AND coalesce(r.project_id = $2 AND r.deleted_at IS NULL, false) AND {HAS_LIVE_ENDS}",
        Relationship::columns_of("r")
    );
    tx.query_opt(&sql, params![id, project], Relationship::from_row)
}

/// Whether a relationship exists and both of its ends do.
pub fn is_live(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<bool> {
    let sql = format!(
        "SELECT 1 FROM graph_relationships AS r
         WHERE r.id = $1 AND coalesce(r.project_id = $2 AND r.deleted_at IS NULL, false) AND {HAS_LIVE_ENDS}"
    );
    Ok(tx.query_opt(&sql, params![id, project], |_| Ok(()))?.is_some())
}

/// A relationship at one of its versions; `None` if there is no such version, or if it is the newest one and not live.
/// Like [`objects::get_version`](crate::objects::get_version), it reads no other version.
pub fn get_version(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RelationshipId,
    version: i64,
) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {} FROM graph_relationship_versions
         WHERE relationship_id = $1 AND version = $3 AND coalesce(project_id = $2, false)
         UNION ALL
         SELECT {} FROM graph_relationships AS r
         WHERE r.id = $1 AND coalesce(r.project_id = $2 AND r.version = $3 AND r.deleted_at IS NULL, false)
             AND {HAS_LIVE_ENDS}
         LIMIT 1",
        *VERSION_COLUMNS,
        Relationship::columns_of("r")
    );
    tx.query_opt(&sql, params![id, project, version], Relationship::from_row)
}

/// A live relationship, locked until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: RelationshipId) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {} FROM graph_relationships AS r
         WHERE r.id = $1 AND coalesce(r.project_id = $2 AND r.deleted_at IS NULL, false) AND {HAS_LIVE_ENDS}{}",
        Relationship::columns_of("r"),
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project], Relationship::from_row)
}

/// A `WITH` clause `near` with the row numbers of the edges of an object. `object` is a placeholder, `state`
/// is [`IS_LIVE`]. Callers join it first and with `CROSS JOIN`; otherwise SQLite would scan
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

/// One of the live relationships of an object.
pub fn find_live_of(tx: &mut Tx<'_>, object: ObjectId) -> Result<Option<RelationshipId>> {
    Ok(list_live_of(tx, object, 1)?.pop())
}

/// Those of these objects that a relationship which is not deleted begins or ends at. The object at its other end may be
/// deleted, which [`find_live_of`] examines.
pub fn with_edges(tx: &mut Tx<'_>, objects: &[ObjectId]) -> Result<HashSet<ObjectId>> {
    let mut found = HashSet::new();
    for list in page::in_chunks(objects) {
        // Two lookups in an index for each object, however many edges it has. The order is that of the index, so that
        // PostgreSQL takes it whatever it knows of the table.
        let sql = format!(
            "SELECT o.id FROM graph_objects AS o WHERE o.id IN ({}) AND coalesce(
                 (SELECT r.no FROM graph_relationships AS r WHERE r.from_id = o.id AND r.{IS_LIVE}
                  ORDER BY r.type, r.to_id LIMIT 1),
                 (SELECT r.no FROM graph_relationships AS r WHERE r.to_id = o.id AND r.{IS_LIVE}
                  ORDER BY r.type, r.from_id LIMIT 1)) IS NOT NULL",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        found.extend(tx.query(&sql, &params, |row| row.get::<ObjectId>(0))?);
    }
    Ok(found)
}

/// The ids of up to `limit` live relationships of an object.
pub fn list_live_of(tx: &mut Tx<'_>, object: ObjectId, limit: usize) -> Result<Vec<RelationshipId>> {
    let sql = format!(
        "{} SELECT r.id FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND {HAS_LIVE_ENDS} LIMIT $2",
        edges_of_object_sql("$1", Direction::Both, IS_LIVE),
    );
    tx.query(&sql, params![object, limit], |row| row.get(0))
}

/// The bytes of one batch of [`list_live_after`].
const LIVE_BATCH_BYTES: usize = 4 << 20;

/// Some of the live relationships of an object with one of these types, after the row number `after`, each with
/// its row number. An empty list is the end.
pub fn list_live_after(
    tx: &mut Tx<'_>,
    object: ObjectId,
    types: &[&str],
    after: i64,
) -> Result<Vec<(i64, Relationship)>> {
    let mut params = vec![Param::from(object), Param::from(after)];
    params.extend(types.iter().map(|type_| Param::from(*type_)));
    let sql = format!(
        "{} SELECT r.no, {} FROM near CROSS JOIN graph_relationships AS r
         WHERE r.no = near.no AND r.no > $2 AND r.type IN ({}) AND {HAS_LIVE_ENDS}
         ORDER BY r.no LIMIT 500",
        edges_of_object_sql("$1", Direction::Both, IS_LIVE),
        Relationship::columns_of("r"),
        page::placeholders(3, types.len()),
    );
    let read = |row: &Row<'_>| Ok((row.get(0)?, Relationship::from_row_at(row, 1)?));
    Ok(tx.query_up_to(LIVE_BATCH_BYTES, &sql, &params, read)?.0)
}
