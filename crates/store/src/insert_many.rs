//! Inserts many rows. SQLite is fastest with one prepared statement per row. PostgreSQL gets all rows in one statement,
//! as one array for each column: the text of the statement does not depend on the number of rows, so it is prepared
//! and planned once, and it has few parameters.

use std::fmt::Write as _;

use crate::{
    error::Result,
    page,
    tx::{Conn, Tx},
    value::Param,
};

/// The most rows of one statement.
const MAX_ROWS: usize = 1_000;

impl Tx<'_> {
    /// Inserts many rows and returns how many were inserted. `head` is `INSERT INTO t (a, b) VALUES`, `tail`
    /// is SQL after the rows.
    pub fn insert_many(
        &mut self,
        head: &str,
        columns: usize,
        rows: &[Vec<Param<'_>>],
        tail: &str,
    ) -> Result<u64> {
        let single = single_row_sql(head, columns, tail);
        if rows.len() == 1 || matches!(self.conn, Conn::Sqlite(..)) {
            return rows.iter().try_fold(0, |changed, row| Ok(changed + self.execute(&single, row)?));
        }
        let mut changed = 0;
        for rows in rows.chunks(MAX_ROWS) {
            let arrays = to_arrays(columns, rows);
            let sql = self.arrays_sql(head, &single, tail)?;
            changed += self.execute(&sql, &arrays)?;
        }
        Ok(changed)
    }

    /// Like [`Tx::insert_many`], for rows that have no duplicates; see [`Tx::execute_later`].
    pub fn insert_many_later(&mut self, head: &str, columns: usize, rows: &[Vec<Param<'_>>]) -> Result<()> {
        let single = single_row_sql(head, columns, "");
        if rows.len() == 1 || matches!(self.conn, Conn::Sqlite(..)) {
            return rows.iter().try_for_each(|row| self.execute_later(&single, row));
        }
        for rows in rows.chunks(MAX_ROWS) {
            let arrays = to_arrays(columns, rows);
            let sql = self.arrays_sql(head, &single, "")?;
            self.execute_later(&sql, &arrays)?;
        }
        Ok(())
    }

    /// The statement that inserts rows from arrays. PostgreSQL says which types the columns have: they are those of the
    /// parameters of the statement that inserts one row.
    fn arrays_sql(&mut self, head: &str, single: &str, tail: &str) -> Result<String> {
        let types = self.param_types(single)?;
        let mut arrays = String::with_capacity(types.len() * 16);
        for (index, name) in types.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let _ = write!(arrays, "{separator}${}::{name}[]", index + 1);
        }
        let head = head.trim_end().trim_end_matches("VALUES");
        Ok(format!("{head}SELECT * FROM unnest({arrays}) {tail}"))
    }
}

/// An `INSERT` of one row with numbered placeholders.
fn single_row_sql(head: &str, columns: usize, tail: &str) -> String {
    format!("{head} ({}) {tail}", page::placeholders(1, columns))
}

/// The columns of the rows, each as an array.
fn to_arrays<'a>(columns: usize, rows: &[Vec<Param<'a>>]) -> Vec<Param<'a>> {
    (0..columns).map(|column| Param::Array(rows.iter().map(|row| row[column].clone()).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_has_a_placeholder_for_each_column() {
        let sql = single_row_sql("INSERT INTO t (a, b) VALUES", 2, "ON CONFLICT DO NOTHING");
        assert_eq!(sql, "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    }

    #[test]
    fn arrays_have_the_values_of_a_column_in_the_order_of_the_rows() {
        let rows = [vec![Param::from(1_i64), Param::from("a")], vec![Param::from(2_i64), Param::Null]];
        let arrays = format!("{:?}", to_arrays(2, &rows));
        assert_eq!(arrays, r#"[Array([Int(1), Int(2)]), Array([Text("a"), Null])]"#);
    }
}
