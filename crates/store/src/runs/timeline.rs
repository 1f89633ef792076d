//! Reads the record of one run, page by page. Messages, tool calls, results and events of a run share one
//! sequence, `seq`, and are ordered by it, because timestamps are not unique.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{MessageId, RunId, ToolCallId},
    invalid::Invalid,
    run::{MessageRole, ToolCallStatus},
    run_event::{RecordedMessage, RecordedToolCall},
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use super::conversation::MessageRow;
use crate::{
    error::Result,
    page, params,
    row::{TableRow, read_row},
    tx::Tx,
    value::{Param, Row},
};

const CALL_COLUMNS: &str = RecordedToolCall::COLUMNS;
const MESSAGE_COLUMNS: &str = MessageRow::COLUMNS;

/// A part of the sequence of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqRange {
    /// The part begins after this one.
    pub after: i64,
    /// The part ends with this one.
    pub up_to: i64,
}

impl SeqRange {
    /// Everything after a `seq`.
    pub fn after(after: i64) -> Self {
        Self { after, up_to: i64::MAX }
    }
}

/// Which items of a conversation to list; a field that is `None` matches all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageFilter {
    pub role: Option<MessageRole>,
    pub step: Option<i64>,
}

/// Which tool calls to list; an empty field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCallFilter {
    /// The names of one tool: a call is recorded with the name of its tool, or with the alias that the model used if the
    /// agent does not have the tool.
    pub tool_names: Vec<String>,
    /// Calls that are pending count as running, or, in a run that waits for a person, as held: the API shows them so.
    pub status: Option<ToolCallStatus>,
}

/// One item of a conversation: a message, or the result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum TimelineItem {
    /// A message and the tool calls that it contains. The message itself has no call parts.
    Message(RecordedMessage, Vec<ToolCallRef>),
    Result(RecordedToolCall),
}

/// A tool call in the list of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallRef {
    pub id: ToolCallId,
    pub tool: String,
    pub status: ToolCallStatus,
}

impl TimelineItem {
    fn seq(&self) -> i64 {
        match self {
            TimelineItem::Message(message, _) => message.seq,
            TimelineItem::Result(call) => call.result_seq.unwrap_or(call.seq),
        }
    }

    fn at(&self) -> Timestamp {
        match self {
            TimelineItem::Message(message, _) => message.at,
            TimelineItem::Result(call) => call.at,
        }
    }
}

/// A cursor of a list that is ordered by `seq`. It holds `seq` in place of an id. An id is too large to be a
/// `seq`, so that [`seq_after`] recognises a cursor of another list.
fn cursor(at: Timestamp, seq: i64) -> Cursor {
    Cursor { created_at: at, id: Uuid::from_u128(u128::from(seq.unsigned_abs())) }
}

/// The `seq` after which a page starts; 0 on the first page. Fails for a cursor of another list.
pub fn seq_after(page: &Page) -> Result<i64, Invalid> {
    match page.after {
        None => Ok(0),
        Some(cursor) => i64::try_from(cursor.id.as_u128())
            .map_err(|_| Invalid::new("cursor", "is not a cursor of this list")),
    }
}

