//! The question of a search: among which rows it is asked, and what of it is embedded.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use emergent_domain::{
    dates::{self, Period},
    fusion::{Fusion, RankedHit, ScoreFusion, Weights},
    ids::ProjectId,
    invalid::Invalid,
    query::SearchMode,
    question_names,
    text_query::{self, TextQuery},
};
use emergent_llm::EmbedTask;
use emergent_store::{
    Tx,
    search::{self, HitLimits, SearchTarget},
};
use tracing::warn;

use super::{MAX_LIMIT, MAX_QUERY, NearestTo};
use crate::{Graph, error::Result, linked_search};

/// Each channel of a hybrid search finds at most this many more than the limit.
const MAX_SURPLUS: usize = 500;
/// The number of hits without the filter of a linked search, unless the channels are joined by ranks. The best of them
/// are its seeds.
const SEED_HITS: usize = 50;
/// In a linked search, the weight of vectors that only add what the words did not find.
const NEXT_TO_NOTHING: f64 = 1e-6;

/// The request to both search channels.
#[derive(Clone)]
pub(crate) struct SearchRequest {
    pub(crate) project: ProjectId,
    pub(crate) query: String,
    pub(crate) mode: SearchMode,
    pub(crate) weights: Option<Weights>,
    /// The periods that raise hits, see [`raising_periods`].
    pub(crate) periods: Vec<Period>,
    pub(crate) limit: usize,
    /// How many hits are loaded. It is more than `limit` if the caller looks at them before it cuts them off.
    pub(crate) loaded_hits: usize,
    pub(crate) among: SearchTarget,
    /// The same without the filter of the request. A linked search finds its seeds here: the text that names the answer
    /// may be of another type than the answer.
    pub(crate) seeds_among: SearchTarget,
    /// `None` means the value of the embedder.
    pub(crate) min_similarity: Option<f64>,
}

impl SearchRequest {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        check_limit(self.limit)?;
        if self.query.trim().is_empty() {
            return Err(Invalid::new("query", "must not be empty"));
        }
        if self.query.len() > MAX_QUERY {
            return Err(Invalid::new("query", format!("must have at most {MAX_QUERY} bytes")));
        }
        Ok(())
    }

    /// The question without what it excludes.
    pub(crate) fn included_text(&self) -> Cow<'_, str> {
        text_query::included_text(&self.query)
    }

    /// Whether there is nothing to search for beside what the question excludes.
    pub(super) fn only_excludes(&self) -> bool {
        text_query::only_excludes(&self.query)
    }

    /// Whether some rows may lead to others, but not be returned.
    pub(crate) fn has_filter(&self) -> bool {
        self.among != self.seeds_among
    }

    /// Where the seeds are, unless they are among the hits anyway.
    fn other_seeds(&self) -> Option<&SearchTarget> {
        (self.mode == SearchMode::Linked && self.has_filter()).then_some(&self.seeds_among)
    }

    /// How many hits without the filter each channel finds. With weights, the score of a hit is its place in each
    /// channel, so it needs the place that it has without the filter.
    fn seed_hits(&self) -> usize {
        if self.weights.is_some() { self.max_hits() } else { SEED_HITS }
    }

    /// How many hits each channel finds.
    pub(super) fn max_hits(&self) -> usize {
        // A hit that one channel ranks low may be ranked high by the other.
        let both_channels = (self.limit * 5).clamp(50, self.limit + MAX_SURPLUS);
        match self.mode {
            SearchMode::Hybrid | SearchMode::Auto => both_channels,
            SearchMode::Linked => both_channels.max(linked_search::PLAIN_HITS),
            // A date may raise a hit above the limit. These are as many as in a hybrid search, so that the order of a
            // hybrid search whose vectors do not count is that of the text.
            SearchMode::Text if !self.periods.is_empty() => both_channels,
            // A few more than the limit are requested, because some may be deleted concurrently.
            SearchMode::Text | SearchMode::Vector => self.limit + 5,
        }
    }

    /// Ranks by text.
    pub(super) fn rank_by_text(
        &self,
    ) -> impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<Vec<RankedHit<i64>>> + Send + 'static + use<>
    {
        let (project, query) = (self.project, TextQuery::parse(&self.query));
        let (among, seeds) = (self.among.clone(), self.other_seeds().cloned());
        let (max, seed_hits) = (self.max_hits(), self.seed_hits());
        // A linked search compares texts by the words that they have, so it also needs those with some of the words.
        let enough = if self.mode == SearchMode::Linked { max } else { self.limit };
        move |tx| {
            let hits = search::search_text(tx, project, &among, &query, HitLimits { max, enough })?;
            let Some(seeds) = seeds else { return Ok(hits) };
            let limits = HitLimits { max: seed_hits, enough: seed_hits };
            Ok(with_seeds(search::search_text(tx, project, &seeds, &query, limits)?, hits))
        }
    }
}

