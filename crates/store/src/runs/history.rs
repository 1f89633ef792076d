//! Queries for showing runs: lists, totals, and the children of a run. Totals are computed when they are
//! read, so that recording a run needs only one insert per message and tool call.

use std::collections::HashMap;

use emergent_domain::{
    approval::ApprovalKind,
    cursor::{Page, ResultPage},
    ids::{ConversationId, ProjectId, RunId},
    run::{Run, RunStatus},
    run_input::input_preview,
    time::Timestamp,
};
use serde_json::Value;

pub use super::filter::RunFilter;

use super::filter;
use crate::{
    error::Result,
    page, params,
    row::{RowReader, TableRow, read_row},
    tx::Tx,
    value::{Param, Row},
};

/// How many characters of an input are read for its preview: more than the preview has, because it leaves out line
/// breaks and repeated spaces.
const INPUT_CHARS_READ: usize = 600;

/// The tokens and the cost of the messages of one run, without its children.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenTotals {
    pub input: i64,
    pub output: i64,
    pub reasoning: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    /// In US dollars; `None` when no message has a cost.
    pub cost: Option<f64>,
}

read_row! {
    TokenTotals in "agent_run_messages" {
        input: "CAST(coalesce(sum(input_tokens), 0) AS bigint)",
        output: "CAST(coalesce(sum(output_tokens), 0) AS bigint)",
        reasoning: "CAST(coalesce(sum(reasoning_tokens), 0) AS bigint)",
        cache_read: "CAST(coalesce(sum(cache_read_tokens), 0) AS bigint)",
        cache_write: "CAST(coalesce(sum(cache_write_tokens), 0) AS bigint)",
        cost: "sum(cost)",
    }
}

/// A run in a list, with its totals.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    pub run: Run,
    pub tokens: TokenTotals,
    pub child_count: i64,
    /// The conversation in which the run answers a message.
    pub conversation: Option<ConversationId>,
    /// The beginning of its input, on one line; `None` if the run has no input.
    pub input_preview: Option<String>,
}

/// How often each tool was called in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCallSummary {
    pub total: i64,
    /// In the order of their names.
    pub by_tool: Vec<ToolUse>,
    pub errors: i64,
}

/// The calls of one tool in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    pub tool: String,
    pub count: i64,
    /// The average duration of the calls that have ended; `None` when none has.
    pub average_ms: Option<i64>,
    pub errors: i64,
}

read_row! {
    ToolUse in "agent_run_tool_calls" {
        tool: "tool_name",
        count: "count(*)",
        average_ms: "CAST(round(avg(duration_ms)) AS bigint)",
        errors: "CAST(sum(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS bigint)",
    }
}

/// A child run in the list of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRun {
    pub id: RunId,
    pub parent: Option<RunId>,
    pub agent_name: String,
    pub status: RunStatus,
    pub step_count: i64,
    /// `None` until the run has ended, and when it never started.
    pub duration_ms: Option<i64>,
}

read_row! {
    ChildRun in "agent_runs" {
        id: "id",
        parent: "parent_run_id",
        agent_name: "agent_name",
        status: "status",
        step_count: "step_count",
        duration_ms: DurationColumns("started_at", "completed_at"),
    }
}

/// Codec that reads the two times of a run as its duration.
struct DurationColumns;

impl DurationColumns {
    fn read(reader: &mut RowReader<'_, '_>, [started, completed]: [&'static str; 2]) -> Result<Option<i64>> {
        Ok(duration_ms(reader.next(started)?, reader.next(completed)?))
    }
}

/// The time from the start to the end of a run; `None` until it has ended, and when it never started.
pub fn duration_ms(started: Option<Timestamp>, completed: Option<Timestamp>) -> Option<i64> {
    i64::try_from(completed?.since(started?).as_millis()).ok()
}

/// Runs of a project that match a filter, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RunFilter,
    page: &Page,
) -> Result<ResultPage<RunSummary>> {
    let runs = filter::list_runs(tx, project, filter, page)?;
    let ids: Vec<RunId> = runs.items.iter().map(|run| run.id).collect();
    let tokens = token_totals(tx, &ids)?;
    let children = child_counts(tx, &ids)?;
    let conversations = conversations(tx, &ids)?;
    let mut previews = input_previews(tx, &ids)?;
    Ok(runs.map(|run| RunSummary {
        tokens: tokens.get(&run.id).copied().unwrap_or_default(),
        child_count: children.get(&run.id).copied().unwrap_or(0),
        conversation: conversations.get(&run.id).copied(),
        input_preview: previews.remove(&run.id),
        run,
    }))
}

/// Sums over the messages of each run; a run without messages is left out.
pub fn token_totals(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, TokenTotals>> {
    let columns = TokenTotals::COLUMNS;
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT run_id, {columns} FROM agent_run_messages WHERE run_id IN ({placeholders}) GROUP BY run_id"
            )
        },
        |row| Ok((row.get(0)?, TokenTotals::from_row_at(row, 1)?)),
    )
}

/// The number of children of each run; a run without children is left out.
pub fn child_counts(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, i64>> {
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT parent_run_id, count(*) FROM agent_runs WHERE parent_run_id IN ({placeholders}) GROUP BY parent_run_id"
            )
        },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The conversation in which each run answers a message; a run is left out if there is none, or it was deleted.
