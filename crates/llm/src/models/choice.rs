//! Which model a run gets, and what to do when it cannot have one.

use emergent_domain::agent::ModelConfig;

use super::{Models, Target};
use crate::Error;

pub(super) const RECORD: &str = "record";
const REPLAY: &str = "replay";

/// Every provider there can be, and the setting that brings it to life.
const PROVIDERS: [(&str, &str); 8] = [
    ("google", "GEMINI_API_KEY"),
    ("vertex", "GOOGLE_APPLICATION_CREDENTIALS"),
    ("openai", "OPENAI_API_KEY"),
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("ollama", "OLLAMA_HOST"),
    ("rehearsal", ""),
    (RECORD, "EMERGENT_RECORDINGS"),
    (REPLAY, "EMERGENT_RECORDINGS"),
];

/// For `emergent doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderStatus {
    pub name: String,
    /// Whether a model of it can be asked; whether it answers is another question.
    pub configured: bool,
    /// The setting that would configure it; `None` when it needs none.
    pub setting: Option<&'static str>,
}

impl Models {
    /// The model a run will use, or why there is none: an error that names the ways to fix it.
    /// `EMERGENT_MODEL` goes before the definition, whose temperature and length stay.
    pub fn choose(&self, wanted: Option<&ModelConfig>) -> Result<ModelConfig, Error> {
        let chosen = match (&self.inner.override_model, wanted) {
            (Some(model), Some(wanted)) => ModelConfig {
                temperature: model.temperature.or(wanted.temperature),
                max_tokens: model.max_tokens.or(wanted.max_tokens),
                ..model.clone()
            },
            (Some(model), None) => model.clone(),
            (None, Some(wanted)) => wanted.clone(),
            (None, None) => {
                return Err(Error::Config(
                    "the agent names no model: set `EMERGENT_MODEL=provider/name`, or give its definition a \
                     `model` (`rehearsal/echo` needs no key)"
                        .into(),
                ));
            }
        };
        let target = self.target(&chosen)?;
        target.source.provider.check(target.name)?;
        Ok(chosen)
    }

    /// Every provider, the configured ones and the others.
    pub fn status(&self) -> Vec<ProviderStatus> {
        let known = PROVIDERS.iter().map(|&(name, setting)| ProviderStatus {
            name: name.to_owned(),
            configured: self.has(name),
            setting: Some(setting).filter(|setting| !setting.is_empty()),
        });
        let mut others: Vec<_> = self
            .inner
            .providers
            .keys()
            .filter(|name| PROVIDERS.iter().all(|(known, _)| known != name))
            .collect();
        others.sort_unstable();
        let others = others.into_iter().map(|name| ProviderStatus {
            name: name.clone(),
            configured: true,
            setting: None,
        });
        known.chain(others).collect()
    }

    fn has(&self, provider: &str) -> bool {
        match provider {
            RECORD => self.inner.recorder.is_some(),
            other => self.inner.providers.contains_key(other),
        }
    }

    /// Whom a model's calls go to.
    pub(super) fn target<'a>(&'a self, model: &'a ModelConfig) -> Result<Target<'a>, Error> {
        let inner = &*self.inner;
        if model.provider != RECORD {
            let Some(source) = inner.providers.get(&model.provider) else {
                return Err(self.not_configured(model, &model.provider));
            };
            return Ok(Target { source, name: &model.name, recorder: None });
        }
        let Some(recorder) = inner.recorder.as_deref() else {
            return Err(self.not_configured(model, RECORD));
        };
        let Some((provider, name)) = model.name.split_once('/').filter(|(_, name)| !name.is_empty()) else {
            let message = format!("`{model}` is not of the form `record/provider/name`");
            return Err(Error::Config(message));
        };
        let Some(source) = inner.providers.get(provider) else {
            return Err(self.not_configured(model, provider));
        };
        Ok(Target { source, name, recorder: Some(recorder) })
    }

    fn not_configured(&self, model: &ModelConfig, provider: &str) -> Error {
        let Some((_, setting)) = PROVIDERS.iter().find(|(name, _)| *name == provider) else {
            let names = self.status().into_iter().map(|status| status.name).collect::<Vec<_>>().join("`, `");
            return Error::Config(format!(
                "the model `{model}` is of an unknown provider `{provider}`; known are `{names}`"
            ));
        };
        let needs = match provider {
            RECORD | REPLAY => "a folder for recordings",
            _ => "credentials",
        };
        let other = match &self.inner.override_model {
            Some(_) => "set `EMERGENT_MODEL` to another model",
            None => "set `EMERGENT_MODEL=provider/name` to use another model for everything",
        };
        Error::Config(format!(
            "the model `{model}` needs {needs}: set `{setting}`, or {other} (`rehearsal/echo` needs no key)"
        ))
    }
}
