//! Looks for damaged pages in an embedded database that no server uses.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::time::Instant;

use crate::error::{Error, Result};

/// How many instructions of SQLite are executed between two looks at the clock.
const INSTRUCTIONS: i32 = 1_000;

/// What a look at the pages found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Every page is in order.
    None,
    /// What SQLite says about the first problem.
    Found(String),
    /// The time was over before all pages were read, and no problem was found until then.
    Unknown,
}

/// Checks the structure of every page of a database, for at most this long. Writes nothing.
pub fn look_for(file: &Path, max_time: Duration) -> Result<Damage> {
    let failed = |source| Error::Open { place: file.display().to_string(), source: Box::new(source) };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(file, flags).map_err(failed)?;
    crate::search::sqlite::register(&conn)?;
    let end = Instant::now() + max_time;
    conn.progress_handler(INSTRUCTIONS, Some(move || Instant::now() >= end)).map_err(failed)?;
    match conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        // A check that was interrupted says so in its first row, or fails.
        _ if Instant::now() >= end => Ok(Damage::Unknown),
        Ok(found) if found == "ok" => Ok(Damage::None),
        Ok(found) => Ok(Damage::Found(found.lines().collect::<Vec<_>>().join(" "))),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Damage::Found(error.to_string()))
            }
            _ => Err(failed(error)),
        },
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: u64 = 4_096;

    /// A database with a table of some pages, and the number of the table's first page.
    fn database(file: &Path) -> u64 {
        let conn = Connection::open(file).unwrap();
        conn.pragma_update(None, "page_size", i64::try_from(PAGE).unwrap()).unwrap();
        conn.execute_batch(
            "CREATE TABLE notes (text);
             WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000)
             INSERT INTO notes SELECT printf('%0500d', n) FROM numbers",
        )
        .unwrap();
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'notes'";
        let number: i64 = conn.query_row(root, [], |row| row.get(0)).unwrap();
        number.try_into().unwrap()
    }

    #[test]
    fn a_page_that_was_overwritten_is_found_and_the_time_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.db");
        let root = database(&file);
        let look = |time| look_for(&file, time).unwrap();
        assert_eq!(look(Duration::from_secs(60)), Damage::None);
        assert_eq!(look(Duration::ZERO), Damage::Unknown);
        let opened = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        opened.write_all_at(&[0xa5; PAGE as usize], (root - 1) * PAGE).unwrap();
        let found = look(Duration::from_secs(60));
        assert!(matches!(&found, Damage::Found(_)), "{found:?}");
    }
}
