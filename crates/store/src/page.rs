//! The part of a statement that makes a page: newest first, after the last row seen.

use emergent_domain::cursor::Page;

use crate::value::Param;

/// A condition on `(time, id)` of a row and its parameters, numbered from `first`. Empty on the
/// first page.
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

/// One row more than asked for tells whether there is another page.
pub(crate) fn limit_sql(page: &Page) -> String {
    format!(" LIMIT {}", page.limit + 1)
}

/// `$3, $4, $5`: places for `count` values from `first` on.
pub(crate) fn placeholders(first: usize, count: usize) -> String {
    let mut text = String::with_capacity(count * 5);
    for place in first..first + count {
        if place > first {
            text.push_str(", ");
        }
        text.push('$');
        text.push_str(&place.to_string());
    }
    text
}

/// Values in lists of a few fixed lengths, so that few different statements are prepared: the last
/// value fills a list up, which an `IN` does not mind.
pub(crate) fn in_chunks<T: Copy>(values: &[T]) -> impl Iterator<Item = Vec<T>> + '_ {
    values.chunks(512).map(|some| {
        let mut list = some.to_vec();
        if let Some(last) = some.last() {
            list.resize(some.len().next_power_of_two(), *last);
        }
        list
    })
}
