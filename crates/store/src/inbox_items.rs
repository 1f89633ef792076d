//! Discussions and workflows on which a person has to decide, or decided. The writers of workflows and objects call
//! [`record_workflow`] and [`record_object`]; `domain::inbox` has the rules.

use emergent_domain::{
    approval::{ApprovalStatus, Decision},
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, WorkflowId},
    inbox::{InboxItem, InboxItemKind, InboxNotice, PersonNeeded},
    object::Object,
    workflow::Workflow,
};
use uuid::Uuid;

use crate::{
    error::Result,
    page, params,
    row::{self, TableRow, row},
    tx::Tx,
    value::Param,
    webhooks,
};

row! {
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
    let sql = format!(
        "SELECT {} FROM inbox_items WHERE id = $1 AND coalesce(project_id = $2, false)",
        InboxItem::COLUMNS
    );
    tx.query_opt(&sql, params![id, project], InboxItem::from_row)
}

/// The items of a project, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &InboxItemFilter,
    page: &Page,
) -> Result<ResultPage<InboxItem>> {
    let columns = [("status", filter.status.map(Param::from)), ("kind", filter.kind.map(Param::from))];
    let cursor_of = |item: &InboxItem| Cursor { created_at: item.created_at, id: item.id };
    page::list_newest(tx, project, &columns, None, page, cursor_of)
}

/// Opens or ends the item of a workflow that has changed, if it begins or ceases to need a person.
pub fn record_workflow(tx: &mut Tx<'_>, workflow: &Workflow) -> Result<()> {
    let new = InboxItem::new(workflow.id.0, workflow.project, InboxItemKind::Escalation, workflow.updated_at);
    record(tx, new, PersonNeeded::for_workflow(workflow))
}

/// Opens or ends the item of a discussion that was written, if it begins or ceases to need a person. Other objects have
/// no items. The caller has locked the row of the object, or has inserted it.
pub fn record_object(tx: &mut Tx<'_>, object: &Object) -> Result<()> {
    let Some(needed) = PersonNeeded::for_object(object) else { return Ok(()) };
    let new = InboxItem::new(object.id.0, object.project, InboxItemKind::Discussion, object.updated_at);
    record(tx, new, needed)
}

/// Writes the item after a change, and tells other systems of it.
fn record(tx: &mut Tx<'_>, new: InboxItem, needed: PersonNeeded) -> Result<()> {
    let (current, at) = (get(tx, new.project, new.id)?, new.created_at);
    let Some(item) = new.after_change(current, needed) else { return Ok(()) };
    tx.insert_rows(
        std::slice::from_ref(&item),
        [],
        |_| [],
        "ON CONFLICT (id) DO UPDATE SET title = excluded.title, status = excluded.status, decision = excluded.decision,
             created_at = excluded.created_at",
    )?;
    webhooks::enqueue(tx, &InboxNotice::for_item(&item, at))
}

/// Withdraws the items of workflows of a deleted project, of which nobody is told.
pub fn withdraw(tx: &mut Tx<'_>, workflows: &[WorkflowId]) -> Result<()> {
    for list in page::in_chunks(workflows) {
        let sql = format!(
            "UPDATE inbox_items SET status = 'withdrawn' WHERE status = 'pending' AND id IN ({})",
            page::placeholders(1, list.len())
        );
        let values: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.execute(&sql, &values)?;
    }
    Ok(())
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
