//! Queries for graph traversal: the edges of some objects, and the objects at their ends, now or as of an
//! earlier time. The caller decides how far and in which order it traverses; it needs one statement per level
//! and direction.

use std::{collections::BinaryHeap, ops::ControlFlow};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    object::Object,
    relationship::Relationship,
    time::Timestamp,
};

use crate::{
    error::Result,
    objects::VERSION_COLUMNS,
    page, relationships,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The part of the graph that a traversal sees.
#[derive(Debug, Clone, Copy)]
pub struct Traversal<'a> {
    pub project: ProjectId,
    /// Only edges of these types; empty means every type.
    pub relationship_types: &'a [String],
    /// The graph as it was at this time; `None` means now.
    pub as_of: Option<Timestamp>,
}

/// At which end of an edge the given objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeDirection {
    /// The edges start at the objects.
    Out,
    /// The edges end at the objects.
    In,
}

/// The part of an edge that a traversal needs. An index covers it, so no row is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    pub edge: EdgeRef,
    pub from: ObjectId,
    pub to: ObjectId,
}

/// Identifies an edge to load: by its row number, or by its id in the past, where it may be in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeRef {
    RowNumber(i64),
    Id(RelationshipId),
}

impl Traversal<'_> {
    /// Visits the edges of some objects, in no order, until `visit` breaks. An end may have been deleted
    /// before its edge, so the caller checks it with [`Traversal::live_ids`] or [`Traversal::objects`].
    pub fn hops(
        &self,
        tx: &mut Tx<'_>,
        objects: &[ObjectId],
        direction: EdgeDirection,
        mut visit: impl FnMut(Hop) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        let end = match direction {
            EdgeDirection::Out => "from_id",
            EdgeDirection::In => "to_id",
        };
        for list in page::in_chunks(objects) {
            let mut params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
            let ids = page::placeholders(1, list.len());
            let types = types_sql(self.relationship_types, &mut params);
            match self.as_of {
                None => {
                    let sql = format!(
                        "SELECT from_id, to_id, no FROM graph_relationships
                         WHERE {end} IN ({ids}) AND deleted_at IS NULL{types}"
                    );
                    tx.for_each_row_while(&sql, &params, |row| {
                        let edge = EdgeRef::RowNumber(row.get(2)?);
                        flow = visit(Hop { from: row.get(0)?, to: row.get(1)?, edge });
                        Ok(flow.is_continue())
                    })?;
                }
                Some(time) => {
                    let (newest, earlier) = as_of_sql(time, &mut params);
                    let sql = format!(
                        "SELECT from_id, to_id, id FROM graph_relationships WHERE {end} IN ({ids}){newest}{types}
                         UNION ALL
                         SELECT from_id, to_id, relationship_id FROM graph_relationship_versions
                         WHERE {end} IN ({ids}){earlier}{types}"
                    );
                    tx.for_each_row_while(&sql, &params, |row| {
                        let edge = EdgeRef::Id(row.get(2)?);
                        flow = visit(Hop { from: row.get(0)?, to: row.get(1)?, edge });
                        Ok(flow.is_continue())
                    })?;
                }
            }
            if flow.is_break() {
                break;
            }
        }
        Ok(flow)
    }

    /// Those of these objects that are live and of one of these types, ordered by id. Empty `object_types`
    /// means every type. They are loaded in the order of `ids`, and those that do not fit into `room` are left out.
    pub fn objects(
        &self,
        tx: &mut Tx<'_>,
        ids: &[ObjectId],
        object_types: &[String],
        room: &mut ByteRoom,
    ) -> Result<Vec<Object>> {
        let columns = (Object::COLUMNS, VERSION_COLUMNS.as_str());
        let mut objects = load_parts(ids, room, |part, max_bytes| {
            self.select(tx, part, object_types, columns, max_bytes, Object::from_row)
        })?;
        objects.sort_unstable_by_key(|object| object.id);
        Ok(objects)
    }

    /// Like [`Traversal::objects`], but returns only the ids, in no order.
    pub fn live_ids(
        &self,
        tx: &mut Tx<'_>,
        ids: &[ObjectId],
        object_types: &[String],
    ) -> Result<Vec<ObjectId>> {
        let columns = ("id", "object_id");
        let loaded = self.select(tx, ids, object_types, columns, usize::MAX, |row| row.get(0))?;
        Ok(loaded.map(|(ids, _)| ids).unwrap_or_default())
    }

    /// Returns the values with their size, or `None` if they are larger than `max_bytes`.
    fn select<T>(
        &self,
        tx: &mut Tx<'_>,
        ids: &[ObjectId],
        object_types: &[String],
        (columns, version_columns): (&str, &str),
        max_bytes: usize,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<(Vec<T>, usize)>> {
        let mut loaded = Loaded::new(ids.len(), max_bytes);
        for list in page::in_chunks(ids) {
            let mut params = vec![Param::from(self.project)];
            params.extend(list.iter().map(|id| Param::from(*id)));
            let ids = page::placeholders(2, list.len());
            let types = types_sql(object_types, &mut params);
            let sql = match self.as_of {
                None => format!(
                    "SELECT {columns} FROM graph_objects WHERE id IN ({ids}) AND {}{types}",
                    page::on_row("project_id = $1 AND deleted_at IS NULL")
                ),
                Some(time) => {
                    let (newest, earlier) = as_of_sql(time, &mut params);
                    format!(
                        "SELECT {columns} FROM graph_objects WHERE id IN ({ids}) AND project_id = $1{newest}{types}
                         UNION ALL
                         SELECT {version_columns} FROM graph_object_versions
                         WHERE object_id IN ({ids}) AND project_id = $1{earlier}{types}"
                    )
                }
            };
            tx.for_each_row_while(&sql, &params, |row| loaded.push(row, &mut read))?;
        }
        Ok(loaded.complete())
    }

    /// The `limit` edges with the smallest ids. Does not read properties, and holds at most `limit` ids in
    /// memory. `edges` must be sorted and without duplicates.
    pub fn smallest_edges(&self, tx: &mut Tx<'_>, edges: Vec<EdgeRef>, limit: usize) -> Result<Vec<EdgeRef>> {
        if edges.len() <= limit {
            return Ok(edges);
        }
        let numbers: Vec<i64> = edges
            .iter()
            .filter_map(|edge| match edge {
                EdgeRef::RowNumber(no) => Some(*no),
                EdgeRef::Id(_) => None,
            })
            .collect();
        if numbers.is_empty() {
            return Ok(edges.into_iter().take(limit).collect());
        }
        // The largest id is on top of the heap and is dropped first.
        let mut smallest: BinaryHeap<(RelationshipId, i64)> = BinaryHeap::with_capacity(limit + 1);
        for list in page::in_chunks(&numbers) {
            let sql = format!(
                "SELECT id, no FROM graph_relationships WHERE no IN ({})",
                page::placeholders(1, list.len())
            );
            let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
            tx.for_each_row(&sql, &list, |row| {
                smallest.push((row.get(0)?, row.get(1)?));
                if smallest.len() > limit {
                    smallest.pop();
                }
                Ok(())
            })?;
        }
        Ok(smallest.into_iter().map(|(_, no)| EdgeRef::RowNumber(no)).collect())
    }

    /// Loads edges with all their columns, ordered by id. Those that do not fit into `room` are left out.
    pub fn edges(
        &self,
        tx: &mut Tx<'_>,
        edges: &[EdgeRef],
        room: &mut ByteRoom,
    ) -> Result<Vec<Relationship>> {
        let mut relationships =
            load_parts(edges, room, |part, max_bytes| self.select_edges(tx, part, max_bytes))?;
        relationships.sort_unstable_by_key(|edge| edge.id);
        Ok(relationships)
    }

    /// Returns the edges with their size, or `None` if they are larger than `max_bytes`.
    fn select_edges(
        &self,
        tx: &mut Tx<'_>,
        edges: &[EdgeRef],
        max_bytes: usize,
    ) -> Result<Option<(Vec<Relationship>, usize)>> {
        let mut loaded = Loaded::new(edges.len(), max_bytes);
        for list in page::in_chunks(edges) {
            let mut params: Vec<Param<'_>> = list.iter().map(|edge| Param::from(*edge)).collect();
            let placeholders = page::placeholders(1, list.len());
            let sql = match self.as_of {
                None => format!(
                    "SELECT {} FROM graph_relationships WHERE no IN ({placeholders})",
                    Relationship::COLUMNS
                ),
                Some(time) => {
                    let (newest, earlier) = as_of_sql(time, &mut params);
                    format!(
                        "SELECT {} FROM graph_relationships WHERE id IN ({placeholders}){newest}
                         UNION ALL
                         SELECT {} FROM graph_relationship_versions WHERE relationship_id IN ({placeholders}){earlier}",
                        Relationship::COLUMNS,
                        *relationships::VERSION_COLUMNS
                    )
                }
            };
            tx.for_each_row_while(&sql, &params, |row| loaded.push(row, Relationship::from_row))?;
        }
        Ok(loaded.complete())
    }
}

