//! Merging: if an entity to write already exists, found by key, name or similarity, it is
//! completed; otherwise it is created.
//!
//! Matches are searched for before the transaction, because embedding is slow. The transaction
//! checks the key first and validates the match again. If two writers create the same entity
//! concurrently, they conflict in the unique index of keys, and the second one merges into the
//! object of the first.

use std::sync::Arc;

use emergent_domain::{
    fusion::RankedHit,
    ids::{ObjectId, ProjectId, RelationshipId},
    indexed_text::indexed_text,
    invalid::Invalid,
    merge::{self, Candidate, MatchedBy, MergeConflict, MergeResult, Replacement, Source},
    object::{NewObject, Object, ObjectPatch},
    query::ObjectFilter,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    text_query::TextQuery,
};
use emergent_llm::EmbedTask;
use emergent_store::{
    Tx,
    objects::{self as rows, LockedObject},
    relationships as edge_rows,
    search::{self, ComparedVectors, HitLimits, SearchTarget},
    sources::SourceOwner,
};
use serde_json::Value;
use tracing::warn;

use crate::{
    Error, Graph, UpsertOutcome, WriteContext,
    error::Result,
    objects, relationships,
    search::NearestTo,
    sources,
    withheld::{
        limits::{Stored, count_merged, count_sent, refusal_of_size},
        may_read,
    },
};

/// How many objects that contain the words of a name are considered. An equal name ranks among the
/// first.
const MAX_NAME_MATCHES: usize = 50;
/// The nearest objects: the best match, and the next ones to compare it with.
const MAX_VECTOR_MATCHES: usize = 3;

/// An object to create or merge, and the existing object that it may be the same as.
#[derive(Debug, Clone)]
pub struct MergeCandidate {
    pub new: NewObject,
    pub matched: Option<(ObjectId, MatchedBy)>,
    /// The properties of `new` whose known values are no longer true.
    pub superseded: Vec<String>,
}

impl MergeCandidate {
    /// An object that is merged only if another one has its key, which [`create_or_merge`] finds out. Whoever may not read
    /// gets no other match: it would tell that a name or a text is stored.
    pub fn matched_by_key(new: NewObject) -> Self {
        Self { new, matched: None, superseded: Vec::new() }
    }
}

/// The result of creating or merging an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeOutcome<T> {
    pub item: T,
    pub written: UpsertOutcome,
    /// The rule that matched the existing entity. `None` for a newly created entity and for
    /// relationships.
    pub by: Option<MatchedBy>,
    /// The values that are no longer true. The versions before still have them.
    pub replaced: Vec<Replacement>,
    /// The offered values that were not taken over.
    pub conflicts: Vec<MergeConflict>,
}

