//! Which texts a sentence model compares, and how much its similarities count.

use std::collections::BTreeMap;

use emergent_domain::task::Task;

use super::{AgentCard, handles};
use crate::workflow::question::truncate;

/// Sentence models mostly tell agents apart by 0.1 to 0.2, which is then about one word of a title. Figures
/// from 8 to 16 give nearly the same choices.
const WEIGHT: f64 = 12.0;
/// Less than this is not worth a reason.
const MIN_NAMED_SCORE: f64 = 0.1;

/// Small models read about 256 tokens and ignore the rest.
const MAX_TASK_CHARS: usize = 1_000;
const MAX_SENTENCE_CHARS: usize = 500;
const MAX_SENTENCES: usize = 20;

/// The similarity of each agent with a task, from -1 to 1, by the name of the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSimilarities(BTreeMap<String, f64>);

impl AgentSimilarities {
    pub fn new(similarities: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self(similarities.into_iter().filter(|(_, similarity)| similarity.is_finite()).collect())
    }

    /// Only the difference to the mean counts: models differ in how similar they find any two texts.
    pub(super) fn score(&self, agent: &str) -> (f64, Option<String>) {
        let Some(similarity) = self.0.get(agent) else { return (0.0, None) };
        let mean = self.0.values().sum::<f64>() / self.0.len() as f64;
        let score = WEIGHT * (similarity - mean);
        let reason = (score >= MIN_NAMED_SCORE).then(|| "what it does is similar to the task".to_owned());
        (score, reason)
    }
}

/// The text of a task that is compared.
pub fn task_text(task: &Task) -> String {
    truncate(format!("{}\n{}", task.title, task.description).trim(), MAX_TASK_CHARS)
}

/// The sentences of an agent that are compared, each for itself. The most similar one counts, because an
/// agent may do several things.
pub fn agent_sentences(agent: &AgentCard) -> Vec<String> {
    let name = agent.name.replace(['-', '_', '.'], " ");
    let mut sentences = vec![match agent.description.is_empty() {
        true => name,
        false => format!("{name}: {}", agent.description),
    }];
    sentences.extend(handles::work(&agent.config));
    sentences.iter().take(MAX_SENTENCES).map(|sentence| truncate(sentence, MAX_SENTENCE_CHARS)).collect()
}
