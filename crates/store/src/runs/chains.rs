//! Resume chains: a run that a caller from outside started, and the runs that resume it one after another.

use emergent_domain::{
    approval::ApprovalKind,
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, ConversationId, ProjectId, RunId, TokenId},
    run::{Run, RunStatus},
    run_event::{RecordedMessage, RecordedToolCall},
    time::Timestamp,
};

use super::conversation::MessageRow;
use crate::{
    error::Result,
    page, params,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The size of the messages of a run that [`list_newest_messages`] returns. A larger one is returned alone.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The size of the calls of a run that [`list_completed_calls`] returns.
const MAX_CALL_BYTES: usize = 4 << 20;
/// When the status of a run last changed.
const STATUS_TIME: &str = "coalesce(r.completed_at, CASE WHEN r.status = 'waiting' THEN r.waiting_since END, \
                           r.started_at, r.created_at)";

/// The conversation that the first run of a chain belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainContext {
    pub conversation: ConversationId,
    /// The name that a caller from outside gave the conversation.
    pub name: Option<String>,
}

/// A chain in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedChain {
    pub first: RunId,
    pub newest: Run,
    /// The conversation of the first run.
    pub context: Option<ChainContext>,
    pub status_time: Timestamp,
}

impl ListedChain {
    /// Where the list continues after this chain.
    pub fn cursor(&self) -> Cursor {
        Cursor { created_at: self.status_time, id: self.first.0 }
    }
}

/// What the newest run of a chain is like. A field that is `None` matches all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainStatus {
    pub status: RunStatus,
    pub waiting_for: Option<ApprovalKind>,
    pub in_conversation: Option<bool>,
}

/// Which chains to list.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainFilter {
    pub agent: AgentId,
    /// The token that started the first run; `None` matches all.
    pub started_by: Option<TokenId>,
    /// The conversation by its id or its name, or the first run if the chain has no conversation.
    pub context: Option<ContextFilter>,
    /// Alternatives; `None` matches all.
    pub statuses: Option<Vec<ChainStatus>>,
    pub since: Option<Timestamp>,
}

/// Which context the chains of a list have: that with this id, or that with this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextFilter {
    Id(ConversationId),
    Name(String),
}

/// The conversation of the message that a run answers or has answered, if it does.
pub fn get_context(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Option<ChainContext>> {
    let sql = "SELECT m.conversation_id, c.external_id
         FROM chat_messages AS m LEFT JOIN chat_conversations AS c ON c.id = m.conversation_id
         WHERE m.run_id = $1 AND m.role = 'user' AND m.project_id = $2";
    let read = |row: &Row<'_>| Ok(ChainContext { conversation: row.get(0)?, name: row.get(1)? });
    tx.query_opt(sql, params![run, project], read)
}

/// The newest run of the chain that begins with this run. `None` if the project has no such run.
pub fn get_newest(tx: &mut Tx<'_>, project: ProjectId, first: RunId) -> Result<Option<Run>> {
    let mut newest = first;
    // Each run has at most one successor, and a chain has at most as many runs as steps.
    while let Some(next) = super::resumed_as(tx, newest)? {
        newest = next;
    }
    super::get(tx, project, newest)
}

/// The chains that callers from outside started, by the time of their status, the newest first; and how many there are
/// on all pages.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &ChainFilter,
    page: &Page,
) -> Result<(ResultPage<ListedChain>, i64)> {
    let (from, params) = from_clause(project, filter);
    let sql = format!("{from} SELECT count(*) {}", conditions(filter));
    let total = tx.query_opt(&sql, &params, |row| row.get(0))?.unwrap_or(0);
    let (after, mut after_params) =
        page::after_cursor_sql(page, STATUS_TIME, "chain.first_id", params.len() + 1);
    let mut params = params;
    params.append(&mut after_params);
    let sql = format!(
        "{from} SELECT {}, chain.first_id, m.conversation_id, c.external_id, {STATUS_TIME} {}{after}
         ORDER BY {STATUS_TIME} DESC, chain.first_id DESC{}",
        Run::columns_of("r"),
        conditions(filter),
        page::limit_sql(page),
    );
    let read = |row: &Row<'_>| {
        let columns = Run::COLUMN_COUNT;
        let (conversation, name): (Option<ConversationId>, _) =
            (row.get(columns + 1)?, row.get(columns + 2)?);
        Ok(ListedChain {
            newest: Run::from_row(row)?,
            first: row.get(columns)?,
            context: conversation.map(|conversation| ChainContext { conversation, name }),
            status_time: row.get(columns + 3)?,
        })
    };
    let found = page::query_page(tx, page.limit, &sql, &params, read, ListedChain::cursor)?;
    Ok((found, total))
}

