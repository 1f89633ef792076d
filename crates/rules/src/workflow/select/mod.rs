//! Chooses the agent for a task that names none: by rules, and by a model where the rules are not clear.
//!
//! The rules know no agent by name. They add up what an agent's author says it handles
//! (`config.handles`), the words that its definition shares with the task, what became of earlier tasks
//! of the same kind, and similarities that a sentence model found, if the caller has them.

mod by_model;
mod handles;
mod profile;
mod project_rules;
mod scoring;
mod similarity;
mod task_words;
mod track_record;
mod words;

use emergent_domain::{
    agent::{AgentDefinition, FlowType, Visibility},
    task::Task,
};
use serde_json::{Map, Value};

use scoring::WordScore;

pub use by_model::{parse_selection, selection_question};
pub use profile::AgentProfile;
pub use project_rules::select_by_project_rules;
pub use similarity::{AgentSimilarities, agent_sentences, task_text};
pub use track_record::TrackRecord;

/// What is known of an agent when one is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    /// `config.tags`.
    pub tags: Vec<String>,
    /// Names and globs.
    pub tools: Vec<String>,
    pub flow_type: FlowType,
    pub visibility: Visibility,
    pub is_default: bool,
    pub config: Map<String, Value>,
    pub profile: AgentProfile,
    /// Empty unless the caller knows of earlier tasks.
    pub track_record: TrackRecord,
    /// Whether the agent may be chosen. If not, only a task or a rule that names it gets it.
    pub is_selectable: bool,
}

impl AgentCard {
    pub fn from_definition(definition: &AgentDefinition) -> Self {
        Self {
            name: definition.name.clone(),
            description: definition.description.clone(),
            tags: handles::string_list(definition.config.get("tags")),
            tools: definition.tools.clone(),
            flow_type: definition.flow_type,
            visibility: definition.visibility,
            is_default: definition.is_default,
            config: definition.config.clone(),
            profile: AgentProfile::from_definition(definition),
            track_record: TrackRecord::default(),
            is_selectable: true,
        }
    }
}

/// Who was chosen, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSelection {
    /// `None`: nothing speaks for anybody.
    pub agent: Option<String>,
    pub score: f64,
    pub reason: String,
    /// Whether a model need not be asked.
    pub clear: bool,
}

/// The best must lead the second by this share of its own score to be clear.
const CLEAR_LEAD: f64 = 0.25;
const MIN_SCORE: f64 = 0.5;

/// Chooses by rules alone. The same task and agents give the same choice, whatever their order.
pub fn select_by_rules(task: &Task, agents: &[AgentCard]) -> AgentSelection {
    select_with_similarity(task, agents, &AgentSimilarities::default())
}

/// Chooses by rules, and by how similar a sentence model finds the task and what the agents say they do.
pub fn select_with_similarity(
    task: &Task,
    agents: &[AgentCard],
    similarities: &AgentSimilarities,
) -> AgentSelection {
    if let Some(name) = &task.assigned_agent {
        let known = agents.iter().any(|agent| agent.name == *name);
        let reason = match known {
            true => format!("the task names `{name}`"),
            false => format!(
                "the task names `{name}`, which is not an agent that workflows of this project can use"
            ),
        };
        return AgentSelection { agent: known.then(|| name.clone()), score: 1.0, reason, clear: known };
    }
    let agents: Vec<&AgentCard> = agents.iter().filter(|agent| agent.is_selectable).collect();
    let words = scoring::score_words(task, &agents);
    let mut scored: Vec<(f64, Vec<String>, &AgentCard)> = agents
        .iter()
        .zip(words)
        .map(|(&agent, words)| score_agent(task, agent, words, similarities))
        .collect();
    scored.sort_by(|a, b| {
        b.0.total_cmp(&a.0).then_with(|| tie_break(b.2).cmp(&tie_break(a.2))).then(a.2.name.cmp(&b.2.name))
    });
    let Some((score, reasons, agent)) = scored.first().filter(|(score, ..)| *score > 0.0) else {
        let default = agents.iter().filter(|agent| agent.is_default).min_by_key(|agent| &agent.name);
        let reason = "nothing in the task points to one agent".to_owned();
        return AgentSelection {
            agent: default.map(|agent| agent.name.clone()),
            score: 0.0,
            reason,
            clear: agents.len() == 1,
        };
    };
    let second = scored.get(1).map_or(0.0, |(score, ..)| *score);
    let clear = agents.len() == 1 || (*score >= MIN_SCORE && score - second >= CLEAR_LEAD * score);
    AgentSelection { agent: Some(agent.name.clone()), score: *score, reason: reasons.join("; "), clear }
}

/// The score of an agent with its reasons, the strongest kind of reason first.
fn score_agent<'a>(
    task: &Task,
    agent: &'a AgentCard,
    words: WordScore,
    similarities: &AgentSimilarities,
) -> (f64, Vec<String>, &'a AgentCard) {
    let (handled, mut reasons) = handles::score(task, agent);
    reasons.extend(words.reason);
    let (similarity, reason) = similarities.score(&agent.name);
    reasons.extend(reason);
    let (record, reason) = agent.track_record.score(&task.kind);
    reasons.extend(reason);
    (handled + words.score + similarity + record, reasons, agent)
}

/// Among equals: the default one, then one that is meant to be seen.
fn tie_break(agent: &AgentCard) -> (bool, bool) {
    (agent.is_default, agent.visibility != Visibility::Internal)
}

#[cfg(test)]
mod tests;