/// The periods that a question names and that raise hits: none in a search by vectors alone, and none if ranks are joined
/// with weights, with which the caller decides what counts. In the mode `text`, weights have no effect, also on dates.
pub(super) fn raising_periods(query: &str, mode: SearchMode, weights: Option<Weights>) -> Vec<Period> {
    let counts = match mode {
        SearchMode::Text => true,
        SearchMode::Vector => false,
        SearchMode::Hybrid | SearchMode::Linked | SearchMode::Auto => weights.is_none(),
    };
    if counts { dates::periods_in(&text_query::included_text(query)) } else { Vec::new() }
}

pub(super) fn check_limit(limit: usize) -> Result<(), Invalid> {
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(())
    } else {
        Err(Invalid::new("limit", format!("must be 1 to {MAX_LIMIT}")))
    }
}

/// The hits of a channel in the order that they have without a filter: the best of all rows, and then those that match
/// the filter and are not among them.
fn with_seeds(seeds: Vec<RankedHit<i64>>, hits: Vec<RankedHit<i64>>) -> Vec<RankedHit<i64>> {
    let known: HashSet<i64> = seeds.iter().map(|hit| hit.id).collect();
    let others = hits.into_iter().filter(|hit| !known.contains(&hit.id));
    seeds.into_iter().chain(others).collect()
}

impl Graph {
    /// Ranks by the vector of a question. What the question excludes is no hit, as in the text channel. Must be called
    /// within [`Graph::read_for_vectors`].
    pub(super) fn rank_question_by_vector(
        &self,
        question: &SearchRequest,
        nearest: NearestTo,
    ) -> impl FnOnce(&mut Tx<'_>) -> emergent_store::Result<Vec<RankedHit<i64>>> + Send + 'static + use<>
    {
        let query = TextQuery::parse(&question.query);
        let rank = |target: &SearchTarget, nearest: NearestTo| {
            self.rank_by_vector(question.project, target.clone().without_exclusions_of(&query), nearest)
        };
        let seeds = question
            .other_seeds()
            .map(|target| rank(target, NearestTo { max_hits: question.seed_hits(), ..nearest.clone() }));
        let hits = rank(&question.among, nearest);
        move |tx| {
            let hits = hits(tx)?;
            let Some(seeds) = seeds else { return Ok(hits) };
            Ok(with_seeds(seeds(tx)?, hits))
        }
    }

    /// How the channels are joined. In a mode with a single channel, weights have no effect.
    pub(super) fn fusion(&self, question: &SearchRequest, min_similarity: f64) -> Fusion {
        match (question.mode, question.weights) {
            // The scores of ranks are so close together that a date would count more than the words.
            (SearchMode::Text, _) if !question.periods.is_empty() => Fusion::TextFirst,
            (SearchMode::Text | SearchMode::Vector, _) => Fusion::Ranks(Weights::default()),
            (_, Some(weights)) => Fusion::Ranks(weights),
            // A linked search adds up scores, so it needs those of the text as they are.
            (SearchMode::Linked, None) => {
                let weight = self.embedder().and_then(|embedder| embedder.fusion_weight());
                let vector_weight = weight.unwrap_or(NEXT_TO_NOTHING);
                Fusion::Scores(ScoreFusion { vector_weight, floor: min_similarity })
            }
            (SearchMode::Hybrid | SearchMode::Auto, None) => match self
                .embedder()
                .and_then(|embedder| embedder.fusion_weight())
            {
                Some(vector_weight) => Fusion::Scores(ScoreFusion { vector_weight, floor: min_similarity }),
                None => Fusion::TextFirst,
            },
        }
    }

    /// The text of the question that is embedded: without what it excludes, and without names that too many texts have.
    pub(super) async fn embedded_text(&self, question: &SearchRequest) -> Result<String> {
        let included = question.included_text();
        if self.embedder().is_none() {
            return Ok(included.into_owned());
        }
        let common = self.common_names(question).await?;
        Ok(question_names::without(&included, &common))
    }

    /// The words of the question that are names in too many texts.
    pub(super) async fn common_names(&self, question: &SearchRequest) -> Result<Vec<String>> {
        let names = question_names::candidates(&question.included_text());
        if names.is_empty() {
            return Ok(names);
        }
        let (project, among) = (question.project, question.among.clone());
        let read = move |tx: &mut Tx<'_>| {
            let common = search::are_common_names(tx, project, &among, &names)?;
            let names = names.into_iter().zip(common);
            Ok::<_, emergent_store::Error>(
                names.filter(|(_, common)| *common).map(|(name, _)| name).collect(),
            )
        };
        Ok(self.db().read(read).await?)
    }

    pub(super) async fn embed_query(&self, query: &str) -> Option<(String, Arc<[f32]>)> {
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
    pub(super) async fn embed_one(&self, text: &str, task: EmbedTask) -> Option<(String, Arc<[f32]>)> {
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
