//! Parameters of statements ([`Param`]) and columns of rows ([`Row`], [`Column`]), the same for both engines.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use emergent_domain::{json::JsonObject, json_cost::JsonCost, stored_json, time::Timestamp};
use rusqlite::types::ValueRef;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::error::{Error, Result};

/// The start of the year 2000 in microseconds since 1970. PostgreSQL counts times from there.
const PG_EPOCH_MICROS: i64 = 946_684_800_000_000;
/// The binary form of `jsonb` is this version byte and the text.
const JSONB_VERSION: u8 = 1;
/// The binary form of a pgvector `vector` starts with two 16-bit numbers: the number of components and an
/// unused one.
const PG_VECTOR_HEADER_BYTES: usize = 4;

/// A parameter of a statement. SQLite stores ids as 16 bytes, times as microseconds and JSON as text;
/// PostgreSQL has types for them.
#[derive(Debug, Clone)]
pub enum Param<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Blob(Cow<'a, [u8]>),
    Uuid(Uuid),
    Time(Timestamp),
    Json(Cow<'a, str>),
    /// A vector of numbers: little-endian bytes in SQLite, `vector` in PostgreSQL.
    Vector(Cow<'a, [f32]>),
    /// Values of one type, which PostgreSQL gets as an array.
    Array(Vec<Param<'a>>),
}

macro_rules! param_from {
    ($($from:ty => |$value:ident| $param:expr),* $(,)?) => {$(
        impl<'a> From<$from> for Param<'a> {
            fn from($value: $from) -> Self {
                $param
            }
        }
    )*};
}

param_from! {
    bool => |v| Param::Bool(v),
    i64 => |v| Param::Int(v),
    i32 => |v| Param::Int(v.into()),
    u32 => |v| Param::Int(v.into()),
    usize => |v| Param::Int(i64::try_from(v).unwrap_or(i64::MAX)),
    f64 => |v| Param::Real(v),
    String => |v| Param::Text(Cow::Owned(v)),
    &'a str => |v| Param::Text(Cow::Borrowed(v)),
    &'a String => |v| Param::Text(Cow::Borrowed(v)),
    &'a [u8] => |v| Param::Blob(Cow::Borrowed(v)),
    Vec<u8> => |v| Param::Blob(Cow::Owned(v)),
    Uuid => |v| Param::Uuid(v),
    Timestamp => |v| Param::Time(v),
    &'a JsonObject => |v| Param::Json(Cow::Borrowed(v.as_str())),
    &'a [f32] => |v| Param::Vector(Cow::Borrowed(v)),
}

macro_rules! param_from_id {
    ($($id:ident),*) => {$(
        impl From<emergent_domain::ids::$id> for Param<'_> {
            fn from(id: emergent_domain::ids::$id) -> Self {
                Param::Uuid(id.0)
            }
        }
    )*};
}

emergent_domain::for_each_id!(param_from_id);

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Param::Null, Into::into)
    }
}

impl<'a> Param<'a> {
    /// Values as one array, for PostgreSQL.
    pub(crate) fn array<T: Copy + Into<Param<'a>>>(values: &[T]) -> Param<'a> {
        Param::Array(values.iter().map(|value| (*value).into()).collect())
    }
}

impl Param<'_> {
    /// The same parameter, which borrows nothing.
    pub(crate) fn to_static(&self) -> Param<'static> {
        match self {
            Param::Null => Param::Null,
            Param::Bool(value) => Param::Bool(*value),
            Param::Int(value) => Param::Int(*value),
            Param::Real(value) => Param::Real(*value),
            Param::Text(text) => Param::Text(Cow::Owned(text.clone().into_owned())),
            Param::Blob(bytes) => Param::Blob(Cow::Owned(bytes.clone().into_owned())),
            Param::Uuid(id) => Param::Uuid(*id),
            Param::Time(time) => Param::Time(*time),
            Param::Json(text) => Param::Json(Cow::Owned(text.clone().into_owned())),
            Param::Vector(vector) => Param::Vector(Cow::Owned(vector.clone().into_owned())),
            Param::Array(values) => Param::Array(values.iter().map(Param::to_static).collect()),
        }
    }
}

