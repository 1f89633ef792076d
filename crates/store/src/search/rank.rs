//! The SQL function `relevance(table, limit, name, query, first, last)`, with which FTS5 ranks the rows of a full-text
//! query; smaller is better. The row numbers of the project are from `first` to `last`.
//!
//! FTS5's own `bm25` favours the shortest documents, but in a graph the shortest objects contain the least
//! information, and it depends on the average length of all projects. Here a document of [`TYPICAL_LENGTH`]
//! tokens has the norm 1, and none has a norm below [`MIN_NORM`]: up to about twenty tokens, documents count as
//! equally long. The rest is BM25; the name weighs more than the body.
//!
//! FTS5 stores the length of a row in a separate table, and reading it for every match makes the ranking of
//! common words slow. The length can only lower a score, so it is not read for a row that could not be among
//! the best `limit` rows even without the penalty. With `limit` 0 it is read for every row, which is
//! necessary when rows are filtered after they are ranked.
//!
//! The rarity of a phrase requires a scan of every row that contains it, and counts those of the project only: what
//! other projects write must neither change the order of hits nor show in a score. It is cached until the database
//! changes. The cache key is the table's `name`, the project's `first` row and the phrase as written in `query`.
//!
//! This is the only file that uses the C interface of FTS5. It is sound for these reasons: FTS5 calls the
//! function with pointers that are valid during the call. The state between calls belongs to one cursor,
//! which one thread uses, and FTS5 frees it with the cursor. The cache between queries belongs to the
//! connection, which one thread uses at a time, and is freed with it.

#![expect(
    unsafe_code,
    reason = "rusqlite has no safe interface for ranking functions of FTS5, only the C one"
)]

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    ffi::{c_int, c_void},
    ptr, slice,
};

use rusqlite::{Connection, ffi};

use super::{
    rarity_cache::{DbVersion, RarityCache, cache_keys},
    score_words,
};
use crate::error::{Error, Result};

/// A document with this many tokens has the norm 1.
pub(super) const TYPICAL_LENGTH: f64 = 64.0;
/// The part of the norm that grows with the length: the parameter b of BM25, with its usual value.
pub(super) const LENGTH_PART: f64 = 0.75;
/// The norm of the shortest documents.
pub(super) const MIN_NORM: f64 = 0.5;
/// How quickly repetitions of a word stop counting: the parameter k1 of BM25, with its usual value.
pub(super) const SATURATION: f64 = 1.2;
/// The rarity of a phrase that is in every row.
const MIN_RARITY: f64 = 1e-6;
/// The weight of each column: a match in the name is worth more than one in the body.
const COLUMN_WEIGHTS: [f64; 2] = [4.0, 1.0];

/// The heap of the best scores reserves memory for at most this many.
const MAX_RESERVED: usize = 10_000;

/// Registers the function with a connection.
pub(super) fn register(conn: &Connection) -> Result<()> {
    // SAFETY: the handle is valid and only this thread uses it while `conn` is borrowed; the name is
    // NUL-terminated, and FTS5 gets the box together with the function that frees it.
    let code = unsafe {
        let api = fts5_api(conn.handle());
        match api.as_ref().and_then(|api| api.xCreateFunction) {
            Some(create) => {
                let cache = Box::into_raw(Box::<RarityCache>::default()).cast();
                create(api, c"relevance".as_ptr(), cache, Some(relevance), Some(free_cache))
            }
            None => ffi::SQLITE_ERROR,
        }
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    let message = "this SQLite has no FTS5".to_owned();
    Err(Error::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message))))
}

/// Gets the interface of FTS5, which a query writes to a bound pointer. Null when SQLite has no FTS5.
///
/// # Safety
/// `db` must be an open connection that no other thread uses meanwhile.
unsafe fn fts5_api(db: *mut ffi::sqlite3) -> *mut ffi::fts5_api {
    let mut api: *mut ffi::fts5_api = ptr::null_mut();
    let mut statement: *mut ffi::sqlite3_stmt = ptr::null_mut();
    // SAFETY: `api` and `statement` outlive the statement, which is finalised before returning.
    unsafe {
        if ffi::sqlite3_prepare_v2(db, c"SELECT fts5(?1)".as_ptr(), -1, &raw mut statement, ptr::null_mut())
            == ffi::SQLITE_OK
        {
            let api_pointer = (&raw mut api).cast::<c_void>();
            ffi::sqlite3_bind_pointer(statement, 1, api_pointer, c"fts5_api_ptr".as_ptr(), None);
            ffi::sqlite3_step(statement);
        }
        ffi::sqlite3_finalize(statement);
    }
    api
}

