use std::collections::BTreeMap;

use emergent_domain::{
    pack::{RelationshipTypeSchema, TemplatePack},
    time::Timestamp,
};
use emergent_graph::StoredPack;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::extract::fields;

/// Types and their schemas, under a name and a version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreatePack {
    #[schema(min_length = 1, max_length = 128, example = "research")]
    name: String,
    /// A semantic version.
    #[schema(
        pattern = r"^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$",
        example = "1.0.0"
    )]
    version: String,
    #[schema(max_length = 4000)]
    description: Option<String>,
    /// A JSON schema for the properties of each object type.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Object>)]
    object_type_schemas: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "fields::map_by_name")]
    #[schema(value_type = BTreeMap<String, RelationshipType>)]
    relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    ui_configs: Option<Value>,
    extraction_prompts: Option<Value>,
}

impl From<CreatePack> for TemplatePack {
    fn from(body: CreatePack) -> Self {
        Self {
            name: body.name,
            version: body.version,
            description: body.description,
            object_type_schemas: body.object_type_schemas,
            relationship_type_schemas: body.relationship_type_schemas,
            ui_configs: body.ui_configs,
            extraction_prompts: body.extraction_prompts,
        }
    }
}

/// What a relationship joins, and what it may say about it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "the domain's type is read and written; this one describes it")]
pub(crate) struct RelationshipType {
    from: EndTypesView,
    to: EndTypesView,
    /// A JSON schema, or only the map of properties that would stand in one.
    #[schema(required = false, value_type = Option<Object>)]
    properties: Option<Value>,
    #[schema(required = false)]
    description: Option<String>,
}

/// A type's name, several, or `*` for any.
#[derive(Deserialize, ToSchema)]
#[schema(as = Ends)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum EndTypesView {
    One(String),
    Several(Vec<String>),
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplatePack)]
pub(crate) struct PackView {
    id: Uuid,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[schema(value_type = BTreeMap<String, Value>)]
    object_type_schemas: BTreeMap<String, Value>,
    #[schema(value_type = BTreeMap<String, RelationshipType>)]
    relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ui_configs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extraction_prompts: Option<Value>,
    /// Whether this project's writes are checked against it.
    assigned: bool,
    /// Ships with the server, is visible in every project and cannot be deleted.
    built_in: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<StoredPack> for PackView {
    fn from(stored: StoredPack) -> Self {
        let pack = stored.pack;
        Self {
            id: stored.id.0,
            name: pack.name,
            version: pack.version,
            description: pack.description,
            object_type_schemas: pack.object_type_schemas,
            relationship_type_schemas: pack.relationship_type_schemas,
            ui_configs: pack.ui_configs,
            extraction_prompts: pack.extraction_prompts,
            assigned: stored.assigned,
            built_in: stored.project.is_none(),
            created_at: stored.created_at,
        }
    }
}
