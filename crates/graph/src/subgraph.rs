//! Creates objects and relationships together, in one transaction. Relationships refer to existing
//! objects by id, and to new ones by a ref that is valid only within the request.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    object::{NewObject, Object},
    relationship::{NewRelationship, Relationship},
};
use emergent_store::Tx;
use serde_json::{Map, Value};

use crate::{Actor, Error, Graph, WriteContext, error::Result, objects, relationships};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewSubgraph {
    /// The new objects, each with the optional ref that relationships use for it.
    pub objects: Vec<(Option<String>, NewObject)>,
    pub relationships: Vec<NewSubgraphEdge>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewSubgraphEdge {
    pub type_: String,
    pub from: EdgeEnd,
    pub to: EdgeEnd,
    pub properties: Map<String, Value>,
    pub weight: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeEnd {
    /// A new object of the same request.
    Ref(String),
    /// An existing object.
    Id(ObjectId),
}

/// The created objects and relationships, in the order of the request. An edge that already existed
/// is returned unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreatedSubgraph {
    pub objects: Vec<Object>,
    pub relationships: Vec<Relationship>,
    pub refs: BTreeMap<String, ObjectId>,
}

/// A validated subgraph. Its new objects already have ids, so that its edges can refer to them.
#[derive(Debug, Clone)]
pub struct SubgraphDraft {
    objects: Vec<objects::ObjectDraft>,
    relationships: Vec<relationships::RelationshipDraft>,
    refs: BTreeMap<String, ObjectId>,
}

impl SubgraphDraft {
    pub fn new(new: NewSubgraph) -> Result<Self> {
        let mut refs = BTreeMap::new();
        let mut objects = Vec::with_capacity(new.objects.len());
        for (index, (name, object)) in new.objects.into_iter().enumerate() {
            let add_index = |invalid: Invalid| Error::from(invalid).at_index("objects", index);
            let id = ObjectId::new();
            if let Some(name) = name
                && refs.insert(name, id).is_some()
            {
                return Err(add_index(Invalid::new("ref", "is used by an object before this one")));
            }
            objects.push(objects::ObjectDraft::new(object).map_err(add_index)?.with_id(id));
        }
        let mut relationships = Vec::with_capacity(new.relationships.len());
        for (index, edge) in new.relationships.into_iter().enumerate() {
            let add_index = |invalid: Invalid| Error::from(invalid).at_index("relationships", index);
            let end = |field, end| match end {
                EdgeEnd::Id(id) => Ok(id),
                EdgeEnd::Ref(name) => refs.get(&name).copied().ok_or_else(|| {
                    add_index(Invalid::new(field, format!("no object of this request has the ref `{name}`")))
                }),
            };
            let edge = NewRelationship {
                type_: edge.type_,
                from: end("from", edge.from)?,
                to: end("to", edge.to)?,
                properties: edge.properties,
                weight: edge.weight,
            };
            relationships.push(relationships::RelationshipDraft::new(edge).map_err(add_index)?);
        }
        Ok(Self { objects, relationships, refs })
    }
}

/// Creates all of it or nothing.
pub fn create(tx: &mut Tx<'_>, ctx: &WriteContext, draft: &SubgraphDraft) -> Result<CreatedSubgraph> {
    let objects = objects::create_all(tx, ctx, &draft.objects)?;
    let relationships = relationships::create_all(tx, ctx, &draft.relationships)?;
    let relationships = relationships.into_iter().map(|(edge, _)| edge).collect();
    Ok(CreatedSubgraph { objects, relationships, refs: draft.refs.clone() })
}

impl Graph {
    pub async fn create_subgraph(&self, actor: Actor, new: NewSubgraph) -> Result<CreatedSubgraph> {
        let mut draft = SubgraphDraft::new(new)?;
        draft.objects = self.validate_drafts(actor.project, draft.objects).await?;
        self.write(actor, move |tx, ctx| create(tx, ctx, &draft)).await
    }
}
