//! Which runs to list, to count or to change, as SQL. The filter of a text is the only one without an index:
//! `search` reads the newest runs that pass the other filters, a bounded number at a time.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, ProjectId, RunId},
    run::{Origin, Reason, Run, RunStatus},
    time::Timestamp,
};

use super::COLUMNS;
use crate::{error::Result, page, row::TableRow, tx::Tx, value::Param};

/// The most runs whose texts are read for one page of a search. A page that ends there has a cursor, though it may
/// have no run.
pub const MAX_SEARCHED_RUNS: usize = 2_000;

/// Which runs to list; a field that is `None` or empty matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub agent: Option<AgentId>,
    /// One of these statuses.
    pub statuses: Vec<RunStatus>,
    pub reason: Option<Reason>,
    pub origin: Option<Origin>,
    pub parent: Option<RunId>,
    /// Only runs without a parent.
    pub is_root: bool,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// The input or the summary contains this text. The case of letters does not matter, on SQLite only that of
    /// `A` to `Z`.
    pub text: Option<String>,
    pub eligibility: Eligibility,
}

/// What could be done to a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Eligibility {
    #[default]
    Any,
    /// The run has not ended.
    Cancellable,
    /// The run is paused, and no other run resumes it.
    Resumable,
}

impl Eligibility {
    fn sql(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Cancellable => " AND status IN ('queued', 'running', 'waiting')",
            Self::Resumable => {
                " AND status = 'paused' AND NOT EXISTS (
                     SELECT 1 FROM agent_runs AS later WHERE later.resumed_from = agent_runs.id)"
            }
        }
    }
}

impl RunFilter {
    /// The conditions except that of the text. Their values are added to `params`.
    pub(super) fn conditions(&self, params: &mut Vec<Param<'_>>) -> String {
        let mut sql = String::new();
        let filters = [
            ("agent_id =", self.agent.map(Param::from)),
            ("reason =", self.reason.map(Param::from)),
            ("origin =", self.origin.map(Param::from)),
            ("parent_run_id =", self.parent.map(Param::from)),
            ("created_at >=", self.since.map(Param::from)),
            ("created_at <", self.until.map(Param::from)),
        ];
        for (condition, value) in filters {
            if let Some(value) = value {
                params.push(value);
                sql.push_str(&format!(" AND {condition} ${}", params.len()));
            }
        }
        if !self.statuses.is_empty() {
            let placeholders = page::placeholders(params.len() + 1, self.statuses.len());
            params.extend(self.statuses.iter().copied().map(Param::from));
            sql.push_str(&format!(" AND status IN ({placeholders})"));
        }
        if self.is_root {
            sql.push_str(" AND parent_run_id IS NULL");
        }
        sql.push_str(self.eligibility.sql());
        sql
    }
}

/// The runs of a project that match a filter, newest first.
pub(super) fn list_runs(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RunFilter,
    page: &Page,
) -> Result<ResultPage<Run>> {
    if let Some(text) = &filter.text {
        return search(tx, project, filter, text, page);
    }
    let mut params = vec![Param::from(project)];
    let conditions = filter.conditions(&mut params);
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM agent_runs WHERE project_id = $1{conditions}{after}
         ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Run::from_row, run_cursor)
}

fn run_cursor(run: &Run) -> Cursor {
    Cursor { created_at: run.created_at, id: run.id.0 }
}

/// As [`list_runs`], for a filter with a text.
fn search(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RunFilter,
    text: &str,
    page: &Page,
) -> Result<ResultPage<Run>> {
    let mut params = vec![Param::from(project)];
    let conditions = filter.conditions(&mut params);
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    params.push(Param::from(pattern(text)));
    let (number, lower) = (params.len(), tx.engine().lower_function());
    // The input is the first message of the user, before which there is at most the system prompt.
    let sql = format!(
        "SELECT id, created_at, CAST(CASE WHEN {lower}(summary) LIKE ${number} ESCAPE '!' OR EXISTS (
                    SELECT 1 FROM agent_run_messages AS input
                    WHERE input.run_id = agent_runs.id AND input.seq <= 2 AND input.role = 'user'
                        AND {lower}(input.content ->> 'text') LIKE ${number} ESCAPE '!')
                THEN 1 ELSE 0 END AS bigint)
         FROM agent_runs WHERE project_id = $1{conditions}{after}
         ORDER BY created_at DESC, id DESC LIMIT {MAX_SEARCHED_RUNS}"
    );
    let searched: Vec<(RunId, Timestamp, i64)> =
        tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let end = searched.last().filter(|_| searched.len() == MAX_SEARCHED_RUNS);
    let end = end.map(|(id, created_at, _)| Cursor { created_at: *created_at, id: id.0 });
    let matching: Vec<RunId> =
        searched.iter().filter(|(_, _, matches)| *matches == 1).map(|(id, _, _)| *id).collect();
    load_page(tx, &matching, page.limit, end)
}

/// Loads the first `limit` of these runs as a page. The list was read up to `end`; `None` means that it is complete.
fn load_page(
    tx: &mut Tx<'_>,
    matching: &[RunId],
    limit: usize,
    end: Option<Cursor>,
) -> Result<ResultPage<Run>> {
    let (mut items, mut is_cut) = (Vec::new(), matching.len() > limit);
    for list in page::in_chunks(&matching[..matching.len().min(limit)]) {
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let sql = format!(
            "SELECT {COLUMNS} FROM agent_runs WHERE id IN ({}) ORDER BY created_at DESC, id DESC",
            page::placeholders(1, params.len())
        );
        let (runs, is_large) = tx.query_up_to(page::MAX_PAGE_BYTES, &sql, &params, Run::from_row)?;
        items.extend(runs);
        if is_large {
            is_cut = true;
            break;
        }
    }
    let next = if is_cut { items.last().map(run_cursor) } else { end };
    Ok(ResultPage { items, next })
}

/// The pattern that finds a text anywhere, in lower case. `!` escapes the characters that have a meaning in it.
fn pattern(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut pattern = String::with_capacity(lower.len() + 2);
    pattern.push('%');
    for c in lower.chars() {
        if matches!(c, '!' | '%' | '_') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// The newest runs of a project that match a filter, `limit` at most, and whether there are more. For a filter with
/// a text, only so many runs are read as [`MAX_SEARCHED_RUNS`] says, and there are more if that was not all.
pub fn find(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &RunFilter,
    limit: usize,
) -> Result<(Vec<Run>, bool)> {
    let page = list_runs(tx, project, filter, &Page::first(limit))?;
    Ok((page.items, page.next.is_some()))
}
