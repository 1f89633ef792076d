//! Finds what the tool calls of one run wrote, so that it can be reverted. Versions that the server wrote
//! about the run, such as its session, have no tool call as author and are not included.

use emergent_domain::{
    ids::{DocumentId, ObjectId, ProjectId, RelationshipId, RunId},
    object::Object,
    relationship::Relationship,
};

use std::collections::BTreeSet;

use crate::{
    error::Result,
    objects, page, params, relationships,
    row::TableRow,
    tx::Tx,
    value::{Column, Param, Row},
};

/// The versions of one object or relationship that a run wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenVersions<Id> {
    pub id: Id,
    /// The first version that the run wrote.
    pub first: i64,
    /// How many versions the run wrote.
    pub count: i64,
}

fn from_row<Id: Column>(row: &Row<'_>) -> Result<WrittenVersions<Id>> {
    Ok(WrittenVersions { id: row.get(0)?, first: row.get(1)?, count: row.get(2)? })
}

/// The objects of a project that a run wrote, by id.
pub fn objects(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Vec<WrittenVersions<ObjectId>>> {
    tx.query(
        "SELECT id, min(version), count(*) FROM (
             SELECT id, version FROM graph_objects
             WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL
             UNION ALL
             SELECT object_id, version FROM graph_object_versions
             WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL
         ) AS written GROUP BY id ORDER BY id",
        params![run, project],
        from_row,
    )
}

/// The relationships of a project that a run wrote, by id. Includes those it deleted together with an object,
/// except those that these runs, which are reverted together, changed only by deleting one of the objects `hubs`.
pub fn relationships(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
    runs: &BTreeSet<RunId>,
    hubs: &[ObjectId],
) -> Result<Vec<WrittenVersions<RelationshipId>>> {
    let mut params = vec![Param::from(run), Param::from(project)];
    let (mut except_newest, mut except_earlier) = (String::new(), String::new());
    if !hubs.is_empty() {
        let with_hub = format!(
            "w.deleted_with IS NOT NULL AND w.deleted_with IN ({})",
            page::placeholders(3, hubs.len())
        );
        let by_runs = format!(
            "o.author_tool_call IS NOT NULL AND o.author_run IN ({})",
            page::placeholders(3 + hubs.len(), runs.len())
        );
        except_newest = format!(
            " AND NOT ({with_hub} AND NOT EXISTS (
                 SELECT 1 FROM graph_relationship_versions AS o WHERE o.relationship_id = w.id AND {by_runs}))"
        );
        except_earlier = format!(
            " AND NOT ({with_hub} AND NOT EXISTS (
                 SELECT 1 FROM graph_relationship_versions AS o
                 WHERE o.relationship_id = w.relationship_id AND o.version <> w.version AND {by_runs})
             AND NOT EXISTS (
                 SELECT 1 FROM graph_relationships AS o WHERE o.id = w.relationship_id AND {by_runs}))"
        );
        params.extend(hubs.iter().map(|hub| Param::from(*hub)));
        params.extend(runs.iter().map(|run| Param::from(*run)));
    }
    let sql = format!(
        "SELECT id, min(version), count(*) FROM (
             SELECT w.id, w.version FROM graph_relationships AS w
             WHERE w.author_run = $1 AND w.project_id = $2 AND w.author_tool_call IS NOT NULL{except_newest}
             UNION ALL
             SELECT w.relationship_id, w.version FROM graph_relationship_versions AS w
             WHERE w.author_run = $1 AND w.project_id = $2 AND w.author_tool_call IS NOT NULL{except_earlier}
         ) AS written GROUP BY id ORDER BY id"
    );
    tx.query(&sql, &params, from_row)
}

/// The objects together with which the tools of a run deleted at least `min` relationships.
pub fn list_hubs(tx: &mut Tx<'_>, project: ProjectId, run: RunId, min: usize) -> Result<Vec<ObjectId>> {
    tx.query(
        "SELECT deleted_with FROM (
             SELECT deleted_with FROM graph_relationships
             WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL AND deleted_with IS NOT NULL
             UNION ALL
             SELECT deleted_with FROM graph_relationship_versions
             WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL AND deleted_with IS NOT NULL
         ) AS deleted GROUP BY deleted_with HAVING count(*) >= $3 ORDER BY deleted_with",
        params![run, project, min],
        |row| row.get(0),
    )
}

/// The version of a live object that restored it; `None` if it was never deleted.
pub fn find_restoring_version(tx: &mut Tx<'_>, id: ObjectId) -> Result<Option<i64>> {
    let sql =
        "SELECT max(version) FROM graph_object_versions WHERE object_id = $1 AND deleted_at IS NOT NULL";
    let tombstone = tx.query_opt(sql, params![id], |row| row.get::<Option<i64>>(0))?;
    Ok(tombstone.flatten().map(|version| version + 1))
}

/// The live documents of a project that a run added.
pub fn documents(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Vec<DocumentId>> {
    tx.query(
        "SELECT id FROM documents WHERE author_run = $1 AND project_id = $2 AND deleted_at IS NULL ORDER BY id",
        params![run, project],
        |row| row.get(0),
    )
}

/// What still stands of the writes of a run: entities that have its content, whoever wrote them after it, and those that
/// it deleted last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandingWrites {
    pub objects: i64,
    pub relationships: i64,
    pub documents: i64,
}

