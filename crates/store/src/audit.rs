//! The audit log. An entry is written in the transaction of the change it tells of, so neither exists
//! without the other. There is no function that changes or deletes an entry, and triggers of the database
//! refuse it.
//!
//! Who makes a change is not a parameter of every service: like a tracing span, it belongs to the request.
//! The API runs each request inside of [`with_origin`], and [`crate::Db::write`] gives the transactions of
//! that task its origin. Code that moves a change to another task has to pass the origin on.

use std::sync::Arc;

use emergent_domain::{
    audit::{AuditAction, AuditEntry, AuditFilter, AuditOrigin, NewAuditEntry},
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, TokenId},
    json::JsonObject,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    error::Result,
    page, params, project_events,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

/// The outcome of a change that was made. Refused changes are not recorded.
const DONE: &str = "done";
/// Longer names are truncated: they come from requests, and some have no limit of their own.
const MAX_NAME_CHARS: usize = 200;

tokio::task_local! {
    static ORIGIN: Arc<AuditOrigin>;
}

row! {
    AuditEntry in "audit_log" {
        id: "id",
        at: "created_at",
        project: "project_id",
        token: "token_id",
        token_name: "token_name",
        session: "session_id",
        run: "run_id",
        address: "address",
        action: "action",
        target_kind: "target_kind",
        target_id: "target_id",
        target_name: "target_name",
        outcome: "outcome",
        details: "details",
    }
}

/// Runs `work` with this origin: its write transactions are recorded as made by it.
pub async fn with_origin<F: Future>(origin: AuditOrigin, work: F) -> F::Output {
    ORIGIN.scope(Arc::new(origin), work).await
}

/// The origin of the current task; `None` outside of [`with_origin`].
pub(crate) fn current_origin() -> Option<Arc<AuditOrigin>> {
    ORIGIN.try_with(Arc::clone).ok()
}

/// Records a change in its transaction. A change of a setting of a project is also an event on the project's stream, so
/// that nothing can be changed without an event. The event has the name, and none of the details.
pub fn record(tx: &mut Tx<'_>, new: &NewAuditEntry, at: Timestamp) -> Result<()> {
    let origin = tx.origin.clone().unwrap_or_default();
    let (token, token_name) = origin.token.clone().unzip();
    let entry = AuditEntry {
        id: Uuid::now_v7(),
        at,
        project: new.project,
        token,
        token_name,
        session: origin.session,
        run: new.run,
        address: origin.address.map(|address| address.to_string()),
        action: new.action.as_str().to_owned(),
        target_kind: new.action.target_kind().to_owned(),
        target_id: new.target_id.clone(),
        target_name: new.target_name.chars().filter(|c| *c != '\0').take(MAX_NAME_CHARS).collect(),
        outcome: DONE.to_owned(),
        details: JsonObject::from_map(&new.details),
    };
    tx.insert_row(&entry, [], "")?;
    match (entry.project, new.action.event_subject()) {
        (Some(project), Some(subject)) => {
            let id = Uuid::parse_str(&entry.target_id).unwrap_or_default();
            project_events::insert(tx, project, subject, id, &entry.target_name, new.action.verb(), at)
        }
        _ => Ok(()),
    }
}

/// When this action was last done with this target of a project; `None` if it never was.
pub fn last_time(
    tx: &mut Tx<'_>,
    project: ProjectId,
    action: AuditAction,
    target: Uuid,
) -> Result<Option<Timestamp>> {
    tx.query_opt(
        "SELECT created_at FROM audit_log WHERE project_id = $1 AND action = $2 AND target_id = $3
         ORDER BY created_at DESC, id DESC LIMIT 1",
        params![project, action.as_str(), target.to_string()],
        |row| row.get(0),
    )
}

/// The token whose request makes the changes of this transaction; `None` for the server itself.
pub fn origin_token(tx: &Tx<'_>) -> Option<TokenId> {
    tx.origin.as_ref().and_then(|origin| origin.token.as_ref()).map(|(token, _)| *token)
}

/// Lists entries, newest first.
pub fn list(tx: &mut Tx<'_>, filter: &AuditFilter, page: &Page) -> Result<ResultPage<AuditEntry>> {
    let mut params = Vec::new();
    let mut conditions = String::new();
    let mut add = |condition: &str, value: Param<'static>| {
        params.push(value);
        conditions.push_str(" AND ");
        conditions.push_str(&condition.replace('?', &format!("${}", params.len())));
    };
    if let Some(project) = filter.project {
        add("project_id = ?", project.into());
    }
    if let Some(action) = &filter.action {
        add("(action = ? OR target_kind = ?)", action.clone().into());
    }
    if let Some(token) = filter.token {
        add("token_id = ?", token.into());
    }
    if let Some(since) = filter.since {
        add("created_at >= ?", since.into());
    }
    if let Some(until) = filter.until {
        add("created_at < ?", until.into());
    }
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {} FROM audit_log WHERE 1 = 1{conditions}{after} ORDER BY created_at DESC, id DESC{}",
        AuditEntry::COLUMNS,
        page::limit_sql(page)
    );
    let rows = tx.query(&sql, &params, AuditEntry::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |entry| Cursor { created_at: entry.at, id: entry.id }))
}
