//! Maps Rust types to table rows. [`row!`] declares the table of a type and the column of each field, and
//! generates the column list, the reading of a row and the parameters of an insert. Columns are read by
//! their position in the list, so no name is looked up while a row is read.

use crate::{
    error::{Error, Result},
    page,
    tx::Tx,
    value::{Column, Param, Row},
};

/// A value that a column can be written from.
pub trait ToParam {
    /// Only a value that is stored as JSON can fail.
    fn to_param(&self) -> Result<Param<'_>, serde_json::Error>;
}

/// A type that is read from the columns of one table. Implemented by [`row!`] and [`read_row!`].
pub(crate) trait TableRow: Sized {
    const TABLE: &'static str;
    /// The column list of a `SELECT`.
    const COLUMNS: &'static str;
    const COLUMN_COUNT: usize = count_columns(Self::COLUMNS);

    /// Reads the columns in their order.
    fn read(reader: &mut RowReader<'_, '_>) -> Result<Self>;

    /// Reads a row whose first columns are [`Self::COLUMNS`].
    fn from_row(row: &Row<'_>) -> Result<Self> {
        Self::from_row_at(row, 0)
    }

    /// Reads a row in which [`Self::COLUMNS`] start at position `first`.
    fn from_row_at(row: &Row<'_>, first: usize) -> Result<Self> {
        Self::read(&mut RowReader::new(row, Self::TABLE, first))
    }

    /// The column list with the alias of the table before each column.
    fn columns_of(alias: &str) -> String {
        let mut list = String::with_capacity(Self::COLUMNS.len() + Self::COLUMN_COUNT * (alias.len() + 1));
        for column in Self::COLUMNS.split(", ") {
            let separator = if list.is_empty() { "" } else { ", " };
            list.extend([separator, alias, ".", column]);
        }
        list
    }
}

/// A type that can also be inserted into its table. Implemented by [`row!`].
pub(crate) trait InsertRow: TableRow {
    /// Adds a parameter for each of the columns, in their order.
    fn write<'a>(&'a self, params: &mut Vec<Param<'a>>) -> Result<()>;

    /// `INSERT INTO t (…) VALUES` with the columns of the type, then the columns in `more`.
    fn insert_head(more: &[&str]) -> String {
        let (table, columns) = (Self::TABLE, Self::COLUMNS);
        let mut sql = format!("INSERT INTO {table} ({columns}");
        for column in more {
            sql.push_str(", ");
            sql.push_str(column);
        }
        sql.push_str(") VALUES");
        sql
    }

