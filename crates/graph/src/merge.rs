//! Writing what may be known already: found again by key, by name or by likeness, it is completed;
//! else it is made.
//!
//! What may be the same is looked for before the transaction, since vectors take their time. In it
//! the key is asked first and the one that was found is looked at again. Two that make the same
//! thing at once meet in the unique index of keys, and the second joins the first.

use std::sync::Arc;

use emergent_domain::{
    fusion::RankedHit,
    ids::{ObjectId, ProjectId},
    indexed_text::indexed_text,
    merge::{self, Candidate, MatchedBy, MergeConflict, MergeResult, Source},
    object::{NewObject, Object},
    query::ObjectFilter,
    relationship::{NewRelationship, Relationship},
    text_query::TextQuery,
};
use emergent_llm::EmbedTask;
use emergent_store::{
    Tx,
    objects::{self as rows, LockedObject},
    relationships as edge_rows,
    search::{self, HitLimits, SearchTarget},
};
use tracing::warn;

use crate::{Error, Graph, UpsertOutcome, WriteContext, error::Result, objects, relationships, sources};

/// As many objects with the words of a name are looked at; an equal name is among the first.
const MAX_NAME_MATCHES: usize = 50;
/// The nearest, and the next to compare it with.
const MAX_VECTOR_MATCHES: usize = 3;

/// An object that is to be there: as it was found in a text, and what it may be the same as.
#[derive(Debug, Clone)]
pub struct MergeCandidate {
    pub new: NewObject,
    pub matched: Option<(ObjectId, MatchedBy)>,
}

/// What became of something found.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeOutcome<T> {
    pub item: T,
    pub written: UpsertOutcome,
    /// By what it was found to be known; `None` of what was made now, and of relationships.
    pub by: Option<MatchedBy>,
    /// What was offered and not taken over.
    pub conflicts: Vec<MergeConflict>,
}

