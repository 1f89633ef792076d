//! Writes objects: inserts many at once, and writes the next version of one.

use std::{collections::HashSet, sync::LazyLock};

use emergent_domain::{indexed_text::IndexedText, object::Object};

use crate::{
    author,
    engine::Engine,
    error::{Error, Result},
    inbox_items, page, params,
    row::{InsertRow, TableRow, to_param},
    row_numbers,
    row_numbers::NumberedTable,
    search::write::{self, Entry, SearchIndex},
    tx::Tx,
    value::Param,
};

/// A new object and its text for the full-text index.
#[derive(Debug, Clone, Copy)]
pub struct NewRow<'a> {
    pub object: &'a Object,
    pub text: &'a IndexedText,
}

/// Inserts objects of one project and indexes their texts. Returns the row number of each object; `None` when
/// another live object has its key, so that it was not inserted.
pub fn insert_many(tx: &mut Tx<'_>, project_no: i64, rows: &[NewRow<'_>]) -> Result<Vec<Option<i64>>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let project = first.object.project;
    let numbers = row_numbers::allocate(tx, NumberedTable::Objects, project_no, rows.len())?;
    let inserted = match tx.engine() {
        Engine::Sqlite => sqlite_insert(tx, &numbers, rows)?,
        Engine::Postgres => postgres_insert(tx, &numbers, rows)?,
    };
    let entries: Vec<Entry<'_>> = rows
        .iter()
        .zip(&inserted)
        .filter_map(|(row, no)| no.map(|no| Entry { no, text: row.text }))
        .collect();
    write::insert(tx, SearchIndex::Objects, project, &entries)?;
    for (row, _) in rows.iter().zip(&inserted).filter(|(_, no)| no.is_some()) {
        inbox_items::record_object(tx, row.object)?;
    }
    Ok(inserted)
}

const SKIP_KEY_CONFLICT: &str =
    "ON CONFLICT (project_id, type, key) WHERE key IS NOT NULL AND deleted_at IS NULL DO NOTHING";

fn sqlite_insert(tx: &mut Tx<'_>, numbers: &[i64], rows: &[NewRow<'_>]) -> Result<Vec<Option<i64>>> {
    let placeholders = page::placeholders(1, Object::COLUMN_COUNT + 1);
    let sql = format!("{} ({placeholders}) {SKIP_KEY_CONFLICT}", Object::insert_head(&["no"]));
    let mut inserted = Vec::with_capacity(rows.len());
    for (no, row) in numbers.iter().zip(rows) {
        let changed = tx.execute(&sql, &row.object.insert_params([Param::from(*no)])?)?;
        inserted.push((changed == 1).then_some(*no));
    }
    Ok(inserted)
}

fn postgres_insert(tx: &mut Tx<'_>, numbers: &[i64], rows: &[NewRow<'_>]) -> Result<Vec<Option<i64>>> {
    let params: Result<Vec<_>> =
        numbers.iter().zip(rows).map(|(no, row)| row.object.insert_params([Param::from(*no)])).collect();
    let (head, columns) = (Object::insert_head(&["no"]), Object::COLUMN_COUNT + 1);
    // Without a key, an object has no duplicate, so nobody has to wait for the answer.
    if rows.iter().all(|row| row.object.key.is_none()) {
        tx.insert_many_later(&head, columns, &params?)?;
        return Ok(numbers.iter().copied().map(Some).collect());
    }
    let changed = tx.insert_many(&head, columns, &params?, SKIP_KEY_CONFLICT)?;
    if changed == rows.len() as u64 {
        return Ok(numbers.iter().copied().map(Some).collect());
    }
    // Some keys are in use. The count does not show which rows were skipped.
    let mut inserted = HashSet::new();
    for list in page::in_chunks(numbers) {
        let sql = format!("SELECT no FROM graph_objects WHERE no IN ({})", page::placeholders(1, list.len()));
        let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        inserted.extend(tx.query(&sql, &list, |row| row.get::<i64>(0))?);
    }
    Ok(numbers.iter().map(|no| inserted.contains(no).then_some(*no)).collect())
}

/// Copies the newest version of an object to the history, as valid until `$2`.
const ARCHIVE_SQL: &str = "INSERT INTO graph_object_versions
        (object_id, version, project_id, type, key, status, labels, properties, created_at, updated_at,
         deleted_at, valid_to, author_token, author_run, author_tool_call, reason)
     SELECT id, version, project_id, type, key, status, labels, properties, created_at, updated_at,
         deleted_at, CAST($2 AS timestamptz), author_token, author_run, author_tool_call, reason
     FROM graph_objects WHERE no = $1";
const UPDATE_SQL: &str = "UPDATE graph_objects
     SET type = $2, key = $3, status = $4, labels = $5, properties = $6, version = $7, updated_at = $8,
         deleted_at = $9, author_token = $10, author_run = $11, author_tool_call = $12, reason = $14
     WHERE no = $1 AND version = $13";
/// Both as one statement, for PostgreSQL: its parts see the row as it was before the statement. It divides by zero if no
/// row was changed, so that it fails by itself and nobody has to wait for its answer.
static ARCHIVE_AND_UPDATE_SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH archived AS ({}), updated AS ({UPDATE_SQL} RETURNING no) SELECT 1 / count(*) FROM updated",
        ARCHIVE_SQL.replace("$2", "$8")
    )
});

/// Writes the next version of a locked object, or its tombstone, and moves the previous version to the
/// history. Does not change the full-text index. On PostgreSQL it is sent with the next statement; if another transaction
/// used the key after the caller checked it, this transaction runs again.
pub fn update(tx: &mut Tx<'_>, no: i64, next: &Object) -> Result<()> {
    tx.locked_objects.remove(&next.id);
    let [token, run, tool_call] = author::params(next.author);
    let values = [
        Param::from(no),
        Param::from(&next.type_),
        Param::from(next.key.as_ref()),
        Param::from(next.status.as_ref()),
        to_param(&next.labels, Object::TABLE, "labels")?,
        Param::from(&next.properties),
        Param::from(next.version),
        Param::from(next.updated_at),
        Param::from(next.deleted_at),
        token,
        run,
        tool_call,
        Param::from(next.version - 1),
        Param::from(next.reason.as_ref()),
    ];
    match tx.engine() {
        Engine::Sqlite => sqlite_update(tx, no, next, &values)?,
        Engine::Postgres => tx.execute_later(&ARCHIVE_AND_UPDATE_SQL, &values)?,
    }
    inbox_items::record_object(tx, next)
}

fn sqlite_update(tx: &mut Tx<'_>, no: i64, next: &Object, values: &[Param<'_>]) -> Result<()> {
    tx.execute(ARCHIVE_SQL, params![no, next.updated_at])?;
    match tx.execute(UPDATE_SQL, values) {
        Ok(1) => Ok(()),
        Ok(_) => Err(tx.retry_error("the object changed although its row was locked")),
        Err(Error::Duplicate { constraint }) => Err(tx.retry_error(&constraint)),
        Err(error) => Err(error),
    }
}