    /// The parameters of one row for [`InsertRow::insert_head`]; `more` are the values of its extra columns.
    fn insert_params<'a, const N: usize>(&'a self, more: [Param<'a>; N]) -> Result<Vec<Param<'a>>> {
        let mut params = Vec::with_capacity(Self::COLUMN_COUNT + N);
        self.write(&mut params)?;
        params.extend(more);
        Ok(params)
    }
}

impl Tx<'_> {
    /// Inserts a row and returns how many rows were inserted. `more` are columns that the type has no field
    /// for. `tail` is SQL after the values, such as `ON CONFLICT …`.
    pub(crate) fn insert_row<'a, R: InsertRow, const N: usize>(
        &mut self,
        row: &'a R,
        more: [(&str, Param<'a>); N],
        tail: &str,
    ) -> Result<u64> {
        let head = R::insert_head(&more.each_ref().map(|(column, _)| *column));
        let params = row.insert_params(more.map(|(_, value)| value))?;
        self.execute(&format!("{head} ({}) {tail}", page::placeholders(1, params.len())), &params)
    }

    /// Like [`Tx::insert_row`], for a row that has no duplicate; see [`Tx::execute_later`].
    pub(crate) fn insert_row_later<'a, R: InsertRow, const N: usize>(
        &mut self,
        row: &'a R,
        more: [(&str, Param<'a>); N],
    ) -> Result<()> {
        let head = R::insert_head(&more.each_ref().map(|(column, _)| *column));
        let params = row.insert_params(more.map(|(_, value)| value))?;
        self.execute_later(&format!("{head} ({}) ", page::placeholders(1, params.len())), &params)
    }

    /// Inserts one row from pairs of column and value. `tail` is SQL after the values.
    pub(crate) fn insert_columns<'a>(
        &mut self,
        table: &str,
        columns: impl IntoIterator<Item = (&'static str, Param<'a>)>,
        tail: &str,
    ) -> Result<u64> {
        let (names, params): (Vec<&str>, Vec<Param<'a>>) = columns.into_iter().unzip();
        let (names, placeholders) = (names.join(", "), page::placeholders(1, params.len()));
        self.execute(&format!("INSERT INTO {table} ({names}) VALUES ({placeholders}) {tail}"), &params)
    }

    /// Updates columns of the rows that match a condition, and returns how many there were. `values` are the
    /// parameters of the condition, numbered from `$1`.
    pub(crate) fn update_columns<'a, const N: usize>(
        &mut self,
        table: &str,
        columns: impl IntoIterator<Item = (&'static str, Param<'a>)>,
        condition: &str,
        values: [Param<'a>; N],
    ) -> Result<u64> {
        let mut params = Vec::from(values);
        let mut sql = format!("UPDATE {table} SET ");
        for (column, value) in columns {
            let separator = if params.len() == N { "" } else { ", " };
            params.push(value);
            sql.push_str(&format!("{separator}{column} = ${}", params.len()));
        }
        self.execute(&format!("{sql} WHERE {condition}"), &params)
    }

    /// Inserts many rows. `more` are columns that the type has no field for; `values` returns their values
    /// for the row at an index. `tail` is SQL after the values.
    pub(crate) fn insert_rows<'a, R: InsertRow, const N: usize>(
        &mut self,
        rows: &'a [R],
        more: [&str; N],
        values: impl Fn(usize) -> [Param<'a>; N],
        tail: &str,
    ) -> Result<u64> {
        let params: Result<Vec<Vec<Param<'a>>>> =
            rows.iter().enumerate().map(|(index, row)| row.insert_params(values(index))).collect();
        self.insert_many(&R::insert_head(&more), R::COLUMN_COUNT + N, &params?, tail)
    }

    /// Like [`Tx::insert_rows`], for rows that have no duplicates; see [`Tx::execute_later`].
    pub(crate) fn insert_rows_later<'a, R: InsertRow, const N: usize>(
        &mut self,
        rows: &'a [R],
        more: [&str; N],
        values: impl Fn(usize) -> [Param<'a>; N],
    ) -> Result<()> {
        let params: Result<Vec<Vec<Param<'a>>>> =
            rows.iter().enumerate().map(|(index, row)| row.insert_params(values(index))).collect();
        self.insert_many_later(&R::insert_head(&more), R::COLUMN_COUNT + N, &params?)
    }
}

/// The number of columns in a list: one more than it has commas.
const fn count_columns(list: &str) -> usize {
    let (bytes, mut count, mut index) = (list.as_bytes(), 1, 0);
    while index < bytes.len() {
        if bytes[index] == b',' {
            count += 1;
        }
        index += 1;
    }
    count
}

/// Reads the columns of one row in the order of their list.
pub(crate) struct RowReader<'a, 'r> {
    row: &'a Row<'r>,
    table: &'static str,
    index: usize,
    /// Why an earlier column could not be read, when that does not make the whole row unreadable. A later
    /// column takes and reports it; see `schedules`.
    pub problem: Option<String>,
}

impl<'a, 'r> RowReader<'a, 'r> {
    pub fn new(row: &'a Row<'r>, table: &'static str, first: usize) -> Self {
        Self { row, table, index: first, problem: None }
    }

    /// The next column of the type's own table.
    pub fn next<T: Column>(&mut self, column: &'static str) -> Result<T> {
        self.next_of(self.table, column)
    }

    /// The next column, which belongs to a joined table. The table is named in errors.
    pub fn next_of<T: Column>(&mut self, table: &'static str, column: &'static str) -> Result<T> {
        self.index += 1;
        self.row.read(self.index - 1, table, column)
    }

    /// The value of a nullable column that must not be NULL in this row.
    pub fn required<T>(&self, value: Option<T>, column: &'static str) -> Result<T> {
        value.ok_or_else(|| self.unreadable(column, "NULL"))
    }

    /// The error for a column whose value this version does not understand.
    pub fn unreadable(&self, column: &'static str, value: &str) -> Error {
        Error::unreadable(self.table, column, value)
    }
}

/// The parameter for a value. An error names the table and the column.
pub(crate) fn to_param<'a>(
    value: &'a impl ToParam,
    table: &'static str,
    column: &'static str,
) -> Result<Param<'a>> {
    value.to_param().map_err(|source| Error::Unwritable { table, column: without_alias(column), source })
}

/// The column name without its table alias: `v.definition` is `definition`.
pub(crate) fn without_alias(column: &'static str) -> &'static str {
    column.split_once('.').map_or(column, |(_, name)| name)
}

/// Declares the table and the columns of a type, for reading and inserting:
///
/// ```text
/// row! {
///     Run in "agent_runs" {
///         id: "id",                                  // one column
///         author: author("author_token", "author_run", "author_tool_call"),
///         workflow_link: WorkflowLink {              // the fields of a nested struct
///             workflow: "workflow_id",
///         },
///     }
/// }
/// ```
///
/// The type of a field reads and writes its column ([`Column`], [`ToParam`]). A value that takes several
/// columns or is stored differently has a codec: the name before the parentheses is a module or a type with
/// the functions `read(reader, columns)` and `write(value, params)`.
macro_rules! row {
    ($Type:ident in $table:literal {
        $($field:ident: $($column:literal)? $($codec:ident $group:tt)?),* $(,)?
    }) => {
        $crate::row::read_row! { $Type in $table { $($field: $($column)? $($codec $group)?),* } }

        impl $crate::row::InsertRow for $Type {
            fn write<'a>(&'a self, params: &mut Vec<$crate::Param<'a>>) -> $crate::Result<()> {
                $($crate::row::row_write!($table, params, self.$field, $($column)? $($codec $group)?);)*
                Ok(())
            }
        }
    };
}

