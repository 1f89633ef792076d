//! The model of an agent or of a request. Its provider may be omitted if the name of the model tells it.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::invalid::Invalid;

/// Which models need no provider.
pub const PROVIDER_RULE: &str = "a model without a provider is one of `gemini-*` (google), `gpt-*` or `o` with a digit, such as `o3` \
     (openai), or `claude-*` (anthropic); for any other model, name the provider as well";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenModel<ModelFields>")]
pub struct ModelConfig {
    pub provider: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// A model as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFields {
    provider: Option<String>,
    name: String,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
}

/// A model as people write it: as `provider/name`, or as an object with the fields `F`. Every place that reads a
/// model accepts both.
#[derive(Debug)]
pub enum WrittenModel<F> {
    Name(ModelConfig),
    Fields(F),
}

impl<'de, F: Deserialize<'de>> Deserialize<'de> for WrittenModel<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrObject(PhantomData))
    }
}

struct NameOrObject<F>(PhantomData<F>);

impl<'de, F: Deserialize<'de>> Visitor<'de> for NameOrObject<F> {
    type Value = WrittenModel<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a model, as \"google/gemini-2.5-flash\" or { \"provider\": \"google\", \"name\": \"gemini-2.5-flash\" }",
        )
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<WrittenModel<F>, E> {
        let read = text.parse().map_err(|invalid: Invalid| {
            // The field is known from the place of the value.
            E::custom(invalid.problems.into_iter().map(|problem| problem.reason).collect::<String>())
        });
        read.map(WrittenModel::Name)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenModel<F>, A::Error> {
        F::deserialize(MapAccessDeserializer::new(map)).map(WrittenModel::Fields)
    }
}

impl TryFrom<WrittenModel<ModelFields>> for ModelConfig {
    type Error = Invalid;

    fn try_from(model: WrittenModel<ModelFields>) -> Result<Self, Invalid> {
        let ModelFields { provider, name, temperature, max_tokens } = match model {
            WrittenModel::Name(model) => return Ok(model),
            WrittenModel::Fields(fields) => fields,
        };
        let provider = resolve_provider(provider, &name)?;
        Ok(Self { provider, name, temperature, max_tokens })
    }
}

/// Returns the provider of a model: the one that is given, or the one that its name tells.
pub fn resolve_provider(provider: Option<String>, name: &str) -> Result<String, Invalid> {
    provider
        .or_else(|| provider_for_name(name).map(str::to_owned))
        .ok_or_else(|| Invalid::new("provider", format!("is missing for `{name}`: {PROVIDER_RULE}")))
}

/// Returns the provider of a model that is named without one.
fn provider_for_name(name: &str) -> Option<&'static str> {
    let is_o_series =
        name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    match name {
        _ if name.starts_with("gemini-") => Some("google"),
        _ if name.starts_with("gpt-") || is_o_series => Some("openai"),
        _ if name.starts_with("claude-") => Some("anthropic"),
        _ => None,
    }
}

impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl FromStr for ModelConfig {
    type Err = Invalid;
    /// Parses `provider/name`. Only the first slash separates, so the name may contain slashes. Without a
    /// slash, the name tells the provider.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (provider, name) = match text.split_once('/') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => (provider, name),
            None if provider_for_name(text).is_some() => (provider_for_name(text).unwrap_or_default(), text),
            None => {
                let message = format!("`{text}` is not of the form provider/name: {PROVIDER_RULE}");
                return Err(Invalid::new("model", message));
            }
            Some(_) => {
                return Err(Invalid::new("model", format!("`{text}` is not of the form provider/name")));
            }
        };
        Ok(Self { provider: provider.to_owned(), name: name.to_owned(), temperature: None, max_tokens: None })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_of_a_model_tells_its_provider() {
        for (name, provider) in [
            ("gemini-2.5-flash", "google"),
            ("gpt-5", "openai"),
            ("o3", "openai"),
            ("o4-mini", "openai"),
            ("claude-opus-4", "anthropic"),
        ] {
            let full = format!("{provider}/{name}");
            assert_eq!(name.parse::<ModelConfig>().unwrap().to_string(), full);
            let read: ModelConfig = serde_json::from_value(json!({ "name": name })).unwrap();
            assert_eq!(read.to_string(), full);
        }
    }

    #[test]
    fn a_model_without_a_provider_that_its_name_does_not_tell_is_refused_with_the_rule() {
        for name in ["llama3", "ollama", "openai", "o", "geminix", "orca-2", ""] {
            let refused = name.parse::<ModelConfig>().unwrap_err().to_string();
            assert!(refused.contains("`gemini-*` (google)"), "{refused}");
            let refused =
                serde_json::from_value::<ModelConfig>(json!({ "name": name })).unwrap_err().to_string();
            assert!(refused.contains("`claude-*` (anthropic)"), "{refused}");
        }
        let kept: ModelConfig = serde_json::from_value(json!({ "provider": "p", "name": "gpt-5" })).unwrap();
        assert_eq!(kept.to_string(), "p/gpt-5", "a provider that is given stays");
        assert!(serde_json::from_value::<ModelConfig>(json!({ "name": "o3", "colour": 1 })).is_err());
    }

    #[test]
    fn a_model_is_written_as_a_text_or_as_an_object() {
        for (text, full) in [
            ("rehearsal/echo", "rehearsal/echo"),
            ("record/google/gemini-2.5-flash", "record/google/gemini-2.5-flash"),
            ("gemini-2.5-flash", "google/gemini-2.5-flash"),
        ] {
            let read: ModelConfig = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(read.to_string(), full);
        }
        for (value, reason) in [
            (json!("echo"), "is not of the form provider/name"),
            (json!("/echo"), "is not of the form provider/name"),
            (json!(3), "{ \"provider\": \"google\", \"name\": \"gemini-2.5-flash\" }"),
            (json!(["rehearsal", "echo"]), "as \"google/gemini-2.5-flash\" or {"),
        ] {
            let refused = serde_json::from_value::<ModelConfig>(value).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
