//! Prices and context windows of models.
//!
//! The built-in [`table`] has list prices, which are approximate: it does not contain discounts,
//! surcharges for long prompts, or recent changes. A user's file takes precedence, field by field.

mod table;

use std::{collections::BTreeMap, path::Path};

use emergent_domain::{
    agent::{ModelConfig, REMOTE_AGENT_PROVIDER},
    chat::Usage,
    foreign_json,
};
use serde::Deserialize;

use crate::Error;

/// The default for unknown models; most current models support at least this.
const DEFAULT_WINDOW: u64 = 128_000;
/// The providers whose models run on the user's own machine, or cost nothing here: what the agent of another system
/// costs is not known.
const FREE_PROVIDERS: [&str; 4] = ["ollama", "rehearsal", "replay", REMOTE_AGENT_PROVIDER];

#[derive(Clone, Default)]
pub struct Prices {
    /// By `provider/prefix`, the longest first.
    user: Vec<(String, PriceEntry)>,
}

/// US dollars per million tokens, and the context window. Missing values are taken from the next
/// source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: Option<f64>,
    output: Option<f64>,
    /// The default is `input`.
    cache_read: Option<f64>,
    /// The default is `input`.
    cache_write: Option<f64>,
    window: Option<u64>,
}

impl Prices {
    /// Reads a file of entries by `provider/prefix`: JSON if its name ends in `.json`, otherwise TOML.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let wrong = |reason: String| {
            Error::Config(format!(
                "the price file `{}` (`EMERGENT_MODEL_PRICES`) cannot be used: {reason}",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let json = path.extension().is_some_and(|ending| ending == "json");
        Self::parse(&text, json).map_err(wrong)
    }

    fn parse(text: &str, json: bool) -> Result<Self, String> {
        let entries: BTreeMap<String, PriceEntry> = if json {
            foreign_json::from_str(text).map_err(|error| error.to_string())?
        } else {
            toml::from_str(text).map_err(|error| error.to_string())?
        };
        for (name, entry) in &entries {
            if !name.contains('/') {
                return Err(format!("`{name}` is not of the form provider/name"));
            }
            let figures = [entry.input, entry.output, entry.cache_read, entry.cache_write];
            if figures.into_iter().flatten().any(|price| !price.is_finite() || price < 0.0) {
                return Err(format!("`{name}` has a negative price"));
            }
        }
        let mut user: Vec<_> = entries.into_iter().collect();
        user.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Ok(Self { user })
    }

    /// Takes precedence over the values of a file.
    pub fn set_window(&mut self, prefix: &str, tokens: u64) {
        let entry = PriceEntry { window: Some(tokens), ..PriceEntry::default() };
        self.user.insert(0, (prefix.to_owned(), entry));
    }

    /// Returns the cost in US dollars; `None` if the price of the model is unknown.
    pub fn cost(&self, model: &ModelConfig, usage: &Usage) -> Option<f64> {
        let entry = self.entry(model);
        let (input, output) = (entry.input?, entry.output?);
        let cached = usage.cache_read.saturating_add(usage.cache_write);
        let parts = [
            (usage.input.saturating_sub(cached), input),
            (usage.cache_read, entry.cache_read.unwrap_or(input)),
            (usage.cache_write, entry.cache_write.unwrap_or(input)),
            (usage.output, output),
        ];
        Some(parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6)
    }

    pub fn window(&self, model: &ModelConfig) -> u64 {
        self.entry(model).window.unwrap_or(DEFAULT_WINDOW)
    }

    fn entry(&self, model: &ModelConfig) -> PriceEntry {
        let listed = if FREE_PROVIDERS.contains(&model.provider.as_str()) {
            PriceEntry { input: Some(0.0), output: Some(0.0), ..PriceEntry::default() }
        } else {
            table::find(&model.provider, &model.name).unwrap_or_default()
        };
        let own = self.user.iter().find(|(prefix, _)| matches_prefix(model, prefix));
        own.map_or(listed, |(_, own)| own.or(listed))
    }
}

impl PriceEntry {
    fn or(self, other: Self) -> Self {
        // A new input price makes the old cache prices invalid.
        let cache = if self.input.is_some() { Self::default() } else { other };
        Self {
            input: self.input.or(other.input),
            output: self.output.or(other.output),
            cache_read: self.cache_read.or(cache.cache_read),
            cache_write: self.cache_write.or(cache.cache_write),
            window: self.window.or(other.window),
        }
    }
}

fn matches_prefix(model: &ModelConfig, prefix: &str) -> bool {
    let (provider, name) = prefix.split_once('/').unwrap_or((prefix, ""));
    model.provider == provider && model.name.starts_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelConfig {
        text.parse().unwrap()
    }

    const MILLION: Usage =
        Usage { input: 1_000_000, output: 1_000_000, reasoning: 0, cache_read: 0, cache_write: 0 };

    fn cost(prices: &Prices, name: &str) -> Option<f64> {
        prices.cost(&model(name), &MILLION)
    }

    #[test]
    fn the_longest_name_that_fits_gives_the_price() {
        let prices = Prices::default();
        assert_eq!(cost(&prices, "google/gemini-2.5-flash"), Some(2.8));
        assert_eq!(cost(&prices, "google/gemini-2.5-flash-lite"), Some(0.5));
        assert_eq!(cost(&prices, "openai/gpt-4o-mini-2024-07-18"), Some(0.75));
        assert_eq!(cost(&prices, "vertex/gemini-2.5-flash"), Some(2.8));
    }

    #[test]
    fn a_model_that_is_not_listed_has_no_price_rather_than_a_wrong_one() {
        assert_eq!(cost(&Prices::default(), "openai/gpt-5.99"), None);
        assert_eq!(cost(&Prices::default(), "openai/llama-at-home"), None);
        assert_eq!(Prices::default().window(&model("openai/llama-at-home")), 128_000);
    }

    #[test]
    fn models_on_this_machine_cost_nothing() {
        assert_eq!(cost(&Prices::default(), "ollama/llama3"), Some(0.0));
        assert_eq!(cost(&Prices::default(), "rehearsal/echo"), Some(0.0));
    }

    #[test]
    fn cached_tokens_have_their_own_prices() {
        let usage = Usage { cache_read: 500_000, cache_write: 250_000, output: 0, ..MILLION };
        let cost = Prices::default().cost(&model("anthropic/claude-sonnet-4-5"), &usage).unwrap();
        assert!((cost - (0.25 * 3.0 + 0.5 * 0.3 + 0.25 * 3.75)).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn the_users_file_goes_before_the_table_field_by_field() {
        let text = "['google/gemini-2.5']\nwindow = 5\n['openai/mine']\ninput = 1\noutput = 2";
        let prices = Prices::parse(text, false).unwrap();
        assert_eq!(prices.window(&model("google/gemini-2.5-flash")), 5);
        assert_eq!(cost(&prices, "google/gemini-2.5-flash"), Some(2.8));
        assert_eq!(cost(&prices, "openai/mine-7b"), Some(3.0));
        let json = Prices::parse(r#"{"openai/mine": {"input": 1, "output": 2}}"#, true).unwrap();
        assert_eq!(cost(&json, "openai/mine-7b"), Some(3.0));
    }

    #[test]
    fn a_price_file_with_a_mistake_says_where() {
        let wrong = |text| Prices::parse(text, false).err().unwrap();
        assert!(wrong("['openai/x']\ninptu = 1").contains("inptu"));
        assert!(wrong("[gpt]\ninput = 1").contains("gpt"));
        assert!(wrong("['openai/x']\ninput = -1").contains("openai/x"));
    }
}
