//! Lists what the tool calls of runs wrote to the graph. Versions that the server wrote about a run, such as its
//! session, have no tool call as author and are not included.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, RunId, ToolCallId},
    run_write::{RunWrite, WriteChange},
};

use crate::{
    error::Result,
    page,
    tx::Tx,
    value::{Param, Row},
};

/// The most runs whose writes are listed together.
pub const MAX_RUNS: usize = 1_024;

/// What the runs wrote, oldest first, at most [`MAX_RUNS`] of them. The cursor has the time of a write and the id of
/// what was written: two versions of one thing never have the same time.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    runs: &[RunId],
    page: &Page,
) -> Result<ResultPage<RunWrite>> {
    let Some(last) = runs.last() else { return Ok(ResultPage { items: Vec::new(), next: None }) };
    // As in `page::in_chunks`: few different lengths, so that few different statements are prepared.
    let mut listed = runs.to_vec();
    listed.resize(runs.len().next_power_of_two(), *last);
    let mut params = vec![Param::from(project)];
    params.extend(listed.iter().map(|run| Param::from(*run)));
    let by_runs = format!("w.project_id = $1 AND w.author_run IN ({})", page::placeholders(2, listed.len()));
    let after = match page.after {
        Some(cursor) => {
            params.extend([Param::from(cursor.created_at), Param::from(cursor.id)]);
            format!(" WHERE (at, id) > (${}, ${})", params.len() - 1, params.len())
        }
        None => String::new(),
    };
    let sql = format!(
        "SELECT w.kind, w.id, w.type, w.name, w.from_id, w.to_id, w.version, w.is_deleted, w.at, w.author_run,
             w.author_tool_call, {WAS_DELETED}, {NEWEST_VERSION}
         FROM (SELECT * FROM ({}) AS written{after} ORDER BY at, id{}) AS w ORDER BY w.at, w.id",
        written_sql(&by_runs),
        page::limit_sql(page),
    );
    let cursor_of = |write: &RunWrite| Cursor { created_at: write.at, id: write.id };
    let mut found = page::query_page(tx, page.limit, &sql, &params, read, cursor_of)?;
    let calls = tool_calls(tx, &found.items)?;
    for write in &mut found.items {
        let call = write.tool_call.and_then(|call| calls.get(&call).cloned());
        (write.tool, write.step) = call.unzip();
    }
    Ok(found)
}

/// Whether the version before was a tombstone. It is asked for the rows of the page alone.
const WAS_DELETED: &str = "coalesce(CASE w.kind
    WHEN 'object' THEN (SELECT p.deleted_at IS NOT NULL FROM graph_object_versions AS p
        WHERE p.object_id = w.id AND p.version = w.version - 1)
    WHEN 'relationship' THEN (SELECT p.deleted_at IS NOT NULL FROM graph_relationship_versions AS p
        WHERE p.relationship_id = w.id AND p.version = w.version - 1)
    END, false)";

const NEWEST_VERSION: &str = "coalesce(CASE w.kind
    WHEN 'object' THEN (SELECT o.version FROM graph_objects AS o WHERE o.id = w.id)
    WHEN 'relationship' THEN (SELECT o.version FROM graph_relationships AS o WHERE o.id = w.id)
    END, w.version)";

/// Every version that the runs wrote: the newest ones, and those that others have followed. A document has one
/// version, and is listed from when it is visible, also after it was deleted.
fn written_sql(by_runs: &str) -> String {
    let by_calls = format!("{by_runs} AND w.author_tool_call IS NOT NULL");
    let object = |id: &str, table: &str| {
        format!(
            "SELECT 'object' AS kind, w.{id} AS id, w.type, w.key AS name, CAST(NULL AS uuid) AS from_id,
                 CAST(NULL AS uuid) AS to_id, w.version, w.deleted_at IS NOT NULL AS is_deleted,
                 w.updated_at AS at, w.author_run, w.author_tool_call
             FROM {table} AS w WHERE {by_calls}"
        )
    };
    let relationship = |id: &str, table: &str| {
        format!(
            "SELECT 'relationship', w.{id}, w.type, CAST(NULL AS text), w.from_id, w.to_id, w.version,
                 w.deleted_at IS NOT NULL, w.updated_at, w.author_run, w.author_tool_call
             FROM {table} AS w WHERE {by_calls}"
        )
    };
    let document = format!(
        "SELECT 'document', w.id, w.mime_type, w.title, CAST(NULL AS uuid), CAST(NULL AS uuid), CAST(1 AS bigint),
             false, w.created_at, w.author_run, w.author_tool_call
         FROM documents AS w WHERE {by_runs} AND (w.deleted_at IS NULL OR w.deleted_at <> w.created_at)"
    );
    [
        object("id", "graph_objects"),
        object("object_id", "graph_object_versions"),
        relationship("id", "graph_relationships"),
        relationship("relationship_id", "graph_relationship_versions"),
        document,
    ]
    .join(" UNION ALL ")
}

fn read(row: &Row<'_>) -> Result<RunWrite> {
    let ends = Option::zip(row.get(4)?, row.get(5)?);
    let (version, is_deleted, was_deleted) = (row.get(6)?, row.get(7)?, row.get(11)?);
    Ok(RunWrite {
        kind: row.get(0)?,
        id: row.get(1)?,
        type_: row.get(2)?,
        name: row.get(3)?,
        ends: ends.map(|(from, to)| [from, to]),
        change: WriteChange::decide(version, is_deleted, was_deleted),
        version,
        newest_version: row.get(12)?,
        run: row.get(9)?,
        tool_call: row.get(10)?,
        tool: None,
        step: None,
        at: row.get(8)?,
    })
}

/// The tools and the steps of the calls that made these writes.
fn tool_calls(tx: &mut Tx<'_>, writes: &[RunWrite]) -> Result<HashMap<ToolCallId, (String, i64)>> {
    let mut calls_by_run: HashMap<RunId, Vec<ToolCallId>> = HashMap::new();
    for write in writes {
        let calls = calls_by_run.entry(write.run).or_default();
        if let Some(call) = write.tool_call
            && !calls.contains(&call)
        {
            calls.push(call);
        }
    }
    let mut found = HashMap::new();
    for (run, calls) in calls_by_run {
        for list in page::in_chunks(&calls) {
            let sql = format!(
                "SELECT id, tool_name, step_number FROM agent_run_tool_calls WHERE run_id = $1 AND id IN ({})",
                page::placeholders(2, list.len())
            );
            let mut params = vec![Param::from(run)];
            params.extend(list.into_iter().map(Param::from));
            found.extend(tx.query(&sql, &params, |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?);
        }
    }
    Ok(found)
}