/// The state of one query across its rows.
struct Query {
    /// The row numbers of the project. Rows that were deleted count as well, so that no table has to be read.
    rows: RowRange,
    phrases: Vec<Phrase>,
    /// The cache key of each phrase; empty when phrases are not cached.
    cache_keys: Vec<String>,
    /// The best scores so far, the worst of them on top. Scores are positive, and positive floats have the
    /// order of their bits.
    best: BinaryHeap<Reverse<u64>>,
    /// How many rows the query returns; 0 when every row needs its exact score.
    limit: usize,
}

/// The row numbers of a project, both included.
#[derive(Clone, Copy)]
struct RowRange {
    first: i64,
    last: i64,
}

impl RowRange {
    fn count(self) -> f64 {
        (self.last.saturating_sub(self.first).saturating_add(1) as f64).max(1.0)
    }

    fn contains(self, row: i64) -> bool {
        (self.first..=self.last).contains(&row)
    }
}

/// The state of one phrase of a query.
#[derive(Clone, Copy, Default)]
struct Phrase {
    /// The weight of a match; a rare phrase weighs more. Computed at the first row that contains it.
    rarity: Option<f64>,
    /// The weighted number of matches in the current row.
    frequency: f64,
}

impl Query {
    /// The BM25 score of the current row, whose length has this norm.
    fn score(&self, norm: f64) -> f64 {
        let phrase_score = |phrase: &Phrase| {
            phrase.rarity.unwrap_or(0.0) * phrase.frequency * (SATURATION + 1.0)
                / (phrase.frequency + SATURATION * norm)
        };
        self.phrases.iter().filter(|phrase| phrase.frequency > 0.0).map(phrase_score).sum()
    }

    /// The phrases that the current row contains, one bit for each.
    fn words(&self) -> u32 {
        let found = self.phrases.iter().take(32).enumerate().filter(|(_, phrase)| phrase.frequency > 0.0);
        found.fold(0, |words, (bit, _)| words | 1 << bit)
    }

    /// Whether a row whose score is at most `max_score` can no longer be among the best.
    fn cannot_rank(&self, max_score: f64) -> bool {
        self.limit > 0
            && self.best.len() == self.limit
            && self.best.peek().is_some_and(|worst| max_score.to_bits() < worst.0)
    }

    /// Adds a score to the best ones, if it is one of them.
    fn record(&mut self, score: f64) {
        if self.limit == 0 {
            return;
        }
        self.best.push(Reverse(score.to_bits()));
        if self.best.len() > self.limit {
            self.best.pop();
        }
    }
}

/// By how much the length of a document weakens its matches.
fn length_norm(tokens: f64) -> f64 {
    (1.0 - LENGTH_PART + LENGTH_PART * tokens / TYPICAL_LENGTH).max(MIN_NORM)
}

/// Turns a status code of SQLite into a result.
fn ok(code: c_int) -> Result<(), c_int> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

/// Calls a function of the FTS5 interface; an error when this version of FTS5 does not have it.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),*)) => {
        match $api.$name {
            Some(function) => function($($arg),*),
            None => return Err(ffi::SQLITE_MISUSE),
        }
    };
}

/// The SQL function. FTS5 calls it for each row.
unsafe extern "C" fn relevance(
    api: *const ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: FTS5 gives pointers that are valid for this call, and `count` values.
    unsafe {
        let values = slice::from_raw_parts(values, usize::try_from(count).unwrap_or(0));
        match score_row(&*api, fts, context, values) {
            Ok(score) => ffi::sqlite3_result_double(context, -score),
            Err(code) => ffi::sqlite3_result_error_code(context, code),
        }
    }
}