impl Graph {
    /// Finds the existing object that each new one may be the same as. Runs outside of any
    /// transaction.
    pub async fn find_matches(&self, project: ProjectId, new: Vec<NewObject>) -> Result<Vec<MergeCandidate>> {
        let read = move |tx: &mut Tx<'_>| {
            let find = |new: NewObject| {
                let matched = match_by_name(tx, project, &new)?;
                Ok(MergeCandidate { new, matched, superseded: Vec::new() })
            };
            new.into_iter().map(find).collect::<emergent_store::Result<Vec<_>>>()
        };
        let mut candidates = self.db().read(read).await?;
        // Objects without text are not compared by vector, because they would all be similar.
        let (unknown, texts): (Vec<&mut MergeCandidate>, Vec<String>) = candidates
            .iter_mut()
            .filter(|candidate| candidate.matched.is_none())
            .map(|candidate| {
                let text = embedding_text(&candidate.new);
                (candidate, text)
            })
            .filter(|(_, text)| !text.trim().is_empty())
            .unzip();
        let Some((model, vectors)) = self.embed_documents(&texts).await else { return Ok(candidates) };
        for (candidate, vector) in unknown.into_iter().zip(vectors) {
            let filter = ObjectFilter { types: vec![candidate.new.type_.clone()], ..ObjectFilter::default() };
            let nearest = NearestTo {
                model: model.clone(),
                vector,
                compared: ComparedVectors::Beginnings,
                max_hits: MAX_VECTOR_MATCHES,
                // The rules of merging have their own, much higher threshold.
                min_similarity: f64::NEG_INFINITY,
            };
            let near = self.rank_by_vector(project, SearchTarget::Objects(filter), nearest);
            let read = move |tx: &mut Tx<'_>| {
                let near = near(tx)?;
                let nos: Vec<i64> = near.iter().map(|hit| hit.id).collect();
                let mut objects = search::load_objects(tx, project, &nos)?;
                let scored = |hit: &RankedHit<i64>| {
                    Some((objects.remove(&hit.id)?.row, MatchedBy::Similar(hit.score)))
                };
                Ok(near.iter().filter_map(scored).collect::<Vec<_>>())
            };
            let near: Vec<(Object, MatchedBy)> = self.read_for_vectors(read).await?;
            candidate.matched = choose_match(&candidate.new, &near);
        }
        Ok(candidates)
    }

    /// Embeds texts as documents. Returns `None` if there is no embedder or if it fails.
    async fn embed_documents(&self, texts: &[String]) -> Option<(String, Vec<Arc<[f32]>>)> {
        let embedder = self.embedder()?;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(embedder.max_batch().max(1)) {
            match embedder.embed(batch, EmbedTask::Document).await {
                Ok(embedded) => vectors.extend(embedded.into_iter().map(Arc::from)),
                Err(error) => {
                    warn!(model = embedder.model(), error = %error, "could not embed the new objects, \
                          looking for it by key and name alone");
                    return None;
                }
            }
        }
        (!vectors.is_empty()).then(|| (embedder.model().to_owned(), vectors))
    }
}

fn choose_match(new: &NewObject, candidates: &[(Object, MatchedBy)]) -> Option<(ObjectId, MatchedBy)> {
    let candidates: Vec<Candidate<'_>> =
        candidates.iter().map(|(object, by)| Candidate { object, by: *by }).collect();
    merge::choose_match(new, &candidates)
}

/// Finds a match by key or by name. The text index returns the objects that contain the words of
/// the name.
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
    let limits = HitLimits { max: MAX_NAME_MATCHES, enough: 1 };
    let hits =
        search::search_text(tx, project, &SearchTarget::Objects(filter), &TextQuery::parse(&name), limits)?;
    let nos: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
    let candidates: Vec<(Object, MatchedBy)> = search::load_objects(tx, project, &nos)?
        .into_values()
        .map(|loaded| loaded.row)
        .filter(|object| merge::same_name(object, new))
        .map(|object| (object, MatchedBy::Name))
        .collect();
    Ok(choose_match(new, &candidates))
}

/// Returns the text that will be embedded once the object exists.
fn embedding_text(new: &NewObject) -> String {
    let text = indexed_text(&new.type_, merge::merge_key(new).as_deref(), &new.labels, &new.properties);
    if text.name.is_empty() { text.body } else { format!("{}\n{}", text.name, text.body) }
}

/// Merges into the matching object or creates a new one, and records the source.
pub fn create_or_merge(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    candidate: &MergeCandidate,
    source: Option<&Source>,
) -> Result<MergeOutcome<Object>> {
    let new = candidate.new.clone().check()?;
    check_superseded(&new, &candidate.superseded)?;
    let text = OfferedText { new: &new, superseded: &candidate.superseded, source };
    let outcome = match lock_match(tx, ctx, &new, candidate.matched)? {
        Some((existing, by)) => merge_into(tx, ctx, existing.object, by, text)?,
        None => create_new(tx, ctx, text)?,
    };
    if let Some(source) = source {
        // A version can be later than the clock. The source of a version is not known before it.
        let at = ctx.now.max(outcome.item.updated_at);
        sources::add_at(tx, ctx, (SourceOwner::Object, outcome.item.id.0), source, at)?;
    }
    Ok(outcome)
}

