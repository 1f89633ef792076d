//! The words with which an agent describes itself, weighted by where they stand.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use emergent_domain::agent::AgentDefinition;

use super::{handles, words::significant_words};

// An author who writes down what an agent handles means each word; a prompt also has words about
// everything else.
const NAME_WEIGHT: f64 = 2.0;
const DESCRIPTION_WEIGHT: f64 = 1.5;
const HANDLES_WEIGHT: f64 = 1.0;
const TOOL_WEIGHT: f64 = 0.3;
const PROMPT_WEIGHT: f64 = 0.25;

/// Only this much of a prompt is read: selection runs for every task that starts.
const MAX_PROMPT_CHARS: usize = 8_000;

/// How often an agent's definition uses each word, by stem. It is computed at the first use, because most
/// tasks name their agent, and shared by clones.
#[derive(Debug, Clone)]
pub struct AgentProfile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The texts of the definition with their weights, without the system prompt.
    texts: Vec<(String, f64)>,
    /// The beginning of the system prompt.
    prompt: String,
    terms: OnceLock<Terms>,
}

#[derive(Debug, Default)]
struct Terms {
    frequencies: HashMap<String, f64>,
    length: f64,
    /// The stems outside the system prompt.
    nameable: HashSet<String>,
}

impl Terms {
    fn add(&mut self, stem: String, weight: f64) {
        *self.frequencies.entry(stem).or_default() += weight;
        self.length += weight;
    }
}

impl AgentProfile {
    pub fn from_definition(definition: &AgentDefinition) -> Self {
        let mut texts = vec![
            (definition.name.clone(), NAME_WEIGHT),
            (definition.description.clone(), DESCRIPTION_WEIGHT),
            (definition.tools.join(" "), TOOL_WEIGHT),
        ];
        texts.extend(
            handles::described_work(&definition.config).into_iter().map(|text| (text, HANDLES_WEIGHT)),
        );
        let prompt = definition.system_prompt.chars().take(MAX_PROMPT_CHARS).collect();
        Self(Arc::new(Inner { texts, prompt, terms: OnceLock::new() }))
    }

    /// The weighted frequency of a stem; 0 if the definition does not use it.
    pub(super) fn frequency(&self, stem: &str) -> f64 {
        self.terms().frequencies.get(stem).copied().unwrap_or_default()
    }

    /// Every stem of the definition with its weighted frequency, in no order.
    pub(super) fn frequencies(&self) -> impl Iterator<Item = (&str, f64)> {
        self.terms().frequencies.iter().map(|(stem, frequency)| (stem.as_str(), *frequency))
    }

    /// Whether a reason may name a word of this stem. A system prompt is not for everybody who may start agents, so a
    /// word that only the prompt uses is not named.
    pub(super) fn is_nameable(&self, stem: &str) -> bool {
        self.terms().nameable.contains(stem)
    }

    /// The sum of all frequencies.
    pub(super) fn length(&self) -> f64 {
        self.terms().length
    }

    fn terms(&self) -> &Terms {
        self.0.terms.get_or_init(|| {
            let mut terms = Terms::default();
            for (text, weight) in &self.0.texts {
                for word in significant_words(text) {
                    terms.nameable.insert(word.stem.clone());
                    terms.add(word.stem, *weight);
                }
            }
            for word in significant_words(&self.0.prompt) {
                terms.add(word.stem, PROMPT_WEIGHT);
            }
            terms
        })
    }
}

impl PartialEq for AgentProfile {
    fn eq(&self, other: &Self) -> bool {
        self.0.texts == other.0.texts && self.0.prompt == other.0.prompt
    }
}
