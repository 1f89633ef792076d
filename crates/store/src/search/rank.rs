//! `relevance(table, limit, name, query)`: how relevant a row is to a full-text query; smaller is better.
//!
//! FTS5's own `bm25` favours short documents, and in a graph the shortest objects hold the least. Here all
//! documents up to [`USUAL_LENGTH`] count as equally long, and longer ones lose a little, by the logarithm
//! of their length. The rest is BM25, with the name weighing more than the body.
//!
//! The length of a row is in a table of its own, and reading it for every match makes ranking common words
//! slow. Length can only lower a score, so it is not read for a row that could not be among the best
//! `limit` even without it. With `limit` 0 it is read for every row, which is necessary when rows are
//! filtered after they are ranked.
//!
//! Counting how rare a phrase is needs a scan of every row that contains it. The count is cached under the
//! table's `name` and the phrase as written in `query`, until the database changes.
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

use hashlink::LruCache;
use rusqlite::{Connection, ffi};

use crate::error::{Error, Result};

/// In tokens. It is also used when the documents of a project are shorter on average.
pub(super) const TYPICAL_LENGTH: f64 = 64.0;
/// How much a longer document loses: at e times the usual length, a word counts as if it occurred 1.5 times
/// less often.
pub(super) const LENGTH_PENALTY: f64 = 0.5;
/// How quickly repetitions of a word stop counting; the usual value of BM25.
const SATURATION: f64 = 1.2;
/// The weight of each column: a match in the name is worth more than one in the body.
const COLUMN_WEIGHTS: [f64; 2] = [4.0, 1.0];

/// Registers the function with a connection.
pub(super) fn register(conn: &Connection) -> Result<()> {
    // SAFETY: the handle is valid and only this thread uses it while `conn` is borrowed; the name is
    // NUL-terminated, and FTS5 gets the box together with the function that frees it.
    let code = unsafe {
        let api = fts5_api(conn.handle());
        match api.as_ref().and_then(|api| api.xCreateFunction) {
            Some(create) => {
                let known = Box::into_raw(Box::<RarityCache>::default()).cast();
                create(api, c"relevance".as_ptr(), known, Some(relevance), Some(free_cache))
            }
            None => ffi::SQLITE_ERROR,
        }
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    let what = "this SQLite has no FTS5".to_owned();
    Err(Error::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(what))))
}

/// FTS5 returns its interface through a query; null when SQLite has no FTS5.
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
            let place = (&raw mut api).cast::<c_void>();
            ffi::sqlite3_bind_pointer(statement, 1, place, c"fts5_api_ptr".as_ptr(), None);
            ffi::sqlite3_step(statement);
        }
        ffi::sqlite3_finalize(statement);
    }
    api
}

/// How rare phrases are at one state of the database.
struct RarityCache {
    version: DbVersion,
    rarities: LruCache<String, f64>,
}

const MAX_CACHED: usize = 10_000;

impl Default for RarityCache {
    fn default() -> Self {
        Self { version: DbVersion::default(), rarities: LruCache::new(MAX_CACHED) }
    }
}

/// Identifies a state of the database: it changes with each commit of this or another connection.
#[derive(Default, Clone, Copy, PartialEq)]
struct DbVersion {
    version: u32,
    changes: i64,
}

impl DbVersion {
    /// `None` within a transaction that writes, because it may be rolled back.
    ///
    /// # Safety
    /// `db` must be an open connection that no other thread uses meanwhile.
    unsafe fn now(db: *mut ffi::sqlite3) -> Option<Self> {
        let mut version = 0_u32;
        // SAFETY: this file control writes one `unsigned int`; the name is NUL-terminated.
        unsafe {
            if ffi::sqlite3_txn_state(db, c"main".as_ptr()) != ffi::SQLITE_TXN_READ {
                return None;
            }
            let place = (&raw mut version).cast::<c_void>();
            let code = ffi::sqlite3_file_control(db, c"main".as_ptr(), ffi::SQLITE_FCNTL_DATA_VERSION, place);
            (code == ffi::SQLITE_OK).then(|| Self { version, changes: ffi::sqlite3_total_changes64(db) })
        }
    }
}

/// The phrases of a query as [`emergent_domain::text_query::TextQuery::to_fts5`] writes it: each in quotes,
/// without quotes inside, and with a star after prefixes.
fn phrases(query: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut parts = query.split('"').skip(1);
    std::iter::from_fn(move || {
        let phrase = parts.next()?;
        Some((phrase, parts.next()?.starts_with(" *")))
    })
}

