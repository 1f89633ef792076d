//! The rarities of phrases that the ranking of full-text queries has counted. To count one, every row with the phrase is
//! read, so they are kept until the database changes.

use std::ffi::c_void;

use hashlink::LruCache;
use rusqlite::ffi;

/// The most phrases in the cache of one connection.
const MAX_CACHED: usize = 10_000;

/// The rarities of phrases at one state of the database, by the keys of [`cache_keys`].
pub(super) struct RarityCache {
    version: DbVersion,
    rarities: LruCache<String, f64>,
}

impl Default for RarityCache {
    fn default() -> Self {
        Self { version: DbVersion::default(), rarities: LruCache::new(MAX_CACHED) }
    }
}

impl RarityCache {
    /// Drops all rarities that were counted at another state of the database.
    pub(super) fn keep_only(&mut self, version: DbVersion) {
        if self.version != version {
            self.version = version;
            self.rarities.clear();
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<f64> {
        self.rarities.get(key).copied()
    }

    pub(super) fn insert(&mut self, key: String, rarity: f64) {
        self.rarities.insert(key, rarity);
    }
}

/// Identifies a state of the database: it changes with each commit of this or another connection.
#[derive(Default, Clone, Copy, PartialEq)]
pub(super) struct DbVersion {
    version: u32,
    changes: i64,
}

impl DbVersion {
    /// The current state; `None` within a transaction that writes, because it may be rolled back.
    ///
    /// # Safety
    /// `db` must be an open connection that no other thread uses meanwhile.
    #[expect(unsafe_code, reason = "rusqlite has no safe function for the version of the data")]
    pub(super) unsafe fn now(db: *mut ffi::sqlite3) -> Option<Self> {
        let mut version = 0_u32;
        // SAFETY: this file control writes one `unsigned int`; the name is NUL-terminated.
        unsafe {
            if ffi::sqlite3_txn_state(db, c"main".as_ptr()) != ffi::SQLITE_TXN_READ {
                return None;
            }
            let version_pointer = (&raw mut version).cast::<c_void>();
            let code = ffi::sqlite3_file_control(
                db,
                c"main".as_ptr(),
                ffi::SQLITE_FCNTL_DATA_VERSION,
                version_pointer,
            );
            (code == ffi::SQLITE_OK).then(|| Self { version, changes: ffi::sqlite3_total_changes64(db) })
        }
    }
}

/// The cache keys of the phrases of a query on the rows of a table from `first` on.
pub(super) fn cache_keys(table: &str, first: i64, query: &str) -> Vec<String> {
    let key = |(phrase, is_prefix): (&str, bool)| {
        format!("{table}{first}{}{phrase}", if is_prefix { '*' } else { ' ' })
    };
    phrases(query).map(key).collect()
}

/// The phrases of a query as [`emergent_domain::text_query::TextQuery::to_fts5`] writes it: each in quotes,
/// without quotes inside, and with a star after prefixes. The flag says whether a phrase is a prefix.
fn phrases(query: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut parts = query.split('"').skip(1);
    std::iter::from_fn(move || {
        let phrase = parts.next()?;
        Some((phrase, parts.next()?.starts_with(" *")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_split_into_phrases_and_prefixes() {
        let split: Vec<_> = phrases(r#"("red pears" OR "plum" *) NOT "rotten""#).collect();
        assert_eq!(split, [("red pears", false), ("plum", true), ("rotten", false)]);
        assert_eq!(phrases("").count(), 0);
    }
}
