//! Pages of relationships.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId, RelationshipId},
    query::Direction,
    relationship::Relationship,
};

use super::{COLUMNS, VERSION_COLUMNS, edges_of_object_sql};
use crate::{error::Result, page, row::TableRow, tx::Tx, value::Param};

/// Which relationships: every part that is given must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RelationshipFilter {
    /// Any of these types; empty is every type.
    pub types: Vec<String>,
    pub from: Option<ObjectId>,
    pub to: Option<ObjectId>,
}

/// Live relationships, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    wanted: &RelationshipFilter,
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    match (wanted.from, wanted.to) {
        (Some(from), to) => list_at_object(tx, project, (from, Direction::Out), to, &wanted.types, page),
        (None, Some(to)) => list_at_object(tx, project, (to, Direction::In), None, &wanted.types, page),
        (None, None) => {
            let all =
                FromClause { with: String::new(), tables: "graph_relationships AS r", joined: String::new() };
            select_page(tx, &all, vec![Param::from(project)], &wanted.types, page)
        }
    }
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

fn list_at_object(
    tx: &mut Tx<'_>,
    project: ProjectId,
    (object, direction): (ObjectId, Direction),
    to: Option<ObjectId>,
    types: &[String],
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let mut params = vec![Param::from(project), Param::from(object)];
    let mut joined = " AND r.no = near.no".to_owned();
    if let Some(to) = to {
        params.push(Param::from(to));
        joined.push_str(" AND r.to_id = $3");
    }
    let with = edges_of_object_sql("$2", direction, super::IS_LIVE);
    select_page(
        tx,
        &FromClause { with, tables: "near CROSS JOIN graph_relationships AS r", joined },
        params,
        types,
        page,
    )
}

/// Where a page's rows `r` come from. The project is `$1`.
struct FromClause {
    with: String,
    tables: &'static str,
    joined: String,
}

fn select_page(
    tx: &mut Tx<'_>,
    source: &FromClause,
    mut params: Vec<Param<'_>>,
    types: &[String],
    page: &Page,
) -> Result<ResultPage<Relationship>> {
    let FromClause { with, tables, joined } = source;
    let mut conditions = String::new();
    if !types.is_empty() {
        conditions
            .push_str(&format!(" AND r.type IN ({})", page::placeholders(params.len() + 1, types.len())));
        params.extend(types.iter().cloned().map(Param::from));
    }
    let (after, values) = page::after_cursor_sql(page, "r.created_at", "r.id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "{with} SELECT {} FROM {tables} WHERE r.project_id = $1 AND r.deleted_at IS NULL{joined}{conditions}{after}
         ORDER BY r.created_at DESC, r.id DESC{}",
        Relationship::columns_of("r"),
        page::limit_sql(page)
    );
    let rows = tx.query(&sql, &params, Relationship::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |edge| Cursor { created_at: edge.created_at, id: edge.id.0 }))
}

/// Every version, newest first, tombstones too. A cursor here is the moment of a version.
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
    let rows = tx.query(&sql, &params, Relationship::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |edge| Cursor { created_at: edge.updated_at, id: edge.id.0 }))
}