/// A slice of parameters from values that convert into [`Param`]: `params![project, key]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::Param::from($value)),*] };
}

/// JSON text as a parameter.
pub fn json(text: &str) -> Param<'_> {
    Param::Json(Cow::Borrowed(text))
}

/// A list of strings as a JSON array.
pub fn json_strings(items: &[String]) -> Param<'static> {
    Param::Json(Cow::Owned(serde_json::Value::from(items).to_string()))
}

/// A vector as SQLite stores it: the little-endian bytes of each number.
pub(crate) fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The vector that [`vector_bytes`] wrote.
pub(crate) fn vector_from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|number| f32::from_le_bytes([number[0], number[1], number[2], number[3]]))
        .collect()
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, Value};
        Ok(match self {
            Param::Null => ToSqlOutput::Owned(Value::Null),
            Param::Bool(value) => ToSqlOutput::Owned(Value::Integer((*value).into())),
            Param::Int(value) => ToSqlOutput::Owned(Value::Integer(*value)),
            Param::Real(value) => ToSqlOutput::Owned(Value::Real(*value)),
            Param::Text(text) | Param::Json(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Param::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Param::Uuid(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id.as_bytes())),
            Param::Time(time) => ToSqlOutput::Owned(Value::Integer(time.as_micros())),
            Param::Vector(vector) => ToSqlOutput::Owned(Value::Blob(vector_bytes(vector))),
            Param::Array(_) => {
                return Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into()));
            }
        })
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Param::Null => return Ok(IsNull::Yes),
            Param::Bool(value) => return value.to_sql(ty, out),
            // `Param::Int` is used for columns of every width.
            Param::Int(value) => match *ty {
                Type::INT2 => out.put_i16(i16::try_from(*value)?),
                Type::INT4 => out.put_i32(i32::try_from(*value)?),
                Type::FLOAT8 => out.put_f64(*value as f64),
                Type::INT8 => out.put_i64(*value),
                _ => return Err(format!("a whole number cannot be sent as `{ty}`").into()),
            },
            Param::Real(value) => match *ty {
                Type::FLOAT4 => out.put_f32(*value as f32),
                Type::FLOAT8 => out.put_f64(*value),
                _ => return Err(format!("a number cannot be sent as `{ty}`").into()),
            },
            Param::Text(text) => match *ty {
                Type::JSONB => {
                    out.put_u8(JSONB_VERSION);
                    out.put_slice(text.as_bytes());
                }
                _ => out.put_slice(text.as_bytes()),
            },
            Param::Json(text) => {
                if *ty == Type::JSONB {
                    out.put_u8(JSONB_VERSION);
                }
                out.put_slice(text.as_bytes());
            }
            Param::Blob(bytes) => out.put_slice(bytes),
            Param::Uuid(id) => out.put_slice(id.as_bytes()),
            Param::Time(time) => out.put_i64(time.as_micros() - PG_EPOCH_MICROS),
            Param::Vector(vector) => {
                out.put_u16(u16::try_from(vector.len())?);
                out.put_u16(0);
                vector.iter().for_each(|number| out.put_f32(*number));
            }
            Param::Array(values) => return values.to_sql(ty, out),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The values of a shorter text are few, whatever it contains.
const MIN_COUNTED_JSON: usize = 256;

