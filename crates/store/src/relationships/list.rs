//! Lists relationships and the versions of one, page by page.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
};

use super::{COLUMNS, HAS_LIVE_ENDS, VERSION_COLUMNS, edges_of_object_sql};
use crate::{error::Result, page, row::TableRow, tx::Tx, value::Param};

/// Which relationships to list. Every field that is set must match.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RelationshipFilter {
    /// Any of these types; empty means every type.
    pub types: Vec<String>,
    pub from: Option<ObjectId>,
    pub to: Option<ObjectId>,
}

/// Live relationships that match a filter, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RelationshipFilter,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    match (filter.from, filter.to) {
        (Some(from), to) => list_at_object(tx, project, (from, Direction::Out), to, &filter.types, page),
        (None, Some(to)) => list_at_object(tx, project, (to, Direction::In), None, &filter.types, page),
        (None, None) => {
            let all_edges =
                FromClause { with: String::new(), tables: "graph_relationships AS r", join: String::new() };
            select_page(tx, &all_edges, vec![Param::from(project)], &filter.types, page)
        }
    }
}

/// The tombstones of deleted relationships that match a filter; those of the relationships that were created last come
/// first. Relationships that were deleted with one of their ends are left out: they are restored with it.
pub fn list_deleted(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RelationshipFilter,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let mut params = vec![Param::from(project)];
    let mut conditions = String::new();
    for (column, end) in [("from_id", filter.from), ("to_id", filter.to)] {
        if let Some(end) = end {
            params.push(Param::from(end));
            conditions.push_str(&format!(" AND {column} = ${}", params.len()));
        }
    }
    if !filter.types.is_empty() {
        let first = params.len() + 1;
        conditions.push_str(&format!(" AND type IN ({})", page::placeholders(first, filter.types.len())));
        params.extend(filter.types.iter().cloned().map(Param::from));
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships
         WHERE project_id = $1 AND deleted_at IS NOT NULL AND deleted_with IS NULL{conditions}{after}
         ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Relationship::from_row, |edge| Cursor {
        created_at: edge.created_at,
        id: edge.id.0,
    })
}

/// The live relationships of an object, newest first.
pub fn list_for_object(
    tx: &mut Tx<'_>,
    project: ProjectId,
    object: ObjectId,
    direction: Direction,
    types: &[String],
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    list_at_object(tx, project, (object, direction), None, types, page)
}

/// The edges at one object, optionally only those to another object.
fn list_at_object(
    tx: &mut Tx<'_>,
    project: ProjectId,
    (object, direction): (ObjectId, Direction),
    to: Option<ObjectId>,
    types: &[String],
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let mut params = vec![Param::from(project), Param::from(object)];
    let mut join = " AND r.no = near.no".to_owned();
    if let Some(to) = to {
        params.push(Param::from(to));
        join.push_str(" AND r.to_id = $3");
    }
    let with = edges_of_object_sql("$2", direction, super::IS_LIVE);
    select_page(
        tx,
        &FromClause { with, tables: "near CROSS JOIN graph_relationships AS r", join },
        params,
        types,
        page,
    )
}

/// The tables that the rows `r` of a page come from. The project is `$1`.
struct FromClause {
    /// A `WITH` clause; may be empty.
    with: String,
    tables: &'static str,
    /// The join condition, ` AND …`; may be empty.
    join: String,
}

fn select_page(
    tx: &mut Tx<'_>,
    from: &FromClause,
    mut params: Vec<Param<'_>>,
    types: &[String],
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let FromClause { with, tables, join } = from;
    let mut conditions = String::new();
    if !types.is_empty() {
        conditions
            .push_str(&format!(" AND r.type IN ({})", page::placeholders(params.len() + 1, types.len())));
        params.extend(types.iter().cloned().map(Param::from));
    }
    let (after, values) = page::after_cursor_sql(page, "r.created_at", "r.id", params.len() + 1);
    params.extend(values);
    // The edges of one object are looked up by their numbers. PostgreSQL might read all edges of the project instead,
    // because an index has them in the order of the page.
    let live = match with.is_empty() {
        true => "r.project_id = $1 AND r.deleted_at IS NULL".to_owned(),
        false => page::on_row("r.project_id = $1 AND r.deleted_at IS NULL"),
    };
    let sql = format!(
        "{with} SELECT {} FROM {tables} WHERE {live}{join}{conditions}{after}
             AND {HAS_LIVE_ENDS}
         ORDER BY r.created_at DESC, r.id DESC{}",
        Relationship::columns_of("r"),
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Relationship::from_row, |edge| Cursor {
        created_at: edge.created_at,
        id: edge.id.0,
    })
}

/// Every version of a relationship, tombstones included, newest first. The cursor is the time of a version.
pub fn history(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RelationshipId,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let mut params = vec![Param::from(id), Param::from(project)];
    let mut after = String::new();
    if let Some(cursor) = page.after {
        after.push_str(" AND updated_at < $3");
        params.push(Param::from(cursor.created_at));
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_relationships WHERE id = $1 AND project_id = $2{after}
         UNION ALL
         SELECT {} FROM graph_relationship_versions
         WHERE relationship_id = $1 AND project_id = $2{after}
         ORDER BY version DESC{}",
        *VERSION_COLUMNS,
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Relationship::from_row, |edge| Cursor {
        created_at: edge.updated_at,
        id: edge.id.0,
    })
}
