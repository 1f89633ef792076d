//! Search by text, by vector, or by both.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    document::Chunk,
    fusion::{ChannelRank, FusedHit, Fusion, RankedHit, Weights, fuse},
    ids::{DocumentId, ObjectId, ProjectId},
    mentions,
    object::Object,
    query::{ChannelHit, EmbeddingUse, Hit, ObjectFilter, SearchMode, SearchQuery, SearchResult},
};
use emergent_llm::EmbedTask;
use emergent_store::{
    Engine, Tx,
    embedding_queue::{self, RowKind},
    search::{self, ComparedVectors, SearchTarget, SizedRow, VectorQuery, embeddings, write::SearchIndex},
};

use crate::{
    Graph,
    error::{Error, Result},
    linked_search::{self, Linkable, LinkedHits, Titles},
};

mod dated;
mod floors;
mod question;

use floors::check_min_similarity;
pub(crate) use question::SearchRequest;
use question::{check_limit, raising_periods};

/// The maximum number of hits of a search.
pub const MAX_LIMIT: usize = 1_000;
/// The maximum size of a query in bytes. A longer text is a document rather than a query.
pub const MAX_QUERY: usize = 16 << 10;
/// The maximum size of the hits of a search.
const MAX_BYTES: usize = 8 << 20;
/// The number of hits that are loaded first. It limits the memory that large objects use.
const FIRST_BATCH: usize = 16;

/// The vector that others are compared with, and which of them are hits.
#[derive(Clone)]
pub(crate) struct NearestTo {
    pub(crate) model: String,
    pub(crate) vector: Arc<[f32]>,
    pub(crate) compared: ComparedVectors,
    pub(crate) max_hits: usize,
    /// Hits with a lower cosine are dropped.
    pub(crate) min_similarity: f64,
}

