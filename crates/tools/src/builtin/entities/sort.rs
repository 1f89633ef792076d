//! Sorts objects for `entities_query` in an order that no index has. Every match is read, and only the first
//! ones are retained. The number of matches that are read is limited.

use std::cmp::Ordering;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use emergent_domain::{
    cursor::Page,
    filter::Path,
    foreign_json,
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    object::Object,
    query::ObjectFilter,
};
use emergent_graph::Error;
use emergent_store::{Tx, objects};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most matches that one sorted query reads.
const MAX_SCANNED: usize = 20_000;
/// How many matches are read at once.
const SCAN_BATCH: usize = 500;
/// Only this many characters of a text are compared; the id decides between texts that begin alike.
const MAX_COMPARED_CHARS: usize = 100;

/// The notation of [`Sort`]. The parser also accepts a property without `properties.`.
pub(super) const SORT_PATTERN: &str =
    r"^(createdAt|updatedAt|key|status|type|properties(\.[A-Za-z0-9_-]+){1,8})$";

/// What objects are sorted by.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Sort {
    #[default]
    CreatedAt,
    UpdatedAt,
    Key,
    Status,
    Type,
    Property(Path),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    #[default]
    Desc,
    Asc,
}

impl TryFrom<String> for Sort {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.as_str() {
            "createdAt" => Self::CreatedAt,
            "updatedAt" => Self::UpdatedAt,
            "key" => Self::Key,
            "status" => Self::Status,
            "type" => Self::Type,
            other => {
                let path = other.strip_prefix("properties.").unwrap_or(other);
                Self::Property(Path::parse(path).map_err(|invalid| format!("`sort`: {invalid}"))?)
            }
        })
    }
}

impl Sort {
    /// The name of the order inside of a cursor.
    fn name(&self) -> String {
        match self {
            Self::CreatedAt => "createdAt".to_owned(),
            Self::UpdatedAt => "updatedAt".to_owned(),
            Self::Key => "key".to_owned(),
            Self::Status => "status".to_owned(),
            Self::Type => "type".to_owned(),
            Self::Property(path) => path.segments().join("."),
        }
    }

    /// The position of an object. Lists and objects are sorted like missing values.
    fn position(&self, object: &Object) -> SortPosition {
        let value = match self {
            Self::CreatedAt => Value::from(object.created_at.as_micros()),
            Self::UpdatedAt => Value::from(object.updated_at.as_micros()),
            Self::Key => Value::from(object.key.as_deref()),
            Self::Status => Value::from(object.status.as_deref()),
            Self::Type => Value::from(object.type_.as_str()),
            Self::Property(path) => path.find(&object.properties.to_map()).cloned().unwrap_or_default(),
        };
        let value = match value {
            Value::String(text) => Value::from(text.chars().take(MAX_COMPARED_CHARS).collect::<String>()),
            Value::Array(_) | Value::Object(_) => Value::Null,
            scalar => scalar,
        };
        SortPosition { value, id: object.id }
    }
}

/// The position of an object in an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SortPosition {
    value: Value,
    id: ObjectId,
}

impl SortPosition {
    /// Objects without a value are last in either order, as a reader expects of a list.
    fn compare(&self, other: &Self, order: Order) -> Ordering {
        let missing = self.value.is_null().cmp(&other.value.is_null());
        let by_value = compare_values(&self.value, &other.value);
        let by_value = match order {
            Order::Asc => by_value,
            Order::Desc => by_value.reverse(),
        };
        missing.then(by_value).then(self.id.cmp(&other.id))
    }

    /// The cursor after this position.
    pub(super) fn encode(&self, sort: &Sort, order: Order) -> String {
        let text = serde_json::to_string(&(sort.name(), order == Order::Asc, self)).unwrap_or_default();
        BASE64_URL_SAFE_NO_PAD.encode(text)
    }

    /// Parses a cursor; it must be of a query with the same order.
    pub(super) fn decode(text: &str, sort: &Sort, order: Order) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("cursor", "is not a `nextCursor` of this query, sorted like this");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let (name, ascending, position): (String, bool, Self) =
            foreign_json::from_slice(&bytes).map_err(|_| invalid())?;
        if name == sort.name() && ascending == (order == Order::Asc) { Ok(position) } else { Err(invalid()) }
    }
}

/// Values of different kinds are ordered by kind: numbers, texts, booleans.
fn compare_values(value: &Value, other: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        _ => 2,
    };
    match (value, other) {
        (Value::Number(value), Value::Number(other)) => match (value.as_i64(), other.as_i64()) {
            (Some(value), Some(other)) => value.cmp(&other),
            _ => value.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default()),
        },
        (Value::String(value), Value::String(other)) => value.cmp(other),
        (Value::Bool(value), Value::Bool(other)) => value.cmp(other),
        _ => kind(value).cmp(&kind(other)),
    }
}

/// One page of the matches in an order, and the position of its last object if there are more.
pub(super) fn sorted_page(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &ObjectFilter,
    sort: &Sort,
    order: Order,
    after: Option<SortPosition>,
    limit: usize,
) -> Result<(Vec<Object>, Option<SortPosition>), Error> {
    let mut best: Vec<(SortPosition, Object)> = Vec::new();
    let mut scanned = 0;
    let mut batch = Page::first(SCAN_BATCH);
    loop {
        let matches = objects::list(tx, project, filter, &batch)?;
        scanned += matches.items.len();
        let positioned = matches.items.into_iter().map(|object| (sort.position(&object), object));
        best.extend(positioned.filter(|(position, _)| {
            after.as_ref().is_none_or(|after| position.compare(after, order) == Ordering::Greater)
        }));
        best.sort_by(|(position, _), (other, _)| position.compare(other, order));
        // One more than asked for tells whether there is another page.
        best.truncate(limit + 1);
        match matches.next {
            None => break,
            Some(_) if scanned >= MAX_SCANNED => {
                let reason = format!(
                    "more than {MAX_SCANNED} objects match, too many to sort: narrow the query by type, status or filters, or \
                     leave `sort` and `order` away"
                );
                return Err(Invalid::new("sort", reason).into());
            }
            next => batch.after = next,
        }
    }
    let has_more = best.len() > limit;
    best.truncate(limit);
    let next = if has_more { best.last().map(|(position, _)| position.clone()) } else { None };
    Ok((best.into_iter().map(|(_, object)| object).collect(), next))
}
