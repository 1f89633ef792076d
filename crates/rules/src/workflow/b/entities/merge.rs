//! `entities_create` for what may be known already, or has a passage that says it: object by
//! object and edge by edge, in one transaction.

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

/// What a call asks for, with what its entities may be the same as.
pub(super) struct MergeRequest {
    pub candidates: Vec<MergeCandidate>,
    pub entities: Entities,
    pub edges: Vec<EdgeInput>,
    pub source: Option<SourceRef>,
}

pub(super) fn write(tx: &mut Tx<'_>, writer: &WriteContext, wanted: &MergeRequest) -> Result<Value> {
    let MergeRequest { candidates: found, entities, edges, source } = wanted;
    let mut sources = SourceCache::new(writer);
    let mut objects: BTreeMap<usize, MergeOutcome<Object>> = BTreeMap::new();
    for at in write_order(found.iter().map(|found| &found.new)) {
        let passage = sources
            .get(tx, entities[at].source, *source)
            .map_err(|error| error_at_index(error, "objects", at))?;
        let made = merge::create_or_merge(tx, writer, &found[at], passage.as_ref());
        objects.insert(at, made.map_err(|error| error_at_index(error, "objects", at))?);
    }
    let refs = resolve_refs(entities, &objects)?;
    let mut joined = Vec::with_capacity(edges.len());
    for (at, edge) in resolve_ends(tx, writer.project.id, entities, edges)?.into_iter().enumerate() {
        let wrong = |error| error_at_index(error, "relationships", at);
        let passage = sources.get(tx, edges[at].source, *source).map_err(wrong)?;
        let new = NewRelationship {
            type_: edge.type_,
            from: resolve_end(&refs, edge.from).map_err(wrong)?,
            to: resolve_end(&refs, edge.to).map_err(wrong)?,
            properties: edge.properties,
            weight: edge.weight,
        };
        joined.push(merge::create_or_merge_relationship(tx, writer, new, passage.as_ref()).map_err(wrong)?);
    }
    Ok(merged_json(objects.values(), &joined, &refs))
}

/// By type and key, so that two calls that write the same entities do not wait for each other.
fn write_order<'a>(new: impl Iterator<Item = &'a NewObject>) -> Vec<usize> {
    let mut order: Vec<(&str, Option<String>, usize)> =
        new.enumerate().map(|(at, new)| (new.type_.as_str(), merge_key(new), at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, _, at)| at).collect()
}

fn resolve_refs(
    entities: &Entities,
    objects: &BTreeMap<usize, MergeOutcome<Object>>,
) -> Result<BTreeMap<String, ObjectId>> {
    let mut refs = BTreeMap::new();
    for (at, entity) in entities.iter().enumerate() {
        let (Some(name), Some(made)) = (&entity.ref_, objects.get(&at)) else { continue };
        if refs.insert(name.clone(), made.item.id).is_some_and(|other| other != made.item.id) {
            let twice = Invalid::new("ref", "is used by an object before this one");
            return Err(error_at_index(twice.into(), "objects", at));
        }
    }
    Ok(refs)
}

fn resolve_end(refs: &BTreeMap<String, ObjectId>, end: EdgeEnd) -> Result<ObjectId> {
    match end {
        EdgeEnd::Id(id) => Ok(id),
        EdgeEnd::Ref(name) => refs.get(&name).copied().ok_or_else(|| {
            Invalid::new("", format!("no object of this request has the ref `{name}`")).into()
        }),
    }
}

/// The same error about one item of a list.
fn error_at_index(error: Error, list: &str, at: usize) -> Error {
    match error {
        Error::Invalid(invalid) => Error::Invalid(invalid.prefixed(&format!("{list}[{at}]"))),
        other => other,
    }
}

fn merged_json<'a>(
    objects: impl Iterator<Item = &'a MergeOutcome<Object>>,
    edges: &[MergeOutcome<Relationship>],
    refs: &BTreeMap<String, ObjectId>,
) -> Value {
    let object = |made: &MergeOutcome<Object>| {
        add_merge_outcome(FieldSelection::only(["key", "status", "version"]).object_json(&made.item), made)
    };
    let edge = |made: &MergeOutcome<Relationship>| {
        add_merge_outcome(
            FieldSelection::only(["type", "fromId", "toId", "version"]).relationship_json(&made.item),
            made,
        )
    };
    json!({
        "objects": objects.map(object).collect::<Vec<_>>(),
        "relationships": edges.iter().map(edge).collect::<Vec<_>>(),
        "refs": refs,
    })
}
