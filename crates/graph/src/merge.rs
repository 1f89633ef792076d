//! Writing what may be known already: found again by key, by name or by likeness, it is completed;
//! else it is made.
//!
//! What may be the same is looked for before the transaction, since vectors take their time. In it
//! the key is asked first and the one that was found is looked at again. Two that make the same
//! thing at once meet in the unique index of keys, and the second joins the first.

use std::sync::Arc;

use emergent_domain::{
    fusion::Ranked,
    ids::{ObjectId, ProjectId},
    merge::{self, By, Candidate, Conflict, Merged, Source},
    object::{NewObject, Object},
    query::ObjectFilter,
    relationship::{NewRelationship, Relationship},
    text_query::TextQuery,
    words::indexed_text,
};
use emergent_llm::EmbedTask;
use emergent_store::{
    Tx,
    objects::{self as rows, Locked},
    relationships as edge_rows,
    search::{self, Among, Wanted},
};
use tracing::warn;

use crate::{Error, Graph, Writer, Written, error::Result, objects, relationships, sources};

/// As many objects with the words of a name are looked at; an equal name is among the first.
const NAMED: usize = 50;
/// The nearest, and the next to compare it with.
const NEAREST: usize = 3;

/// An object that is to be there: as it was found in a text, and what it may be the same as.
#[derive(Debug, Clone)]
pub struct Found {
    pub new: NewObject,
    pub same: Option<(ObjectId, By)>,
}

/// What became of something found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<T> {
    pub item: T,
    pub written: Written,
    /// By what it was found to be known; `None` of what was made now, and of relationships.
    pub by: Option<By>,
    /// What was offered and not taken over.
    pub kept: Vec<Conflict>,
}

impl Graph {
    /// What each of these may be the same as, outside any transaction.
    pub async fn find_same(&self, project: ProjectId, new: Vec<NewObject>) -> Result<Vec<Found>> {
        let read = move |tx: &mut Tx<'_>| {
            let find = |new: NewObject| Ok(Found { same: by_name(tx, project, &new)?, new });
            new.into_iter().map(find).collect::<emergent_store::Result<Vec<_>>>()
        };
        let mut found = self.db().read(read).await?;
        // Without a text there is nothing to be alike: all that say nothing would be one.
        let (unknown, texts): (Vec<&mut Found>, Vec<String>) = found
            .iter_mut()
            .filter(|one| one.same.is_none())
            .map(|one| {
                let text = text(&one.new);
                (one, text)
            })
            .filter(|(_, text)| !text.trim().is_empty())
            .unzip();
        let Some((model, vectors)) = self.embed_documents(&texts).await else { return Ok(found) };
        for (one, vector) in unknown.into_iter().zip(vectors) {
            let filter = ObjectFilter { types: vec![one.new.type_.clone()], ..ObjectFilter::default() };
            let near = self.near(project, Among::Objects(filter), model.clone(), vector, NEAREST);
            let read = move |tx: &mut Tx<'_>| {
                let near = near(tx)?;
                let nos: Vec<i64> = near.iter().map(|hit| hit.id).collect();
                let mut objects = search::load_objects(tx, project, &nos)?;
                let scored = |hit: &Ranked<i64>| Some((objects.remove(&hit.id)?, By::Similar(hit.score)));
                Ok(near.iter().filter_map(scored).collect::<Vec<_>>())
            };
            let near: Vec<(Object, By)> = self.read_near(read).await?;
            one.same = choose(&one.new, &near);
        }
        Ok(found)
    }

    /// Vectors as objects have them; `None` when there is no embedder or it cannot answer.
    async fn embed_documents(&self, texts: &[String]) -> Option<(String, Vec<Arc<[f32]>>)> {
        let embedder = self.embedder()?;
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(embedder.max_batch().max(1)) {
            match embedder.embed(some, EmbedTask::Document).await {
                Ok(made) => vectors.extend(made.into_iter().map(Arc::from)),
                Err(error) => {
                    warn!(model = embedder.model(), error = %error, "could not embed what was found, \
                          looking for it by key and name alone");
                    return None;
                }
            }
        }
        (!vectors.is_empty()).then(|| (embedder.model().to_owned(), vectors))
    }
}

fn choose(new: &NewObject, found: &[(Object, By)]) -> Option<(ObjectId, By)> {
    let candidates: Vec<Candidate<'_>> =
        found.iter().map(|(object, by)| Candidate { object, by: *by }).collect();
    merge::choose(new, &candidates)
}

/// By key or by name. Objects with the words of the name come from the text index.
fn by_name(
    tx: &mut Tx<'_>,
    project: ProjectId,
    new: &NewObject,
) -> emergent_store::Result<Option<(ObjectId, By)>> {
    if let Some(key) = merge::key_of(new)
        && let Some(id) = rows::key_holder(tx, project, &new.type_, &key)?
    {
        return Ok(Some((id, By::Key)));
    }
    let Some(name) = merge::name_of(&new.properties).map(merge::normal_name) else { return Ok(None) };
    let filter = ObjectFilter { types: vec![new.type_.clone()], ..ObjectFilter::default() };
    let wanted = Wanted { most: NAMED, enough: 1 };
    let hits = search::text(tx, project, &Among::Objects(filter), &TextQuery::parse(&name), wanted)?;
    let nos: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
    let found: Vec<(Object, By)> = search::load_objects(tx, project, &nos)?
        .into_values()
        .filter(|object| merge::same_name(object, new))
        .map(|object| (object, By::Name))
        .collect();
    Ok(choose(new, &found))
}

