//! Writes relationships: inserts many at once, and writes the next version of some.

use std::collections::HashSet;

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RelationshipId},
    relationship::Relationship,
    time::Timestamp,
};

use crate::{
    author,
    engine::Engine,
    error::Result,
    page,
    row::{InsertRow, TableRow},
    row_numbers,
    row_numbers::NumberedTable,
    tx::Tx,
    value::Param,
};

const SKIP_DUPLICATE: &str = "ON CONFLICT (from_id, type, to_id) WHERE deleted_at IS NULL DO NOTHING";

/// Inserts relationships of one project. Returns false for each that was not inserted, because a live one of
/// the same type and ends exists. The caller has locked the ends.
pub fn insert_many(tx: &mut Tx<'_>, project_no: i64, rows: &[Relationship]) -> Result<Vec<bool>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = row_numbers::allocate(tx, NumberedTable::Relationships, project_no, rows.len())?;
    match tx.engine() {
        Engine::Sqlite => sqlite_insert(tx, &numbers, rows),
        Engine::Postgres => postgres_insert(tx, &numbers, rows),
    }
}

fn sqlite_insert(tx: &mut Tx<'_>, numbers: &[i64], rows: &[Relationship]) -> Result<Vec<bool>> {
    let placeholders = page::placeholders(1, Relationship::COLUMN_COUNT + 1);
    let sql = format!("{} ({placeholders}) {SKIP_DUPLICATE}", Relationship::insert_head(&["no"]));
    let insert =
        |(no, edge): (&i64, &Relationship)| tx.execute(&sql, &edge.insert_params([Param::from(*no)])?);
    numbers.iter().zip(rows).map(insert).map(|changed| Ok(changed? == 1)).collect()
}

fn postgres_insert(tx: &mut Tx<'_>, numbers: &[i64], rows: &[Relationship]) -> Result<Vec<bool>> {
    let changed = tx.insert_rows(rows, ["no"], |index| [Param::from(numbers[index])], SKIP_DUPLICATE)?;
    if changed == rows.len() as u64 {
        return Ok(vec![true; rows.len()]);
    }
    // The count does not show which rows were skipped.
    let mut inserted = HashSet::new();
    for list in page::in_chunks(numbers) {
        let sql =
            format!("SELECT no FROM graph_relationships WHERE no IN ({})", page::placeholders(1, list.len()));
        let list: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        inserted.extend(tx.query(&sql, &list, |row| row.get::<i64>(0))?);
    }
    Ok(numbers.iter().map(|no| inserted.contains(no)).collect())
}

/// Writes the next version of a locked relationship and moves the previous version to the history.
pub fn update(tx: &mut Tx<'_>, next: &Relationship) -> Result<()> {
    archive_versions(tx, &[next.id], next.updated_at)?;
    let [token, run, tool_call] = author::params(next.author);
    let changed = tx.execute(
        "UPDATE graph_relationships SET properties = $2, weight = $3, version = $4, updated_at = $5, deleted_at = $6,
             deleted_with = $7, author_token = $8, author_run = $9, author_tool_call = $10, reason = $12
         WHERE id = $1 AND version = $11",
        &[
            Param::from(next.id),
            Param::from(&next.properties),
            Param::from(next.weight),
            Param::from(next.version),
            Param::from(next.updated_at),
            Param::from(next.deleted_at),
            Param::from(next.deleted_with),
            token,
            run,
            tool_call,
            Param::from(next.version - 1),
            Param::from(next.reason.as_ref()),
        ],
    )?;
    if changed != 1 {
        return Err(tx.retry_error("the relationship changed although its row was locked"));
    }
    Ok(())
}

/// What happens to the relationships of an object when the object is deleted or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CascadeAction {
    /// They are deleted together with this object.
    DeleteWith(ObjectId),
    Restore,
}

/// Deletes or restores locked relationships: writes the next version of each, all with the same time.
pub fn apply_cascade(
    tx: &mut Tx<'_>,
    ids: &[RelationshipId],
    action: CascadeAction,
    now: Timestamp,
    author: Author,
) -> Result<()> {
    archive_versions(tx, ids, now)?;
    let (deleted_at, deleted_with) = match action {
        CascadeAction::DeleteWith(object) => (Some(now), Some(object)),
        CascadeAction::Restore => (None, None),
    };
    for list in page::in_chunks(ids) {
        let sql = format!(
            "UPDATE graph_relationships SET version = version + 1, updated_at = $1, deleted_at = $2,
                 deleted_with = $3, author_token = $4, author_run = $5, author_tool_call = $6, reason = NULL
             WHERE id IN ({})",
            page::placeholders(7, list.len())
        );
        let [token, run, tool_call] = author::params(author);
        let mut params =
            vec![Param::from(now), Param::from(deleted_at), Param::from(deleted_with), token, run, tool_call];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}

/// Copies the newest versions to the history, as valid until `now`.
fn archive_versions(tx: &mut Tx<'_>, ids: &[RelationshipId], now: Timestamp) -> Result<()> {
    for list in page::in_chunks(ids) {
        let sql = format!(
            "INSERT INTO graph_relationship_versions
                (relationship_id, version, project_id, type, from_id, to_id, properties, weight, created_at,
                 updated_at, deleted_at, deleted_with, valid_to, author_token, author_run, author_tool_call,
                 reason)
             SELECT id, version, project_id, type, from_id, to_id, properties, weight, created_at, updated_at,
                 deleted_at, deleted_with, CAST($1 AS timestamptz), author_token, author_run, author_tool_call,
                 reason
             FROM graph_relationships WHERE id IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(now)];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}
