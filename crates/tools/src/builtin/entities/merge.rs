//! `entities_create` with `merge`: creates entities and relationships, or completes those that exist, one by
//! one in one transaction.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    merge::merge_key,
    object::{NewObject, Object},
    relationship::{NewRelationship, Relationship},
};
use emergent_graph::{
    EdgeEnd, Error, Result, WriteContext,
    merge::{self, MergeCandidate, MergeOutcome},
};
use emergent_store::Tx;
use serde_json::{Value, json};

use super::{
    super::{
        source::{SourceCache, SourceRef, add_merge_outcome},
        view::FieldSelection,
    },
    create::{EdgeInput, Entities, resolve_ends},
};

/// The entities and relationships of a call, with the objects that may be the same entities.
pub(super) struct MergeRequest {
    pub candidates: Vec<MergeCandidate>,
    pub entities: Entities,
    pub edges: Vec<EdgeInput>,
    pub source: Option<SourceRef>,
}

/// Writes the request and returns the answer of the call.
pub(super) fn write(tx: &mut Tx<'_>, writer: &WriteContext, request: &MergeRequest) -> Result<Value> {
    let MergeRequest { candidates, entities, edges, source } = request;
    let mut sources = SourceCache::new(writer);
    let mut objects: BTreeMap<usize, MergeOutcome<Object>> = BTreeMap::new();
    for index in write_order(candidates.iter().map(|candidate| &candidate.new)) {
        let object_source = sources
            .get(tx, entities[index].source, *source)
            .map_err(|error| error_at_index(error, "objects", index))?;
        let outcome = merge::create_or_merge(tx, writer, &candidates[index], object_source.as_ref());
        objects.insert(index, outcome.map_err(|error| error_at_index(error, "objects", index))?);
    }
    let refs = resolve_refs(entities, &objects)?;
    let mut relationships = Vec::with_capacity(edges.len());
    for (index, edge) in resolve_ends(tx, writer, entities, edges)?.into_iter().enumerate() {
        let at_index = |error| error_at_index(error, "relationships", index);
        let edge_source = sources.get(tx, edges[index].source, *source).map_err(at_index)?;
        let new = NewRelationship {
            type_: edge.type_,
            from: resolve_end(&refs, edge.from).map_err(at_index)?,
            to: resolve_end(&refs, edge.to).map_err(at_index)?,
            properties: edge.properties,
            weight: edge.weight,
        };
        relationships.push(
            merge::create_or_merge_relationship(tx, writer, new, edge_source.as_ref()).map_err(at_index)?,
        );
    }
    Ok(merged_json(objects.values(), &relationships, &refs))
}

/// The indexes of the entities by type and key. All calls write in this order, so that two calls that write
/// the same entities cannot deadlock.
fn write_order<'a>(new: impl Iterator<Item = &'a NewObject>) -> Vec<usize> {
    let mut order: Vec<(&str, Option<String>, usize)> =
        new.enumerate().map(|(index, new)| (new.type_.as_str(), merge_key(new), index)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, _, index)| index).collect()
}

/// The object of each `ref`. Fails if two objects have the same one.
fn resolve_refs(
    entities: &Entities,
    objects: &BTreeMap<usize, MergeOutcome<Object>>,
) -> Result<BTreeMap<String, ObjectId>> {
    let mut refs = BTreeMap::new();
    for (index, entity) in entities.iter().enumerate() {
        let (Some(name), Some(outcome)) = (&entity.ref_, objects.get(&index)) else { continue };
        if refs.insert(name.clone(), outcome.item.id).is_some_and(|other| other != outcome.item.id) {
            let duplicate = Invalid::new("ref", "is used by an object before this one");
            return Err(error_at_index(duplicate.into(), "objects", index));
        }
    }
    Ok(refs)
}

/// The object at one end of a relationship.
fn resolve_end(refs: &BTreeMap<String, ObjectId>, end: EdgeEnd) -> Result<ObjectId> {
    match end {
        EdgeEnd::Id(id) => Ok(id),
        EdgeEnd::Ref(name) => refs.get(&name).copied().ok_or_else(|| {
            Invalid::new("", format!("no object of this request has the ref `{name}`")).into()
        }),
    }
}

/// Prefixes the fields of an error with the item of a list that it is about.
fn error_at_index(error: Error, list: &str, index: usize) -> Error {
    match error {
        Error::Invalid(invalid) => Error::Invalid(invalid.prefixed(&format!("{list}[{index}]"))),
        other => other,
    }
}

fn merged_json<'a>(
    objects: impl Iterator<Item = &'a MergeOutcome<Object>>,
    edges: &[MergeOutcome<Relationship>],
    refs: &BTreeMap<String, ObjectId>,
) -> Value {
    let merged_object_json = |outcome: &MergeOutcome<Object>| {
        add_merge_outcome(
            FieldSelection::only(["key", "status", "version"]).object_json(&outcome.item),
            outcome,
        )
    };
    let merged_edge_json = |outcome: &MergeOutcome<Relationship>| {
        add_merge_outcome(
            FieldSelection::only(["type", "fromId", "toId", "version"]).relationship_json(&outcome.item),
            outcome,
        )
    };
    json!({
        "objects": objects.map(merged_object_json).collect::<Vec<_>>(),
        "relationships": edges.iter().map(merged_edge_json).collect::<Vec<_>>(),
        "refs": refs,
    })
}
