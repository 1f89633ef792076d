//! Counts a project's objects, relationships and documents.

use emergent_domain::ids::ProjectId;

use crate::{error::Result, params, tx::Tx};

/// The types of a project's live objects with the number of objects of each, sorted by type.
pub fn count_object_types(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(String, i64)>> {
    count_by_type(tx, project, "graph_objects")
}

/// The types of a project's live relationships with the number of relationships of each, sorted by type.
pub fn count_relationship_types(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(String, i64)>> {
    count_by_type(tx, project, "graph_relationships")
}

fn count_by_type(tx: &mut Tx<'_>, project: ProjectId, table: &str) -> Result<Vec<(String, i64)>> {
    let sql = format!(
        "SELECT type, count(*) FROM {table} WHERE project_id = $1 AND deleted_at IS NULL GROUP BY type"
    );
    let mut counts = tx.query(&sql, params![project], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // Sorted here and not in SQL, because the order of SQL depends on the engine and the locale.
    counts.sort();
    Ok(counts)
}

/// The number of a project's live documents.
pub fn count_documents(tx: &mut Tx<'_>, project: ProjectId) -> Result<i64> {
    let sql = "SELECT count(*) FROM documents WHERE project_id = $1 AND deleted_at IS NULL";
    Ok(tx.query_opt(sql, params![project], |row| row.get(0))?.unwrap_or(0))
}