/// The bytes that a traversal may still collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRoom {
    left: usize,
    is_full: bool,
}

impl ByteRoom {
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes, is_full: false }
    }

    /// Whether something was left out because it did not fit.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

/// How many rows are loaded first. Their size says how many follow.
const FIRST_PART: usize = 32;
/// About how many bytes are loaded at once.
const PART_BYTES: usize = 2 << 20;

/// Loads rows part by part, in the order of their keys, until one does not fit into the room. The size of a part
/// follows from that of the rows before, so that the database reads little more than what fits. A part that is
/// too large is divided.
fn load_parts<K, T>(
    keys: &[K],
    room: &mut ByteRoom,
    mut load: impl FnMut(&[K], usize) -> Result<Option<(Vec<T>, usize)>>,
) -> Result<Vec<T>> {
    let mut rows = Vec::with_capacity(keys.len());
    let (mut rest, mut size) = (keys, FIRST_PART);
    while !rest.is_empty() && !room.is_full {
        let (part, after) = rest.split_at(size.min(rest.len()));
        match load(part, room.left)? {
            Some((loaded, bytes)) => {
                room.left -= bytes;
                rows.extend(loaded);
                rest = after;
                let row_bytes = (bytes / part.len()).max(1);
                size = (PART_BYTES / row_bytes).clamp(1, (part.len() * 16).min(page::MAX_CHUNK));
            }
            None if part.len() > 1 => size = part.len() / 2,
            None => room.is_full = true,
        }
    }
    Ok(rows)
}

