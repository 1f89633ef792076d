//! Filters over the properties of an object, and their exact meaning.
//!
//! A caller sends a [`Filter`]. [`Filter::check`] converts it to a [`Condition`], from which the
//! SQL is generated. [`Condition::matches`] is the reference implementation: both database engines
//! must agree with it for every object.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::invalid::Invalid;

const MAX_SEGMENTS: usize = 8;
const MAX_PATH: usize = 256;
const MAX_LIST: usize = 100;

/// One condition on one property: `{ "path": "metrics.llm_calls", "op": "gt", "value": 3 }`.
///
/// | op | value | matches when the property |
/// |---|---|---|
/// | `eq` | scalar | is that scalar |
/// | `ne` | scalar | is anything else, or missing: exactly when `eq` does not match |
/// | `lt` `lte` `gt` `gte` | number or string | is of the same kind and in that order |
/// | `in` | 1–100 scalars | is one of them |
/// | `contains` | scalar | is a string with that substring, or a list with that element |
/// | `exists` | `true` (the default) or `false` | is present, or is absent |
///
/// The rules behind the table:
///
/// - **Scalars** are strings, numbers and booleans, and the kinds never mix: `1`, `"1"` and
///   `true` are three different values.
/// - **Numbers** compare as 64-bit floats, so `1` equals `1.0`. In SQL: `CAST(… AS REAL)` and
///   `::double precision`.
/// - **Strings** compare by Unicode code point, case-sensitively, with no language's rules. In
///   SQL: `COLLATE BINARY` and `COLLATE "C"`; substrings with `instr` and `strpos`, since `LIKE`
///   gives `%` and `_` a meaning.
/// - **Missing** is a path that does not exist, that passes through something other than an
///   object, or that ends in JSON `null`. Only `ne` and `exists: false` match it.
/// - **Kinds that do not fit** (a number against `lt "a"`, an object against anything but `ne`
///   and `exists`) do not match, and are never an error.
/// - **`contains`** with a string looks for a substring in a string and for an equal element in
///   a list; with a number or boolean it looks in lists only. Elements that are lists or objects
///   themselves are never equal.
/// - **A path** consists of object keys. A segment such as `0` is the key `"0"` and never an index
///   into a list, although PostgreSQL's `#>` would take it for one. Keys with other characters
///   than `A-Z a-z 0-9 _ -` cannot be filtered on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Property names from the outermost to the innermost, joined with dots.
    pub path: String,
    pub op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Lte,
    Gt,
    Gte,
    In,
    Contains,
    Exists,
}

/// A validated filter: a property path and the comparison to apply to its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub path: Path,
    pub comparison: Comparison,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    Eq(Scalar),
    Ne(Scalar),
    Lt(Bound),
    Lte(Bound),
    Gt(Bound),
    Gte(Bound),
    /// Contains 1 to 100 values.
    In(Vec<Scalar>),
    Contains(Scalar),
    Exists(bool),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Text(String),
    Number(f64),
    Bool(bool),
}

/// A value that has an order. Booleans have none.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    Text(String),
    Number(f64),
}

/// One to eight keys of the characters `A-Z a-z 0-9 _ -`, which are safe inside any JSON path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path(Vec<String>);

impl Filter {
    pub fn check(&self) -> Result<Condition, Invalid> {
        let path = Path::parse(&self.path).map_err(|invalid| invalid.prefixed("path"))?;
        let test = self.comparison().map_err(|reason| Invalid::new("value", reason))?;
        Ok(Condition { path, comparison: test })
    }

    /// Applies [`Condition::matches`]. A filter that fails [`Filter::check`] matches nothing.
    pub fn matches(&self, properties: &Map<String, Value>) -> bool {
        self.check().is_ok_and(|condition| condition.matches(properties))
    }

    fn comparison(&self) -> Result<Comparison, String> {
        Ok(match self.op {
            Op::Eq => Comparison::Eq(self.scalar()?),
            Op::Ne => Comparison::Ne(self.scalar()?),
            Op::Lt => Comparison::Lt(self.bound()?),
            Op::Lte => Comparison::Lte(self.bound()?),
            Op::Gt => Comparison::Gt(self.bound()?),
            Op::Gte => Comparison::Gte(self.bound()?),
            Op::In => Comparison::In(self.list()?),
            Op::Contains => Comparison::Contains(self.scalar()?),
            Op::Exists => Comparison::Exists(self.flag()?),
        })
    }

