//! Reads and writes the three columns that hold the author of a row: `author_token`, `author_run` and
//! `author_tool_call`.

use emergent_domain::author::Author;

use crate::{error::Result, row::RowReader, value::Param};

/// The values of the three columns, in the order token, run, tool call. All are NULL for the system.
pub(crate) fn params(author: Author) -> [Param<'static>; 3] {
    match author {
        Author::Token { id } => [Param::from(id), Param::Null, Param::Null],
        Author::Run { run_id, tool_call_id } => [Param::Null, Param::from(run_id), Param::from(tool_call_id)],
        Author::System => [Param::Null, Param::Null, Param::Null],
    }
}

/// Reads the three columns for [`crate::row::row!`].
pub(crate) fn read(
    reader: &mut RowReader<'_, '_>,
    [token, run, tool_call]: [&'static str; 3],
) -> Result<Author> {
    let (token, run, tool_call) = (reader.next(token)?, reader.next(run)?, reader.next(tool_call)?);
    Ok(match (token, run) {
        (Some(id), _) => Author::Token { id },
        (None, Some(run_id)) => Author::Run { run_id, tool_call_id: tool_call },
        (None, None) => Author::System,
    })
}

/// Writes the three columns for [`crate::row::row!`].
pub(crate) fn write(author: &Author, params: &mut Vec<Param<'_>>) -> Result<()> {
    params.extend(self::params(*author));
    Ok(())
}