/// As [`row!`], for a type that is only read. A column can be an SQL expression, or belong to a joined
/// table: `definition: "v.definition" @ "agent_definition_versions"`.
macro_rules! read_row {
    ($Type:ident in $table:literal {
        $($field:ident: $($column:literal $(@ $joined:literal)?)? $($codec:ident $group:tt)?),* $(,)?
    }) => {
        impl $crate::row::TableRow for $Type {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static str =
                concat!($($crate::row::row_columns!($($column)? $($codec $group)?)),*).split_at(2).1;

            fn read(reader: &mut $crate::row::RowReader<'_, '_>) -> $crate::Result<Self> {
                Ok($Type {
                    $($field: $crate::row::row_read!(reader, $($column $(@ $joined)?)? $($codec $group)?)),*
                })
            }
        }
    };
}

/// The columns of one entry of [`row!`], each after a separator: `, a, b`.
macro_rules! row_columns {
    ($column:literal) => { concat!(", ", $column) };
    ($codec:ident ($($column:literal),+)) => { concat!($(", ", $column),+) };
    ($Nested:ident { $($field:ident: $($column:literal)? $($codec:ident $group:tt)?),* $(,)? }) => {
        concat!($($crate::row::row_columns!($($column)? $($codec $group)?)),*)
    };
}

/// Reads the value of one entry of [`row!`].
macro_rules! row_read {
    ($reader:ident, $column:literal) => { $reader.next($column)? };
    ($reader:ident, $column:literal @ $joined:literal) => { $reader.next_of($joined, $column)? };
    ($reader:ident, $codec:ident ($($column:literal),+)) => { $codec::read($reader, [$($column),+])? };
    ($reader:ident, $Nested:ident { $($field:ident: $($column:literal)? $($codec:ident $group:tt)?),* $(,)? }) => {
        $Nested { $($field: $crate::row::row_read!($reader, $($column)? $($codec $group)?)),* }
    };
}

/// Adds the parameters of one entry of [`row!`].
macro_rules! row_write {
    ($table:literal, $params:ident, $value:expr, $column:literal) => {
        $params.push($crate::row::to_param(&$value, $table, $column)?)
    };
    ($table:literal, $params:ident, $value:expr, $codec:ident ($($column:literal),+)) => {
        $codec::write(&$value, $params)?
    };
    ($table:literal, $params:ident, $value:expr, $Nested:ident {
        $($field:ident: $($column:literal)? $($codec:ident $group:tt)?),* $(,)?
    }) => {
        $($crate::row::row_write!($table, $params, $value.$field, $($column)? $($codec $group)?);)*
    };
}

pub(crate) use {read_row, row, row_columns, row_read, row_write};

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Point {
        x: i64,
        y: Option<i64>,
    }

    #[derive(Debug)]
    struct Pin {
        name: String,
        point: Point,
        labels: Vec<String>,
    }

    row! {
        Pin in "pins" {
            name: "name",
            point: Point { x: "x", y: "y" },
            labels: "labels",
        }
    }

    #[test]
    fn columns_and_parameters_are_in_the_order_of_the_declaration() {
        assert_eq!((Pin::COLUMNS, Pin::COLUMN_COUNT), ("name, x, y, labels", 4));
        assert_eq!(Pin::columns_of("p"), "p.name, p.x, p.y, p.labels");
        assert_eq!(Pin::insert_head(&["no"]), "INSERT INTO pins (name, x, y, labels, no) VALUES");
        let pin = Pin { name: "a".into(), point: Point { x: 1, y: None }, labels: vec!["l".into()] };
        let params = pin.insert_params([Param::from(7_i64)]).expect("labels are JSON");
        let expected = r#"[Text("a"), Int(1), Null, Json("[\"l\"]"), Int(7)]"#;
        assert_eq!(format!("{params:?}"), expected);
    }

    #[test]
    fn an_error_names_the_column_without_its_alias_and_shows_a_short_value() {
        let error = Error::unreadable("pins", "p.name", &"é".repeat(200)).to_string();
        let shown = "é".repeat(60);
        assert!(
            error.starts_with(&format!("table `pins`, column `name` holds `{shown}…`, which")),
            "{error}"
        );
    }
}