/// The state of one query across its rows.
struct Query {
    rows: f64,
    usual_length: f64,
    phrases: Vec<Phrase>,
    /// The cache key of each phrase; empty when phrases are not cached.
    names: Vec<String>,
    /// The best scores so far, the worst of them on top. Scores are positive, and positive floats have the
    /// order of their bits.
    best: BinaryHeap<Reverse<u64>>,
    limit: usize,
}

#[derive(Clone, Copy, Default)]
struct Phrase {
    /// The weight of a match; a rare phrase weighs more. Computed at the first row that contains it.
    rarity: Option<f64>,
    /// The weighted number of matches in the current row.
    frequency: f64,
}

impl Query {
    /// BM25, with `length` 1 for rows of the usual length or shorter.
    fn score(&self, length: f64) -> f64 {
        let part = |phrase: &Phrase| {
            phrase.rarity.unwrap_or(0.0) * phrase.frequency * (SATURATION + 1.0)
                / (phrase.frequency + SATURATION * length)
        };
        self.phrases.iter().filter(|phrase| phrase.frequency > 0.0).map(part).sum()
    }

    /// Whether a row with at most this score can still be among the best.
    fn cannot_rank(&self, at_most: f64) -> bool {
        self.limit > 0
            && self.best.len() == self.limit
            && self.best.peek().is_some_and(|worst| at_most.to_bits() < worst.0)
    }

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

/// Calls the interface of FTS5 and turns its status into an error.
fn ok(code: c_int) -> Result<(), c_int> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),*)) => {
        match $api.$name {
            Some(function) => function($($arg),*),
            None => return Err(ffi::SQLITE_MISUSE),
        }
    };
}

/// Called by FTS5 for each row.
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

/// # Safety
/// `fts`, `context` and `values` must be what FTS5 passed along with `api`.
unsafe fn score_row(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    values: &[*mut ffi::sqlite3_value],
) -> Result<f64, c_int> {
    // SAFETY: only `fts` and places on this stack are passed; what `xGetAuxdata` returns is the
    // `Query` that `start_query` set for this cursor, and nothing else refers to it.
    unsafe {
        let mut kept = call!(api, xGetAuxdata(fts, 0)).cast::<Query>();
        if kept.is_null() {
            kept = start_query(api, fts, context, values)?;
        }
        let query = &mut *kept;
        for phrase in 0..query.phrases.len() {
            let found = weighted_frequency(api, fts, phrase as c_int)?;
            query.phrases[phrase].frequency = found;
            if found > 0.0 && query.phrases[phrase].rarity.is_none() {
                let rarity = rarity(api, fts, phrase as c_int, query.rows)?;
                query.phrases[phrase].rarity = Some(rarity);
                if let Some(name) = query.names.get_mut(phrase) {
                    let known = &mut *call!(api, xUserData(fts)).cast::<RarityCache>();
                    known.rarities.insert(std::mem::take(name), rarity);
                }
            }
        }
        let at_most = query.score(1.0);
        if query.cannot_rank(at_most) {
            return Ok(at_most);
        }
        let mut tokens: c_int = 0;
        ok(call!(api, xColumnSize(fts, -1, &raw mut tokens)))?;
        let longer = f64::from(tokens) / query.usual_length;
        let score = if longer > 1.0 { query.score(1.0 + LENGTH_PENALTY * longer.ln()) } else { at_most };
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
        let (mut rows, mut tokens) = (0, 0);
        ok(call!(api, xRowCount(fts, &raw mut rows)))?;
        ok(call!(api, xColumnTotalSize(fts, -1, &raw mut tokens)))?;
        let count = usize::try_from(call!(api, xPhraseCount(fts))).unwrap_or(0);
        let mut phrases = vec![Phrase::default(); count];
        let mut names = Vec::new();
        if let (&[_, table, query], Some(moment)) =
            (values, DbVersion::now(ffi::sqlite3_context_db_handle(context)))
        {
            let known = &mut *call!(api, xUserData(fts)).cast::<RarityCache>();
            if known.version != moment {
                known.version = moment;
                known.rarities.clear();
            }
            names = cache_keys(text(table), text(query));
            // FTS5 omits phrases without words. The phrases can then not be matched to their keys.
            names.truncate(if names.len() == count { count } else { 0 });
            for (phrase, name) in phrases.iter_mut().zip(&names) {
                phrase.rarity = known.rarities.get(name).copied();
            }
        }
        let rows = (rows as f64).max(1.0);
        let query = Box::into_raw(Box::new(Query {
            rows,
            usual_length: (tokens as f64 / rows).max(TYPICAL_LENGTH),
            phrases,
            names,
            best: BinaryHeap::with_capacity(limit.min(10_000) + 1),
            limit,
        }));
        ok(call!(api, xSetAuxdata(fts, query.cast(), Some(free_query))))?;
        Ok(query)
    }
}

