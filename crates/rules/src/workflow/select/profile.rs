//! The words with which an agent describes itself, weighted by where they stand.

use std::{collections::HashMap, sync::Arc};

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

/// How often an agent's definition uses each word, by stem. Cloning it is cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentProfile(Arc<Terms>);

#[derive(Debug, Default, PartialEq)]
struct Terms {
    frequencies: HashMap<String, f64>,
    length: f64,
}

impl AgentProfile {
    pub fn from_definition(definition: &AgentDefinition) -> Self {
        let mut terms = Terms::default();
        terms.add(&definition.name, NAME_WEIGHT);
        terms.add(&definition.description, DESCRIPTION_WEIGHT);
        for text in handles::described_work(&definition.config) {
            terms.add(&text, HANDLES_WEIGHT);
        }
        for tool in &definition.tools {
            terms.add(tool, TOOL_WEIGHT);
        }
        let prompt: String = definition.system_prompt.chars().take(MAX_PROMPT_CHARS).collect();
        terms.add(&prompt, PROMPT_WEIGHT);
        Self(Arc::new(terms))
    }

    /// The weighted frequency of a stem; 0 if the definition does not use it.
    pub(super) fn frequency(&self, stem: &str) -> f64 {
        self.0.frequencies.get(stem).copied().unwrap_or_default()
    }

    /// The sum of all frequencies.
    pub(super) fn length(&self) -> f64 {
        self.0.length
    }
}

impl Terms {
    fn add(&mut self, text: &str, weight: f64) {
        for word in significant_words(text) {
            *self.frequencies.entry(word.stem).or_default() += weight;
            self.length += weight;
        }
    }
}
