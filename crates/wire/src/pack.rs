//! Template packs, and requests to create them.

use std::collections::BTreeMap;

use emergent_domain::{
    pack::{RelationshipTypeSchema, TemplatePack},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::fields;

/// Types and their schemas, under a name and a version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePack {
    #[schema(min_length = 1, max_length = 128, example = "research")]
    pub name: String,
    /// A semantic version.
    #[schema(
        pattern = r"^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$",
        example = "1.0.0"
    )]
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// A JSON schema for the properties of each object type.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub object_type_schemas: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "fields::map_by_name")]
    #[schema(value_type = BTreeMap<String, RelationshipType>)]
    pub relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_configs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extraction_prompts: Option<Value>,
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationshipType {
    pub from: EndTypesView,
    pub to: EndTypesView,
    /// A JSON schema, or only the map of properties that would stand in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = Option<Object>)]
    pub properties: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub description: Option<String>,
}

/// A type's name, several, or `*` for any.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Ends)]
#[serde(untagged)]
pub enum EndTypesView {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplatePack)]
pub struct PackView {
    pub id: Uuid,
    pub name: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[schema(value_type = BTreeMap<String, Value>)]
    pub object_type_schemas: BTreeMap<String, Value>,
    #[schema(value_type = BTreeMap<String, RelationshipType>)]
    pub relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_configs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extraction_prompts: Option<Value>,
    /// Whether this project's writes are checked against it.
    pub assigned: bool,
    /// Ships with the server, is visible in every project and cannot be deleted.
    pub built_in: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}
