//! Weighs what a task wants against what each agent says of itself.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::task::{Task, VerdictKind};

use super::{
    AgentCard,
    concepts::{self, Concept},
};

/// Concepts and plain words, each with how much it is meant.
#[derive(Debug, Default)]
struct TermWeights {
    concepts: BTreeMap<Concept, f64>,
    words: BTreeMap<String, f64>,
}

impl TermWeights {
    /// Takes in a text; `weigh` says how much the word at a place counts.
    fn add_text(&mut self, text: &str, weigh: impl Fn(usize) -> f64) {
        let stems = concepts::stems(text);
        let mut at = 0;
        while at < stems.len() {
            let weight = weigh(at);
            // Three words that mean something together, then two: "look over" is not "look".
            let joined = (2..=4).rev().find_map(|len| {
                let joined = stems.get(at..at + len)?.join(" ");
                let found = concepts::concepts_of(&joined);
                (!found.is_empty()).then_some((len, found))
            });
            if let Some((len, found)) = joined {
                self.add_concepts(found, weight);
                at += len;
                continue;
            }
            let stem = &stems[at];
            self.add_concepts(concepts::concepts_of(stem), weight);
            if concepts::is_significant(stem) {
                let known = self.words.entry(stem.clone()).or_default();
                *known = known.max(weight);
            }
            at += 1;
        }
    }

    fn add_concepts(&mut self, found: &[(Concept, f64)], weight: f64) {
        for (concept, share) in found {
            let known = self.concepts.entry(*concept).or_default();
            // The second word for a thing says less than the first.
            let (more, less) = (known.max(share * weight), known.min(share * weight));
            *known = more + 0.3 * less;
        }
    }

    fn activity_weight(&self) -> f64 {
        let all =
            self.concepts.iter().filter(|(concept, _)| concept.is_activity()).map(|(_, weight)| *weight);
        all.fold(0.0, f64::max)
    }
}

fn task_terms(task: &Task) -> TermWeights {
    let mut sense = TermWeights::default();
    sense.add_text(&task.kind.replace('_', " "), |_| 3.0);
    // The first word of a title is what there is to do.
    sense.add_text(&task.title, |at| if at == 0 { 2.0 } else { 1.0 });
    sense.add_text(&task.description, |at| if at == 0 { 0.6 } else { 0.4 });
    for tag in &task.tags {
        sense.add_text(tag, |_| 1.0);
    }
    match task.verdict {
        VerdictKind::Test => sense.add_concepts(&[(Concept::Test, 1.0)], 3.0),
        VerdictKind::Review => sense.add_concepts(&[(Concept::Review, 1.0)], 3.0),
        VerdictKind::None => {}
    }
    if is_question(&task.title) {
        sense.add_concepts(&[(Concept::Query, 1.0)], 1.5);
    }
    if task.title.contains("://") || task.description.contains("://") {
        sense.add_concepts(&[(Concept::Browse, 1.0), (Concept::Web, 1.0)], 2.0);
    }
    sense
}

fn is_question(title: &str) -> bool {
    const ASKING: &[&str] =
        &["who", "which", "what", "when", "where", "how", "why", "is", "are", "does", "do"];
    let first = title.split_whitespace().next().unwrap_or_default().to_lowercase();
    title.trim_end().ends_with('?') || ASKING.contains(&first.as_str())
}

fn agent_terms(agent: &AgentCard) -> TermWeights {
    let mut sense = TermWeights::default();
    sense.add_text(&agent.name, |_| 1.5);
    sense.add_text(&agent.description, |at| if at < 3 { 1.0 } else { 0.6 });
    for tag in &agent.tags {
        sense.add_text(tag, |_| 0.8);
    }
    if agent.tools.iter().any(|tool| tool.contains("web")) {
        sense.add_concepts(&[(Concept::Web, 1.0)], 0.4);
    }
    sense
}

/// Whether an agent can write anything at all.
fn can_write(agent: &AgentCard) -> bool {
    let writing =
        ["create", "update", "delete", "write", "entities", "relationships", "merge", "restore", "import"];
    agent.tools.iter().any(|tool| {
        tool == "*"
            || writing.iter().any(|word| tool.starts_with(word) || tool.ends_with(&format!("_{word}")))
    })
}

