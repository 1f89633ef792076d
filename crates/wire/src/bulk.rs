//! Bulk requests: many objects or relationships at once. Each item of the response is the written one, or an
//! error.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{envelope::FailureBody, fields, object::CreateObject, relationship::CreateRelationship};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkObjects {
    #[serde(deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub objects: Vec<CreateObject>,
    /// All or nothing: the first error refuses every item.
    #[serde(default)]
    pub atomic: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkRelationships {
    #[serde(deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub relationships: Vec<CreateRelationship>,
    /// All or nothing: the first error refuses every item.
    #[serde(default)]
    pub atomic: bool,
}

/// What was made of an item, or why nothing was.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum BulkItem<T> {
    Made(T),
    Refused(Refused),
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Refused {
    pub error: FailureBody,
}

/// Implemented by hand, because serde buffers an untagged enum in a form that cannot contain the raw JSON of
/// an object's properties.
impl<'de, T: DeserializeOwned> Deserialize<'de> for BulkItem<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let item = Value::deserialize(deserializer)?;
        let parsed = match item.get("error") {
            Some(_) => serde_json::from_value(item).map(Self::Refused),
            None => serde_json::from_value(item).map(Self::Made),
        };
        parsed.map_err(D::Error::custom)
    }
}
