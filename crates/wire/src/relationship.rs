//! Relationships of the graph, and requests to create and change them.

use emergent_domain::{
    ids::ObjectId,
    json::JsonObject,
    merge::Source,
    object_ref::ObjectRef,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    author::AuthorView,
    fields::{expected_version, nullable},
    schema,
    source::SourceView,
};

/// One version of a relationship.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Relationship)]
pub struct RelationshipView {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub type_: String,
    pub from_id: Uuid,
    pub to_id: Uuid,
    #[schema(value_type = Object)]
    pub properties: JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Set on a tombstone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deleted_at: Option<Timestamp>,
    pub author: AuthorView,
    /// Why this version is what it is, when a merge or a revert wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The newest passages that say it; shown when one relationship is read, and only if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 50)]
    pub sources: Vec<SourceView>,
    /// True in the answer to a write of somebody who may not read: only what identifies the result is there, and the other
    /// fields are empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub withheld: bool,
}

impl From<Relationship> for RelationshipView {
    fn from(edge: Relationship) -> Self {
        Self {
            id: edge.id.0,
            type_: edge.type_,
            from_id: edge.from.0,
            to_id: edge.to.0,
            properties: edge.properties,
            weight: edge.weight,
            version: edge.version,
            created_at: edge.created_at,
            updated_at: edge.updated_at,
            deleted_at: edge.deleted_at,
            author: edge.author.into(),
            reason: edge.reason,
            sources: Vec::new(),
            withheld: false,
        }
    }
}

impl From<(Relationship, Vec<Source>)> for RelationshipView {
    fn from((edge, sources): (Relationship, Vec<Source>)) -> Self {
        Self { sources: sources.into_iter().map(SourceView::from).collect(), ..Self::from(edge) }
    }
}

/// A new relationship; making the same one again returns it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRelationship {
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "blocks")]
    pub type_: String,
    /// An object, by its id or as `Type/key`.
    #[schema(value_type = schema::ObjectRef)]
    pub from_id: ObjectRef,
    #[schema(value_type = schema::ObjectRef)]
    pub to_id: ObjectRef,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

impl CreateRelationship {
    /// The relationship between the objects that its references stand for.
    pub fn into_new(self, from: ObjectId, to: ObjectId) -> NewRelationship {
        let Self { type_, properties, weight, .. } = self;
        NewRelationship { type_, from, to, properties, weight }
    }
}

/// What to change; what is absent stays. Type and ends are what an edge is: make another instead.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateRelationship {
    /// Each property replaces the one of its name; a null deletes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub properties: Option<Map<String, Value>>,
    /// Null takes the weight away.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub weight: Option<Option<f64>>,
    #[serde(default, deserialize_with = "expected_version", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expected_version: Option<i64>,
}

impl From<UpdateRelationship> for RelationshipPatch {
    fn from(body: UpdateRelationship) -> Self {
        Self { properties: body.properties, weight: body.weight, expected_version: body.expected_version }
    }
}