impl Graph {
    /// What each of these may be the same as, outside any transaction.
    pub async fn find_matches(&self, project: ProjectId, new: Vec<NewObject>) -> Result<Vec<MergeCandidate>> {
        let read = move |tx: &mut Tx<'_>| {
            let find =
                |new: NewObject| Ok(MergeCandidate { matched: match_by_name(tx, project, &new)?, new });
            new.into_iter().map(find).collect::<emergent_store::Result<Vec<_>>>()
        };
        let mut found = self.db().read(read).await?;
        // Without a text there is nothing to be alike: all that say nothing would be one.
        let (unknown, texts): (Vec<&mut MergeCandidate>, Vec<String>) = found
            .iter_mut()
            .filter(|one| one.matched.is_none())
            .map(|one| {
                let text = embedding_text(&one.new);
                (one, text)
            })
            .filter(|(_, text)| !text.trim().is_empty())
            .unzip();
        let Some((model, vectors)) = self.embed_documents(&texts).await else { return Ok(found) };
        for (one, vector) in unknown.into_iter().zip(vectors) {
            let filter = ObjectFilter { types: vec![one.new.type_.clone()], ..ObjectFilter::default() };
            let near = self.rank_by_vector(
                project,
                SearchTarget::Objects(filter),
                model.clone(),
                vector,
                MAX_VECTOR_MATCHES,
            );
            let read = move |tx: &mut Tx<'_>| {
                let near = near(tx)?;
                let nos: Vec<i64> = near.iter().map(|hit| hit.id).collect();
                let mut objects = search::load_objects(tx, project, &nos)?;
                let scored =
                    |hit: &RankedHit<i64>| Some((objects.remove(&hit.id)?, MatchedBy::Similar(hit.score)));
                Ok(near.iter().filter_map(scored).collect::<Vec<_>>())
            };
            let near: Vec<(Object, MatchedBy)> = self.read_for_vectors(read).await?;
            one.matched = choose_match(&one.new, &near);
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

fn choose_match(new: &NewObject, found: &[(Object, MatchedBy)]) -> Option<(ObjectId, MatchedBy)> {
    let candidates: Vec<Candidate<'_>> =
        found.iter().map(|(object, by)| Candidate { object, by: *by }).collect();
    merge::choose_match(new, &candidates)
}

/// By key or by name. Objects with the words of the name come from the text index.
fn match_by_name(
    tx: &mut Tx<'_>,
    project: ProjectId,
    new: &NewObject,
) -> emergent_store::Result<Option<(ObjectId, MatchedBy)>> {
    if let Some(key) = merge::merge_key(new)
        && let Some(id) = rows::id_by_key(tx, project, &new.type_, &key)?
    {
        return Ok(Some((id, MatchedBy::Key)));
    }
    let Some(name) = merge::display_name(&new.properties).map(merge::normalized_name) else {
        return Ok(None);
    };
    let filter = ObjectFilter { types: vec![new.type_.clone()], ..ObjectFilter::default() };
    let wanted = HitLimits { max: MAX_NAME_MATCHES, enough: 1 };
    let hits =
        search::search_text(tx, project, &SearchTarget::Objects(filter), &TextQuery::parse(&name), wanted)?;
    let nos: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
    let found: Vec<(Object, MatchedBy)> = search::load_objects(tx, project, &nos)?
        .into_values()
        .filter(|object| merge::same_name(object, new))
        .map(|object| (object, MatchedBy::Name))
        .collect();
    Ok(choose_match(new, &found))
}

/// The text a vector is made of, once the object is there.
fn embedding_text(new: &NewObject) -> String {
    let text = indexed_text(&new.type_, merge::merge_key(new).as_deref(), &new.labels, &new.properties);
    if text.name.is_empty() { text.body } else { format!("{}\n{}", text.name, text.body) }
}

/// Completes the object that is the same, or makes it; notes where it was found.
pub fn create_or_merge(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    found: &MergeCandidate,
    source: Option<&Source>,
) -> Result<MergeOutcome<Object>> {
    let new = found.new.clone().check()?;
    let outcome = match lock_match(tx, writer, &new, found.matched)? {
        Some((there, by)) => merge_into(tx, writer, there.object, by, &new, source)?,
        None => create_new(tx, writer, &new, source)?,
    };
    if let Some(source) = source {
        sources::add_to_object(tx, writer, outcome.item.id, source)?;
    }
    Ok(outcome)
}

/// The object that is the same, held: by key, or the one that was found if it still is.
fn lock_match(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    new: &NewObject,
    found: Option<(ObjectId, MatchedBy)>,
) -> Result<Option<(LockedObject, MatchedBy)>> {
    let project = writer.project.id;
    if let Some(key) = merge::merge_key(new)
        && let Some(there) = rows::lock_by_key(tx, project, &new.type_, &key)?
    {
        return Ok(Some((there, MatchedBy::Key)));
    }
    let Some((id, by)) = found else { return Ok(None) };
    let Some(there) = rows::lock(tx, project, id)? else { return Ok(None) };
    let object = &there.object;
    let still = object.deleted_at.is_none()
        && object.type_ == new.type_
        && match by {
            // It was found by its key and has it no more.
            MatchedBy::Key => false,
            MatchedBy::Name => merge::same_name(object, new),
            MatchedBy::Similar(_) => true,
        };
    Ok(still.then_some((there, by)))
}

fn create_new(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    new: &NewObject,
    source: Option<&Source>,
) -> Result<MergeOutcome<Object>> {
    let draft = objects::ObjectDraft::new(NewObject { key: merge::merge_key(new), ..new.clone() })?;
    match objects::create(tx, writer, &draft) {
        Ok(item) => {
            Ok(MergeOutcome { item, written: UpsertOutcome::Created, by: None, conflicts: Vec::new() })
        }
        // Someone else found it at the same time and was first.
        Err(Error::KeyTaken { type_, key, .. }) => {
            match rows::lock_by_key(tx, writer.project.id, &type_, &key)? {
                Some(there) => merge_into(tx, writer, there.object, MatchedBy::Key, new, source),
                None => Err(tx.retry_error("the key was given up meanwhile").into()),
            }
        }
        Err(error) => Err(error),
    }
}

fn merge_into(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    there: Object,
    by: MatchedBy,
    new: &NewObject,
    source: Option<&Source>,
) -> Result<MergeOutcome<Object>> {
    let MergeResult { patch, conflicts: kept } = merge::merge_object(&there, new);
    let Some(patch) = patch else {
        return Ok(MergeOutcome {
            item: there,
            written: UpsertOutcome::Unchanged,
            by: Some(by),
            conflicts: kept,
        });
    };
    let properties = there.properties.to_map();
    let shared = match by {
        MatchedBy::Key => there.key.as_deref(),
        MatchedBy::Name | MatchedBy::Similar(_) => merge::display_name(&properties).or(there.key.as_deref()),
    };
    let reason = merge::merge_reason(by, shared.unwrap_or_default(), source, &kept);
    let writer = WriteContext { reason: Some(reason), ..writer.clone() };
    let item = objects::update(tx, &writer, there.id, &patch.check()?)?;
    Ok(MergeOutcome { item, written: UpsertOutcome::Updated, by: Some(by), conflicts: kept })
}

/// Completes the edge of the same type and ends, or makes it; notes where it was found.
pub fn create_or_merge_relationship(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    new: NewRelationship,
    source: Option<&Source>,
) -> Result<MergeOutcome<Relationship>> {
    let draft = relationships::RelationshipDraft::new(new.clone())?;
    let (there, created) = relationships::create(tx, writer, &draft)?;
    let outcome = if created {
        MergeOutcome { item: there, written: UpsertOutcome::Created, by: None, conflicts: Vec::new() }
    } else {
        merge_into_relationship(tx, writer, there, &new, source)?
    };
    if let Some(source) = source {
        sources::add_to_relationship(tx, writer, outcome.item.id, source)?;
    }
    Ok(outcome)
}

fn merge_into_relationship(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    there: Relationship,
    new: &NewRelationship,
    source: Option<&Source>,
) -> Result<MergeOutcome<Relationship>> {
    // It was seen, not held: another may have completed it since.
    let Some(there) = edge_rows::lock(tx, writer.project.id, there.id)? else {
        return Err(tx.retry_error("the edge was deleted meanwhile").into());
    };
    let MergeResult { patch, conflicts: kept } = merge::merge_relationship(&there, new);
    let Some(patch) = patch else {
        return Ok(MergeOutcome {
            item: there,
            written: UpsertOutcome::Unchanged,
            by: None,
            conflicts: kept,
        });
    };
    let writer =
        WriteContext { reason: Some(merge::relationship_merge_reason(source, &kept)), ..writer.clone() };
    let item = relationships::update(tx, &writer, there.id, &patch.check()?)?;
    Ok(MergeOutcome { item, written: UpsertOutcome::Updated, by: None, conflicts: kept })
}
