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

use std::cell::OnceCell;

use emergent_domain::{
    agent::{AgentDefinition, FlowType, Visibility},
    task::Task,
};
use serde_json::{Map, Value};

use scoring::Candidates;

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
    select_named(task, agents)
        .unwrap_or_else(|| select_among(task, &Candidates::new(agents), similarities, &|| false))
}

/// Agents among which those for many tasks are chosen, so that what is the same for all tasks is computed once.
pub struct AgentIndex<'a> {
    agents: &'a [AgentCard],
    /// Computed for the first task that names no agent.
    candidates: OnceCell<Candidates<'a>>,
}

impl<'a> AgentIndex<'a> {
    pub fn new(agents: &'a [AgentCard]) -> Self {
        Self { agents, candidates: OnceCell::new() }
    }

    /// Chooses as [`select_by_rules`] does.
    pub fn select_by_rules(&self, task: &Task) -> AgentSelection {
        self.select_among_first(task, &|| false)
    }

    /// As [`AgentIndex::select_by_rules`]; `None` if `is_over` becomes true before the choice is made.
    pub fn select_by_rules_until(&self, task: &Task, is_over: &dyn Fn() -> bool) -> Option<AgentSelection> {
        if is_over() {
            return None;
        }
        let selection = self.select_among_first(task, is_over);
        (!is_over()).then_some(selection)
    }

    /// Chooses among the agents that come before `is_over` becomes true.
    fn select_among_first(&self, task: &Task, is_over: &dyn Fn() -> bool) -> AgentSelection {
        select_named(task, self.agents).unwrap_or_else(|| {
            let candidates = self.candidates.get_or_init(|| Candidates::indexed(self.agents));
            select_among(task, candidates, &AgentSimilarities::default(), is_over)
        })
    }
}

/// The agent that a task names; `None` if it names none.
fn select_named(task: &Task, agents: &[AgentCard]) -> Option<AgentSelection> {
    let name = task.assigned_agent.as_ref()?;
    let known = agents.iter().any(|agent| agent.name == *name);
    let reason = match known {
        true => format!("the task names `{name}`"),
        false => {
            format!("the task names `{name}`, which is not an agent that workflows of this project can use")
        }
    };
    Some(AgentSelection { agent: known.then(|| name.clone()), score: 1.0, reason, clear: known })
}

fn select_among(
    task: &Task,
    candidates: &Candidates<'_>,
    similarities: &AgentSimilarities,
    is_over: &dyn Fn() -> bool,
) -> AgentSelection {
    let agents = candidates.agents();
    let words = candidates.score_words(task);
    let text = handles::searched_text(task);
    // An agent may have thousands of patterns, which are looked for in a long text.
    let in_time = agents.iter().zip(&words.scores).enumerate().take_while(|_| !is_over());
    let rated = in_time.map(|(position, (agent, word_score))| {
        let (handled, _) = handles::score(task, &text, agent);
        let (similarity, _) = similarities.score(&agent.name);
        let (record, _) = agent.track_record.score(&task.kind);
        (handled + word_score + similarity + record, position)
    });
    let mut rated: Vec<(f64, usize)> = rated.collect();
    rated.sort_by(|a, b| {
        let (one, other) = (agents[a.1], agents[b.1]);
        b.0.total_cmp(&a.0)
            .then_with(|| tie_break(other).cmp(&tie_break(one)))
            .then_with(|| one.name.cmp(&other.name))
    });
    let Some((score, position)) = rated.first().copied().filter(|(score, _)| *score > 0.0) else {
        let default = agents.iter().filter(|agent| agent.is_default).min_by_key(|agent| &agent.name);
        let reason = unclear_reason(agents.len()).to_owned();
        return AgentSelection {
            agent: default.map(|agent| agent.name.clone()),
            score: 0.0,
            reason,
            clear: agents.len() == 1,
        };
    };
    let agent = agents[position];
    // The strongest kind of reason first.
    let (_, mut reasons) = handles::score(task, &text, agent);
    reasons.extend(candidates.words_reason(&words, position));
    reasons.extend(similarities.score(&agent.name).1);
    reasons.extend(agent.track_record.score(&task.kind).1);
    let second = rated.get(1).map_or(0.0, |(score, _)| *score);
    let clear = agents.len() == 1 || (score >= MIN_SCORE && score - second >= CLEAR_LEAD * score);
    AgentSelection { agent: Some(agent.name.clone()), score, reason: reasons.join("; "), clear }
}

/// Why none of so many agents is better than the others.
fn unclear_reason(agents: usize) -> &'static str {
    match agents {
        0 => "the project has no agent that can be chosen for it: install a product or create an agent",
        _ => "nothing in the task points to one agent",
    }
}

/// Among equals: the default one, then one that is meant to be seen.
fn tie_break(agent: &AgentCard) -> (bool, bool) {
    (agent.is_default, agent.visibility != Visibility::Internal)
}

#[cfg(test)]
mod simple_selection;
#[cfg(test)]
mod tests;
