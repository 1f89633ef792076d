//! Search by text, by vector, or by both.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    document::Chunk,
    fusion::{ChannelRank, FusedHit, RankedHit, Weights, fuse},
    ids::{DocumentId, ObjectId, ProjectId},
    invalid::Invalid,
    object::Object,
    query::{ChannelHit, EmbeddingUse, Hit, ObjectFilter, SearchMode, SearchQuery, SearchResult},
    text_query::TextQuery,
};
use emergent_llm::{DEFAULT_PASSAGE_PART, EmbedTask};
use emergent_store::{
    Engine, Tx,
    embedding_queue::{self, RowKind},
    search::{self, HitLimits, SearchTarget, SizedRow, VectorQuery, embeddings, write::SearchIndex},
};
use tracing::warn;

use crate::{
    Graph,
    error::{Error, Result},
};

/// The maximum number of hits of a search.
pub const MAX_LIMIT: usize = 100;
/// The maximum size of a query in bytes. A longer text is a document rather than a query.
pub const MAX_QUERY: usize = 16 << 10;
/// The maximum size of the hits of a search.
const MAX_BYTES: usize = 8 << 20;
/// The number of hits that are loaded first. It limits the memory that large objects use.
const FIRST_BATCH: usize = 16;

/// The request to both search channels.
#[derive(Clone)]
struct SearchRequest {
    project: ProjectId,
    query: String,
    mode: SearchMode,
    weights: Weights,
    limit: usize,
    among: SearchTarget,
    /// `None` means the value of the embedder.
    min_similarity: Option<f64>,
}