/// A row of either engine; columns are read by position.
pub enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// About how many bytes of memory the values of the row need.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Row::Sqlite(row) => (0..row.as_ref().column_count())
                .map(|column| match row.get_ref(column) {
                    Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len(),
                    _ => size_of::<i64>(),
                })
                .sum(),
            Row::Postgres(row) => row.raw_size_bytes(),
        }
    }

    /// About how many bytes the JSON of the row needs as values, besides its text. Some columns stay texts, and are
    /// counted nevertheless.
    pub(crate) fn value_bytes(&self) -> usize {
        let of_json = |text: &[u8]| match text.first() {
            Some(b'{' | b'[') if text.len() >= MIN_COUNTED_JSON => JsonCost::estimate(text).bytes,
            _ => 0,
        };
        match self {
            Row::Sqlite(row) => (0..row.as_ref().column_count())
                .map(|column| match row.get_ref(column) {
                    Ok(ValueRef::Text(text)) => of_json(text),
                    _ => 0,
                })
                .sum(),
            Row::Postgres(row) if row.raw_size_bytes() < MIN_COUNTED_JSON => 0,
            Row::Postgres(row) => (0..row.len())
                .filter_map(|column| row.try_get::<_, RawColumn<'_>>(column).ok())
                .map(|raw| match raw.ty {
                    Type::TEXT | Type::VARCHAR | Type::JSON | Type::JSONB => {
                        raw.as_str().map_or(0, |text| of_json(text.as_bytes()))
                    }
                    _ => 0,
                })
                .sum(),
        }
    }

    /// The value of a column; an error when the column holds another type.
    pub fn get<T: Column>(&self, column: usize) -> Result<T> {
        match self {
            Row::Sqlite(row) => T::from_sqlite(row.get_ref(column)?),
            Row::Postgres(row) => {
                let raw: RawColumn<'_> = row.try_get(column).map_err(Error::from)?;
                T::from_postgres(&raw)
            }
        }
        .ok_or(Error::Column { column, expected: T::NAME })
    }

    /// As [`Row::get`], but the error names the table, the column and its value.
    pub fn read<T: Column>(&self, index: usize, table: &'static str, column: &'static str) -> Result<T> {
        self.get(index).map_err(|error| match error {
            Error::Column { .. } => Error::unreadable(table, column, &self.display(index)),
            other => other,
        })
    }

    /// The value of a column, for an error message.
    fn display(&self, index: usize) -> String {
        match self {
            Row::Sqlite(row) => match row.get_ref(index) {
                Ok(ValueRef::Null) => "NULL".to_owned(),
                Ok(ValueRef::Integer(number)) => number.to_string(),
                Ok(ValueRef::Real(number)) => number.to_string(),
                Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                Ok(ValueRef::Blob(bytes)) => format!("{} bytes", bytes.len()),
                Err(error) => error.to_string(),
            },
            Row::Postgres(row) => match row.try_get::<_, RawColumn<'_>>(index) {
                Ok(RawColumn { bytes: None, .. }) => "NULL".to_owned(),
                Ok(raw) => raw.display(),
                Err(error) => error.to_string(),
            },
        }
    }
}

/// The bytes PostgreSQL sent for a column, with their type.
pub struct RawColumn<'a> {
    ty: Type,
    bytes: Option<&'a [u8]>,
}

impl RawColumn<'_> {
    /// The text of a text or JSON column; `None` for NULL and invalid UTF-8.
    pub(crate) fn as_str(&self) -> Option<&str> {
        let bytes = self.bytes?;
        // Skips the version byte.
        let bytes = if self.ty == Type::JSONB { bytes.get(1..)? } else { bytes };
        std::str::from_utf8(bytes).ok()
    }

    /// The value, for an error message. Only numbers and texts are shown; others as their size.
    fn display(&self) -> String {
        let number = || i64::from_postgres(self).map(|number| number.to_string());
        let text = match self.ty {
            Type::INT2 | Type::INT4 | Type::INT8 => number(),
            Type::TEXT | Type::VARCHAR | Type::JSON | Type::JSONB => self.as_str().map(str::to_owned),
            _ => None,
        };
        text.unwrap_or_else(|| format!("{} bytes", self.bytes.map_or(0, <[u8]>::len)))
    }
}

