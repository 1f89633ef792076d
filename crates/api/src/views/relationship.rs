use emergent_domain::{
    ids::ObjectId,
    json::JsonObject,
    merge::Source,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{author::AuthorView, expected_version, nullable, source::SourceView};

/// One version of a relationship.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Relationship)]
pub(crate) struct RelationshipView {
    id: Uuid,
    #[serde(rename = "type")]
    type_: String,
    from_id: Uuid,
    to_id: Uuid,
    #[schema(value_type = Object)]
    properties: JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    version: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Set on a tombstone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    deleted_at: Option<Timestamp>,
    author: AuthorView,
    /// Why this version is what it is, when a merge wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The newest passages that say it; shown when one relationship is read, and only if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 50)]
    sources: Vec<SourceView>,
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
        }
    }
}

impl From<(Relationship, Vec<Source>)> for RelationshipView {
    fn from((edge, sources): (Relationship, Vec<Source>)) -> Self {
        Self { sources: sources.into_iter().map(SourceView::from).collect(), ..Self::from(edge) }
    }
}

/// A new relationship; making the same one again returns it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateRelationship {
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "blocks")]
    type_: String,
    from_id: Uuid,
    to_id: Uuid,
    #[serde(default)]
    #[schema(value_type = Object)]
    properties: Map<String, Value>,
    weight: Option<f64>,
}

impl From<CreateRelationship> for NewRelationship {
    fn from(body: CreateRelationship) -> Self {
        Self {
            type_: body.type_,
            from: ObjectId(body.from_id),
            to: ObjectId(body.to_id),
            properties: body.properties,
            weight: body.weight,
        }
    }
}

/// What to change; what is absent stays. Type and ends are what an edge is: make another instead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateRelationship {
    /// Each property replaces the one of its name; a null deletes it.
    #[schema(value_type = Option<Object>)]
    properties: Option<Map<String, Value>>,
    /// Null takes the weight away.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>)]
    weight: Option<Option<f64>>,
    #[serde(default, deserialize_with = "expected_version")]
    #[schema(minimum = 1)]
    expected_version: Option<i64>,
}

impl From<UpdateRelationship> for RelationshipPatch {
    fn from(body: UpdateRelationship) -> Self {
        Self { properties: body.properties, weight: body.weight, expected_version: body.expected_version }
    }
}