/// Loads rows by number. Deleted rows are missing in the result.
type Load<T> = fn(&mut Tx<'_>, ProjectId, &[i64]) -> emergent_store::Result<HashMap<i64, SizedRow<T>>>;

/// The best hits, and whether further ones were left out.
type BestHits<T> = (Vec<Hit<T>>, bool);

impl Graph {
    /// Returns the objects that match a query best. If there is no embedder or it fails, only the
    /// text channel contributes, and the result says so.
    pub async fn search(&self, project: ProjectId, query: SearchQuery) -> Result<SearchResult<Object>> {
        query.filter.check()?;
        check_min_similarity(query.min_similarity)?;
        let filter = if query.include_system { query.filter } else { query.filter.without_system_types() };
        let question = SearchRequest {
            project,
            query: query.query,
            mode: query.mode,
            weights: query.weights,
            limit: query.limit,
            among: SearchTarget::Objects(filter),
            min_similarity: query.min_similarity,
        };
        self.run_search(question, search::load_objects).await
    }

    /// Returns the chunks that match a query best, of one document or of all. Without `min_similarity`, the floor
    /// for passages applies.
    pub async fn search_chunks(
        &self,
        project: ProjectId,
        query: &str,
        mode: SearchMode,
        limit: usize,
        document: Option<DocumentId>,
        min_similarity: Option<f64>,
    ) -> Result<SearchResult<Chunk>> {
        check_min_similarity(min_similarity)?;
        let question = SearchRequest {
            project,
            query: query.to_owned(),
            mode,
            weights: Weights::default(),
            limit,
            among: SearchTarget::Chunks(document),
            min_similarity: Some(min_similarity.unwrap_or_else(|| self.min_passage_similarity())),
        };
        self.run_search(question, search::load_chunks).await
    }

    /// Returns the objects whose vectors are nearest to that of an object, without the object
    /// itself and without objects that are not similar. The [`emergent_domain::query::SYSTEM_TYPES`] are
    /// left out unless the filter names them. An object that is still queued for embedding is embedded now.
    pub async fn similar(
        &self,
        project: ProjectId,
        id: ObjectId,
        filter: ObjectFilter,
        limit: usize,
        min_similarity: Option<f64>,
    ) -> Result<SearchResult<Object>> {
        filter.check()?;
        check_limit(limit)?;
        check_min_similarity(min_similarity)?;
        let min_similarity = min_similarity.unwrap_or_else(|| self.min_similarity());
        let read = move |tx: &mut Tx<'_>| {
            let no = search::object_no(tx, project, id)?.ok_or_else(|| Error::not_found("object", id))?;
            let vector = embeddings::get(tx, SearchIndex::Objects, no)?;
            let text = embedding_queue::load_texts(tx, RowKind::Object, &[no])?.pop().map(|(_, text)| text);
            Ok::<_, Error>((no, vector, text.unwrap_or_default()))
        };
        let (no, vector, text) = self.db().read(read).await?;
        let vector = match vector {
            Some((model, vector)) => Some((model, vector.into())),
            None => self.embed_one(&text, EmbedTask::Document).await,
        };
        let Some((model, vector)) = vector else {
            let (hits, embedding) = (Vec::new(), Some(EmbeddingUse::Unavailable));
            return Ok(SearchResult { hits, embedding, truncated: false });
        };
        let target = SearchTarget::Objects(filter.without_system_types());
        let near = self.rank_by_vector(project, target, model, vector, limit + 1, min_similarity);
        let read = move |tx: &mut Tx<'_>| {
            let mut near = near(tx)?;
            near.retain(|hit| hit.id != no);
            let fused = fuse(&[], &near, Weights::default());
            load_best(tx, project, &fused, limit, search::load_objects)
        };
        let (hits, truncated) = self.read_for_vectors(read).await?;
        Ok(SearchResult { hits, embedding: Some(EmbeddingUse::Used), truncated })
    }

    async fn run_search<T: Send + 'static>(
        &self,
        question: SearchRequest,
        load: Load<T>,
    ) -> Result<SearchResult<T>> {
        check_limit(question.limit)?;
        if question.query.trim().is_empty() {
            return Err(Invalid::new("query", "must not be empty").into());
        }
        if question.query.len() > MAX_QUERY {
            return Err(Invalid::new("query", format!("must have at most {MAX_QUERY} bytes")).into());
        }
        // The query is embedded before the database is accessed, so that a slow provider does not
        // occupy a connection.
        let vector = match question.mode {
            SearchMode::Text => None,
            SearchMode::Hybrid | SearchMode::Vector => self.embed_query(&question.query).await,
        };
        let embedding = match (question.mode, &vector) {
            (SearchMode::Text, _) => None,
            (SearchMode::Hybrid | SearchMode::Vector, Some(_)) => Some(EmbeddingUse::Used),
            (SearchMode::Hybrid | SearchMode::Vector, None) => Some(EmbeddingUse::Unavailable),
        };
        let max_hits = match question.mode {
            // A hit that one channel ranks low may be ranked high by the other.
            SearchMode::Hybrid => (question.limit * 5).max(50),
            // A few more than the limit are requested, because some may be deleted concurrently.
            SearchMode::Text | SearchMode::Vector => question.limit + 5,
        };
        let weights = question.mode_weights();
        let min_similarity = question.min_similarity.unwrap_or_else(|| self.min_similarity());
        let SearchRequest { project, mode, limit, among, .. } = question;
        let text = (mode != SearchMode::Vector)
            .then(|| rank_by_text(&question.query, &among, project, max_hits, limit));
        let near = vector.map(|(model, vector)| {
            self.rank_by_vector(project, among.clone(), model, vector, max_hits, min_similarity)
        });
        // A single channel ranks and loads in one read, because each read costs a switch to another
        // thread.
        let (hits, truncated) = match (text, near) {
            (Some(text), Some(near)) => {
                let (text, near) = tokio::join!(self.db().read(text), self.read_for_vectors(near));
                let fused = fuse(&text?, &near?, weights);
                self.db().read(move |tx| load_best(tx, project, &fused, limit, load)).await?
            }
            (Some(text), None) => {
                let read = move |tx: &mut Tx<'_>| {
                    let fused = fuse(&text(tx)?, &[], weights);
                    load_best(tx, project, &fused, limit, load)
                };
                self.db().read(read).await?
            }
            (None, Some(near)) => {
                let read = move |tx: &mut Tx<'_>| {
                    let fused = fuse(&[], &near(tx)?, weights);
                    load_best(tx, project, &fused, limit, load)
                };
                self.read_for_vectors(read).await?
            }
            (None, None) => (Vec::new(), false),
        };
        Ok(SearchResult { hits, embedding, truncated })
    }

    /// The cosine below which a hit of the vector channel is dropped: the configured one, or that of the
    /// embedder.
    pub fn min_similarity(&self) -> f64 {
        let of_embedder = || self.embedder().map_or(0.0, |embedder| embedder.min_similarity());
        self.0.min_similarity.get().copied().unwrap_or_else(of_embedder)
    }

    /// Replaces the value of the embedder. It can be set once, before the first search.
    pub fn set_min_similarity(&self, min: f64) {
        let _ = self.0.min_similarity.set(min);
    }

    /// Like [`Graph::min_similarity`], for passages of documents. If only the floor of objects is configured, that of
    /// passages is in the same proportion as it is for embedders that were not measured.
    pub fn min_passage_similarity(&self) -> f64 {
        if let Some(min) = self.0.min_passage_similarity.get() {
            return *min;
        }
        match (self.0.min_similarity.get(), self.embedder()) {
            (Some(min), _) => min * DEFAULT_PASSAGE_PART,
            (None, Some(embedder)) => embedder.min_passage_similarity(),
            (None, None) => 0.0,
        }
    }

    /// Replaces the floor for passages. It can be set once, before the first search.
    pub fn set_min_passage_similarity(&self, min: f64) {
        let _ = self.0.min_passage_similarity.set(min);
    }

    /// Ranks by vector, and drops what is not similar: every vector has a nearest one, so a query without
    /// any meaning would find objects otherwise. Must be called within [`Graph::read_for_vectors`].
    pub(crate) fn rank_by_vector(
        &self,
        project: ProjectId,
        among: SearchTarget,
        model: String,
        vector: Arc<[f32]>,
        max_hits: usize,
        min_similarity: f64,
    ) -> impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<Vec<RankedHit<i64>>> + Send + 'static {
        let indexes = Arc::clone(self.db().vectors());
        move |tx| {
            let nearest = VectorQuery { model: &model, vector: &vector, limit: max_hits };
            let mut hits = search::search_vectors(tx, &indexes, project, &among, &nearest)?;
            hits.retain(|hit| hit.score >= min_similarity);
            Ok(hits)
        }
    }

    /// Opens the kind of read transaction that a vector search needs on each engine.
    pub(crate) async fn read_for_vectors<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<T> + Send + 'static,
    ) -> emergent_store::Result<T> {
        match self.db().engine() {
            Engine::Sqlite => self.db().read(work).await,
            Engine::Postgres => self.db().snapshot(work).await,
        }
    }

    async fn embed_query(&self, query: &str) -> Option<(String, Arc<[f32]>)> {
        let model = self.embedder()?.model().to_owned();
        if let Some(vector) = self.0.queries.lock().get(query).cloned() {
            return Some((model, vector));
        }
        let (model, vector) = self.embed_one(query, EmbedTask::Query).await?;
        self.0.queries.lock().insert(query.to_owned(), Arc::clone(&vector));
        Some((model, vector))
    }

    /// Embeds a text. Returns the model and the vector, or `None` if there is no embedder or it
    /// fails.
    async fn embed_one(&self, text: &str, task: EmbedTask) -> Option<(String, Arc<[f32]>)> {
        let embedder = self.embedder()?;
        match embedder.embed(&[text.to_owned()], task).await {
            Ok(mut vectors) => vectors.pop().map(|vector| (embedder.model().to_owned(), vector.into())),
            Err(error) => {
                warn!(model = embedder.model(), error = %error, "could not embed a query, searching by text alone");
                None
            }
        }
    }
}