/// What a text says about an entity.
#[derive(Clone, Copy)]
struct OfferedText<'a> {
    new: &'a NewObject,
    superseded: &'a [String],
    source: Option<&'a Source>,
}

/// A value can only be superseded by another one.
fn check_superseded(new: &NewObject, superseded: &[String]) -> Result<(), Invalid> {
    for (index, name) in superseded.iter().enumerate() {
        if new.properties.get(name).is_none_or(Value::is_null) {
            let reason = format!("`{name}` has no value in `properties`; give the one that is true now");
            return Err(Invalid::new(format!("supersedes[{index}]"), reason));
        }
    }
    Ok(())
}

/// Locks the matching object: the one with the same key, or the one found before if it still
/// matches.
fn lock_match(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    new: &NewObject,
    matched: Option<(ObjectId, MatchedBy)>,
) -> Result<Option<(LockedObject, MatchedBy)>> {
    let project = ctx.project.id;
    if let Some(key) = merge::merge_key(new)
        && let Some(existing) = rows::lock_by_key(tx, project, &new.type_, &key)?
    {
        ctx.check_key(tx, &format!("{}/{key}", new.type_), existing.object.id)?;
        return Ok(Some((existing, MatchedBy::Key)));
    }
    let Some((id, by)) = matched else { return Ok(None) };
    let Some(existing) = rows::lock(tx, project, id)? else { return Ok(None) };
    let object = &existing.object;
    let still = object.deleted_at.is_none()
        && object.type_ == new.type_
        && match by {
            // The object was found by its key, and no longer has it.
            MatchedBy::Key => false,
            MatchedBy::Name => merge::same_name(object, new),
            MatchedBy::Similar(_) => true,
        };
    Ok(still.then_some((existing, by)))
}

fn create_new(tx: &mut Tx<'_>, ctx: &WriteContext, text: OfferedText<'_>) -> Result<MergeOutcome<Object>> {
    let new = text.new;
    let draft = objects::ObjectDraft::new(NewObject { key: merge::merge_key(new), ..new.clone() })?;
    match objects::create(tx, ctx, &draft) {
        Ok(item) => Ok(MergeOutcome {
            item,
            written: UpsertOutcome::Created,
            by: None,
            replaced: Vec::new(),
            conflicts: Vec::new(),
        }),
        // A concurrent writer created the same object first.
        Err(Error::KeyTaken { type_, key, .. }) => {
            match rows::lock_by_key(tx, ctx.project.id, &type_, &key)? {
                Some(existing) => {
                    ctx.check_key(tx, &format!("{type_}/{key}"), existing.object.id)?;
                    merge_into(tx, ctx, existing.object, MatchedBy::Key, text)
                }
                None => Err(tx.retry_error("the key was released concurrently").into()),
            }
        }
        Err(error) => Err(error),
    }
}

fn merge_into(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    existing: Object,
    by: MatchedBy,
    OfferedText { new, superseded, source }: OfferedText<'_>,
) -> Result<MergeOutcome<Object>> {
    let properties = existing.properties.to_map();
    let stored = Stored { properties: &properties, labels: &existing.labels };
    count_merged(tx, ctx, (existing.id.0, stored), new)?;
    let MergeResult { patch, replaced, conflicts } = merge::merge_object(&existing, new, superseded);
    let Some(patch) = patch else {
        if !may_read(tx, ctx)? {
            // The answer that a change would get.
            let ctx = WriteContext { writes_stored_content: true, ..ctx.clone() };
            objects::update(tx, &ctx, existing.id, &ObjectPatch::default())?;
        }
        return Ok(MergeOutcome {
            item: existing,
            written: UpsertOutcome::Unchanged,
            by: Some(by),
            replaced,
            conflicts,
        });
    };
    let shared = match by {
        MatchedBy::Key => existing.key.as_deref(),
        MatchedBy::Name | MatchedBy::Similar(_) => {
            merge::display_name(&properties).or(existing.key.as_deref())
        }
    };
    let reason = merge::merge_reason(by, shared.unwrap_or_default(), source, &replaced, &conflicts);
    let ctx = WriteContext { reason: Some(reason), writes_stored_content: true, ..ctx.clone() };
    let patch = patch.check_stored().map_err(|error| refusal_of_size(tx, &ctx, error))?;
    let item = objects::update(tx, &ctx, existing.id, &patch)?;
    Ok(MergeOutcome { item, written: UpsertOutcome::Updated, by: Some(by), replaced, conflicts })
}

