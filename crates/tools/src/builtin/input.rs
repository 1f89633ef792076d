//! Types that the inputs of several tools share: pages, counts, filters, and schemas of domain types.

use std::{borrow::Cow, marker::PhantomData};

use emergent_domain::{
    cursor::Page,
    filter::{Filter, Op},
    invalid::Invalid,
    query::{Direction, ObjectFilter, SearchMode},
    run::{MessageRole, RunStatus},
    task::{Priority, TaskStatus, VerdictKind},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use super::{reference::ObjectRef, search::GroupDirection, view::FieldSelection};

/// The input of a tool that takes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

/// `limit` and `cursor` of a tool that answers page by page; flattened into its input.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Paging {
    /// Items per page.
    #[serde(default)]
    pub limit: Count<20, 1, 100>,
    /// To continue: `nextCursor` of the last answer.
    #[schemars(length(min = 1, max = 2_000))]
    pub cursor: Option<String>,
}

impl Paging {
    pub fn page(&self) -> Result<Page, Invalid> {
        Page::new(i64::try_from(self.limit.get()).ok(), self.cursor.as_deref())
    }
}

/// A number from `MIN` to `MAX`, which is `DEFAULT` when an input does not give it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "usize")]
pub struct Count<const DEFAULT: usize, const MIN: usize, const MAX: usize>(usize);

impl<const DEFAULT: usize, const MIN: usize, const MAX: usize> Count<DEFAULT, MIN, MAX> {
    pub fn get(self) -> usize {
        self.0
    }
}

impl<const DEFAULT: usize, const MIN: usize, const MAX: usize> Default for Count<DEFAULT, MIN, MAX> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: usize, const MIN: usize, const MAX: usize> TryFrom<usize> for Count<DEFAULT, MIN, MAX> {
    type Error = String;
    fn try_from(number: usize) -> Result<Self, String> {
        if (MIN..=MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(format!("{number} is not from {MIN} to {MAX}"))
        }
    }
}

/// Which objects: by type, labels, status and properties; flattened into a tool's input.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ObjectFilterInput {
    /// Any of these types.
    #[serde(default)]
    types: Vec<String>,
    /// All of these labels.
    #[serde(default)]
    labels: Vec<String>,
    /// Exactly this status.
    status: Option<String>,
    /// Conditions on properties.
    #[serde(default)]
    #[schemars(with = "Vec<FilterSchema>", length(max = 32))]
    filters: Vec<Filter>,
}

impl From<ObjectFilterInput> for ObjectFilter {
    fn from(input: ObjectFilterInput) -> Self {
        let ObjectFilterInput { types, labels, status, filters } = input;
        Self { types, labels, status, filters, ..Self::default() }
    }
}

/// Implements `JsonSchema` with a schema written by hand.
macro_rules! schema_by_hand {
    ([$($generics:tt)*] $type:ty => $schema:expr) => {
        impl<$($generics)*> JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

/// The schema of an id, for `#[schemars(with = …)]`, since the id types of the domain implement no schema.
pub struct Uuid;
/// The schema of a timestamp.
pub struct DateTime;
/// The schema of a [`Filter`].
pub struct FilterSchema;
/// The schema of an enum that is written as one of some words.
pub struct OneOf<T>(PhantomData<T>);

schema_by_hand!([] Uuid => json_schema!({ "type": "string", "format": "uuid" }));
schema_by_hand!([] DateTime => json_schema!({ "type": "string", "format": "date-time" }));
schema_by_hand!([T: Words] OneOf<T> => json_schema!({ "type": "string", "enum": T::words() }));
schema_by_hand!([const DEFAULT: usize, const MIN: usize, const MAX: usize] Count<DEFAULT, MIN, MAX> =>
    json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX, "default": DEFAULT })
);
schema_by_hand!([] FieldSelection => json_schema!({
    "type": "array",
    "items": { "type": "string" },
    "description": "Return only these, such as `key` or `title`; default: all.",
}));
schema_by_hand!([] ObjectRef => json_schema!({
    "type": "string",
    "pattern": "^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z][A-Za-z0-9_.:-]*/[^\\x00]+)$",
}));
schema_by_hand!([] FilterSchema => {
    let op = json!({
        "type": "string",
        "enum": Op::words(),
        "description": "`ne` also matches a missing property.",
    });
    json_schema!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Such as `metrics.calls`." },
            "op": op,
            "value": { "description": "List for `in`, boolean for `exists`." },
        },
        "required": ["path", "op"],
        "additionalProperties": false,
    })
});

/// Lists the words that the variants of an enum are written as.
pub trait Words {
    fn words() -> Vec<&'static str>;
}

/// Implements [`Words`] for enums that list their variants in `ALL`.
macro_rules! words_of_all {
    ($($type:ty),*) => {
        $(impl Words for $type {
            fn words() -> Vec<&'static str> {
                Self::ALL.iter().map(|variant| variant.as_str()).collect()
            }
        })*
    };
}
words_of_all!(RunStatus, TaskStatus, Priority, VerdictKind);

/// Implements [`Words`] for enums that do not list their variants.
macro_rules! words_listed {
    ($($type:ty => [$($word:literal),*]),* $(,)?) => {
        $(impl Words for $type {
            fn words() -> Vec<&'static str> {
                vec![$($word),*]
            }
        })*
    };
}
words_listed! {
    Direction => ["both", "out", "in"],
    SearchMode => ["auto", "hybrid", "text", "vector", "linked"],
    GroupDirection => ["out", "in"],
    Op => ["eq", "ne", "lt", "lte", "gt", "gte", "in", "contains", "exists"],
    // A system prompt is not shown to other agents.
    MessageRole => ["user", "assistant", "tool_result"],
}