/// The text a vector is made of, once the object is there.
fn text(new: &NewObject) -> String {
    let text = indexed_text(&new.type_, merge::key_of(new).as_deref(), &new.labels, &new.properties);
    if text.name.is_empty() { text.body } else { format!("{}\n{}", text.name, text.body) }
}

/// Completes the object that is the same, or makes it; notes where it was found.
pub fn create_or_merge(
    tx: &mut Tx<'_>,
    writer: &Writer,
    found: &Found,
    source: Option<&Source>,
) -> Result<Outcome<Object>> {
    let new = found.new.clone().check()?;
    let outcome = match same(tx, writer, &new, found.same)? {
        Some((there, by)) => complete(tx, writer, there.object, by, &new, source)?,
        None => make(tx, writer, &new, source)?,
    };
    if let Some(source) = source {
        sources::add_to_object(tx, writer, outcome.item.id, source)?;
    }
    Ok(outcome)
}

/// The object that is the same, held: by key, or the one that was found if it still is.
fn same(
    tx: &mut Tx<'_>,
    writer: &Writer,
    new: &NewObject,
    found: Option<(ObjectId, By)>,
) -> Result<Option<(Locked, By)>> {
    let project = writer.project.id;
    if let Some(key) = merge::key_of(new)
        && let Some(there) = rows::lock_by_key(tx, project, &new.type_, &key)?
    {
        return Ok(Some((there, By::Key)));
    }
    let Some((id, by)) = found else { return Ok(None) };
    let Some(there) = rows::lock(tx, project, id)? else { return Ok(None) };
    let object = &there.object;
    let still = object.deleted_at.is_none()
        && object.type_ == new.type_
        && match by {
            // It was found by its key and has it no more.
            By::Key => false,
            By::Name => merge::same_name(object, new),
            By::Similar(_) => true,
        };
    Ok(still.then_some((there, by)))
}

fn make(
    tx: &mut Tx<'_>,
    writer: &Writer,
    new: &NewObject,
    source: Option<&Source>,
) -> Result<Outcome<Object>> {
    let draft = objects::Draft::new(NewObject { key: merge::key_of(new), ..new.clone() })?;
    match objects::create(tx, writer, &draft) {
        Ok(item) => Ok(Outcome { item, written: Written::Created, by: None, kept: Vec::new() }),
        // Someone else found it at the same time and was first.
        Err(Error::KeyTaken { type_, key, .. }) => {
            match rows::lock_by_key(tx, writer.project.id, &type_, &key)? {
                Some(there) => complete(tx, writer, there.object, By::Key, new, source),
                None => Err(tx.again("the key was given up meanwhile").into()),
            }
        }
        Err(error) => Err(error),
    }
}

fn complete(
    tx: &mut Tx<'_>,
    writer: &Writer,
    there: Object,
    by: By,
    new: &NewObject,
    source: Option<&Source>,
) -> Result<Outcome<Object>> {
    let Merged { patch, kept } = merge::merged(&there, new);
    let Some(patch) = patch else {
        return Ok(Outcome { item: there, written: Written::Unchanged, by: Some(by), kept });
    };
    let properties = there.properties.to_map();
    let shared = match by {
        By::Key => there.key.as_deref(),
        By::Name | By::Similar(_) => merge::name_of(&properties).or(there.key.as_deref()),
    };
    let reason = merge::reason(by, shared.unwrap_or_default(), source, &kept);
    let writer = Writer { reason: Some(reason), ..writer.clone() };
    let item = objects::update(tx, &writer, there.id, &patch.check()?)?;
    Ok(Outcome { item, written: Written::Updated, by: Some(by), kept })
}

/// Completes the edge of the same type and ends, or makes it; notes where it was found.
pub fn join(
    tx: &mut Tx<'_>,
    writer: &Writer,
    new: NewRelationship,
    source: Option<&Source>,
) -> Result<Outcome<Relationship>> {
    let draft = relationships::Draft::new(new.clone())?;
    let (there, created) = relationships::create(tx, writer, &draft)?;
    let outcome = if created {
        Outcome { item: there, written: Written::Created, by: None, kept: Vec::new() }
    } else {
        complete_edge(tx, writer, there, &new, source)?
    };
    if let Some(source) = source {
        sources::add_to_relationship(tx, writer, outcome.item.id, source)?;
    }
    Ok(outcome)
}

fn complete_edge(
    tx: &mut Tx<'_>,
    writer: &Writer,
    there: Relationship,
    new: &NewRelationship,
    source: Option<&Source>,
) -> Result<Outcome<Relationship>> {
    // It was seen, not held: another may have completed it since.
    let Some(there) = edge_rows::lock(tx, writer.project.id, there.id)? else {
        return Err(tx.again("the edge was deleted meanwhile").into());
    };
    let Merged { patch, kept } = merge::merged_edge(&there, new);
    let Some(patch) = patch else {
        return Ok(Outcome { item: there, written: Written::Unchanged, by: None, kept });
    };
    let writer = Writer { reason: Some(merge::edge_reason(source, &kept)), ..writer.clone() };
    let item = relationships::update(tx, &writer, there.id, &patch.check()?)?;
    Ok(Outcome { item, written: Written::Updated, by: None, kept })
}