/// Loads rows by number. Deleted rows are missing in the result.
pub(crate) type Load<T> =
    fn(&mut Tx<'_>, ProjectId, &[i64]) -> emergent_store::Result<HashMap<i64, SizedRow<T>>>;

/// The best hits, and whether further ones were left out.
type BestHits<T> = (Vec<Hit<T>>, bool);

impl Graph {
    /// Returns the objects that match a query best. If there is no embedder or it fails, only the
    /// text channel contributes, and the result says so.
    pub async fn search(&self, project: ProjectId, query: SearchQuery) -> Result<SearchResult<Object>> {
        query.filter.check()?;
        check_min_similarity(query.min_similarity)?;
        let include_system = query.include_system;
        let visible =
            |filter: ObjectFilter| if include_system { filter } else { filter.without_system_types() };
        let seeds_among = SearchTarget::Objects(visible(ObjectFilter::default()));
        let periods = raising_periods(&query.query, query.mode, query.weights);
        let question = SearchRequest {
            project,
            query: query.query,
            mode: query.mode,
            weights: query.weights,
            periods,
            limit: query.limit,
            loaded_hits: query.limit,
            among: SearchTarget::Objects(visible(query.filter)),
            seeds_among,
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
            weights: None,
            periods: raising_periods(query, mode, None),
            limit,
            loaded_hits: limit,
            among: SearchTarget::Chunks(document),
            seeds_among: SearchTarget::Chunks(None),
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
        let (compared, max_hits) = (ComparedVectors::Beginnings, limit + 1);
        let nearest = NearestTo { model, vector, compared, max_hits, min_similarity };
        let near = self.rank_by_vector(project, target, nearest);
        let read = move |tx: &mut Tx<'_>| {
            let mut near = near(tx)?;
            near.retain(|hit| hit.id != no);
            let fused = fuse(&[], &near, Fusion::Ranks(Weights::default()));
            load_best(tx, project, &fused.into(), limit, search::load_objects)
        };
        let (hits, truncated) = self.read_for_vectors(read).await?;
        Ok(SearchResult { hits, embedding: Some(EmbeddingUse::Used), truncated })
    }

    /// Runs a search in the mode of the request, or in the one that [`SearchMode::Auto`] stands for.
    async fn run_search<T: Linkable + Send + 'static>(
        &self,
        question: SearchRequest,
        load: Load<T>,
    ) -> Result<SearchResult<T>> {
        if question.mode != SearchMode::Auto {
            return self.run_mode(question, load).await;
        }
        // The hybrid search comes first and is returned as it is, unless the question names one of its hits: links
        // are known to help such questions only.
        let (mut plain, mut named) = self.search_for_names(question.clone(), load).await?;
        // All hits that were requested are there, whatever was left out after them.
        plain.truncated &= plain.hits.len() < question.limit;
        plain.hits.truncate(question.limit);
        if question.weights.is_some() {
            return Ok(plain);
        }
        let included = question.included_text().into_owned();
        let words = mentions::Question::new(&included);
        // The question may name something that the filter leaves out and that leads to what it does not.
        let looks_further = question.has_filter() && words.may_name_something();
        if named.is_empty() && !looks_further {
            return Ok(plain);
        }
        let common = self.common_names(&question).await?;
        let has_name = |names: &[String]| names.iter().any(|name| words.names(name, &common));
        if !has_name(&named) && looks_further {
            let (among, limit) = (question.seeds_among.clone(), linked_search::MAX_NAMED);
            named = self.search_for_names(SearchRequest { among, limit, ..question.clone() }, load).await?.1;
        }
        if !has_name(&named) {
            return Ok(plain);
        }
        self.run_mode(SearchRequest { mode: SearchMode::Linked, ..question }, load).await
    }

    /// Runs a hybrid search. Also returns those names of its best hits that the question has.
    async fn search_for_names<T: Linkable + Send + 'static>(
        &self,
        question: SearchRequest,
        load: Load<T>,
    ) -> Result<(SearchResult<T>, Vec<String>)> {
        let (project, included) = (question.project, question.included_text().into_owned());
        // More hits than requested are loaded, so that a small limit does not hide a name.
        let loaded_hits = question.limit.max(linked_search::MAX_NAMED);
        let hybrid = SearchRequest { mode: SearchMode::Hybrid, loaded_hits, ..question };
        let found = self.run_mode(hybrid, load).await?;
        let documents: Vec<DocumentId> = found.hits.iter().filter_map(|hit| hit.item.named_by()).collect();
        let titles = if documents.is_empty() {
            Titles::default()
        } else {
            self.db().read(move |tx| Titles::load(tx, project, &documents)).await?
        };
        let words = mentions::Question::new(&included);
        let best = found.hits.iter().take(linked_search::MAX_NAMED);
        let names = best.flat_map(|hit| titles.names_of(&hit.item));
        let named = names.filter(|name| words.names(name, &[])).collect();
        Ok((found, named))
    }

    async fn run_mode<T: Linkable + Send + 'static>(
        &self,
        question: SearchRequest,
        load: Load<T>,
    ) -> Result<SearchResult<T>> {
        question.check()?;
        if question.only_excludes() {
            // It finds nothing, in every mode.
            return Ok(SearchResult { hits: Vec::new(), embedding: None, truncated: false });
        }
        // The query is embedded before the database is accessed, so that a slow provider does not
        // occupy a connection.
        let vector = match question.mode {
            SearchMode::Text => None,
            SearchMode::Hybrid | SearchMode::Vector | SearchMode::Linked | SearchMode::Auto => {
                let text = self.embedded_text(&question).await?;
                self.embed_query(&text).await
            }
        };
        let embedding = match (question.mode, &vector) {
            (SearchMode::Text, _) => None,
            (_, Some(_)) => Some(EmbeddingUse::Used),
            (_, None) => Some(EmbeddingUse::Unavailable),
        };
        let min_similarity = question.min_similarity.unwrap_or_else(|| self.min_similarity());
        let fusion = self.fusion(&question, min_similarity);
        let text = (question.mode != SearchMode::Vector).then(|| question.rank_by_text());
        let near = vector.map(|(model, vector)| {
            let (compared, max_hits) = (ComparedVectors::AllParts, question.max_hits());
            let nearest = NearestTo { model, vector, compared, max_hits, min_similarity };
            self.rank_question_by_vector(&question, nearest)
        });
        let finish = move |tx: &mut Tx<'_>, mut fused: Vec<FusedHit<i64>>| {
            let dates = dated::raise(tx, &question, fusion, &mut fused)?;
            let mut ranked = match question.mode {
                SearchMode::Linked => linked_search::rank(tx, &question, fused, load)?,
                _ => fused.into(),
            };
            ranked.dates = dates;
            load_best(tx, question.project, &ranked, question.loaded_hits, load)
        };
        // A single channel ranks and loads in one read, because each read costs a switch to another
        // thread.
        let (hits, truncated) = match (text, near) {
            (Some(text), Some(near)) => {
                let (text, near) = tokio::join!(self.db().read(text), self.read_for_vectors(near));
                let fused = fuse(&text?, &near?, fusion);
                self.db().read(move |tx| finish(tx, fused)).await?
            }
            (Some(text), None) => {
                let read = move |tx: &mut Tx<'_>| {
                    let fused = fuse(&text(tx)?, &[], fusion);
                    finish(tx, fused)
                };
                self.db().read(read).await?
            }
            (None, Some(near)) => {
                let read = move |tx: &mut Tx<'_>| {
                    let fused = fuse(&[], &near(tx)?, fusion);
                    finish(tx, fused)
                };
                self.read_for_vectors(read).await?
            }
            (None, None) => (Vec::new(), false),
        };
        Ok(SearchResult { hits, embedding, truncated })
    }

    /// Ranks by vector, and drops what is not similar: every vector has a nearest one, so a query without
    /// any meaning would find objects otherwise. Must be called within [`Graph::read_for_vectors`].
    pub(crate) fn rank_by_vector(
        &self,
        project: ProjectId,
        among: SearchTarget,
        nearest: NearestTo,
    ) -> impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<Vec<RankedHit<i64>>> + Send + 'static + use<>
    {
        let indexes = Arc::clone(self.db().vectors());
        move |tx| {
            let NearestTo { model, vector, compared, max_hits, min_similarity } = nearest;
            let min_score = min_similarity;
            let query = VectorQuery { model: &model, vector: &vector, limit: max_hits, compared, min_score };
            let mut hits = search::search_vectors(tx, &indexes, project, &among, &query)?;
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
}

/// Loads the best fused hits, up to [`MAX_BYTES`]. Rows that were deleted in the meantime are skipped.
fn load_best<T: Linkable>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ranked: &LinkedHits,
    limit: usize,
    load: Load<T>,
) -> emergent_store::Result<BestHits<T>> {
    let mut hits = Vec::with_capacity(limit);
    let (mut queue, mut bytes, mut max_batch) = (ranked.hits.as_slice(), 0, FIRST_BATCH);
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
            hits.push(into_hit(hit, ranked, item.row));
        }
        if bytes < MAX_BYTES / 8 {
            max_batch = limit;
        }
    }
    Ok((hits, false))
}

fn into_hit<T: Linkable>(fused: &FusedHit<i64>, ranked: &LinkedHits, item: T) -> Hit<T> {
    let channel = |rank: ChannelRank| ChannelHit { rank: rank.rank, score: rank.score };
    let link = ranked.link_of(fused.id, &item);
    Hit {
        item,
        score: fused.score,
        text: fused.text.map(channel),
        vector: fused.vector.map(channel),
        link,
        date: ranked.dates.get(&fused.id).cloned(),
        group: None,
    }
}
