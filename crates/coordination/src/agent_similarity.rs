//! Compares a task with what agents say they do, by the sentence model that is configured for search.
//!
//! The built-in embedder is not used here: it compares words, and the rules do that better (see
//! `docs/adr/0008-agent-selection.md`).

use std::{collections::HashSet, sync::Arc};

use emergent_domain::task::Task;
use emergent_llm::{EmbedTask, Embedder};
use emergent_rules::workflow::{
    question::Question,
    select::{self, AgentCard, AgentSimilarities},
};
use hashlink::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Duration, timeout};
use tracing::warn;

use crate::judge::{AnswerResult, AnswerState, JudgeAnswer, JudgeAnswers, JudgeFailure, QuestionKey};

/// After this time, the rules choose without the model.
const EMBED_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of the vector cache: enough for the sentences of about a hundred agents.
const MAX_VECTORS: usize = 1_000;

/// Only this many agents are compared by the model; the rules compare the others by words.
const MAX_AGENTS: usize = 50;

/// The sentence model with the vectors of the agents' sentences; clones share them. Agents change rarely,
/// so a vector is computed once for each text.
#[derive(Clone)]
pub(crate) struct SentenceModel {
    embedder: Arc<dyn Embedder>,
    sentences: Arc<Mutex<LruCache<String, Arc<[f32]>>>>,
}

impl SentenceModel {
    /// `None` if there is no embedder, or only the built-in one.
    pub fn new(embedder: Option<&Arc<dyn Embedder>>) -> Option<Self> {
        let embedder = embedder.filter(|embedder| !embedder.model().starts_with("builtin/"))?;
        Some(Self {
            embedder: Arc::clone(embedder),
            sentences: Arc::new(Mutex::new(LruCache::new(MAX_VECTORS))),
        })
    }

    /// Compares a task with the sentences of each agent. If the model fails or does not answer in time, the rules
    /// decide without it.
    async fn compare(&self, task: String, agents: Vec<(String, Vec<String>)>) -> AnswerResult {
        let reason = match timeout(EMBED_TIMEOUT, self.try_compare(task, agents)).await {
            Ok(Ok(similarities)) => return Ok(JudgeAnswer::Similarities(similarities)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it gave no answer within {} seconds", EMBED_TIMEOUT.as_secs()),
        };
        warn!(
            model = self.embedder.model(),
            error = reason,
            "could not compare a task with the agents, rules decide"
        );
        Err(JudgeFailure { role: "sentence model", reason })
    }

    async fn try_compare(
        &self,
        task: String,
        agents: Vec<(String, Vec<String>)>,
    ) -> Result<AgentSimilarities, emergent_llm::Error> {
        self.embed_missing(&agents).await?;
        let task_vectors = self.embedder.embed(&[task], EmbedTask::Query).await?;
        let Some(task) = task_vectors.first() else { return Ok(AgentSimilarities::default()) };
        let mut vectors = self.sentences.lock();
        let similarities = agents.into_iter().filter_map(|(agent, sentences)| {
            let similarities =
                sentences.iter().filter_map(|text| vectors.get(text).map(|vector| dot(task, vector)));
            Some((agent, similarities.reduce(f64::max)?))
        });
        Ok(AgentSimilarities::new(similarities))
    }

    async fn embed_missing(&self, agents: &[(String, Vec<String>)]) -> Result<(), emergent_llm::Error> {
        let missing: HashSet<&String> = {
            let mut cached = self.sentences.lock();
            agents.iter().flat_map(|(_, texts)| texts).filter(|text| cached.get(*text).is_none()).collect()
        };
        let missing: Vec<String> = missing.into_iter().cloned().collect();
        for batch in missing.chunks(self.embedder.max_batch().max(1)) {
            let vectors = self.embedder.embed(batch, EmbedTask::Document).await?;
            let mut cached = self.sentences.lock();
            for (text, vector) in batch.iter().zip(vectors) {
                cached.insert(text.clone(), vector.into());
            }
        }
        Ok(())
    }
}

/// Vectors have length one, so this is the cosine.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Asks the sentence model how similar a task is to what each agent says it does.
pub(crate) fn ask_for_similarities(
    model: &SentenceModel,
    answers: &mut JudgeAnswers,
    task: &Task,
    cards: &[AgentCard],
) -> AnswerState {
    let agents: Vec<(String, Vec<String>)> = cards
        .iter()
        .take(MAX_AGENTS)
        .map(|card| (card.name.clone(), select::agent_sentences(card)))
        .collect();
    let text = select::task_text(task);
    // The answer counts as long as neither the task nor an agent changes.
    let question = Question {
        system: model.embedder.model().to_owned(),
        prompt: format!("{text}\n{agents:?}"),
        schema: Value::Null,
    };
    let about = QuestionKey::Similarities(task.id);
    match answers.get(about, &question) {
        AnswerState::NotAsked => {}
        state => return state,
    }
    let model = model.clone();
    answers.ask(about, question, async move { model.compare(text, agents).await });
    AnswerState::Pending
}
