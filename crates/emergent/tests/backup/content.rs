//! What a database file contains.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};

fn open(file: &Path) -> Connection {
    Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a database")
}

/// The number that a query gives.
pub fn number(file: &Path, sql: &str) -> u64 {
    let number: i64 = open(file).query_row(sql, [], |row| row.get(0)).expect("one number");
    number.try_into().expect("a count")
}

/// Changes a copy, and removes its digest, which no longer fits, with the mark that says that it has one: it is as an
/// earlier version made it.
pub fn execute(file: &Path, sql: &str) {
    cut_last_line(file);
    open(file).execute_batch(&format!("PRAGMA application_id = 0; {sql}")).expect("statements");
}

/// Removes the digest of a copy: the file has whole pages then.
pub fn cut_last_line(file: &Path) {
    let copy = std::fs::OpenOptions::new().write(true).open(file).expect("a copy");
    let length = copy.metadata().expect("its length").len();
    copy.set_len(length - length % 512).expect("only pages");
}

/// For each table the number of its rows and a digest of all of them, in the order of their primary keys. The
/// tables of the full-text index are among them.
pub fn digests(file: &Path) -> BTreeMap<String, (u64, u64)> {
    let conn = open(file);
    let mut statement = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY 1")
        .expect("the schema");
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).expect("tables");
    tables.map(Result::unwrap).map(|table| (table.clone(), digest(&conn, &table))).collect()
}

fn digest(conn: &Connection, table: &str) -> (u64, u64) {
    let mut statement = conn.prepare(&format!("SELECT * FROM \"{table}\"")).expect("a table");
    let columns = statement.column_count();
    let (mut count, mut hasher) = (0, DefaultHasher::new());
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        count += 1;
        for column in 0..columns {
            match row.get_ref(column).expect("a value") {
                ValueRef::Null => 0.hash(&mut hasher),
                ValueRef::Integer(value) => value.hash(&mut hasher),
                ValueRef::Real(value) => value.to_bits().hash(&mut hasher),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.hash(&mut hasher),
            }
        }
    }
    (count, hasher.finish())
}
