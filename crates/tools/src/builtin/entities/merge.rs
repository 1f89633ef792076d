//! `entities_create` for what may be known already, or has a passage that says it: object by
//! object and edge by edge, in one transaction.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    merge::key_of,
    object::{NewObject, Object},
    relationship::{NewRelationship, Relationship},
};
use emergent_graph::{
    End, Error, Result, Writer,
    merge::{self, Found, Outcome},
};
use emergent_store::Tx;
use serde_json::{Value, json};

use super::{
    super::{
        source::{SourceRef, Sources, tell},
        view::Fields,
    },
    create::{Edge, Entities, ends},
};

/// What a call asks for, with what its entities may be the same as.
pub(super) struct Wanted {
    pub found: Vec<Found>,
    pub entities: Entities,
    pub edges: Vec<Edge>,
    pub source: Option<SourceRef>,
}

pub(super) fn write(tx: &mut Tx<'_>, writer: &Writer, wanted: &Wanted) -> Result<Value> {
    let Wanted { found, entities, edges, source } = wanted;
    let mut sources = Sources::new(writer);
    let mut objects: BTreeMap<usize, Outcome<Object>> = BTreeMap::new();
    for at in order(found.iter().map(|found| &found.new)) {
        let passage =
            sources.get(tx, entities[at].source, *source).map_err(|error| placed(error, "objects", at))?;
        let made = merge::create_or_merge(tx, writer, &found[at], passage.as_ref());
        objects.insert(at, made.map_err(|error| placed(error, "objects", at))?);
    }
    let refs = refs(entities, &objects)?;
    let mut joined = Vec::with_capacity(edges.len());
    for (at, edge) in ends(tx, writer.project.id, entities, edges)?.into_iter().enumerate() {
        let wrong = |error| placed(error, "relationships", at);
        let passage = sources.get(tx, edges[at].source, *source).map_err(wrong)?;
        let new = NewRelationship {
            type_: edge.type_,
            from: end(&refs, edge.from).map_err(wrong)?,
            to: end(&refs, edge.to).map_err(wrong)?,
            properties: edge.properties,
            weight: edge.weight,
        };
        joined.push(merge::join(tx, writer, new, passage.as_ref()).map_err(wrong)?);
    }
    Ok(view(objects.values(), &joined, &refs))
}

/// By type and key, so that two calls that write the same entities do not wait for each other.
fn order<'a>(new: impl Iterator<Item = &'a NewObject>) -> Vec<usize> {
    let mut order: Vec<(&str, Option<String>, usize)> =
        new.enumerate().map(|(at, new)| (new.type_.as_str(), key_of(new), at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, _, at)| at).collect()
}

fn refs(
    entities: &Entities,
    objects: &BTreeMap<usize, Outcome<Object>>,
) -> Result<BTreeMap<String, ObjectId>> {
    let mut refs = BTreeMap::new();
    for (at, entity) in entities.iter().enumerate() {
        let (Some(name), Some(made)) = (&entity.ref_, objects.get(&at)) else { continue };
        if refs.insert(name.clone(), made.item.id).is_some_and(|other| other != made.item.id) {
            let twice = Invalid::one("ref", "is used by an object before this one");
            return Err(placed(twice.into(), "objects", at));
        }
    }
    Ok(refs)
}

fn end(refs: &BTreeMap<String, ObjectId>, end: End) -> Result<ObjectId> {
    match end {
        End::Id(id) => Ok(id),
        End::Ref(name) => refs.get(&name).copied().ok_or_else(|| {
            Invalid::one("", format!("no object of this request has the ref `{name}`")).into()
        }),
    }
}

/// The same error about one item of a list.
fn placed(error: Error, list: &str, at: usize) -> Error {
    match error {
        Error::Invalid(invalid) => Error::Invalid(invalid.at(&format!("{list}[{at}]"))),
        other => other,
    }
}

fn view<'a>(
    objects: impl Iterator<Item = &'a Outcome<Object>>,
    edges: &[Outcome<Relationship>],
    refs: &BTreeMap<String, ObjectId>,
) -> Value {
    let object =
        |made: &Outcome<Object>| tell(Fields::these(["key", "status", "version"]).object(&made.item), made);
    let edge = |made: &Outcome<Relationship>| {
        tell(Fields::these(["type", "fromId", "toId", "version"]).relationship(&made.item), made)
    };
    json!({
        "objects": objects.map(object).collect::<Vec<_>>(),
        "relationships": edges.iter().map(edge).collect::<Vec<_>>(),
        "refs": refs,
    })
}
