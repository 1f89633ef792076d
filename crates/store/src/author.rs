//! The three columns that say who wrote a row.

use emergent_domain::author::Author;

use crate::{
    error::Result,
    value::{Param, Row},
};

/// The values of `author_token, author_run, author_tool_call`.
pub(crate) fn params(author: Author) -> [Param<'static>; 3] {
    match author {
        Author::Token { id } => [Param::from(id), Param::Null, Param::Null],
        Author::Run { run_id, tool_call_id } => [Param::Null, Param::from(run_id), Param::from(tool_call_id)],
        Author::System => [Param::Null, Param::Null, Param::Null],
    }
}

/// Reads the three columns from `first` on.
pub(crate) fn from_row(row: &Row<'_>, first: usize) -> Result<Author> {
    if let Some(id) = row.get(first)? {
        return Ok(Author::Token { id });
    }
    Ok(match row.get(first + 1)? {
        Some(run_id) => Author::Run { run_id, tool_call_id: row.get(first + 2)? },
        None => Author::System,
    })
}
