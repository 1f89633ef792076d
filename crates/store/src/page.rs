//! SQL fragments for pages of rows, newest first, and for lists of parameters.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::ProjectId,
};

use crate::{
    error::Result,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The most bytes of the rows of a page. A page with larger rows ends earlier, and its cursor continues there.
pub(crate) const MAX_PAGE_BYTES: usize = 8 << 20;

/// Runs a query for one row more than `limit`, see [`limit_sql`], and builds a page from its rows. The page ends
/// before the row with which it would be larger than [`MAX_PAGE_BYTES`].
pub(crate) fn query_page<T>(
    tx: &mut Tx<'_>,
    limit: usize,
    sql: &str,
    params: &[Param<'_>],
    read: impl FnMut(&Row<'_>) -> Result<T>,
    cursor_of: impl Fn(&T) -> Cursor,
) -> Result<ResultPage<T>> {
    let (mut rows, is_cut) = tx.query_up_to(MAX_PAGE_BYTES, sql, params, read)?;
    if is_cut {
        rows.truncate(limit);
        let next = rows.last().map(cursor_of);
        return Ok(ResultPage { items: rows, next });
    }
    Ok(ResultPage::from_rows(rows, limit, cursor_of))
}

/// Lists the rows of a project, newest first, that have these values in these columns; a column without a value is not
/// compared. `condition` is one more, as SQL. The table has the columns `project_id`, `created_at` and `id`.
pub(crate) fn list_newest<T: TableRow>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    columns: &[(&str, Option<Param<'_>>)],
    condition: Option<&'static str>,
    page: &Page,
    cursor_of: impl Fn(&T) -> Cursor,
) -> Result<ResultPage<T>> {
    let mut params = vec![Param::from(project)];
    let mut conditions = condition.map(|sql| format!(" AND {sql}")).unwrap_or_default();
    for (column, value) in columns {
        if let Some(value) = value {
            params.push(value.clone());
            conditions.push_str(&format!(" AND {column} = ${}", params.len()));
        }
    }
    let (after, values) = after_cursor_sql(page, "created_at", "id", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {} FROM {} WHERE project_id = $1{conditions}{after} ORDER BY created_at DESC, id DESC{}",
        T::COLUMNS,
        T::TABLE,
        limit_sql(page)
    );
    query_page(tx, page.limit, &sql, &params, T::from_row, cursor_of)
}

/// A condition that selects the rows after the cursor of the page, and its parameters. `time` and `id` are
/// column names, `first` is the number of the first parameter. Empty on the first page.
pub(crate) fn after_cursor_sql(
    page: &Page,
    time: &str,
    id: &str,
    first: usize,
) -> (String, Vec<Param<'static>>) {
    match page.after {
        Some(cursor) => (
            format!(" AND ({time}, {id}) < (${first}, ${})", first + 1),
            vec![Param::from(cursor.created_at), Param::from(cursor.id)],
        ),
        None => (String::new(), Vec::new()),
    }
}

/// Reads one row more than the page holds: it shows whether there is another page.
pub(crate) fn limit_sql(page: &Page) -> String {
    format!(" LIMIT {}", page.limit + 1)
}

/// `$3, $4, $5`: placeholders for `count` values, numbered from `first`.
pub(crate) fn placeholders(first: usize, count: usize) -> String {
    let mut text = String::with_capacity(count * 5);
    for number in first..first + count {
        if number > first {
            text.push_str(", ");
        }
        text.push('$');
        text.push_str(&number.to_string());
    }
    text
}

/// A condition that no index serves. Rows that are looked up by their ids are found by the index of the ids, and the
/// rest is checked on the rows. PostgreSQL keeps the plan of a statement, and may have made it when the table was
/// small: then any index will do, such as one that has all rows of the project, and the lookup takes longer the more
/// rows there are. A partial index will do even without a condition for its columns: one of running jobs for a job that
/// has to be running. Statements with a fixed text contain the `coalesce` itself.
pub(crate) fn on_row(condition: &str) -> String {
    format!("coalesce({condition}, false)")
}

/// The most values in a list of [`in_chunks`]; a power of two, so that a full list needs no filling.
pub(crate) const MAX_CHUNK: usize = 512;

/// Splits values into lists for `IN (…)`. The length of each list is a power of two, so that few different
/// statements are prepared. The last value is repeated to fill a list, which does not change an `IN`.
pub(crate) fn in_chunks<T: Copy>(values: &[T]) -> impl Iterator<Item = Vec<T>> + '_ {
    values.chunks(MAX_CHUNK).map(|chunk| {
        let mut list = chunk.to_vec();
        if let Some(last) = chunk.last() {
            list.resize(chunk.len().next_power_of_two(), *last);
        }
        list
    })
}