/// Collects rows up to a size.
struct Loaded<T> {
    values: Vec<T>,
    bytes: usize,
    max_bytes: usize,
}

impl<T> Loaded<T> {
    fn new(rows: usize, max_bytes: usize) -> Self {
        Self { values: Vec::with_capacity(rows), bytes: 0, max_bytes }
    }

    /// Adds a row. Returns false if there are too many bytes.
    fn push(&mut self, row: &Row<'_>, mut read: impl FnMut(&Row<'_>) -> Result<T>) -> Result<bool> {
        self.bytes = self.bytes.saturating_add(row.bytes());
        if self.bytes > self.max_bytes {
            return Ok(false);
        }
        self.values.push(read(row)?);
        Ok(true)
    }

    /// The values with their size, or `None` if they are too large.
    fn complete(self) -> Option<(Vec<T>, usize)> {
        (self.bytes <= self.max_bytes).then_some((self.values, self.bytes))
    }
}

impl From<EdgeRef> for Param<'_> {
    fn from(edge: EdgeRef) -> Self {
        match edge {
            EdgeRef::RowNumber(no) => Param::from(no),
            EdgeRef::Id(id) => Param::from(id),
        }
    }
}

/// ` AND type IN (…)`, or nothing when `types` is empty.
fn types_sql<'a>(types: &'a [String], params: &mut Vec<Param<'a>>) -> String {
    if types.is_empty() {
        return String::new();
    }
    let first = params.len() + 1;
    params.extend(types.iter().map(Param::from));
    format!(" AND type IN ({})", page::placeholders(first, types.len()))
}

/// The conditions for rows that were live at a time: for newest versions, and for versions in the history.
fn as_of_sql(time: Timestamp, params: &mut Vec<Param<'_>>) -> (String, String) {
    params.push(time.into());
    let newest = format!(" AND deleted_at IS NULL AND updated_at <= ${}", params.len());
    let earlier = format!("{newest} AND valid_to > ${}", params.len());
    (newest, earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_more_is_loaded_than_what_fits() {
        let load = |row_bytes: usize, keys: usize| {
            let (mut loaded, mut room) = (0, ByteRoom::new(16 << 20));
            let keys: Vec<usize> = (0..keys).collect();
            let rows = load_parts(&keys, &mut room, |part, max_bytes| {
                let bytes = part.len() * row_bytes;
                loaded += bytes.min(max_bytes + row_bytes);
                Ok((bytes <= max_bytes).then(|| (part.to_vec(), bytes)))
            });
            let rows = rows.unwrap();
            assert!(rows.iter().copied().eq(0..rows.len()), "in the order of the keys");
            (rows.len(), room.is_full(), loaded >> 20)
        };
        assert_eq!(load(100, 5_000), (5_000, false, 0));
        let (rows, is_full, loaded) = load(1 << 20, 5_000);
        assert!((rows, is_full) == (16, true) && loaded < 64, "{rows} rows of {loaded} MiB");
        let (rows, is_full, loaded) = load(64 << 10, 5_000);
        assert!((rows, is_full) == (256, true) && loaded < 24, "{rows} rows of {loaded} MiB");
    }
}
