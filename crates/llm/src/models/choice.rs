//! Chooses the model of a run, and explains why none is available.

use emergent_domain::agent::{ModelConfig, REMOTE_AGENT_PROVIDER};

use super::{Models, Target};
use crate::Error;

pub(super) const RECORD: &str = "record";
const REPLAY: &str = "replay";

/// All possible providers, and the setting that configures each.
const PROVIDERS: [(&str, &str); 9] = [
    ("google", "GEMINI_API_KEY"),
    ("vertex", "GOOGLE_APPLICATION_CREDENTIALS"),
    ("openai", "OPENAI_API_KEY"),
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("ollama", "OLLAMA_HOST"),
    ("rehearsal", ""),
    (REMOTE_AGENT_PROVIDER, ""),
    (RECORD, "EMERGENT_RECORDINGS"),
    (REPLAY, "EMERGENT_RECORDINGS"),
];

/// The status of a provider, for `emergent doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderStatus {
    pub name: String,
    /// Whether its models can be called; whether they respond is not checked.
    pub configured: bool,
    /// The setting that would configure it; `None` if it needs none.
    pub setting: Option<&'static str>,
}

impl Models {
    /// Returns the model that a run will use, or an error that names the ways to configure one.
    /// `EMERGENT_MODEL` takes precedence over the definition, whose temperature and output limit are kept.
    pub fn choose(&self, requested: Option<&ModelConfig>) -> Result<ModelConfig, Error> {
        let chosen = match (&self.inner.override_model, requested) {
            (Some(model), Some(requested)) => ModelConfig {
                temperature: model.temperature.or(requested.temperature),
                max_tokens: model.max_tokens.or(requested.max_tokens),
                ..model.clone()
            },
            (Some(model), None) => model.clone(),
            (None, Some(requested)) => requested.clone(),
            (None, None) => {
                return Err(Error::Config(
                    "no model is configured: start the server with `EMERGENT_MODEL=provider/name`, or give the \
                     agent's definition a `model` (`rehearsal/echo` needs no key)"
                        .into(),
                ));
            }
        };
        let target = self.target(&chosen)?;
        target.entry.provider.check(target.name)?;
        Ok(chosen)
    }

    /// Returns an error if the provider of the model that a run will use is configured, but does not have this model, such
    /// as a script that is missing. `EMERGENT_MODEL` takes precedence unless the model is pinned. No model is called.
    pub fn check_name(&self, requested: Option<&ModelConfig>, is_pinned: bool) -> Result<(), Error> {
        let for_all = self.inner.override_model.as_ref().filter(|_| !is_pinned);
        match for_all.or(requested).map(|model| self.target(model)) {
            Some(Ok(target)) => target.entry.provider.check(target.name),
            // Other checks say that there is no model, or that its provider cannot be used.
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Returns the model of a run whose start request may name one. That model takes precedence over
    /// `EMERGENT_MODEL`, and that over the definition, whose temperature and output limit are kept.
    pub fn choose_for_run(
        &self,
        requested: Option<&ModelConfig>,
        definition: Option<&ModelConfig>,
    ) -> Result<ModelConfig, Error> {
        let Some(requested) = requested else { return self.choose(definition) };
        let chosen = ModelConfig {
            temperature: requested.temperature.or(definition.and_then(|model| model.temperature)),
            max_tokens: requested.max_tokens.or(definition.and_then(|model| model.max_tokens)),
            ..requested.clone()
        };
        let target = self.target(&chosen)?;
        target.entry.provider.check(target.name)?;
        Ok(chosen)
    }

    /// Returns the status of all providers, configured or not.
    pub fn status(&self) -> Vec<ProviderStatus> {
        let builtin = PROVIDERS.iter().map(|&(name, setting)| ProviderStatus {
            name: name.to_owned(),
            configured: self.has(name),
            setting: Some(setting).filter(|setting| !setting.is_empty()),
        });
        let mut others: Vec<_> = self
            .inner
            .providers
            .keys()
            .filter(|name| PROVIDERS.iter().all(|(builtin, _)| builtin != name))
            .collect();
        others.sort_unstable();
        let others = others.into_iter().map(|name| ProviderStatus {
            name: name.clone(),
            configured: true,
            setting: None,
        });
        builtin.chain(others).collect()
    }

    /// Returns an error if the model has a provider that there is not, configured or not.
    pub fn check_provider(&self, model: &ModelConfig) -> Result<(), Error> {
        let provider = match model.provider.as_str() {
            RECORD => model.name.split('/').next().unwrap_or_default(),
            provider => provider,
        };
        let is_known = PROVIDERS.iter().any(|(name, _)| *name == provider);
        if is_known { Ok(()) } else { Err(self.not_configured(model, provider)) }
    }

    /// Asks a configured provider whether it accepts the credentials; `None` if there is nothing to ask.
    /// The caller limits the time.
    pub async fn probe(&self, provider: &str) -> Option<Result<String, Error>> {
        self.inner.providers.get(provider)?.provider.probe().await
    }

    fn has(&self, provider: &str) -> bool {
        match provider {
            RECORD => self.inner.recorder.is_some(),
            other => self.inner.providers.contains_key(other),
        }
    }

    /// Returns the provider that a model's calls go to.
    pub(super) fn target<'a>(&'a self, model: &'a ModelConfig) -> Result<Target<'a>, Error> {
        let inner = &*self.inner;
        if model.provider != RECORD {
            let Some(entry) = inner.providers.get(&model.provider) else {
                return Err(self.not_configured(model, &model.provider));
            };
            return Ok(Target { entry, name: &model.name, recorder: None });
        }
        let Some(recorder) = inner.recorder.as_deref() else {
            return Err(self.not_configured(model, RECORD));
        };
        let Some((provider, name)) = model.name.split_once('/').filter(|(_, name)| !name.is_empty()) else {
            let message = format!("`{model}` is not of the form `record/provider/name`");
            return Err(Error::Config(message));
        };
        let Some(entry) = inner.providers.get(provider) else {
            return Err(self.not_configured(model, provider));
        };
        Ok(Target { entry, name, recorder: Some(recorder) })
    }

    fn not_configured(&self, model: &ModelConfig, provider: &str) -> Error {
        let Some((_, setting)) = PROVIDERS.iter().find(|(name, _)| *name == provider) else {
            let names = self.status().into_iter().map(|status| status.name).collect::<Vec<_>>().join("`, `");
            return Error::Config(format!(
                "the model `{model}` has the unknown provider `{provider}`; the providers are `{names}`"
            ));
        };
        let needs = match provider {
            RECORD | REPLAY => "a folder for recordings",
            _ => "credentials",
        };
        let other = match &self.inner.override_model {
            Some(_) => "start the server with another `EMERGENT_MODEL`",
            None => {
                "start the server with `EMERGENT_MODEL=provider/name` to use another model for everything"
            }
        };
        Error::Config(format!(
            "the model `{model}` needs {needs}: set `{setting}` and start the server again, or {other} \
             (`rehearsal/echo` needs no key); `emergent doctor` lists the providers that are configured"
        ))
    }
}
