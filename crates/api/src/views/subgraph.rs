//! Converts a request to create a subgraph, and its result.

use emergent_domain::{ids::ObjectId, object::NewObject, object_ref::ObjectRef};
use emergent_graph::{CreatedSubgraph, EdgeEnd, NewSubgraph, NewSubgraphEdge};
pub(crate) use emergent_wire::subgraph::*;

use super::IntoView;
use crate::ApiError;

/// Separates the name of an object within the request from the object.
fn split_ref(object: SubgraphObject) -> (Option<String>, NewObject) {
    let SubgraphObject { ref_, type_, key, status, labels, properties } = object;
    (ref_, NewObject { type_, key, status, labels, properties })
}

/// The objects that the relationships of a request name, in the order in which [`new_subgraph`] takes their
/// ids.
pub(crate) fn referenced_objects(body: &CreateSubgraph) -> Vec<ObjectRef> {
    body.relationships.iter().flat_map(|edge| [edge.from_id.clone(), edge.to_id.clone()]).flatten().collect()
}

/// Converts a request to create a subgraph. `ids` are those of [`referenced_objects`].
pub(crate) fn new_subgraph(body: CreateSubgraph, ids: Vec<ObjectId>) -> Result<NewSubgraph, ApiError> {
    let objects = body.objects.into_iter().map(split_ref).collect();
    let mut ids = ids.into_iter();
    let relationships =
        body.relationships.into_iter().enumerate().map(|(index, edge)| new_edge(edge, index, &mut ids));
    Ok(NewSubgraph { objects, relationships: relationships.collect::<Result<_, _>>()? })
}

/// Converts one relationship. Each end is either a name within the request or an existing object.
fn new_edge(
    edge: SubgraphRelationship,
    index: usize,
    ids: &mut impl Iterator<Item = ObjectId>,
) -> Result<NewSubgraphEdge, ApiError> {
    let mut end =
        |ref_: Option<String>, id: Option<ObjectRef>, side: &str| match (ref_, id.and_then(|_| ids.next())) {
            (Some(name), None) => Ok(EdgeEnd::Ref(name)),
            (None, Some(id)) => Ok(EdgeEnd::Id(id)),
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
