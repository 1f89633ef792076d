//! Objects of the graph, and requests to create and change them.

use emergent_domain::{
    json::JsonObject,
    merge::Source,
    object::{NewObject, Object, ObjectPatch},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    author::AuthorView,
    fields::{expected_version, nullable},
    source::SourceView,
};

/// One version of an object.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Object)]
pub struct ObjectView {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub type_: String,
    /// Unique among the living objects of its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub labels: Vec<String>,
    #[schema(value_type = Object)]
    pub properties: JsonObject,
    /// Counts from 1; name it as `expectedVersion` to change only what you have seen.
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Set on a tombstone, the version a deletion leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deleted_at: Option<Timestamp>,
    pub author: AuthorView,
    /// Why this version is what it is, when a merge or a revert wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The newest passages that say it; shown when one object is read, and only if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 50)]
    pub sources: Vec<SourceView>,
    /// True in the answer to a write of somebody who may not read: only what identifies the result is there, and the other
    /// fields are empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub withheld: bool,
}

impl From<Object> for ObjectView {
    fn from(object: Object) -> Self {
        Self {
            id: object.id.0,
            type_: object.type_,
            key: object.key,
            status: object.status,
            labels: object.labels,
            properties: object.properties,
            version: object.version,
            created_at: object.created_at,
            updated_at: object.updated_at,
            deleted_at: object.deleted_at,
            author: object.author.into(),
            reason: object.reason,
            sources: Vec::new(),
            withheld: false,
        }
    }
}

impl From<(Object, Vec<Source>)> for ObjectView {
    fn from((object, sources): (Object, Vec<Source>)) -> Self {
        Self { sources: sources.into_iter().map(SourceView::from).collect(), ..Self::from(object) }
    }
}

/// A new object.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateObject {
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "Task")]
    pub type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub status: Option<String>,
    #[serde(default)]
    #[schema(max_items = 64)]
    pub labels: Vec<String>,
    /// At most 1 MiB of JSON, nested at most 64 levels.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
}

impl From<CreateObject> for NewObject {
    fn from(body: CreateObject) -> Self {
        Self {
            type_: body.type_,
            key: body.key,
            status: body.status,
            labels: body.labels,
            properties: body.properties,
        }
    }
}

/// What to change; what is absent stays.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateObject {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$")]
    pub type_: Option<String>,
    /// Null takes the key away.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 512)]
    pub key: Option<Option<String>>,
    /// Null takes the status away.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    pub status: Option<Option<String>>,
    /// Replaces all labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub labels: Option<Vec<String>>,
    /// Each property replaces the one of its name; a null deletes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub properties: Option<Map<String, Value>>,
    /// The version this change was made from; 409 with the current one when it is another.
    #[serde(default, deserialize_with = "expected_version", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expected_version: Option<i64>,
}

impl From<UpdateObject> for ObjectPatch {
    fn from(body: UpdateObject) -> Self {
        Self {
            type_: body.type_,
            key: body.key,
            status: body.status,
            labels: body.labels,
            properties: body.properties,
            expected_version: body.expected_version,
        }
    }
}
