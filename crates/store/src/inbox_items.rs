//! Discussions and workflows on which a person has to decide, or decided. Triggers of the database write these rows
//! when a discussion or a workflow begins or ceases to need a person (migration `inbox`).

use emergent_domain::{
    approval::{ApprovalStatus, Decision},
    cursor::{Cursor, Page, ResultPage},
    ids::ProjectId,
    inbox::{InboxItem, InboxItemKind, InboxNotice},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    error::Result,
    page, params,
    row::{self, TableRow, read_row},
    tx::Tx,
    value::Param,
    webhooks,
};

read_row! {
    InboxItem in "inbox_items" {
        id: "id",
        project: "project_id",
        kind: "kind",
        title: "title",
        status: "status",
        decision: "decision",
        created_at: "created_at",
    }
}

/// Which items to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InboxItemFilter {
    pub status: Option<ApprovalStatus>,
    pub kind: Option<InboxItemKind>,
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: Uuid) -> Result<Option<InboxItem>> {
    let sql = format!("SELECT {} FROM inbox_items WHERE id = $1 AND project_id = $2", InboxItem::COLUMNS);
    tx.query_opt(&sql, params![id, project], InboxItem::from_row)
}

/// The items of a project, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &InboxItemFilter,
    page: &Page,
) -> Result<ResultPage<InboxItem>> {
    let mut params = vec![Param::from(project)];
    let mut conditions = String::new();
    for (column, value) in
        [("status", filter.status.map(Param::from)), ("kind", filter.kind.map(Param::from))]
    {
        if let Some(value) = value {
            params.push(value);
            conditions.push_str(&format!(" AND {column} = ${}", params.len()));
        }
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {} FROM inbox_items WHERE project_id = $1{conditions}{after} ORDER BY created_at DESC, id DESC{}",
        InboxItem::COLUMNS,
        page::limit_sql(page)
    );
    let cursor_of = |item: &InboxItem| Cursor { created_at: item.created_at, id: item.id };
    page::query_page(tx, page.limit, &sql, &params, InboxItem::from_row, cursor_of)
}

/// Tells other systems how an item stands, after a change that made it one or ended it.
pub fn notify(tx: &mut Tx<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<()> {
    match get(tx, project, id)? {
        Some(item) => webhooks::enqueue(tx, &InboxNotice::for_item(&item, now)),
        None => Ok(()),
    }
}

/// Stores what a person decides about a pending item. The caller then changes the discussion or the workflow in the
/// same transaction, which ends the item.
pub fn store_decision(tx: &mut Tx<'_>, project: ProjectId, id: Uuid, decision: &Decision) -> Result<()> {
    tx.update_columns(
        InboxItem::TABLE,
        [("decision", row::to_param(decision, InboxItem::TABLE, "decision")?)],
        "id = $1 AND project_id = $2 AND status = 'pending'",
        [Param::from(id), Param::from(project)],
    )?;
    Ok(())
}