/// Merges into the edge of the same type and ends or creates a new one, and records the source.
pub fn create_or_merge_relationship(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    new: NewRelationship,
    source: Option<&Source>,
) -> Result<MergeOutcome<Relationship>> {
    let draft = relationships::RelationshipDraft::new(new.clone())?;
    let (existing, created) = relationships::create(tx, ctx, &draft)?;
    let outcome = if created {
        MergeOutcome {
            item: existing,
            written: UpsertOutcome::Created,
            by: None,
            replaced: Vec::new(),
            conflicts: Vec::new(),
        }
    } else {
        merge_into_relationship(tx, ctx, existing, &new, source)?
    };
    if let Some(source) = source {
        let at = ctx.now.max(outcome.item.updated_at);
        sources::add_at(tx, ctx, (SourceOwner::Relationship, outcome.item.id.0), source, at)?;
    }
    Ok(outcome)
}

/// Deletes an edge that a text says to have ended, and records the source. The versions before keep it, so it is still
/// found at an earlier time.
pub fn end_relationship(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: RelationshipId,
    expected_version: Option<i64>,
    source: &Source,
) -> Result<Relationship> {
    let reasoned = WriteContext { reason: Some(merge::ended_reason(source)), ..ctx.clone() };
    let ended = relationships::delete(tx, &reasoned, id, expected_version)?;
    let at = ctx.now.max(ended.updated_at);
    sources::add_at(tx, ctx, (SourceOwner::Relationship, id.0), source, at)?;
    Ok(ended)
}

fn merge_into_relationship(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    existing: Relationship,
    new: &NewRelationship,
    source: Option<&Source>,
) -> Result<MergeOutcome<Relationship>> {
    // The edge was read without a lock, so another writer may have changed it since.
    let Some(existing) = edge_rows::lock(tx, ctx.project.id, existing.id)? else {
        return Err(tx.retry_error("the edge was deleted concurrently").into());
    };
    let stored = Stored { properties: &existing.properties.to_map(), labels: &[] };
    count_sent(tx, ctx, (existing.id.0, stored), Some(&new.properties))?;
    let MergeResult { patch, replaced, conflicts } = merge::merge_relationship(&existing, new);
    let Some(patch) = patch else {
        if !may_read(tx, ctx)? {
            // The answer that a change would get.
            let ctx = WriteContext { writes_stored_content: true, ..ctx.clone() };
            relationships::update(tx, &ctx, existing.id, &RelationshipPatch::default())?;
        }
        return Ok(MergeOutcome {
            item: existing,
            written: UpsertOutcome::Unchanged,
            by: None,
            replaced,
            conflicts,
        });
    };
    let reason = merge::relationship_merge_reason(source, &conflicts);
    let ctx = WriteContext { reason: Some(reason), writes_stored_content: true, ..ctx.clone() };
    let patch = patch.check().map_err(|error| refusal_of_size(tx, &ctx, error))?;
    let item = relationships::update(tx, &ctx, existing.id, &patch)?;
    Ok(MergeOutcome { item, written: UpsertOutcome::Updated, by: None, replaced, conflicts })
}