pub fn conversations(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, ConversationId>> {
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT m.run_id, m.conversation_id FROM chat_messages AS m
                 JOIN chat_conversations AS c ON c.id = m.conversation_id
                 WHERE m.role = 'user' AND c.deleted_at IS NULL AND m.run_id IN ({placeholders})"
            )
        },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The beginning of the input of each run, on one line; a run without an input is left out. The input is the first
/// message of the user that belongs to a step: what was said before in a conversation has step 0. The primary key of
/// the messages finds it, so that the rest of a long record is not read.
pub fn input_previews(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, String>> {
    let beginnings = query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT id, (
                     SELECT substr(input.content ->> 'text', 1, {INPUT_CHARS_READ}) FROM agent_run_messages AS input
                     WHERE input.run_id = agent_runs.id AND input.role = 'user' AND input.step_number > 0
                     ORDER BY input.seq LIMIT 1)
                 FROM agent_runs WHERE id IN ({placeholders})"
            )
        },
        |row| {
            let beginning: Option<String> = row.get(1)?;
            Ok((row.get(0)?, beginning))
        },
    )?;
    Ok(beginnings.into_iter().filter_map(|(run, text)| Some((run, input_preview(&text?)?))).collect())
}

/// What each run waits for, itself or through its children; a run that does not wait is left out.
pub fn waiting_kinds(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, ApprovalKind>> {
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT id, waiting_for FROM agent_runs
                 WHERE id IN ({placeholders}) AND status = 'waiting' AND waiting_for IS NOT NULL"
            )
        },
        |row| Ok((row.get(0)?, row.read(1, "agent_runs", "waiting_for")?)),
    )
}

/// How many tools each run called; a run that called none is left out.
pub fn tool_call_counts(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, i64>> {
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!(
                "SELECT run_id, count(*) FROM agent_run_tool_calls WHERE run_id IN ({placeholders}) GROUP BY run_id"
            )
        },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The run that resumes each of these runs; a run that was not resumed is left out.
pub fn resumptions(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashMap<RunId, RunId>> {
    query_by_run(
        tx,
        runs,
        |placeholders| {
            format!("SELECT resumed_from, id FROM agent_runs WHERE resumed_from IN ({placeholders})")
        },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// How often each tool was called in a run, how long the calls took, and how many failed.
pub fn summarize_tool_calls(tx: &mut Tx<'_>, run: RunId) -> Result<ToolCallSummary> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls WHERE run_id = $1 GROUP BY tool_name ORDER BY tool_name",
        ToolUse::COLUMNS
    );
    let by_tool = tx.query(&sql, params![run], ToolUse::from_row)?;
    Ok(ToolCallSummary {
        total: by_tool.iter().map(|tool| tool.count).sum(),
        errors: by_tool.iter().map(|tool| tool.errors).sum(),
        by_tool,
    })
}

/// How many events of a type a run recorded.
pub fn event_count(tx: &mut Tx<'_>, run: RunId, kind: &str) -> Result<i64> {
    let sql = "SELECT count(*) FROM agent_run_events WHERE run_id = $1 AND type = $2";
    Ok(tx.query_opt(sql, params![run, kind], |row| row.get(0))?.unwrap_or(0))
}

/// The data of the newest event of a kind.
pub fn newest_event(tx: &mut Tx<'_>, run: RunId, kind: &str) -> Result<Option<Value>> {
    let sql = "SELECT data FROM agent_run_events WHERE run_id = $1 AND type = $2 ORDER BY seq DESC LIMIT 1";
    tx.query_opt(sql, params![run, kind], |row| row.read(0, "agent_run_events", "data"))
}

/// A run as its parent lists it; `None` if it does not exist any more.
pub fn find_child(tx: &mut Tx<'_>, run: RunId) -> Result<Option<ChildRun>> {
    let sql = format!("SELECT {} FROM agent_runs WHERE id = $1", ChildRun::COLUMNS);
    tx.query_opt(&sql, params![run], ChildRun::from_row)
}

/// The children of some runs, the oldest first, `limit` at most.
pub fn list_children(tx: &mut Tx<'_>, parents: &[RunId], limit: usize) -> Result<Vec<ChildRun>> {
    let mut children = Vec::new();
    for list in page::in_chunks(parents) {
        let sql = format!(
            "SELECT {} FROM agent_runs
             WHERE parent_run_id IN ({}) ORDER BY created_at, part, id LIMIT {}",
            ChildRun::COLUMNS,
            page::placeholders(1, list.len()),
            limit.saturating_sub(children.len()),
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        children.extend(tx.query(&sql, &params, ChildRun::from_row)?);
    }
    Ok(children)
}

/// Runs a query for many runs in as few statements as possible. `sql` builds it from the placeholders of the
/// runs; `read` returns the run and the value of a row.
fn query_by_run<T>(
    tx: &mut Tx<'_>,
    runs: &[RunId],
    sql: impl Fn(&str) -> String,
    read: impl Fn(&Row<'_>) -> Result<(RunId, T)>,
) -> Result<HashMap<RunId, T>> {
    let mut values_by_run = HashMap::with_capacity(runs.len());
    for list in page::in_chunks(runs) {
        let sql = sql(&page::placeholders(1, list.len()));
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        values_by_run.extend(tx.query(&sql, &params, &read)?);
    }
    Ok(values_by_run)
}
