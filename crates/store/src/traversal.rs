//! Steps through the graph, now or as it was at a moment: the edges at some objects, and what is
//! at their ends. One statement per level and direction; in which order and how far is the
//! caller's business.

use std::collections::BinaryHeap;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    object::Object,
    relationship::Relationship,
    time::Timestamp,
};

use crate::{
    error::Result,
    objects, page, relationships,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// What is walked.
#[derive(Debug, Clone, Copy)]
pub struct Traversal<'a> {
    pub project: ProjectId,
    /// Only along edges of these types; empty is every type.
    pub relationship_types: &'a [String],
    /// `None` is now.
    pub as_of: Option<Timestamp>,
}

/// Which end of an edge the objects stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeDirection {
    /// They are where edges come from.
    Out,
    /// They are where edges lead to.
    In,
}

/// An edge as far as a walk needs it; everything in it comes from an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    pub edge: EdgeRef,
    pub from: ObjectId,
    pub to: ObjectId,
}

/// By which an edge is loaded: its row's number, or its id when the row may be an old version's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeRef {
    RowNumber(i64),
    Id(RelationshipId),
}

impl Traversal<'_> {
    /// The edges at some objects, in no order. Both ends were alive together with the edge, except
    /// that in the past an end may have been gone for a moment longer.
    pub fn hops(
        &self,
        tx: &mut Tx<'_>,
        at: &[ObjectId],
        along: EdgeDirection,
        mut visit: impl FnMut(Hop),
    ) -> Result<()> {
        let end = match along {
            EdgeDirection::Out => "from_id",
            EdgeDirection::In => "to_id",
        };
        for list in page::in_chunks(at) {
            let mut params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
            let ids = page::placeholders(1, list.len());
            let types = types_sql(self.relationship_types, &mut params);
            match self.as_of {
                None => {
                    let sql = format!(
                        "SELECT from_id, to_id, no FROM graph_relationships
                         WHERE {end} IN ({ids}) AND deleted_at IS NULL{types}"
                    );
                    tx.for_each_row(&sql, &params, |row| {
                        visit(Hop {
                            from: row.get(0)?,
                            to: row.get(1)?,
                            edge: EdgeRef::RowNumber(row.get(2)?),
                        });
                        Ok(())
                    })?;
                }
                Some(moment) => {
                    let (now, then) = as_of_sql(moment, &mut params);
                    let sql = format!(
                        "SELECT from_id, to_id, id FROM graph_relationships WHERE {end} IN ({ids}){now}{types}
                         UNION ALL
                         SELECT from_id, to_id, relationship_id FROM graph_relationship_versions
                         WHERE {end} IN ({ids}){then}{types}"
                    );
                    tx.for_each_row(&sql, &params, |row| {
                        visit(Hop { from: row.get(0)?, to: row.get(1)?, edge: EdgeRef::Id(row.get(2)?) });
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Those of these objects that are alive and of one of these types (empty is every type), by
    /// id.
    pub fn objects(&self, tx: &mut Tx<'_>, ids: &[ObjectId], object_types: &[String]) -> Result<Vec<Object>> {
        let mut found = self.select(
            tx,
            ids,
            object_types,
            (Object::COLUMNS, &objects::VERSION_COLUMNS),
            Object::from_row,
        )?;
        found.sort_unstable_by_key(|object| object.id);
        Ok(found)
    }

    /// Like [`Traversal::objects`], but returns only the ids.
    pub fn live_ids(
        &self,
        tx: &mut Tx<'_>,
        ids: &[ObjectId],
        object_types: &[String],
    ) -> Result<Vec<ObjectId>> {
        self.select(tx, ids, object_types, ("id", "object_id"), |row| row.get(0))
    }

    fn select<T>(
        &self,
        tx: &mut Tx<'_>,
        ids: &[ObjectId],
        object_types: &[String],
        (columns, version_columns): (&str, &str),
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::with_capacity(ids.len());
        for list in page::in_chunks(ids) {
            let mut params = vec![Param::from(self.project)];
            params.extend(list.iter().map(|id| Param::from(*id)));
            let ids = page::placeholders(2, list.len());
            let types = types_sql(object_types, &mut params);
            let sql = match self.as_of {
                None => format!(
                    "SELECT {columns} FROM graph_objects
                     WHERE id IN ({ids}) AND project_id = $1 AND deleted_at IS NULL{types}"
                ),
                Some(moment) => {
                    let (now, then) = as_of_sql(moment, &mut params);
                    format!(
                        "SELECT {columns} FROM graph_objects WHERE id IN ({ids}) AND project_id = $1{now}{types}
                         UNION ALL
                         SELECT {version_columns} FROM graph_object_versions
                         WHERE object_id IN ({ids}) AND project_id = $1{then}{types}"
                    )
                }
            };
            tx.for_each_row(&sql, &params, |row| {
                found.push(read(row)?);
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// As many of these edges as asked for, those with the smallest ids; read without their
    /// properties, and never more of them in memory than that. The edges are sorted, each named once.
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
        // The largest is on top, the first to make room.
        let mut kept: BinaryHeap<(RelationshipId, i64)> = BinaryHeap::with_capacity(limit + 1);
        for list in page::in_chunks(&numbers) {
            let sql = format!(
                "SELECT id, no FROM graph_relationships WHERE no IN ({})",
                page::placeholders(1, list.len())
            );
            let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
            tx.for_each_row(&sql, &list, |row| {
                kept.push((row.get(0)?, row.get(1)?));
                if kept.len() > limit {
                    kept.pop();
                }
                Ok(())
            })?;
        }
        Ok(kept.into_iter().map(|(_, no)| EdgeRef::RowNumber(no)).collect())
    }

    /// Edges in full, by id.
    pub fn edges(&self, tx: &mut Tx<'_>, edges: &[EdgeRef]) -> Result<Vec<Relationship>> {
        let mut found = Vec::with_capacity(edges.len());
        for list in page::in_chunks(edges) {
            let mut params: Vec<Param<'_>> = list.iter().map(|edge| Param::from(*edge)).collect();
            let places = page::placeholders(1, list.len());
            let sql = match self.as_of {
                None => format!(
                    "SELECT {} FROM graph_relationships WHERE no IN ({places})",
                    Relationship::COLUMNS
                ),
                Some(moment) => {
                    let (now, then) = as_of_sql(moment, &mut params);
                    format!(
                        "SELECT {} FROM graph_relationships WHERE id IN ({places}){now}
                         UNION ALL
                         SELECT {} FROM graph_relationship_versions WHERE relationship_id IN ({places}){then}",
                        Relationship::COLUMNS,
                        *relationships::VERSION_COLUMNS
                    )
                }
            };
            tx.for_each_row(&sql, &params, |row| {
                found.push(Relationship::from_row(row)?);
                Ok(())
            })?;
        }
        found.sort_unstable_by_key(|edge| edge.id);
        Ok(found)
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

/// ` AND type IN (…)`, or nothing when every type will do.
fn types_sql<'a>(types: &'a [String], params: &mut Vec<Param<'a>>) -> String {
    if types.is_empty() {
        return String::new();
    }
    let first = params.len() + 1;
    params.extend(types.iter().map(Param::from));
    format!(" AND type IN ({})", page::placeholders(first, types.len()))
}

/// What holds of a newest row, and of an old version, that was alive at a moment.
fn as_of_sql(moment: Timestamp, params: &mut Vec<Param<'_>>) -> (String, String) {
    params.push(moment.into());
    let now = format!(" AND deleted_at IS NULL AND updated_at <= ${}", params.len());
    let then = format!("{now} AND valid_to > ${}", params.len());
    (now, then)
}
