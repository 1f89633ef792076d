//! Deletes rows that belong together in bounded steps, so that no transaction takes long however many there
//! are and however large they are.

use uuid::Uuid;

use crate::{engine::Engine, error::Result, page, tx::Tx, value::Param};

/// How many bytes one transaction deletes. The row that exceeds it is deleted as well.
const MAX_BYTES: i64 = 8 << 20;

/// A table whose rows have rows in other tables.
pub(crate) struct Family {
    pub table: &'static str,
    /// The columns that can be large.
    pub large: &'static [&'static str],
    pub children: &'static [Child],
}

/// A table with rows of a parent. Its primary key is the id of the parent and `key`.
pub(crate) struct Child {
    pub table: &'static str,
    pub parent: &'static str,
    pub key: &'static str,
    /// The columns that can be large.
    pub large: &'static [&'static str],
}

/// How much a transaction may still delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    rows: usize,
    bytes: i64,
}

impl Allowance {
    pub fn new(rows: usize) -> Self {
        Self { rows, bytes: MAX_BYTES }
    }

    /// Whether nothing more may be deleted. Otherwise everything that was asked for is deleted.
    pub fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes <= 0
    }

    fn spend(&mut self, sizes: &[i64]) {
        self.rows = self.rows.saturating_sub(sizes.len());
        self.bytes = self.bytes.saturating_sub(sizes.iter().sum());
    }

    /// Takes rows with their sizes in order, up to the one that exceeds the bytes.
    pub fn take_rows<T>(&self, rows: Vec<(T, i64)>) -> Vec<T> {
        let mut bytes = 0;
        let fits = |(_, size): &(T, i64)| {
            let is_allowed = bytes < self.bytes;
            bytes += size;
            is_allowed
        };
        rows.into_iter().take_while(fits).map(|(row, _)| row).collect()
    }
}

/// An expression for the bytes that columns use. Neither engine reads large values for it.
pub(crate) fn size_sql(engine: Engine, columns: &[&str]) -> String {
    let function = match engine {
        Engine::Sqlite => "octet_length",
        Engine::Postgres => "pg_column_size",
    };
    let sizes = columns.iter().map(|column| format!("coalesce({function}({column}), 0)"));
    format!("CAST({} AS bigint)", sizes.chain(["0".to_owned()]).collect::<Vec<_>>().join(" + "))
}

/// Deletes rows with everything that belongs to them, as far as it is allowed; true when nothing is left.
pub(crate) fn delete_family(
    tx: &mut Tx<'_>,
    family: &Family,
    ids: &[Uuid],
    allowance: &mut Allowance,
) -> Result<bool> {
    let own = Child { table: family.table, parent: "id", key: "id", large: family.large };
    for child in family.children.iter().chain([&own]) {
        delete_children(tx, child, ids, allowance)?;
        if allowance.is_spent() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes rows of these parents as far as it is allowed, and returns how many there were.
pub(crate) fn delete_children(
    tx: &mut Tx<'_>,
    child: &Child,
    ids: &[Uuid],
    allowance: &mut Allowance,
) -> Result<usize> {
    let Child { table, parent, key, large } = child;
    let columns = if parent == key { (*key).to_owned() } else { format!("{parent}, {key}") };
    let size = size_sql(tx.engine(), large);
    let mut deleted = 0;
    for list in page::in_chunks(ids) {
        if allowance.is_spent() {
            break;
        }
        let sql = format!(
            "DELETE FROM {table} WHERE ({columns}) IN (
                 SELECT {columns} FROM (
                     SELECT {columns}, size, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM (
                         SELECT {columns}, {size} AS size FROM {table} WHERE {parent} IN ({}) LIMIT $1) AS found
                 ) AS sized WHERE total - size < CAST($2 AS bigint))
             RETURNING {size}",
            page::placeholders(3, list.len())
        );
        let mut params = vec![Param::from(allowance.rows), Param::from(allowance.bytes)];
        params.extend(list.into_iter().map(Param::from));
        let sizes: Vec<i64> = tx.query(&sql, &params, |row| row.get(0))?;
        allowance.spend(&sizes);
        deleted += sizes.len();
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