/// The score of the current row; larger is better.
///
/// # Safety
/// `fts`, `context` and `values` must be what FTS5 passed along with `api`.
unsafe fn score_row(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    values: &[*mut ffi::sqlite3_value],
) -> Result<f64, c_int> {
    // SAFETY: only `fts` and pointers to this stack are passed; what `xGetAuxdata` returns is the
    // `Query` that `start_query` set for this cursor, and nothing else refers to it.
    unsafe {
        let mut state = call!(api, xGetAuxdata(fts, 0)).cast::<Query>();
        if state.is_null() {
            state = start_query(api, fts, context, values)?;
        }
        let query = &mut *state;
        for phrase in 0..query.phrases.len() {
            let frequency = weighted_frequency(api, fts, phrase as c_int)?;
            query.phrases[phrase].frequency = frequency;
            if frequency > 0.0 && query.phrases[phrase].rarity.is_none() {
                let rarity = rarity(api, fts, phrase as c_int, query.rows)?;
                query.phrases[phrase].rarity = Some(rarity);
                if let Some(key) = query.cache_keys.get_mut(phrase) {
                    let cache = &mut *call!(api, xUserData(fts)).cast::<RarityCache>();
                    cache.insert(std::mem::take(key), rarity);
                }
            }
        }
        let max_score = score_words::upper_bound(query.score(MIN_NORM));
        if query.cannot_rank(max_score) {
            return Ok(max_score);
        }
        let mut tokens: c_int = 0;
        ok(call!(api, xColumnSize(fts, -1, &raw mut tokens)))?;
        let score = score_words::encode(query.score(length_norm(f64::from(tokens))), query.words());
        query.record(score);
        Ok(score)
    }
}

/// Creates the state of a query and passes it to FTS5, which owns it.
///
/// # Safety
/// As [`score_row`].
unsafe fn start_query(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    values: &[*mut ffi::sqlite3_value],
) -> Result<*mut Query, c_int> {
    // SAFETY: the box goes to FTS5 together with `free_query`, which it calls once; when it refuses
    // the box it calls `free_query` at once. What `xUserData` returns is the `RarityCache` that
    // `register` gave away, and nothing else refers to it during this call.
    unsafe {
        let limit = values.first().map_or(0, |value| ffi::sqlite3_value_int64(*value));
        let limit = usize::try_from(limit).unwrap_or(0);
        let [_, table, query, first, last] = *values else { return Err(ffi::SQLITE_MISUSE) };
        let rows = RowRange { first: ffi::sqlite3_value_int64(first), last: ffi::sqlite3_value_int64(last) };
        let count = usize::try_from(call!(api, xPhraseCount(fts))).unwrap_or(0);
        let mut phrases = vec![Phrase::default(); count];
        let mut keys = Vec::new();
        if let Some(version) = DbVersion::now(ffi::sqlite3_context_db_handle(context)) {
            let cache = &mut *call!(api, xUserData(fts)).cast::<RarityCache>();
            cache.keep_only(version);
            keys = cache_keys(text(table), rows.first, text(query));
            // FTS5 omits phrases without words. Then it is unknown which key belongs to which phrase.
            keys.truncate(if keys.len() == count { count } else { 0 });
            for (phrase, key) in phrases.iter_mut().zip(&keys) {
                phrase.rarity = cache.get(key);
            }
        }
        let query = Box::into_raw(Box::new(Query {
            rows,
            phrases,
            cache_keys: keys,
            best: BinaryHeap::with_capacity(limit.min(MAX_RESERVED) + 1),
            limit,
        }));
        ok(call!(api, xSetAuxdata(fts, query.cast(), Some(free_query))))?;
        Ok(query)
    }
}

/// The text of a value; empty for NULL and invalid UTF-8.
///
/// # Safety
/// `value` must be valid and unchanged as long as the text is used.
unsafe fn text<'a>(value: *mut ffi::sqlite3_value) -> &'a str {
    // SAFETY: SQLite gives the text first and then its length in bytes.
    unsafe {
        let start = ffi::sqlite3_value_text(value);
        let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
        if start.is_null() {
            return "";
        }
        std::str::from_utf8(slice::from_raw_parts(start, length)).unwrap_or("")
    }
}

/// Frees the cache of a connection.
unsafe extern "C" fn free_cache(cache: *mut c_void) {
    // SAFETY: it is the box that `register` gave away, and FTS5 calls this once.
    drop(unsafe { Box::from_raw(cache.cast::<RarityCache>()) });
}

/// Frees the state of a query.
unsafe extern "C" fn free_query(query: *mut c_void) {
    // SAFETY: it is the box that `start_query` gave away, and FTS5 calls this once.
    drop(unsafe { Box::from_raw(query.cast::<Query>()) });
}