const ACTIVITY_WEIGHT: f64 = 2.0;
const OBJECT_WEIGHT: f64 = 0.8;
const WORD_WEIGHT: f64 = 0.35;

/// Each agent with its score and what speaks for it.
pub(super) fn score_agents<'a>(
    task: &Task,
    agents: &'a [AgentCard],
) -> Vec<(f64, Vec<String>, &'a AgentCard)> {
    let wanted = task_terms(task);
    let senses: Vec<TermWeights> = agents.iter().map(agent_terms).collect();
    let rare = TermRarity::from_agents(&senses);
    let loudest = wanted.activity_weight().max(1.0);
    let one = |(agent, sense): (&'a AgentCard, &TermWeights)| {
        let (mut score, mut reasons) = (0.0, Vec::new());
        for (concept, weight) in &wanted.concepts {
            let own = affinity(sense, *concept);
            if own <= 0.0 {
                continue;
            }
            let factor = if concept.is_activity() { ACTIVITY_WEIGHT } else { OBJECT_WEIGHT };
            let part = factor * (weight / loudest).min(1.0) * own * rare.concept(*concept);
            score += part;
            reasons.push((part, format!("it is for {}", concept.name())));
        }
        for (word, weight) in &wanted.words {
            if let Some(own) = sense.words.get(word) {
                let part = WORD_WEIGHT * weight.min(1.0) * own * rare.word(word);
                score += part;
                reasons.push((part, format!("it says `{word}`")));
            }
        }
        if needs_writing(&wanted) && !agent.tools.is_empty() && !can_write(agent) {
            score *= 0.6;
        }
        reasons.sort_by(|a, b| b.0.total_cmp(&a.0));
        (score, reasons.into_iter().take(3).map(|(_, reason)| reason).collect(), agent)
    };
    agents.iter().zip(&senses).map(one).collect()
}

/// How much an agent is for something, or for what comes close.
fn affinity(sense: &TermWeights, concept: Concept) -> f64 {
    let own = |concept: &Concept| sense.concepts.get(concept).copied().unwrap_or_default();
    let near = concept.related().iter().map(|(other, share)| share * own(other));
    near.fold(own(&concept), f64::max).min(1.6)
}

/// The strongest thing to do leaves something behind.
fn needs_writing(wanted: &TermWeights) -> bool {
    use Concept::{Design, Extract, Implement, Plan, Remember, Summarise};
    let strongest =
        wanted.concepts.iter().filter(|(concept, _)| concept.is_activity()).max_by(|a, b| a.1.total_cmp(b.1));
    strongest.is_some_and(|(concept, _)| {
        matches!(concept, Design | Extract | Implement | Plan | Remember | Summarise)
    })
}

/// What every agent says tells none of them apart.
struct TermRarity {
    agents: f64,
    concepts: HashMap<Concept, f64>,
    words: HashMap<String, f64>,
}

impl TermRarity {
    fn from_agents(senses: &[TermWeights]) -> Self {
        let mut rareness =
            Self { agents: senses.len() as f64, concepts: HashMap::new(), words: HashMap::new() };
        for sense in senses {
            for (concept, weight) in &sense.concepts {
                // Half a word about something is half an agent for it.
                *rareness.concepts.entry(*concept).or_default() += weight.min(1.0);
            }
            for word in sense.words.keys() {
                *rareness.words.entry(word.clone()).or_default() += 1.0;
            }
        }
        rareness
    }

    fn concept(&self, concept: Concept) -> f64 {
        self.rarity(self.concepts.get(&concept))
    }

    fn word(&self, word: &str) -> f64 {
        self.rarity(self.words.get(word))
    }

    /// 1 for what a single agent says, less for what more of them do.
    fn rarity(&self, among: Option<&f64>) -> f64 {
        let among = among.copied().unwrap_or(1.0).max(1.0);
        let all = (1.0 + self.agents).ln();
        if all > 0.0 { (1.0 + self.agents / among).ln() / all } else { 1.0 }
    }
}
