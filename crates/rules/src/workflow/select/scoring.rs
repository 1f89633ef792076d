//! Ranks agents by the words that their definitions share with a task: BM25, with the agents as documents.

use emergent_domain::task::Task;

use super::{AgentCard, profile::AgentProfile, task_words::task_words, words::Word};

// The usual constants of BM25: how quickly a repeated word stops to count, and how much a long
// definition is held against an agent.
const SATURATION: f64 = 1.2;
const LENGTH_PENALTY: f64 = 0.5;

/// How many words a reason names.
const NAMED_WORDS: usize = 3;

/// How well the words of an agent's definition fit a task.
pub(super) struct WordScore {
    pub score: f64,
    /// Names the shared words that count most; `None` if there are none.
    pub reason: Option<String>,
}

/// The scores in the order of the agents.
pub(super) fn score_words(task: &Task, agents: &[&AgentCard]) -> Vec<WordScore> {
    let words: Vec<(Word, f64)> = task_words(task)
        .into_iter()
        .map(|(word, weight)| {
            let rarity = rarity(&word.stem, agents);
            (word, weight * rarity)
        })
        .collect();
    let mean_length = agents.iter().map(|agent| agent.profile.length()).sum::<f64>() / agents.len() as f64;
    agents.iter().map(|agent| score_agent(&words, &agent.profile, mean_length)).collect()
}

fn score_agent(words: &[(Word, f64)], profile: &AgentProfile, mean_length: f64) -> WordScore {
    let length = 1.0 - LENGTH_PENALTY + LENGTH_PENALTY * profile.length() / mean_length;
    let mut shared: Vec<(f64, &Word)> = Vec::new();
    for (word, weight) in words {
        let frequency = profile.frequency(&word.stem);
        if frequency > 0.0 {
            let frequency = frequency / length;
            shared.push((weight * frequency * (SATURATION + 1.0) / (frequency + SATURATION), word));
        }
    }
    let score = shared.iter().map(|(part, _)| part).sum();
    shared.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.text.cmp(&b.1.text)));
    WordScore { score, reason: reason(&shared, profile) }
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

/// The inverse document frequency, from 1 for a word of a single agent down to 0: a word that every agent
/// uses does not tell them apart. It falls slowly, because several agents may share a duty. An agent that
/// only mentions a word in its prompt counts as less than one agent.
fn rarity(stem: &str, agents: &[&AgentCard]) -> f64 {
    let all = agents.len() as f64;
    let using: f64 = agents.iter().map(|agent| agent.profile.frequency(stem).min(1.0)).sum();
    (1.0 + all / using.max(1.0)).ln() / (1.0 + all).ln()
}