    fn scalar(&self) -> Result<Scalar, String> {
        let expected = || format!("`{}` needs a string, a number or a boolean", self.op);
        match &self.value {
            None | Some(Value::Null) => {
                Err(format!("{}; to find objects without the property, use `exists` with false", expected()))
            }
            Some(value) => Scalar::read(value)?.ok_or_else(expected),
        }
    }

    fn bound(&self) -> Result<Bound, String> {
        let scalar = match &self.value {
            Some(value) => Scalar::read(value)?,
            None => None,
        };
        match scalar {
            Some(Scalar::Text(text)) => Ok(Bound::Text(text)),
            Some(Scalar::Number(number)) => Ok(Bound::Number(number)),
            Some(Scalar::Bool(_)) | None => Err(format!("`{}` needs a number or a string", self.op)),
        }
    }

    fn list(&self) -> Result<Vec<Scalar>, String> {
        let expected = || format!("`in` needs a list of 1 to {MAX_LIST} strings, numbers or booleans");
        let Some(Value::Array(items)) = &self.value else {
            return Err(expected());
        };
        if items.is_empty() || items.len() > MAX_LIST {
            return Err(format!("{}, and this one has {}", expected(), items.len()));
        }
        items.iter().map(|item| Scalar::read(item)?.ok_or_else(expected)).collect()
    }

    fn flag(&self) -> Result<bool, String> {
        match &self.value {
            None | Some(Value::Null) => Ok(true),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err("`exists` needs true or false, or no value for true".to_owned()),
        }
    }
}

impl Condition {
    /// Evaluates the filter as the table on [`Filter`] describes.
    pub fn matches(&self, properties: &Map<String, Value>) -> bool {
        self.comparison.matches(self.path.find(properties))
    }
}

impl Comparison {
    /// Compares the value at the path of a condition; `None` if it is missing.
    pub(crate) fn matches(&self, value: Option<&Value>) -> bool {
        let ordered = |bound: &Bound, expected: fn(Ordering) -> bool| {
            value.and_then(|value| bound.order(value)).is_some_and(expected)
        };
        match self {
            Comparison::Eq(scalar) => value.is_some_and(|value| scalar.equals(value)),
            Comparison::Ne(scalar) => !value.is_some_and(|value| scalar.equals(value)),
            Comparison::Lt(bound) => ordered(bound, Ordering::is_lt),
            Comparison::Lte(bound) => ordered(bound, Ordering::is_le),
            Comparison::Gt(bound) => ordered(bound, Ordering::is_gt),
            Comparison::Gte(bound) => ordered(bound, Ordering::is_ge),
            Comparison::In(scalars) => {
                value.is_some_and(|value| scalars.iter().any(|scalar| scalar.equals(value)))
            }
            Comparison::Contains(scalar) => value.is_some_and(|value| scalar.is_within(value)),
            Comparison::Exists(expected) => value.is_some() == *expected,
        }
    }
}

/// What it takes to compare a scalar, besides the bytes of a text.
const SCALAR_WORK: usize = 16;

impl Condition {
    /// About how many bytes the condition has.
    pub fn bytes(&self) -> usize {
        let path: usize = self.path.0.iter().map(String::len).sum();
        path + match &self.comparison {
            Comparison::Eq(scalar) | Comparison::Ne(scalar) | Comparison::Contains(scalar) => scalar.bytes(),
            Comparison::Lt(Bound::Text(text))
            | Comparison::Lte(Bound::Text(text))
            | Comparison::Gt(Bound::Text(text))
            | Comparison::Gte(Bound::Text(text)) => text.len(),
            Comparison::In(scalars) => scalars.iter().map(Scalar::bytes).sum(),
            Comparison::Lt(_) | Comparison::Lte(_) | Comparison::Gt(_) | Comparison::Gte(_) => SCALAR_WORK,
            Comparison::Exists(_) => 0,
        }
    }

    /// About how many bytes of the properties the condition looks through: a text or a list in which it searches a value.
    /// Every other comparison ends after as many bytes as the condition has.
    pub fn searched_bytes(&self, properties: &Map<String, Value>) -> usize {
        let Comparison::Contains(scalar) = &self.comparison else { return 0 };
        match self.path.find(properties) {
            Some(Value::String(text)) => text.len(),
            Some(Value::Array(items)) => items.len().saturating_mul(scalar.bytes()),
            _ => 0,
        }
    }
}

