//! Requests to create objects and the relationships between them at once.

use std::collections::BTreeMap;

use emergent_domain::{ids::ObjectId, object_ref::ObjectRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{fields, object::ObjectView, relationship::RelationshipView, schema};

/// Objects and relationships that come together, or not at all.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSubgraph {
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub objects: Vec<SubgraphObject>,
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub relationships: Vec<SubgraphRelationship>,
}

/// A new object, with the name that relationships of this request use for it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubgraphObject {
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schema(example = "first")]
    pub ref_: Option<String>,
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
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
}

/// A new relationship; each end is a `ref` of this request, or an object that is there: by its id or as
/// `Type/key`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubgraphRelationship {
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "blocks")]
    pub type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ObjectRef>)]
    pub from_id: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ObjectRef>)]
    pub to_id: Option<ObjectRef>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// What was made, in the order it was asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Subgraph)]
pub struct SubgraphView {
    pub objects: Vec<ObjectView>,
    pub relationships: Vec<RelationshipView>,
    /// The id of each `ref`.
    #[schema(value_type = BTreeMap<String, Uuid>)]
    pub refs: BTreeMap<String, ObjectId>,
}