impl SearchRequest {
    /// In a mode with a single channel, the weights have no effect.
    fn mode_weights(&self) -> Weights {
        match self.mode {
            SearchMode::Hybrid => self.weights,
            SearchMode::Text | SearchMode::Vector => Weights::default(),
        }
    }
}

fn check_min_similarity(min: Option<f64>) -> Result<(), Invalid> {
    match min {
        Some(min) if !(-1.0..=1.0).contains(&min) => Err(Invalid::new("minSimilarity", "must be -1 to 1")),
        _ => Ok(()),
    }
}

fn check_limit(limit: usize) -> Result<(), Invalid> {
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(())
    } else {
        Err(Invalid::new("limit", format!("must be 1 to {MAX_LIMIT}")))
    }
}

/// Ranks by text.
fn rank_by_text(
    query: &str,
    among: &SearchTarget,
    project: ProjectId,
    max_hits: usize,
    enough: usize,
) -> impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<Vec<RankedHit<i64>>> + Send + 'static {
    let (query, among) = (TextQuery::parse(query), among.clone());
    move |tx| search::search_text(tx, project, &among, &query, HitLimits { max: max_hits, enough })
}

/// Loads the best fused hits, up to [`MAX_BYTES`]. Rows that were deleted in the meantime are skipped.
fn load_best<T>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    fused: &[FusedHit<i64>],
    limit: usize,
    load: Load<T>,
) -> emergent_store::Result<BestHits<T>> {
    let mut hits = Vec::with_capacity(limit);
    let (mut queue, mut bytes, mut max_batch) = (fused, 0, FIRST_BATCH);
    while !queue.is_empty() && hits.len() < limit {
        let (batch, remaining) = queue.split_at(queue.len().min(limit - hits.len()).min(max_batch));
        queue = remaining;
        let nos: Vec<i64> = batch.iter().map(|hit| hit.id).collect();
        let mut items = load(tx, project, &nos)?;
        for hit in batch {
            let Some(item) = items.remove(&hit.id) else { continue };
            bytes += item.bytes;
            if bytes > MAX_BYTES && !hits.is_empty() {
                return Ok((hits, true));
            }
            hits.push(into_hit(hit, item.row));
        }
        if bytes < MAX_BYTES / 8 {
            max_batch = limit;
        }
    }
    Ok((hits, false))
}

fn into_hit<T>(fused: &FusedHit<i64>, item: T) -> Hit<T> {
    let channel = |rank: ChannelRank| ChannelHit { rank: rank.rank, score: rank.score };
    Hit { item, score: fused.score, text: fused.text.map(channel), vector: fused.vector.map(channel) }
}
