//! The words with which an agent describes itself, weighted by where they stand.

use std::{
    collections::HashMap,
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
    /// The texts of the definition with their weights.
    texts: Vec<(String, f64)>,
    terms: OnceLock<Terms>,
}

#[derive(Debug, Default)]
struct Terms {
    frequencies: HashMap<String, f64>,
    length: f64,
}

impl AgentProfile {
    pub fn from_definition(definition: &AgentDefinition) -> Self {
        let mut texts = vec![
            (definition.name.clone(), NAME_WEIGHT),
            (definition.description.clone(), DESCRIPTION_WEIGHT),
            (definition.tools.join(" "), TOOL_WEIGHT),
            (definition.system_prompt.chars().take(MAX_PROMPT_CHARS).collect(), PROMPT_WEIGHT),
        ];
        texts.extend(
            handles::described_work(&definition.config).into_iter().map(|text| (text, HANDLES_WEIGHT)),
        );
        Self(Arc::new(Inner { texts, terms: OnceLock::new() }))
    }

    /// The weighted frequency of a stem; 0 if the definition does not use it.
    pub(super) fn frequency(&self, stem: &str) -> f64 {
        self.terms().frequencies.get(stem).copied().unwrap_or_default()
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
                    *terms.frequencies.entry(word.stem).or_default() += weight;
                    terms.length += weight;
                }
            }
            terms
        })
    }
}

impl PartialEq for AgentProfile {
    fn eq(&self, other: &Self) -> bool {
        self.0.texts == other.0.texts
    }
}
