//! Converts a request to create a subgraph, and its result.

use emergent_domain::{ids::ObjectId, object::NewObject};
use emergent_graph::{CreatedSubgraph, EdgeEnd, NewSubgraph, NewSubgraphEdge};
pub(crate) use emergent_wire::subgraph::*;
use uuid::Uuid;

use super::IntoView;
use crate::ApiError;

/// Separates the name of an object within the request from the object.
fn split_ref(object: SubgraphObject) -> (Option<String>, NewObject) {
    let SubgraphObject { ref_, type_, key, status, labels, properties } = object;
    (ref_, NewObject { type_, key, status, labels, properties })
}

/// Converts a request to create a subgraph.
pub(crate) fn new_subgraph(body: CreateSubgraph) -> Result<NewSubgraph, ApiError> {
    let objects = body.objects.into_iter().map(split_ref).collect();
    let relationships = body.relationships.into_iter().enumerate().map(|(index, edge)| new_edge(edge, index));
    Ok(NewSubgraph { objects, relationships: relationships.collect::<Result<_, _>>()? })
}

/// Converts one relationship. Each end is either a name within the request or the id of an existing object.
fn new_edge(edge: SubgraphRelationship, index: usize) -> Result<NewSubgraphEdge, ApiError> {
    let end = |ref_: Option<String>, id: Option<Uuid>, side: &str| match (ref_, id) {
        (Some(name), None) => Ok(EdgeEnd::Ref(name)),
        (None, Some(id)) => Ok(EdgeEnd::Id(ObjectId(id))),
        _ => Err(ApiError::invalid(
            format!("relationships[{index}].{side}Ref"),
            format!("give either `{side}Ref` or `{side}Id`"),
        )),
    };
    Ok(NewSubgraphEdge {
        type_: edge.type_,
        from: end(edge.from_ref, edge.from_id, "from")?,
        to: end(edge.to_ref, edge.to_id, "to")?,
        properties: edge.properties,
        weight: edge.weight,
    })
}

impl IntoView<SubgraphView> for CreatedSubgraph {
    fn into_view(self) -> SubgraphView {
        let created = self;
        SubgraphView {
            objects: created.objects.into_iter().map(Into::into).collect(),
            relationships: created.relationships.into_iter().map(Into::into).collect(),
            refs: created.refs,
        }
    }
}
