//! Sources: the chunks that back an object or a relationship. Each run that names a source adds a row of its
//! own, so that reverting a run deletes only that run's rows. Lists show a chunk once, however many runs
//! named it.

use std::collections::{BTreeSet, HashMap, HashSet};

use emergent_domain::{
    author::Author,
    ids::{ChunkId, ObjectId, ProjectId, RelationshipId, RunId},
    merge::Source,
    object::Object,
    relationship::Relationship,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    author,
    error::Result,
    page, params,
    relationships::HAS_LIVE_ENDS,
    row::{TableRow, read_row},
    tx::Tx,
    value::Param,
};

/// What a source backs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceOwner {
    Object,
    Relationship,
}

impl SourceOwner {
    fn as_str(self) -> &'static str {
        match self {
            SourceOwner::Object => "object",
            SourceOwner::Relationship => "relationship",
        }
    }
}

/// A chunk as a source; `None` unless it belongs to a live document of the project.
pub fn find_chunk(tx: &mut Tx<'_>, project: ProjectId, chunk: ChunkId) -> Result<Option<Source>> {
    let sql = format!(
        "SELECT {} FROM document_chunks AS c JOIN documents AS d ON d.id = c.document_id {MESSAGE_OF_DOCUMENT}
         WHERE c.id = $1 AND c.project_id = $2 AND d.deleted_at IS NULL",
        Source::COLUMNS
    );
    tx.query_opt(&sql, params![chunk, project], Source::from_row)
}

read_row! {
    Source in "document_chunks" {
        chunk: "c.id",
        document: "c.document_id",
        title: "d.title" @ "documents",
        index: "c.idx",
        heading: "c.heading",
        deleted: "d.deleted_at IS NOT NULL" @ "documents",
        message: "m.message_id" @ "chat_memories",
        conversation: "m.conversation_id" @ "chat_memories",
        run: "m.run_id" @ "chat_memories",
    }
}

/// Joins the message that a document is, if it is one of a conversation that exists.
const MESSAGE_OF_DOCUMENT: &str =
    "LEFT JOIN chat_memories AS m ON m.document_id = d.id AND m.status = 'stored'";

/// Adds a source to an object or relationship. Returns false when the run `by` has named it before. All
/// authors that are not runs count as one.
pub fn add(
    tx: &mut Tx<'_>,
    project: ProjectId,
    (owner, entity): (SourceOwner, Uuid),
    source: &Source,
    at: Timestamp,
    by: Author,
) -> Result<bool> {
    let [_, _, tool_call] = author::params(by);
    // The id of the run; the nil UUID stands for all authors that are not runs.
    let said_by = match by {
        Author::Run { run_id, .. } => run_id.0,
        Author::Token { .. } | Author::System => Uuid::nil(),
    };
    let columns = [
        ("entity_id", Param::from(entity)),
        ("chunk_id", Param::from(source.chunk)),
        ("kind", Param::from(owner.as_str())),
        ("project_id", Param::from(project)),
        ("document_id", Param::from(source.document)),
        ("created_at", Param::from(at)),
        ("said_by", Param::from(said_by)),
        ("author_tool_call", tool_call),
    ];
    let skip_existing = "ON CONFLICT (entity_id, chunk_id, said_by) DO NOTHING";
    let added = tx.insert_columns("graph_sources", columns, skip_existing)?;
    Ok(added == 1)
}

/// The newest sources of each entity, at most `limit` of one. Entities without sources are left out.
pub fn list_for(
    tx: &mut Tx<'_>,
    project: ProjectId,
    entities: &[Uuid],
    limit: usize,
) -> Result<HashMap<Uuid, Vec<Source>>> {
    list(tx, project, entities, limit, None)
}

/// Like [`list_for`], without the sources that were added after `as_of`.
pub fn list_known_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    entities: &[Uuid],
    limit: usize,
    as_of: Timestamp,
) -> Result<HashMap<Uuid, Vec<Source>>> {
    list(tx, project, entities, limit, Some(as_of))
}

fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    entities: &[Uuid],
    limit: usize,
    as_of: Option<Timestamp>,
) -> Result<HashMap<Uuid, Vec<Source>>> {
    let mut sources: HashMap<Uuid, Vec<Source>> = HashMap::new();
    for list in page::in_chunks(entities) {
        let sql = format!(
            "SELECT s.entity_id, {}
             FROM (
                 SELECT entity_id, chunk_id,
                     row_number() OVER (PARTITION BY entity_id ORDER BY first_said DESC, chunk_id DESC) AS place
                 FROM (
                     SELECT entity_id, chunk_id, min(created_at) AS first_said
                     FROM graph_sources WHERE project_id = $1 AND entity_id IN ({}){}
                     GROUP BY entity_id, chunk_id
                 ) AS once
             ) AS s
             JOIN document_chunks AS c ON c.id = s.chunk_id JOIN documents AS d ON d.id = c.document_id
             {MESSAGE_OF_DOCUMENT}
             WHERE s.place <= $2 ORDER BY s.entity_id, s.place",
            Source::COLUMNS,
            page::placeholders(3, list.len()),
            as_of.map(|_| format!(" AND created_at <= ${}", list.len() + 3)).unwrap_or_default()
        );
        let mut params = vec![Param::from(project), Param::from(limit)];
        params.extend(list.into_iter().map(Param::from));
        params.extend(as_of.map(Param::from));
        for (entity, source) in
            tx.query(&sql, &params, |row| Ok((row.get(0)?, Source::from_row_at(row, 1)?)))?
        {
            sources.entry(entity).or_default().push(source);
        }
    }
    Ok(sources)
}

/// A live object, and whether it has sources. Most objects have none, so that the flag saves a second query.
pub fn get_object_with_flag(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ObjectId,
) -> Result<Option<(Object, bool)>> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM graph_sources AS s WHERE s.entity_id = o.id), {}
         FROM graph_objects AS o WHERE o.id = $1 AND coalesce(o.project_id = $2 AND o.deleted_at IS NULL, false)",
        Object::columns_of("o")
    );
    tx.query_opt(&sql, params![id, project], |row| Ok((Object::from_row_at(row, 1)?, row.get(0)?)))
}

/// Like [`get_object_with_flag`], for a live relationship.
pub fn get_relationship_with_flag(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RelationshipId,
) -> Result<Option<(Relationship, bool)>> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM graph_sources AS s WHERE s.entity_id = r.id), {}
         FROM graph_relationships AS r
         WHERE r.id = $1 AND coalesce(r.project_id = $2 AND r.deleted_at IS NULL, false) AND {HAS_LIVE_ENDS}",
        Relationship::columns_of("r")
    );
    tx.query_opt(&sql, params![id, project], |row| Ok((Relationship::from_row_at(row, 1)?, row.get(0)?)))
}

/// Those of these objects or relationships for which an author other than these runs named a source.
pub fn with_other_authors(
    tx: &mut Tx<'_>,
    project: ProjectId,
    entities: &[Uuid],
    runs: &BTreeSet<RunId>,
) -> Result<HashSet<Uuid>> {
    let mut found = HashSet::new();
    for list in page::in_chunks(entities) {
        let sql = format!(
            "SELECT DISTINCT entity_id, said_by FROM graph_sources WHERE entity_id IN ({}) AND {}",
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        let authors: Vec<(Uuid, RunId)> = tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.extend(
            authors.into_iter().filter(|(_, author)| !runs.contains(author)).map(|(entity, _)| entity),
        );
    }
    Ok(found)
}

/// The entities with sources that a run named, and how many of them each has, by id.
pub fn list_for_run(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Vec<(Uuid, i64)>> {
    tx.query(
        "SELECT entity_id, count(*) FROM graph_sources WHERE said_by = $1 AND project_id = $2
         GROUP BY entity_id ORDER BY entity_id",
        params![run, project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Deletes the sources of these entities that a run named.
pub fn delete_for_run(tx: &mut Tx<'_>, project: ProjectId, run: RunId, entities: &[Uuid]) -> Result<()> {
    for list in page::in_chunks(entities) {
        // Not by the run: it may have named sources of many more entities.
        let sql = format!(
            "DELETE FROM graph_sources WHERE entity_id IN ({}) AND {}",
            page::placeholders(3, list.len()),
            page::on_row("said_by = $1 AND project_id = $2")
        );
        let mut params = vec![Param::from(run), Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}