impl Path {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |reason: String| Err(Invalid::new("", reason));
        if text.len() > MAX_PATH {
            return refuse(format!("is longer than the maximum of {MAX_PATH} characters"));
        }
        let segments: Vec<String> = text.split('.').map(str::to_owned).collect();
        if segments.len() > MAX_SEGMENTS {
            return refuse(format!("has more than the maximum of {MAX_SEGMENTS} segments"));
        }
        let well_formed = |segment: &String| {
            !segment.is_empty()
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        if !segments.iter().all(well_formed) {
            return refuse(format!(
                "{} is not a property path such as `priority` or `metrics.llm_calls`",
                Value::from(text)
            ));
        }
        Ok(Self(segments))
    }

    /// Returns the keys from the outermost to the innermost. There is at least one.
    pub fn segments(&self) -> &[String] {
        &self.0
    }

    /// Returns the value at this path, or `None` if it is missing or null.
    pub fn find<'a>(&self, properties: &'a Map<String, Value>) -> Option<&'a Value> {
        let (first, inner) = self.0.split_first()?;
        inner
            .iter()
            .try_fold(properties.get(first)?, |value, key| value.as_object()?.get(key))
            .filter(|value| !value.is_null())
    }
}

impl Scalar {
    /// Returns `None` if the value is not a scalar.
    fn read(value: &Value) -> Result<Option<Self>, String> {
        Ok(match value {
            // PostgreSQL cannot represent a text with NUL, so no comparison with one is possible
            // there.
            Value::String(text) if text.contains('\0') => {
                return Err("must not contain the character U+0000".to_owned());
            }
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => number.as_f64().map(Self::Number),
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        })
    }

    /// Whether the value is a scalar of the same kind.
    pub(crate) fn is_same_kind(&self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::Text(_), Value::String(_))
                | (Self::Number(_), Value::Number(_))
                | (Self::Bool(_), Value::Bool(_))
        )
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + SCALAR_WORK,
            Self::Number(_) | Self::Bool(_) => SCALAR_WORK,
        }
    }

    pub(crate) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(text), Value::String(actual)) => text == actual,
            (Self::Number(number), Value::Number(actual)) => actual.as_f64() == Some(*number),
            (Self::Bool(flag), Value::Bool(actual)) => flag == actual,
            _ => false,
        }
    }

    pub(crate) fn is_within(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(text), Value::String(actual)) => actual.contains(text.as_str()),
            (_, Value::Array(items)) => items.iter().any(|item| self.equals(item)),
            _ => false,
        }
    }
}

