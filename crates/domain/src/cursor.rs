//! Keyset cursors: a page continues after the last row of the previous page, so rows that are
//! inserted in the meantime are neither repeated nor cause others to be skipped.

use std::str::FromStr;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::{invalid::Invalid, time::Timestamp};

/// The position of the last row of a page, by `(created_at, id)`. The encoding is opaque to clients
/// and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub created_at: Timestamp,
    pub id: Uuid,
}

impl Cursor {
    pub fn encode(&self) -> String {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.created_at.as_micros().to_be_bytes());
        bytes[8..].copy_from_slice(self.id.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            Invalid::new(
                "cursor",
                "is not a cursor issued by this server; pass the cursor of the previous page unchanged: the header `x-next-cursor`, or `nextCursor` of a tool's result",
            )
        };
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let bytes: [u8; 24] = bytes.try_into().map_err(|_| invalid())?;
        let (micros, id) = bytes.split_at(8);
        Ok(Self {
            created_at: Timestamp::from_micros(i64::from_be_bytes(micros.try_into().map_err(|_| invalid())?)),
            id: Uuid::from_slice(id).map_err(|_| invalid())?,
        })
    }
}

/// The requested page: the number of rows, and the cursor to continue after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Page {
    pub limit: usize,
    pub after: Option<Cursor>,
}

impl Page {
    pub const MAX: usize = 100;
    pub const DEFAULT: usize = 50;

    pub fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// Parses the parameters of a request. The limit must be 1 to 100.
    pub fn new(limit: Option<i64>, cursor: Option<&str>) -> Result<Self, Invalid> {
        let limit = match limit {
            None => Self::DEFAULT,
            Some(n) => usize::try_from(n)
                .ok()
                .filter(|n| (1..=Self::MAX).contains(n))
                .ok_or_else(|| Invalid::new("limit", format!("must be 1 to {}", Self::MAX)))?,
        };
        Ok(Self { limit, after: cursor.map(str::parse).transpose()? })
    }
}

/// One page of rows. `next` is absent on the last page.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultPage<T> {
    pub items: Vec<T>,
    pub next: Option<Cursor>,
}

impl<T> ResultPage<T> {
    /// Builds a page from up to `limit + 1` rows. The extra row is dropped; it only shows that
    /// another page exists.
    pub fn from_rows(mut rows: Vec<T>, limit: usize, cursor_of: impl Fn(&T) -> Cursor) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(cursor_of) } else { None };
        Self { items: rows, next }
    }

    pub fn map<U>(self, f: impl FnMut(T) -> U) -> ResultPage<U> {
        ResultPage { items: self.items.into_iter().map(f).collect(), next: self.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_refused() {
        let cursor = Cursor { created_at: Timestamp::from_micros(42), id: Uuid::now_v7() };
        assert_eq!(cursor.encode().parse::<Cursor>().unwrap(), cursor);
        for wrong in ["", "abc", "!!", &"A".repeat(500)] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_outside_1_to_100_are_refused_by_name() {
        for wrong in [0, -1, 101, i64::MAX] {
            assert_eq!(Page::new(Some(wrong), None).unwrap_err().problems[0].field, "limit");
        }
    }
}