/// The items of a conversation after a `seq`, the oldest first.
pub fn list_items(
    tx: &mut Tx<'_>,
    run: RunId,
    filter: &MessageFilter,
    after: i64,
    limit: usize,
) -> Result<ResultPage<TimelineItem>> {
    let mut items = Vec::new();
    // The page ends where the first of both lists was cut.
    let mut complete_to = i64::MAX;
    if filter.role != Some(MessageRole::ToolResult) {
        let mut params = vec![Param::from(run), Param::from(after), Param::from(limit + 1)];
        let mut conditions = String::new();
        if let Some(step) = filter.step {
            params.push(Param::from(step));
            conditions.push_str(" AND step_number = $4");
        }
        if let Some(role) = filter.role {
            params.push(Param::from(role.as_str()));
            conditions.push_str(&format!(" AND role = ${}", params.len()));
        }
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM agent_run_messages
             WHERE run_id = $1 AND seq > $2{conditions} ORDER BY seq LIMIT $3"
        );
        let read = |row: &Row<'_>| MessageRow::from_row(row)?.into_message(None);
        let (messages, is_cut) = tx.query_up_to(page::MAX_PAGE_BYTES, &sql, &params, read)?;
        if let (true, Some(last)) = (is_cut, messages.last()) {
            complete_to = complete_to.min(last.seq);
        }
        let mut calls = calls_by_message(tx, run, &messages)?;
        items.extend(messages.into_iter().map(|message| {
            let message_calls = calls.remove(&message.id).unwrap_or_default();
            TimelineItem::Message(message, message_calls)
        }));
    }
    if filter.role.is_none_or(|role| role == MessageRole::ToolResult) {
        let mut params = vec![Param::from(run), Param::from(after), Param::from(limit + 1)];
        params.extend(filter.step.map(Param::from));
        let step = if filter.step.is_some() { " AND step_number = $4" } else { "" };
        let sql = format!(
            "SELECT {CALL_COLUMNS} FROM agent_run_tool_calls
             WHERE run_id = $1 AND result_seq > $2{step} ORDER BY result_seq LIMIT $3"
        );
        let (results, is_cut) =
            tx.query_up_to(page::MAX_PAGE_BYTES, &sql, &params, RecordedToolCall::from_row)?;
        items.extend(results.into_iter().map(TimelineItem::Result));
        if let (true, Some(last)) = (is_cut, items.last()) {
            complete_to = complete_to.min(last.seq());
        }
    }
    items.sort_by_key(TimelineItem::seq);
    let cursor_of = |item: &TimelineItem| cursor(item.at(), item.seq());
    if complete_to < i64::MAX {
        items.retain(|item| item.seq() <= complete_to);
        items.truncate(limit);
        let next = items.last().map(cursor_of);
        return Ok(ResultPage { items, next });
    }
    Ok(ResultPage::from_rows(items, limit, cursor_of))
}

/// The tool calls of each message, ordered by `seq`.
fn calls_by_message(
    tx: &mut Tx<'_>,
    run: RunId,
    messages: &[RecordedMessage],
) -> Result<HashMap<MessageId, Vec<ToolCallRef>>> {
    let mut calls: HashMap<MessageId, Vec<ToolCallRef>> = HashMap::new();
    for list in page::in_chunks(&assistant_ids(messages)) {
        let sql = format!(
            "SELECT message_id, id, tool_name, status FROM agent_run_tool_calls
             WHERE run_id = $1 AND message_id IN ({}) ORDER BY seq",
            page::placeholders(2, list.len())
        );
        tx.for_each_row(&sql, &message_params(run, list), |row| {
            let status = row.read(3, RecordedToolCall::TABLE, "status")?;
            let call = ToolCallRef { id: row.get(1)?, tool: row.get(2)?, status };
            calls.entry(row.get(0)?).or_default().push(call);
            Ok(())
        })?;
    }
    Ok(calls)
}

fn assistant_ids(messages: &[RecordedMessage]) -> Vec<MessageId> {
    messages
        .iter()
        .filter(|message| message.role == MessageRole::Assistant)
        .map(|message| message.id)
        .collect()
}

/// The parameters run and messages.
fn message_params(run: RunId, messages: Vec<MessageId>) -> Vec<Param<'static>> {
    let mut params = vec![Param::from(run)];
    params.extend(messages.into_iter().map(Param::from));
    params
}