/// The cache keys of the phrases of a query on a table.
fn cache_keys(table: &str, query: &str) -> Vec<String> {
    let name = |(phrase, begins): (&str, bool)| format!("{table}{}{phrase}", if begins { '*' } else { ' ' });
    phrases(query).map(name).collect()
}

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

unsafe extern "C" fn free_cache(known: *mut c_void) {
    // SAFETY: it is the box that `register` gave away, and FTS5 calls this once.
    drop(unsafe { Box::from_raw(known.cast::<RarityCache>()) });
}

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
    let mut places = ffi::Fts5PhraseIter { a: ptr::null(), b: ptr::null() };
    let (mut column, mut offset): (c_int, c_int) = (-1, -1);
    let mut found = 0.0;
    // SAFETY: the iterator is used within this call only, while the row stands.
    unsafe {
        ok(call!(api, xPhraseFirst(fts, phrase, &raw mut places, &raw mut column, &raw mut offset)))?;
        while let Ok(at) = usize::try_from(column) {
            found += COLUMN_WEIGHTS.get(at).copied().unwrap_or(1.0);
            call!(api, xPhraseNext(fts, &raw mut places, &raw mut column, &raw mut offset));
        }
    }
    Ok(found)
}

/// The logarithm of the number of rows per row that contains the phrase. It is always above 0, so that a
/// word of every row still counts.
///
/// # Safety
/// As [`score_row`].
unsafe fn rarity(
    api: &ffi::Fts5ExtensionApi,
    fts: *mut ffi::Fts5Context,
    phrase: c_int,
    rows: f64,
) -> Result<f64, c_int> {
    let mut count: i64 = 0;
    // SAFETY: `count` outlives the query that `xQueryPhrase` runs and finishes.
    unsafe {
        ok(call!(api, xQueryPhrase(fts, phrase, (&raw mut count).cast(), Some(count_row))))?;
    }
    let count = count as f64;
    Ok((1.0 + (rows - count).max(0.0) / (count + 0.5)).ln().max(1e-6))
}

unsafe extern "C" fn count_row(
    _: *const ffi::Fts5ExtensionApi,
    _: *mut ffi::Fts5Context,
    count: *mut c_void,
) -> c_int {
    // SAFETY: it is the counter that `rarity` passed.
    unsafe { *count.cast::<i64>() += 1 };
    ffi::SQLITE_OK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phrases_of_a_query_are_told_apart() {
        let found: Vec<_> = phrases(r#"("red pears" OR "plum" *) NOT "rotten""#).collect();
        assert_eq!(found, [("red pears", false), ("plum", true), ("rotten", false)]);
        assert_eq!(phrases("").count(), 0);
    }

    #[test]
    fn what_is_remembered_is_forgotten_when_the_database_changes() {
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
            let sql = "SELECT relevance(f, 10, ?1, ?2) FROM f WHERE f MATCH ?2 ORDER BY 1";
            let mut statement = conn.prepare_cached(sql).unwrap();
            statement.query_map([name, query], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        // A new table name is never cached, so the phrase is counted again.
        let mut fresh = 0;
        let mut check = |conn: &Connection| {
            for query in [r#""apple""#, r#""ap" *"#, r#""apple" OR "green""#, r#""p" *"#, r#""p""#] {
                fresh += 1;
                let anew = scores(conn, &format!("{fresh}"), query);
                assert_eq!(scores(conn, "f", query), anew, "{query}");
                assert_eq!(scores(conn, "f", query), anew, "{query}");
            }
        };
        check(&reader);
        writer.execute("INSERT INTO f (name, body) VALUES ('apple', 'green')", []).unwrap();
        check(&reader);
        check(&writer);
        // As many rows and words as before.
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
