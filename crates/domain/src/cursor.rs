//! Keyset cursors: a page goes on after the last row seen, so rows added meanwhile neither
//! repeat nor hide one.

use std::str::FromStr;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::{invalid::Invalid, time::Timestamp};

/// The last row of a page, by `(created_at, id)`. Opaque outside: its text may change.
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
        let wrong = || Invalid::new("cursor", "is not a cursor this server gave out");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let bytes: [u8; 24] = bytes.try_into().map_err(|_| wrong())?;
        let (micros, id) = bytes.split_at(8);
        Ok(Self {
            created_at: Timestamp::from_micros(i64::from_be_bytes(micros.try_into().map_err(|_| wrong())?)),
            id: Uuid::from_slice(id).map_err(|_| wrong())?,
        })
    }
}

/// How many rows, and after which.
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

    /// From a request's words; the limit is 1 to 100.
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

/// One page of rows; `next` is absent on the last page.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultPage<T> {
    pub items: Vec<T>,
    pub next: Option<Cursor>,
}

impl<T> ResultPage<T> {
    /// Takes `limit + 1` rows read and keeps `limit`; the extra row only says that there is more.
    pub fn from_rows(mut rows: Vec<T>, limit: usize, place: impl Fn(&T) -> Cursor) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(place) } else { None };
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