impl Bound {
    /// Orders the property relative to the bound. Returns `None` if they have different kinds.
    pub(crate) fn order(&self, value: &Value) -> Option<Ordering> {
        match (self, value) {
            (Self::Text(text), Value::String(actual)) => Some(actual.as_str().cmp(text)),
            (Self::Number(number), Value::Number(actual)) => actual.as_f64()?.partial_cmp(number),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Gt => "gt",
            Self::Gte => "gte",
            Self::In => "in",
            Self::Contains => "contains",
            Self::Exists => "exists",
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(path: &str, op: &str, value: Value) -> Filter {
        serde_json::from_value(json!({ "path": path, "op": op, "value": value })).expect("a filter")
    }

    /// Checks by name which properties of one object a filter matches.
    fn check(op: &str, value: Value, expected: &str) {
        let properties = json!({
            "one": 1, "one_float": 1.0, "two": 2, "text_one": "1", "yes": true, "no": false,
            "word": "banana", "upper": "Banana", "empty": "",
            "list": ["banana", 1, [2]], "nested": { "one": 1 }, "null": null,
        });
        let names = "one one_float two text_one yes no word upper empty list nested null missing";
        let properties = properties.as_object().expect("an object");
        let matching: Vec<&str> =
            names.split(' ').filter(|name| filter(name, op, value.clone()).matches(properties)).collect();
        assert_eq!(matching.join(" "), expected, "{op} {value}");
    }

    #[test]
    fn equality_is_by_kind_and_numbers_by_size() {
        check("eq", json!(1), "one one_float");
        check("eq", json!(1.0), "one one_float");
        check("eq", json!("1"), "text_one");
        check("eq", json!(true), "yes");
        check("eq", json!("banana"), "word");
    }

    #[test]
    fn ne_matches_exactly_where_eq_does_not() {
        check("ne", json!(1), "two text_one yes no word upper empty list nested null missing");
    }

    #[test]
    fn order_holds_within_one_kind_only() {
        check("lt", json!(2), "one one_float");
        check("lte", json!(2), "one one_float two");
        check("gt", json!(1), "two");
        check("gte", json!(1), "one one_float two");
        // Strings compare by code point, so capital letters come before small ones.
        check("gt", json!("Banana"), "word");
        check("lt", json!("a"), "text_one upper empty");
    }

    #[test]
    fn strings_are_ordered_by_code_point_and_not_by_utf16() {
        let properties = json!({ "emoji": "😀" });
        let properties = properties.as_object().unwrap();
        assert!(filter("emoji", "gt", json!("\u{ff5e}")).matches(properties));
    }

    #[test]
    fn in_is_any_of_several_equalities() {
        check("in", json!([2, "banana", false]), "two no word");
    }

    #[test]
    fn contains_finds_substrings_and_list_elements() {
        check("contains", json!("ana"), "word upper");
        check("contains", json!("banana"), "word list");
        check("contains", json!(1), "list");
        check("contains", json!(2), "");
        check("contains", json!(""), "text_one word upper empty");
        check("contains", json!("%"), "");
    }

    #[test]
    fn null_is_as_good_as_missing() {
        check("exists", json!(false), "null missing");
        let present = "one one_float two text_one yes no word upper empty list nested";
        check("exists", json!(true), present);
        check("exists", Value::Null, present);
    }

    #[test]
    fn paths_lead_through_objects_and_never_into_lists() {
        let properties = json!({ "metrics": { "calls": { "0": 3 } }, "list": [{ "a": 1 }] });
        let properties = properties.as_object().unwrap();
        assert!(filter("metrics.calls.0", "eq", json!(3)).matches(properties));
        assert!(filter("list.0", "exists", json!(false)).matches(properties));
        assert!(filter("list.0.a", "exists", json!(false)).matches(properties));
        assert!(filter("metrics.calls.0.deeper", "exists", json!(false)).matches(properties));
    }

    #[test]
    fn a_checked_filter_is_what_sql_is_written_from() {
        let condition = filter("metrics.calls", "gt", json!(3)).check().unwrap();
        assert_eq!(condition.path.segments(), ["metrics", "calls"]);
        assert_eq!(condition.path.to_string(), "metrics.calls");
        assert_eq!(condition.comparison, Comparison::Gt(Bound::Number(3.0)));
    }

    #[test]
    fn values_must_fit_the_operator() {
        fn refused(op: &str, value: Value, expected: &str) {
            let filter = filter("a", op, value);
            assert_eq!(filter.check().unwrap_err().to_string(), expected);
            assert!(!filter.matches(&Map::new()));
        }
        refused("eq", json!([1]), "`value`: `eq` needs a string, a number or a boolean");
        refused(
            "ne",
            Value::Null,
            "`value`: `ne` needs a string, a number or a boolean; \
             to find objects without the property, use `exists` with false",
        );
        refused("lt", json!(true), "`value`: `lt` needs a number or a string");
        refused("gte", Value::Null, "`value`: `gte` needs a number or a string");
        let list = "`value`: `in` needs a list of 1 to 100 strings, numbers or booleans";
        refused("in", json!("a"), list);
        refused("in", json!([1, null]), list);
        refused("in", json!([]), &format!("{list}, and this one has 0"));
        refused("in", json!(vec![1; 101]), &format!("{list}, and this one has 101"));
        refused("exists", json!("yes"), "`value`: `exists` needs true or false, or no value for true");
        refused("eq", json!("a\0b"), "`value`: must not contain the character U+0000");
    }

    #[test]
    fn paths_that_could_mean_something_to_sql_are_refused() {
        for path in ["", ".", "a.", "a..b", "a b", "a'b", "$.a", "a[0]", "a\"", "/a", "é"] {
            let invalid = filter(path, "exists", json!(true)).check().unwrap_err();
            assert_eq!(invalid.problems[0].field, "path", "{path:?}");
        }
        assert!(Path::parse("a.b.c.d.e.f.g.h").is_ok());
        assert!(Path::parse("a.b.c.d.e.f.g.h.i").is_err());
        assert!(Path::parse(&"a".repeat(256)).is_ok());
        assert!(Path::parse(&"a".repeat(257)).is_err());
    }

    #[test]
    fn unknown_fields_and_operators_are_refused_by_name() {
        let read = |json| serde_json::from_value::<Filter>(json).unwrap_err().to_string();
        let unknown = read(json!({ "path": "a", "op": "eq", "vlaue": 1 }));
        assert!(unknown.contains("unknown field `vlaue`"), "{unknown}");
        let unknown = read(json!({ "path": "a", "op": "like", "value": 1 }));
        assert!(unknown.contains("unknown variant `like`"), "{unknown}");
    }
}