/// The tool calls of a run after a `seq`, the oldest first. `run_waits` says whether the run waits for a person.
pub fn list_calls(
    tx: &mut Tx<'_>,
    run: RunId,
    filter: &ToolCallFilter,
    run_waits: bool,
    after: i64,
    limit: usize,
) -> Result<ResultPage<RecordedToolCall>> {
    let mut params = vec![Param::from(run), Param::from(after), Param::from(limit + 1)];
    let mut conditions = String::new();
    if !filter.tool_names.is_empty() {
        let names = page::placeholders(params.len() + 1, filter.tool_names.len());
        conditions = format!(" AND tool_name IN ({names})");
        params.extend(filter.tool_names.iter().map(|name| Param::from(name.as_str())));
    }
    conditions.push_str(match filter.status {
        None => "",
        Some(ToolCallStatus::Pending | ToolCallStatus::Running) if run_waits => " AND status = 'running'",
        Some(ToolCallStatus::Held) if run_waits => " AND status IN ('held', 'pending')",
        Some(ToolCallStatus::Pending | ToolCallStatus::Running) => " AND status IN ('pending', 'running')",
        Some(ToolCallStatus::Held) => " AND status = 'held'",
        Some(ToolCallStatus::Completed) => " AND status = 'completed'",
        Some(ToolCallStatus::Error) => " AND status = 'error'",
    });
    let sql = format!(
        "SELECT {CALL_COLUMNS} FROM agent_run_tool_calls
         WHERE run_id = $1 AND seq > $2{conditions} ORDER BY seq LIMIT $3"
    );
    page::query_page(tx, limit, &sql, &params, RecordedToolCall::from_row, |call| cursor(call.at, call.seq))
}

/// A tool call of a run.
pub fn get_call(tx: &mut Tx<'_>, run: RunId, id: ToolCallId) -> Result<Option<RecordedToolCall>> {
    let sql = format!("SELECT {CALL_COLUMNS} FROM agent_run_tool_calls WHERE run_id = $1 AND id = $2");
    tx.query_opt(&sql, params![run, id], RecordedToolCall::from_row)
}

/// The messages of a run in a range, with their tool calls and the inputs of these.
pub fn messages_with_calls(
    tx: &mut Tx<'_>,
    run: RunId,
    range: SeqRange,
    limit: usize,
) -> Result<Vec<RecordedMessage>> {
    let sql = |columns: &str| {
        format!(
            "SELECT {columns} FROM agent_run_messages
             WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"
        )
    };
    let params = params![run, range.after, range.up_to, limit];
    let roles_by_id = tx.query(&sql("id, role"), params, |row| Ok((row.get(0)?, row.get::<String>(1)?)))?;
    let assistant_ids: Vec<MessageId> = roles_by_id
        .into_iter()
        .filter(|(_, role)| role == MessageRole::Assistant.as_str())
        .map(|(id, _)| id)
        .collect();
    let mut calls = Vec::new();
    for list in page::in_chunks(&assistant_ids) {
        let sql = format!(
            "SELECT {CALL_COLUMNS} FROM agent_run_tool_calls WHERE run_id = $1 AND message_id IN ({})",
            page::placeholders(2, list.len())
        );
        calls.extend(tx.query(&sql, &message_params(run, list), RecordedToolCall::from_row)?);
    }
    let by_id: HashMap<ToolCallId, &RecordedToolCall> = calls.iter().map(|call| (call.id, call)).collect();
    tx.query(&sql(MESSAGE_COLUMNS), params, |row| MessageRow::from_row(row)?.into_message(Some(&by_id)))
}

/// The tool calls that were recorded in a range, in their order.
pub fn calls_started_in(
    tx: &mut Tx<'_>,
    run: RunId,
    range: SeqRange,
    limit: usize,
) -> Result<Vec<RecordedToolCall>> {
    select_calls(tx, "seq", run, range, limit)
}

/// The tool calls whose result was recorded in a range, in the order of the results.
pub fn calls_ended_in(
    tx: &mut Tx<'_>,
    run: RunId,
    range: SeqRange,
    limit: usize,
) -> Result<Vec<RecordedToolCall>> {
    select_calls(tx, "result_seq", run, range, limit)
}