impl<'a> FromSql<'a> for RawColumn<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(RawColumn { ty: ty.clone(), bytes: Some(raw) })
    }
    fn from_sql_null(ty: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(RawColumn { ty: ty.clone(), bytes: None })
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A Rust type that a column can be read as. Both functions return `None` when the column holds another type.
pub trait Column: Sized {
    /// The name of the type in error messages.
    const NAME: &'static str;
    fn from_sqlite(value: rusqlite::types::ValueRef<'_>) -> Option<Self>;
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self>;
}

impl Column for i64 {
    const NAME: &'static str = "a whole number";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_i64().ok()
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        let bytes = raw.bytes?;
        Some(match bytes.len() {
            2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
            4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
            8 => i64::from_be_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

impl Column for f64 {
    const NAME: &'static str = "a number";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Real(number) => Some(number),
            ValueRef::Integer(number) => Some(number as f64),
            _ => None,
        }
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        let bytes = raw.bytes?;
        match raw.ty {
            Type::FLOAT4 => Some(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            Type::FLOAT8 => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
            _ => i64::from_postgres(raw).map(|number| number as f64),
        }
    }
}

impl Column for bool {
    const NAME: &'static str = "a boolean";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_i64().ok().map(|number| number != 0)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        raw.bytes.and_then(|bytes| bytes.first()).map(|byte| *byte != 0)
    }
}

impl Column for String {
    const NAME: &'static str = "text";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_str().ok().map(str::to_owned)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        raw.as_str().map(str::to_owned)
    }
}

impl Column for Vec<u8> {
    const NAME: &'static str = "bytes";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_blob().ok().map(<[u8]>::to_vec)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        raw.bytes.map(<[u8]>::to_vec)
    }
}

impl Column for Vec<f32> {
    const NAME: &'static str = "a vector";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_blob().ok().filter(|bytes| bytes.len() % 4 == 0).map(vector_from_bytes)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        let numbers = raw.bytes?.get(PG_VECTOR_HEADER_BYTES..)?;
        Some(
            numbers
                .chunks_exact(4)
                .map(|number| f32::from_be_bytes([number[0], number[1], number[2], number[3]]))
                .collect(),
        )
    }
}

impl Column for Uuid {
    const NAME: &'static str = "an id";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_blob().ok().and_then(|bytes| Uuid::from_slice(bytes).ok())
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        Uuid::from_slice(raw.bytes?).ok()
    }
}

impl Column for Timestamp {
    const NAME: &'static str = "a time";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        value.as_i64().ok().map(Timestamp::from_micros)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        let micros = i64::from_be_bytes(raw.bytes?.try_into().ok()?);
        Some(Timestamp::from_micros(micros.checked_add(PG_EPOCH_MICROS)?))
    }
}

impl Column for JsonObject {
    const NAME: &'static str = "a JSON object";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        String::from_sqlite(value).and_then(json_object)
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        String::from_postgres(raw).and_then(json_object)
    }
}

/// `None` unless the text is a JSON object; `JsonObject::from_text` accepts any JSON.
fn json_object(text: String) -> Option<JsonObject> {
    JsonObject::from_text(text).ok().filter(|object| object.as_str().trim_start().starts_with('{'))
}

/// A JSON array of strings, such as labels.
impl Column for Vec<String> {
    const NAME: &'static str = "a JSON array of texts";
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        let text = value.as_str().ok()?;
        if text == "[]" { Some(Vec::new()) } else { stored_json::from_str(text).ok() }
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        stored_json::from_str(raw.as_str()?).ok()
    }
}

impl<T: Column> Column for Option<T> {
    const NAME: &'static str = T::NAME;
    fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        if value == ValueRef::Null { Some(None) } else { T::from_sqlite(value).map(Some) }
    }
    fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
        if raw.bytes.is_none() { Some(None) } else { T::from_postgres(raw).map(Some) }
    }
}

macro_rules! id_columns {
    ($($id:ident),*) => {$(
        impl Column for emergent_domain::ids::$id {
            const NAME: &'static str = "an id";
            fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
                Uuid::from_sqlite(value).map(Self)
            }
            fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
                Uuid::from_postgres(raw).map(Self)
            }
        }
    )*};
}

emergent_domain::for_each_id!(id_columns);
