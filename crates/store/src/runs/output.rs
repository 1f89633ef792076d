//! The column of the typed output of a run.

use emergent_domain::stored_json;
use serde_json::Value;

use crate::{error::Result, row::RowReader, value::Param};

/// Codec of the typed output: JSON as text. SQL `NULL` means that there is none, and the text `null` is an output.
pub(super) struct OutputText;

impl OutputText {
    pub(super) fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Option<Value>> {
        let Some(text) = reader.next::<Option<String>>(column)? else { return Ok(None) };
        let value = stored_json::from_str(&text).map_err(|_| reader.unreadable(column, &text))?;
        Ok(Some(value))
    }

    pub(super) fn write(value: &Option<Value>, params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(Self::param(value.as_ref()));
        Ok(())
    }

    pub(super) fn param(value: Option<&Value>) -> Param<'static> {
        value.map_or(Param::Null, |value| Param::from(value.to_string()))
    }
}