/// The number of matches of a phrase in the current row, each with the weight of its column.
///
/// # Safety
/// As [`score_row`].
unsafe fn weighted_frequency(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    phrase: c_int,
) -> Result<f64, c_int> {
    let mut matches = ffi::Fts5PhraseIter { a: ptr::null(), b: ptr::null() };
    let (mut column, mut offset): (c_int, c_int) = (-1, -1);
    let mut frequency = 0.0;
    // SAFETY: the iterator is used only within this call, during which the current row does not change.
    unsafe {
        ok(call!(api, xPhraseFirst(fts, phrase, &raw mut matches, &raw mut column, &raw mut offset)))?;
        // The column is -1 after the last match.
        while let Ok(index) = usize::try_from(column) {
            frequency += COLUMN_WEIGHTS.get(index).copied().unwrap_or(1.0);
            call!(api, xPhraseNext(fts, &raw mut matches, &raw mut column, &raw mut offset));
        }
    }
    Ok(frequency)
}

/// The rarity of a phrase: the logarithm of all rows of the project divided by those that contain it (the IDF of BM25).
/// It is always above 0, so that a word that is in every row still counts.
///
/// # Safety
/// As [`score_row`].
unsafe fn rarity(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    phrase: c_int,
    rows: RowRange,
) -> Result<f64, c_int> {
    let mut counter = RowCounter { rows, count: 0 };
    // SAFETY: `counter` outlives the query that `xQueryPhrase` runs and finishes.
    unsafe {
        ok(call!(api, xQueryPhrase(fts, phrase, (&raw mut counter).cast(), Some(count_row))))?;
    }
    let count = counter.count as f64;
    Ok((1.0 + (rows.count() - count).max(0.0) / (count + 0.5)).ln().max(MIN_RARITY))
}

/// Counts the rows of a project that contain a phrase.
struct RowCounter {
    rows: RowRange,
    count: i64,
}

/// Counts a row that contains a phrase. FTS5 calls it for each row of the table, whichever project it belongs to.
unsafe extern "C" fn count_row(
    api: *const ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    counter: *mut c_void,
) -> c_int {
    // SAFETY: FTS5 gives pointers that are valid for this call, and the counter is the one that `rarity` passed.
    unsafe {
        let Some(row_id) = (*api).xRowid else { return ffi::SQLITE_MISUSE };
        let counter = &mut *counter.cast::<RowCounter>();
        counter.count += i64::from(counter.rows.contains(row_id(fts)));
    }
    ffi::SQLITE_OK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_documents_count_as_equally_long() {
        assert_eq!(length_norm(1.0), MIN_NORM);
        assert_eq!(length_norm(20.0), MIN_NORM);
        assert_eq!(length_norm(TYPICAL_LENGTH), 1.0);
        assert!(length_norm(500.0) > 6.0);
    }

    #[test]
    fn cached_rarities_are_dropped_when_the_database_changes() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let conn = Connection::open(dir.path().join("x.db")).unwrap();
            register(&conn).unwrap();
            conn
        };
        let (writer, reader) = (open(), open());
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer
            .execute_batch(
                "CREATE VIRTUAL TABLE f USING fts5(name, body);
                 INSERT INTO f (name, body) VALUES ('apple', 'red'), ('pear', 'green'), ('plum', 'blue');",
            )
            .unwrap();
        let scores = |conn: &Connection, name: &str, query: &str| -> Vec<f64> {
            let sql = "SELECT relevance(f, 10, ?1, ?2, 1, 9) FROM f WHERE f MATCH ?2 ORDER BY 1";
            let mut statement = conn.prepare_cached(sql).unwrap();
            statement.query_map([name, query], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        // A new table name is never cached, so the phrase is counted again.
        let mut uncached_tables = 0;
        let mut check = |conn: &Connection| {
            for query in [r#""apple""#, r#""ap" *"#, r#""apple" OR "green""#, r#""p" *"#, r#""p""#] {
                uncached_tables += 1;
                let uncached = scores(conn, &format!("{uncached_tables}"), query);
                assert_eq!(scores(conn, "f", query), uncached, "{query}");
                assert_eq!(scores(conn, "f", query), uncached, "{query}");
            }
        };
        check(&reader);
        writer.execute("INSERT INTO f (name, body) VALUES ('apple', 'green')", []).unwrap();
        check(&reader);
        check(&writer);
        // The number of rows and words stays the same.
        writer.execute("UPDATE f SET name = 'pear' WHERE rowid = 1", []).unwrap();
        check(&reader);
        check(&writer);
        writer.execute_batch("BEGIN; UPDATE f SET name = 'apple' WHERE rowid = 1").unwrap();
        check(&writer);
        check(&reader);
        writer.execute_batch("ROLLBACK").unwrap();
        check(&writer);
        check(&reader);
    }
}
