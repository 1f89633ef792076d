//! Ranks agents by the words that their definitions share with a task: BM25, with the agents as documents.

use std::{borrow::Cow, collections::HashMap};

use emergent_domain::task::Task;

use super::{AgentCard, profile::AgentProfile, task_words::task_words, words::Word};

// The usual constants of BM25: how quickly a repeated word stops to count, and how much a long
// definition is held against an agent.
const SATURATION: f64 = 1.2;
const LENGTH_PENALTY: f64 = 0.5;

/// How many words a reason names.
const NAMED_WORDS: usize = 3;

/// The agents that may be chosen.
pub(super) struct Candidates<'a> {
    agents: Vec<&'a AgentCard>,
    /// What the frequencies of each agent are divided by, in the order of the agents.
    lengths: Vec<f64>,
    /// The agents that use each stem; `None` for a single task, whose few words are looked up agent by agent.
    index: Option<HashMap<&'a str, Vec<Usage>>>,
}

/// How often an agent uses a stem.
#[derive(Clone)]
struct Usage {
    /// The position of the agent among the candidates.
    agent: usize,
    frequency: f64,
}

/// The words of a task with their weights, and how well those of each agent fit them.
pub(super) struct ScoredWords {
    words: Vec<(Word, f64)>,
    /// In the order of the candidates.
    pub scores: Vec<f64>,
}

impl<'a> Candidates<'a> {
    /// For the choice for one task.
    pub fn new(agents: &'a [AgentCard]) -> Self {
        let agents: Vec<&AgentCard> = agents.iter().filter(|agent| agent.is_selectable).collect();
        let mean = agents.iter().map(|agent| agent.profile.length()).sum::<f64>() / agents.len() as f64;
        let length =
            |agent: &&AgentCard| 1.0 - LENGTH_PENALTY + LENGTH_PENALTY * agent.profile.length() / mean;
        let lengths = agents.iter().map(length).collect();
        Self { agents, lengths, index: None }
    }

    /// For the choices for many tasks, which are the same.
    pub fn indexed(agents: &'a [AgentCard]) -> Self {
        let candidates = Self::new(agents);
        let mut index: HashMap<&'a str, Vec<Usage>> = HashMap::new();
        for (position, &agent) in candidates.agents.iter().enumerate() {
            for (stem, frequency) in agent.profile.frequencies() {
                index.entry(stem).or_default().push(Usage { agent: position, frequency });
            }
        }
        Self { index: Some(index), ..candidates }
    }

    pub fn agents(&self) -> &[&'a AgentCard] {
        &self.agents
    }

    pub fn score_words(&self, task: &Task) -> ScoredWords {
        let mut scores = vec![0.0; self.agents.len()];
        let mut words = task_words(task);
        for (word, weight) in &mut words {
            let usages = self.usages(&word.stem);
            *weight *= self.rarity(&usages);
            for Usage { agent, frequency } in usages.iter() {
                scores[*agent] += self.part(*weight, *agent, *frequency);
            }
        }
        ScoredWords { words, scores }
    }

    /// Names the shared words that count most; `None` if there are none.
    pub fn words_reason(&self, scored: &ScoredWords, agent: usize) -> Option<String> {
        let profile = &self.agents[agent].profile;
        let mut shared: Vec<(f64, &Word)> = Vec::new();
        for (word, weight) in &scored.words {
            let frequency = profile.frequency(&word.stem);
            if frequency > 0.0 {
                shared.push((self.part(*weight, agent, frequency), word));
            }
        }
        shared.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.text.cmp(&b.1.text)));
        reason(&shared, profile)
    }

    /// What a shared word adds to the score of an agent.
    fn part(&self, weight: f64, agent: usize, frequency: f64) -> f64 {
        let frequency = frequency / self.lengths[agent];
        weight * frequency * (SATURATION + 1.0) / (frequency + SATURATION)
    }

    /// The agents that use a stem, in their order.
    fn usages(&self, stem: &str) -> Cow<'_, [Usage]> {
        if let Some(index) = &self.index {
            return Cow::Borrowed(index.get(stem).map(Vec::as_slice).unwrap_or_default());
        }
        let usage = |(agent, card): (usize, &&AgentCard)| {
            let frequency = card.profile.frequency(stem);
            (frequency > 0.0).then_some(Usage { agent, frequency })
        };
        Cow::Owned(self.agents.iter().enumerate().filter_map(usage).collect())
    }

    /// The inverse document frequency, from 1 for a word of a single agent down to 0: a word that every agent
    /// uses does not tell them apart. It falls slowly, because several agents may share a duty. An agent that
    /// only mentions a word in its prompt counts as less than one agent.
    fn rarity(&self, usages: &[Usage]) -> f64 {
        let all = self.agents.len() as f64;
        let using: f64 = usages.iter().map(|usage| usage.frequency.min(1.0)).sum();
        (1.0 + all / using.max(1.0)).ln() / (1.0 + all).ln()
    }
}

/// Says which words an agent shares with a task, the most important first.
fn reason(shared: &[(f64, &Word)], profile: &AgentProfile) -> Option<String> {
    let nameable = shared.iter().filter(|(_, word)| profile.is_nameable(&word.stem));
    let named: Vec<String> = nameable.take(NAMED_WORDS).map(|(_, word)| format!("`{}`", word.text)).collect();
    match (shared.is_empty(), named.is_empty()) {
        (true, _) => None,
        (false, true) => Some("its system prompt fits the task".to_owned()),
        (false, false) => Some(format!("its definition is about {}", named.join(", "))),
    }
}
