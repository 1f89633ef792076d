//! Reads lists of the API, which come in pages.

use serde::de::DeserializeOwned;

use super::Client;
use crate::{
    error::{Error, Result},
    output,
};

/// The most items that the API returns in one request.
const PAGE_SIZE: usize = 100;

impl Client {
    /// The items of all pages of a list.
    pub async fn get_all_pages<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        let (items, _) = self.get_first(path, usize::MAX).await?;
        Ok(items)
    }

    /// The first items of a list, at most `max`.
    pub async fn get_newest<T: DeserializeOwned>(&self, path: &str, max: usize) -> Result<Vec<T>> {
        let (items, _) = self.get_first(path, max).await?;
        Ok(items)
    }

    /// The items that a command lists: as many as `--limit` says. Standard error says if there are more.
    pub async fn get_limited<T: DeserializeOwned>(&self, path: &str, limit: u32) -> Result<Vec<T>> {
        if limit == 0 {
            return Err(Error::Usage("--limit: must be at least 1".to_owned()));
        }
        let (items, has_more) = self.get_first(path, limit as usize).await?;
        if has_more {
            output::print_notice(&format!("{} shown, there are more: --limit N", items.len()));
        }
        Ok(items)
    }

    /// The first items of a list, at most `max`, and whether there are more.
    async fn get_first<T: DeserializeOwned>(&self, path: &str, max: usize) -> Result<(Vec<T>, bool)> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut cursor_parameter) = (Vec::new(), String::new());
        loop {
            let limit = max.saturating_sub(items.len()).min(PAGE_SIZE);
            let response = self.get(&format!("{path}{separator}limit={limit}{cursor_parameter}")).await?;
            let next = response.next_cursor();
            items.extend(response.data::<Vec<T>>().await?);
            match next {
                Some(cursor) if items.len() < max => cursor_parameter = format!("&cursor={cursor}"),
                next => return Ok((items, next.is_some())),
            }
        }
    }
}
