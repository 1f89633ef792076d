//! Lists relationships as they were at an earlier time. The relationships of a project are read as the objects in
//! `objects/as_of.rs`; those of one object are found by their ends, and then sorted.

use std::cmp::Reverse;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
    time::Timestamp,
};

use super::RelationshipFilter;
use crate::{
    error::Result,
    page,
    traversal::{ByteRoom, EdgeRef, Traversal},
    tx::Tx,
    value::Param,
};

/// Whether the row `r` was live at the time `$2`.
const WAS_LIVE: &str = "((r.deleted_at IS NULL AND r.updated_at <= $2) OR (r.updated_at > $2 AND EXISTS (
    SELECT 1 FROM graph_relationship_versions AS v WHERE v.relationship_id = r.id
        AND v.deleted_at IS NULL AND v.updated_at <= $2 AND v.valid_to > $2)))";

/// Relationships that were live at a time and match a filter, as they were then, newest first. It needs a snapshot,
/// because a concurrent update moves a version to the history.
pub fn list_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RelationshipFilter,
    as_of: Timestamp,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let ends = match (filter.from, filter.to) {
        (Some(from), to) => Some((from, Direction::Out, to)),
        (None, Some(to)) => Some((to, Direction::In, None)),
        (None, None) => None,
    };
    select_page_at(tx, project, ends, &filter.types, as_of, page)
}

/// The relationships of an object that were live at a time, as they were then, newest first. It needs a snapshot.
pub fn list_for_object_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    (object, direction): (ObjectId, Direction),
    types: &[String],
    as_of: Timestamp,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    select_page_at(tx, project, Some((object, direction, None)), types, as_of, page)
}

/// A relationship that was live at a time, as it was then. It needs a snapshot.
pub fn get_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RelationshipId,
    as_of: Timestamp,
) -> Result<Option<Relationship>> {
    let traversal = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
    let edge = traversal.edges(tx, &[EdgeRef::Id(id)], &mut ByteRoom::new(usize::MAX))?.pop();
    let Some(edge) = edge.filter(|edge| edge.project == project) else { return Ok(None) };
    let ends = [edge.from, edge.to];
    let live = traversal.live_ids(tx, &ends, &[])?;
    Ok(ends.iter().all(|end| live.contains(end)).then_some(edge))
}

fn select_page_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ends: Option<(ObjectId, Direction, Option<ObjectId>)>,
    types: &[String],
    as_of: Timestamp,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let (sql, params) = list_at_sql(project, ends, types, as_of, page);
    let keys = tx.query(&sql, &params, |row| {
        Ok(Cursor { created_at: row.get(0)?, id: row.get::<RelationshipId>(1)?.0 })
    })?;
    let ResultPage { items: keys, next } = ResultPage::from_rows(keys, page.limit, |key| *key);
    let edges: Vec<EdgeRef> = keys.iter().map(|key| EdgeRef::Id(RelationshipId(key.id))).collect();
    let mut room = ByteRoom::new(page::MAX_PAGE_BYTES);
    let traversal = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
    let mut items = traversal.edges(tx, &edges, &mut room)?;
    items.sort_unstable_by_key(|edge| Reverse((edge.created_at, edge.id)));
    if !room.is_full() {
        return Ok(ResultPage { items, next });
    }
    let next = items.last().map(|edge| Cursor { created_at: edge.created_at, id: edge.id.0 });
    Ok(ResultPage { items, next })
}

/// The statement that selects the creation times and ids of a page, and its parameters. `ends` are an object, on
/// which side of the edges it is, and the object at the other side of edges that go out.
fn list_at_sql(
    project: ProjectId,
    ends: Option<(ObjectId, Direction, Option<ObjectId>)>,
    types: &[String],
    as_of: Timestamp,
    page: &Page,
) -> (String, Vec<Param<'static>>) {
    let mut params = vec![Param::from(project), Param::from(as_of)];
    let (mut conditions, values) = page::after_cursor_sql(page, "r.created_at", "r.id", params.len() + 1);
    params.extend(values);
    if !types.is_empty() {
        let list = page::placeholders(params.len() + 1, types.len());
        conditions.push_str(&format!(" AND r.type IN ({list})"));
        params.extend(types.iter().cloned().map(Param::from));
    }
    let (from, to) = (was_end_live("r.from_id"), was_end_live("r.to_id"));
    let matching =
        format!("r.project_id = $1 AND r.created_at <= $2{conditions} AND {WAS_LIVE} AND {from} AND {to}");
    let order = format!("ORDER BY created_at DESC, id DESC{}", page::limit_sql(page));
    let Some((object, direction, other)) = ends else {
        let part = |state: &str| {
            format!(
                "SELECT created_at, id FROM (SELECT r.created_at, r.id FROM graph_relationships AS r
                     WHERE {matching} AND r.deleted_at {state} {order}) AS {}",
                if state == "IS NULL" { "live" } else { "deleted" }
            )
        };
        return (format!("{} UNION ALL {} {order}", part("IS NULL"), part("IS NOT NULL")), params);
    };
    params.push(Param::from(object));
    let near = edges_in_any_state_sql(&format!("${}", params.len()), direction);
    let mut join = "r.no = near.no".to_owned();
    if let Some(other) = other {
        params.push(Param::from(other));
        join.push_str(&format!(" AND r.to_id = ${}", params.len()));
    }
    let sql = format!(
        "WITH near AS ({near}) SELECT r.created_at AS created_at, r.id AS id
         FROM near CROSS JOIN graph_relationships AS r WHERE {join} AND {matching} {order}"
    );
    (sql, params)
}

/// Whether the object at an end of `r` was live at the time `$2`. The edges of a deleted object with very many of
/// them are deleted some time after it. A scalar subquery is a lookup by id on both engines.
fn was_end_live(end: &str) -> String {
    format!(
        "(SELECT CASE WHEN (e.deleted_at IS NULL AND e.updated_at <= $2) OR (e.updated_at > $2 AND EXISTS (
              SELECT 1 FROM graph_object_versions AS w WHERE w.object_id = e.id
                  AND w.deleted_at IS NULL AND w.updated_at <= $2 AND w.valid_to > $2)) THEN 1 END
          FROM graph_objects AS e WHERE e.id = {end}) = 1"
    )
}

/// The row numbers of the edges of an object, live ones and tombstones. Each `SELECT` has a partial index.
fn edges_in_any_state_sql(object: &str, direction: Direction) -> String {
    let at = |end: &str, and: &str| {
        ["IS NULL", "IS NOT NULL"].map(|state| {
            format!("SELECT no FROM graph_relationships WHERE {end} = {object} AND deleted_at {state}{and}")
        })
    };
    let not_twice = format!(" AND from_id <> {object}");
    let selects = match direction {
        Direction::Out => at("from_id", "").to_vec(),
        Direction::In => at("to_id", "").to_vec(),
        Direction::Both => [at("from_id", ""), at("to_id", &not_twice)].concat(),
    };
    selects.join(" UNION ALL ")
}