/// `seq_column` is `seq` or `result_seq`.
fn select_calls(
    tx: &mut Tx<'_>,
    seq_column: &str,
    run: RunId,
    range: SeqRange,
    limit: usize,
) -> Result<Vec<RecordedToolCall>> {
    let sql = format!(
        "SELECT {CALL_COLUMNS} FROM agent_run_tool_calls
         WHERE run_id = $1 AND {seq_column} > $2 AND {seq_column} <= $3 ORDER BY {seq_column} LIMIT $4"
    );
    tx.query(&sql, params![run, range.after, range.up_to, limit], RecordedToolCall::from_row)
}

/// An event of a run, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    pub seq: i64,
    pub kind: String,
    pub data: Value,
    pub at: Timestamp,
}

read_row! {
    EventRow in "agent_run_events" {
        seq: "seq",
        kind: "type",
        data: "data",
        at: "at",
    }
}

/// The events of a run in a range, in order. Messages and tool calls are not among them.
pub fn list_events(tx: &mut Tx<'_>, run: RunId, range: SeqRange, limit: usize) -> Result<Vec<EventRow>> {
    let sql = format!(
        "SELECT {} FROM agent_run_events WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        EventRow::COLUMNS
    );
    tx.query(&sql, params![run, range.after, range.up_to, limit], EventRow::from_row)
}

/// Like [`list_events`], only those that change the status of the run.
pub fn list_status_events(tx: &mut Tx<'_>, run: RunId, after: i64, limit: usize) -> Result<Vec<EventRow>> {
    let sql = format!(
        "SELECT {} FROM agent_run_events WHERE run_id = $1 AND seq > $2
             AND type IN ('run_started', 'run_waiting', 'run_continued', 'run_ended') ORDER BY seq LIMIT $3",
        EventRow::COLUMNS
    );
    tx.query(&sql, params![run, after, limit], EventRow::from_row)
}

/// The next events of a run that fit a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FittingEvents {
    pub count: usize,
    /// The `seq` of the last one, or the `seq` after which there are none.
    pub last_seq: i64,
    /// Whether there are no further events.
    pub is_last: bool,
}

/// Returns which of the next `limit` events after a `seq`, messages and tool calls included, have at most `max_bytes`
/// together. The first event always counts, whatever its size is.
pub fn find_fitting(
    tx: &mut Tx<'_>,
    run: RunId,
    after: i64,
    limit: usize,
    max_bytes: usize,
) -> Result<FittingEvents> {
    let part = |table: &str, seq: &str, large: &str| {
        format!(
            "SELECT * FROM (SELECT {seq} AS event_seq, length(CAST({large} AS text)) AS size FROM {table}
             WHERE run_id = $1 AND {seq} > $2 ORDER BY {seq} LIMIT $3) AS {table}_{seq}"
        )
    };
    let parts = [
        part("agent_run_messages", "seq", "content"),
        part("agent_run_tool_calls", "seq", "input"),
        part("agent_run_tool_calls", "result_seq", "output"),
        part("agent_run_events", "seq", "data"),
    ];
    let sql = format!(
        "SELECT event_seq, CAST(COALESCE(size, 0) AS bigint) FROM ({}) AS events ORDER BY event_seq LIMIT $3",
        parts.join(" UNION ALL ")
    );
    let sizes: Vec<(i64, i64)> =
        tx.query(&sql, params![run, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut bytes, mut count, mut last_seq) = (0, 0, after);
    for (seq, size) in &sizes {
        bytes += usize::try_from(*size).unwrap_or(0);
        if count > 0 && bytes > max_bytes {
            return Ok(FittingEvents { count, last_seq, is_last: false });
        }
        (count, last_seq) = (count + 1, *seq);
    }
    Ok(FittingEvents { count, last_seq, is_last: sizes.len() < limit })
}
