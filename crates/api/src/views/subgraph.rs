use std::collections::BTreeMap;

use emergent_domain::{ids::ObjectId, object::NewObject};
use emergent_graph::{CreatedSubgraph, EdgeEnd, NewSubgraph, NewSubgraphEdge};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{object::ObjectView, relationship::RelationshipView};
use crate::{ApiError, extract::fields};

/// Objects and relationships that come together, or not at all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateSubgraph {
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub objects: Vec<SubgraphObject>,
    #[serde(default, deserialize_with = "fields::map_list")]
    #[schema(max_items = 1000)]
    pub relationships: Vec<SubgraphRelationship>,
}

/// A new object, with the name that relationships of this request use for it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubgraphObject {
    #[serde(rename = "ref")]
    #[schema(example = "first")]
    ref_: Option<String>,
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "Task")]
    type_: String,
    #[schema(min_length = 1, max_length = 512)]
    key: Option<String>,
    #[schema(min_length = 1, max_length = 128)]
    status: Option<String>,
    #[serde(default)]
    #[schema(max_items = 64)]
    labels: Vec<String>,
    #[serde(default)]
    #[schema(value_type = Object)]
    properties: Map<String, Value>,
}

/// A new relationship; each end is a `ref` of this request or the id of an object that is there.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubgraphRelationship {
    #[serde(rename = "type")]
    #[schema(pattern = "^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", example = "blocks")]
    type_: String,
    from_ref: Option<String>,
    from_id: Option<Uuid>,
    to_ref: Option<String>,
    to_id: Option<Uuid>,
    #[serde(default)]
    #[schema(value_type = Object)]
    properties: Map<String, Value>,
    weight: Option<f64>,
}

impl TryFrom<CreateSubgraph> for NewSubgraph {
    type Error = ApiError;
    fn try_from(body: CreateSubgraph) -> Result<Self, ApiError> {
        let objects = body.objects.into_iter().map(SubgraphObject::split).collect();
        let relationships = body.relationships.into_iter().enumerate().map(|(at, edge)| edge.into_edge(at));
        Ok(Self { objects, relationships: relationships.collect::<Result<_, _>>()? })
    }
}

impl SubgraphObject {
    fn split(self) -> (Option<String>, NewObject) {
        let Self { ref_, type_, key, status, labels, properties } = self;
        (ref_, NewObject { type_, key, status, labels, properties })
    }
}

impl SubgraphRelationship {
    fn into_edge(self, at: usize) -> Result<NewSubgraphEdge, ApiError> {
        let end = |ref_: Option<String>, id: Option<Uuid>, side: &str| match (ref_, id) {
            (Some(name), None) => Ok(EdgeEnd::Ref(name)),
            (None, Some(id)) => Ok(EdgeEnd::Id(ObjectId(id))),
            _ => Err(ApiError::invalid(
                format!("relationships[{at}].{side}Ref"),
                format!("give either `{side}Ref` or `{side}Id`"),
            )),
        };
        Ok(NewSubgraphEdge {
            type_: self.type_,
            from: end(self.from_ref, self.from_id, "from")?,
            to: end(self.to_ref, self.to_id, "to")?,
            properties: self.properties,
            weight: self.weight,
        })
    }
}

/// What was made, in the order it was asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Subgraph)]
pub(crate) struct SubgraphView {
    objects: Vec<ObjectView>,
    relationships: Vec<RelationshipView>,
    /// The id of each `ref`.
    #[schema(value_type = BTreeMap<String, Uuid>)]
    refs: BTreeMap<String, ObjectId>,
}

impl From<CreatedSubgraph> for SubgraphView {
    fn from(made: CreatedSubgraph) -> Self {
        Self {
            objects: made.objects.into_iter().map(ObjectView::from).collect(),
            relationships: made.relationships.into_iter().map(RelationshipView::from).collect(),
            refs: made.refs,
        }
    }
}
