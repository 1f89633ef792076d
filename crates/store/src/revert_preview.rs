//! Rows of a preview of a revert. Its transactions are rolled back, so a later one first writes what an earlier one would
//! have changed. Only the newest rows are written, without versions and changes for the feed: nobody else sees them.

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ObjectId, RelationshipId},
    time::Timestamp,
};

use crate::{error::Result, params, tx::Tx};

/// Marks a relationship as deleted.
pub fn delete_relationship(
    tx: &mut Tx<'_>,
    id: RelationshipId,
    deleted_with: Option<ObjectId>,
    at: Timestamp,
) -> Result<()> {
    tx.execute(
        "UPDATE graph_relationships
         SET updated_at = $2, deleted_at = COALESCE(deleted_at, $2), deleted_with = $3 WHERE id = $1",
        params![id, at, deleted_with],
    )?;
    Ok(())
}

/// Writes the type and the key of an object, and whether it is deleted.
pub fn write_object(
    tx: &mut Tx<'_>,
    id: ObjectId,
    type_: &str,
    key: Option<&str>,
    deleted_at: Option<Timestamp>,
) -> Result<()> {
    tx.execute(
        "UPDATE graph_objects SET type = $2, key = $3, deleted_at = $4 WHERE id = $1",
        params![id, type_, key, deleted_at],
    )?;
    Ok(())
}

/// The relationship with these ends that was deleted last together with one of them.
pub fn find_last_deleted_with_ends(
    tx: &mut Tx<'_>,
    from: ObjectId,
    type_: &str,
    to: ObjectId,
) -> Result<Option<RelationshipId>> {
    tx.query_opt(
        "SELECT id FROM graph_relationships
         WHERE from_id = $1 AND to_id = $2 AND type = $3
             AND deleted_at IS NOT NULL AND deleted_with IS NOT NULL
         ORDER BY updated_at DESC, id LIMIT 1",
        params![from, to, type_],
        |row| row.get(0),
    )
}

/// The objects at the other ends of the live relationships of an object.
pub fn list_neighbours(tx: &mut Tx<'_>, object: ObjectId) -> Result<BTreeSet<ObjectId>> {
    let mut neighbours = BTreeSet::new();
    for (end, other) in [("from_id", "to_id"), ("to_id", "from_id")] {
        let sql = format!("SELECT {other} FROM graph_relationships WHERE {end} = $1 AND deleted_at IS NULL");
        neighbours.extend(tx.query(&sql, params![object], |row| row.get::<ObjectId>(0))?);
    }
    neighbours.remove(&object);
    Ok(neighbours)
}
