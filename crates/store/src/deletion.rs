//! Deletes rows that belong together in bounded steps, so that no transaction takes long however many there
//! are.

use uuid::Uuid;

use crate::{error::Result, page, tx::Tx, value::Param};

/// A table whose rows have rows in other tables.
pub(crate) struct Family {
    pub table: &'static str,
    pub children: &'static [Child],
}

/// A table with rows of a parent. Its primary key is the id of the parent and `key`.
pub(crate) struct Child {
    pub table: &'static str,
    pub parent: &'static str,
    pub key: &'static str,
}

/// Deletes rows with everything that belongs to them, at most about `limit` rows; true when nothing is left.
pub(crate) fn delete_family(tx: &mut Tx<'_>, family: &Family, ids: &[Uuid], limit: usize) -> Result<bool> {
    for child in family.children {
        if delete_children(tx, child, ids, limit)? >= limit {
            return Ok(false);
        }
    }
    delete_in(tx, family.table, "id", ids)?;
    Ok(true)
}

/// Deletes up to `limit` rows of these parents, and returns how many there were.
pub(crate) fn delete_children(tx: &mut Tx<'_>, child: &Child, ids: &[Uuid], limit: usize) -> Result<usize> {
    let Child { table, parent, key } = child;
    let mut deleted = 0;
    for list in page::in_chunks(ids) {
        let sql = format!(
            "DELETE FROM {table} WHERE ({parent}, {key}) IN (
                 SELECT {parent}, {key} FROM {table} WHERE {parent} IN ({}) LIMIT $1)",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(limit.saturating_sub(deleted))];
        params.extend(list.into_iter().map(Param::from));
        deleted += usize::try_from(tx.execute(&sql, &params)?).unwrap_or(usize::MAX);
        if deleted >= limit {
            break;
        }
    }
    Ok(deleted)
}

/// Deletes the rows whose column has one of these values.
pub(crate) fn delete_in<'a, T: Copy + Into<Param<'a>>>(
    tx: &mut Tx<'_>,
    table: &str,
    column: &str,
    values: &[T],
) -> Result<u64> {
    let mut deleted = 0;
    for list in page::in_chunks(values) {
        let sql = format!("DELETE FROM {table} WHERE {column} IN ({})", page::placeholders(1, list.len()));
        let params: Vec<Param<'_>> = list.into_iter().map(Into::into).collect();
        deleted += tx.execute(&sql, &params)?;
    }
    Ok(deleted)
}