impl StandingWrites {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts what still stands of the writes of a run. `revert_reasons` are those of the versions with which the run was
/// reverted: what it wrote before them does not stand any more.
pub fn count_standing_writes(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
    revert_reasons: &[String],
) -> Result<StandingWrites> {
    let sql =
        "SELECT count(*) FROM documents WHERE author_run = $1 AND project_id = $2 AND deleted_at IS NULL";
    Ok(StandingWrites {
        objects: count_standing(tx, project, run, revert_reasons, "graph_objects", "object_id")?,
        relationships: count_standing(
            tx,
            project,
            run,
            revert_reasons,
            "graph_relationships",
            "relationship_id",
        )?,
        documents: tx.query_opt(sql, params![run, project], |row| row.get(0))?.unwrap_or(0),
    })
}

/// Counts the rows of `table` that a run wrote and whose content has what it wrote. `id_column` is their id in the table
/// of earlier versions.
fn count_standing(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
    revert_reasons: &[String],
    table: &str,
    id_column: &str,
) -> Result<i64> {
    let versions = format!("{}_versions", table.trim_end_matches('s'));
    let is_revert = match revert_reasons.len() {
        0 => "1 = 0".to_owned(),
        count => format!("v.reason IS NOT NULL AND v.reason IN ({})", page::placeholders(3, count)),
    };
    // A deletion stands only while it is the newest version: whoever restores an entity undoes it.
    let sql = format!(
        "SELECT count(*) FROM (
             SELECT id, max(version) AS version FROM (
                 SELECT id, version FROM {table}
                 WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL
                 UNION ALL
                 SELECT {id_column} AS id, version FROM {versions}
                 WHERE author_run = $1 AND project_id = $2 AND author_tool_call IS NOT NULL AND deleted_at IS NULL
             ) AS versions_of_run GROUP BY id
         ) AS w
         WHERE EXISTS (
                 SELECT 1 FROM {table} AS v WHERE v.id = w.id
                     AND (v.version = w.version OR (v.deleted_at IS NULL AND NOT ({is_revert}))))
             AND NOT EXISTS (
                 SELECT 1 FROM {versions} AS v WHERE v.{id_column} = w.id AND v.version > w.version AND {is_revert})"
    );
    let mut params = vec![Param::from(run), Param::from(project)];
    params.extend(revert_reasons.iter().map(|reason| Param::from(reason.as_str())));
    Ok(tx.query_opt(&sql, &params, |row| row.get(0))?.unwrap_or(0))
}

/// Who wrote the versions of an object after this one, each once: the run whose tool call did, or `None` for everybody
/// else.
pub fn object_authors_since(tx: &mut Tx<'_>, id: ObjectId, version: i64) -> Result<Vec<Option<RunId>>> {
    let sql = "SELECT CASE WHEN author_tool_call IS NOT NULL THEN author_run END FROM graph_objects
               WHERE id = $1 AND version > $2
               UNION
               SELECT CASE WHEN author_tool_call IS NOT NULL THEN author_run END FROM graph_object_versions
               WHERE object_id = $1 AND version > $2";
    tx.query(sql, params![id, version], |row| row.get(0))
}

/// As [`object_authors_since`], of a relationship.
pub fn relationship_authors_since(
    tx: &mut Tx<'_>,
    id: RelationshipId,
    version: i64,
) -> Result<Vec<Option<RunId>>> {
    let sql = "SELECT CASE WHEN author_tool_call IS NOT NULL THEN author_run END FROM graph_relationships
               WHERE id = $1 AND version > $2
               UNION
               SELECT CASE WHEN author_tool_call IS NOT NULL THEN author_run END FROM graph_relationship_versions
               WHERE relationship_id = $1 AND version > $2";
    tx.query(sql, params![id, version], |row| row.get(0))
}

/// An earlier version of an object; `None` for its newest version, which is not in the history.
pub fn object_version(tx: &mut Tx<'_>, id: ObjectId, version: i64) -> Result<Option<Object>> {
    let columns = &*objects::VERSION_COLUMNS;
    let sql = format!("SELECT {columns} FROM graph_object_versions WHERE object_id = $1 AND version = $2");
    tx.query_opt(&sql, params![id, version], Object::from_row)
}

/// An earlier version of a relationship; `None` for its newest version, which is not in the history.
pub fn relationship_version(
    tx: &mut Tx<'_>,
    id: RelationshipId,
    version: i64,
) -> Result<Option<Relationship>> {
    let columns = &*relationships::VERSION_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM graph_relationship_versions WHERE relationship_id = $1 AND version = $2"
    );
    tx.query_opt(&sql, params![id, version], Relationship::from_row)
}

/// The newest version of a relationship, even a tombstone, locked until the transaction ends.
pub fn lock_relationship(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RelationshipId,
) -> Result<Option<Relationship>> {
    let sql = format!(
        "SELECT {} FROM graph_relationships WHERE id = $1 AND project_id = $2{}",
        Relationship::COLUMNS,
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project], Relationship::from_row)
}