/// The chains with the ids of their first run and of each run. The parameters are those of the whole statement.
fn from_clause(project: ProjectId, filter: &ChainFilter) -> (String, Vec<Param<'static>>) {
    let mut params = vec![Param::from(project), Param::from(filter.agent)];
    let mut conditions = String::new();
    if let Some(token) = filter.started_by {
        params.push(Param::from(token));
        conditions.push_str(&format!(" AND author_token = ${}", params.len()));
    }
    let sql = format!(
        "WITH RECURSIVE chain (first_id, id) AS (
             SELECT id, id FROM agent_runs
             WHERE project_id = $1 AND agent_id = $2 AND origin = 'invoke' AND resumed_from IS NULL{conditions}
             UNION ALL
             SELECT chain.first_id, next.id FROM agent_runs AS next JOIN chain ON next.resumed_from = chain.id)"
    );
    params.extend(filter.context.as_ref().map(|context| match context {
        ContextFilter::Id(id) => Param::from(*id),
        ContextFilter::Name(name) => Param::from(name.clone()),
    }));
    params.extend(filter.since.map(Param::from));
    (sql, params)
}

/// The newest runs of these chains, and the conditions of the filter.
fn conditions(filter: &ChainFilter) -> String {
    let mut sql = "FROM chain JOIN agent_runs AS r ON r.id = chain.id
         LEFT JOIN chat_messages AS m ON m.run_id = chain.first_id AND m.role = 'user'
         LEFT JOIN chat_conversations AS c ON c.id = m.conversation_id
         WHERE NOT EXISTS (SELECT 1 FROM agent_runs AS next WHERE next.resumed_from = r.id)"
        .to_owned();
    let mut number = 2 + usize::from(filter.started_by.is_some());
    if let Some(context) = &filter.context {
        number += 1;
        let column = match context {
            ContextFilter::Id(_) => "coalesce(m.conversation_id, chain.first_id)",
            ContextFilter::Name(_) => "c.external_id",
        };
        sql.push_str(&format!(" AND {column} = ${number}"));
    }
    if filter.since.is_some() {
        number += 1;
        sql.push_str(&format!(" AND {STATUS_TIME} >= ${number}"));
    }
    if let Some(statuses) = &filter.statuses {
        let any: Vec<String> = statuses.iter().map(status_sql).collect();
        sql.push_str(&match any.is_empty() {
            true => " AND 1 = 0".to_owned(),
            false => format!(" AND ({})", any.join(" OR ")),
        });
    }
    sql
}

fn status_sql(status: &ChainStatus) -> String {
    let ChainStatus { status, waiting_for, in_conversation } = status;
    let mut sql = format!("(r.status = '{status}'");
    if let Some(kind) = waiting_for {
        sql.push_str(&format!(" AND r.waiting_for = '{kind}'"));
    }
    match in_conversation {
        Some(true) => sql.push_str(" AND m.conversation_id IS NOT NULL"),
        Some(false) => sql.push_str(" AND m.conversation_id IS NULL"),
        None => {}
    }
    sql.push(')');
    sql
}

/// The first run of the chain that a run belongs to.
pub fn get_first(tx: &mut Tx<'_>, run: RunId) -> Result<RunId> {
    let mut first = run;
    let sql = "SELECT resumed_from FROM agent_runs WHERE id = $1";
    while let Some(earlier) = tx.query_opt(sql, params![first], |row| row.get(0))?.flatten() {
        first = earlier;
    }
    Ok(first)
}

/// The newest messages of people and of the model in a run before a `seq`, the newest first, without tool calls. What was
/// said before the run is not included.
pub fn list_newest_messages(
    tx: &mut Tx<'_>,
    run: RunId,
    before: i64,
    limit: usize,
) -> Result<Vec<RecordedMessage>> {
    let sql = format!(
        "SELECT {} FROM agent_run_messages
         WHERE run_id = $1 AND role IN ('user', 'assistant') AND step_number > 0 AND seq < $2
         ORDER BY seq DESC LIMIT $3",
        MessageRow::COLUMNS
    );
    let read = |row: &Row<'_>| MessageRow::from_row(row)?.into_message(None);
    Ok(tx.query_up_to(MAX_MESSAGE_BYTES, &sql, params![run, before, limit], read)?.0)
}

/// The newest calls of a tool in a run, the newest first.
pub fn list_newest_calls(
    tx: &mut Tx<'_>,
    run: RunId,
    tool: &str,
    limit: usize,
) -> Result<Vec<RecordedToolCall>> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls WHERE run_id = $1 AND tool_name = $2 ORDER BY seq DESC LIMIT $3",
        RecordedToolCall::COLUMNS
    );
    Ok(tx.query_up_to(MAX_MESSAGE_BYTES, &sql, params![run, tool, limit], RecordedToolCall::from_row)?.0)
}

/// The completed calls of a tool that a run made, the oldest first.
pub fn list_completed_calls(
    tx: &mut Tx<'_>,
    run: RunId,
    tool: &str,
    limit: usize,
) -> Result<Vec<RecordedToolCall>> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls WHERE run_id = $1 AND tool_name = $2 AND status = 'completed'
         ORDER BY seq LIMIT $3",
        RecordedToolCall::COLUMNS
    );
    Ok(tx.query_up_to(MAX_CALL_BYTES, &sql, params![run, tool, limit], RecordedToolCall::from_row)?.0)
}
