//! Creates the models that settings describe.

use std::{
    env::split_paths,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::Models;
use crate::{
    Anthropic, ChatSettings, Error, Gemini, OpenAi, Provider, VertexSettings, embed::non_empty,
    prices::Prices,
};

/// The values of settings as they were written; each field names its setting. The caller reads the
/// environment. There is no `Debug`, because half of the fields are keys.
#[derive(Clone, Default)]
pub struct ModelSettings {
    /// `EMERGENT_MODEL`: the model for everything, as `provider/name`.
    pub model: Option<String>,
    /// `EMERGENT_MODEL_CALLS`: the number of concurrent calls per provider; the default is 256.
    pub calls_at_once: Option<String>,
    /// `EMERGENT_MODEL_PRICES`: a TOML or JSON file.
    pub prices: Option<String>,
    /// `EMERGENT_REHEARSALS`: folders of scripts, separated as in `PATH`.
    pub rehearsals: Option<String>,
    /// `EMERGENT_RECORDINGS`: the directory of `record` and `replay`.
    pub recordings: Option<String>,
    /// `GEMINI_API_KEY`
    pub gemini_api_key: Option<String>,
    /// `EMERGENT_GOOGLE_BASE_URL`
    pub google_base_url: Option<String>,
    /// `GOOGLE_APPLICATION_CREDENTIALS`
    pub vertex_credentials: Option<String>,
    /// The file that `gcloud auth application-default login` writes; used if it exists.
    pub gcloud_credentials: Option<String>,
    /// `GOOGLE_CLOUD_PROJECT`
    pub vertex_project: Option<String>,
    /// `GOOGLE_CLOUD_LOCATION`
    pub vertex_location: Option<String>,
    /// `EMERGENT_VERTEX_BASE_URL`
    pub vertex_base_url: Option<String>,
    /// `GCE_METADATA_HOST`
    pub metadata_host: Option<String>,
    /// `OPENAI_API_KEY`
    pub openai_api_key: Option<String>,
    /// `EMERGENT_OPENAI_BASE_URL`
    pub openai_base_url: Option<String>,
    /// `ANTHROPIC_API_KEY`
    pub anthropic_api_key: Option<String>,
    /// `EMERGENT_ANTHROPIC_BASE_URL`
    pub anthropic_base_url: Option<String>,
    /// `EMERGENT_ANTHROPIC_VERSION`
    pub anthropic_version: Option<String>,
    /// `OLLAMA_HOST`; the default is Ollama's usual address.
    pub ollama_host: Option<String>,
}

impl Models {
    /// Creates all providers that are configured. An invalid setting is an error that names it, so that it
    /// is reported at start; no provider is called here.
    pub fn from_settings(settings: &ModelSettings) -> Result<Self, Error> {
        let mut models = Self::default().with_secrets(settings.keys());
        if let Some(folders) = non_empty(&settings.rehearsals) {
            models = models.with_scripts_in(split_paths(folders).collect());
        }
        if let Some(folder) = non_empty(&settings.recordings) {
            models = models.with_recordings(folder.into(), settings.keys());
        }
        if let Some(text) = non_empty(&settings.calls_at_once) {
            let calls = text.parse().ok().filter(|calls| (1..=1_000_000).contains(calls));
            let wrong = || Error::Config(format!("`EMERGENT_MODEL_CALLS` is `{text}`, not a number from 1"));
            models = models.with_limit(calls.ok_or_else(wrong)?);
        }
        if let Some(text) = non_empty(&settings.model) {
            let wrong = |error: String| Error::Config(format!("`EMERGENT_MODEL`: {error}"));
            let model = text.parse().map_err(|error| wrong(format!("{error}")))?;
            // Without the key of a provider the server starts, because it may be set later. A name that is misspelt
            // would fail every run.
            models.check_provider(&model).map_err(|error| wrong(error.to_string()))?;
            models = models.with_model(model);
        }
        if let Some(path) = non_empty(&settings.prices) {
            models.edit().prices = Prices::from_file(Path::new(path))?;
        }
        for provider in settings.providers()? {
            models = models.with_provider(provider);
        }
        Ok(models)
    }
}

impl ModelSettings {
    fn providers(&self) -> Result<Vec<Arc<dyn Provider>>, Error> {
        let mut providers: Vec<Arc<dyn Provider>> = Vec::new();
        let chat = |api_key: &Option<String>, base_url: &Option<String>| ChatSettings {
            api_key: api_key.clone(),
            base_url: base_url.clone(),
            idle: None,
        };
        let any = |values: &[&Option<String>]| values.iter().any(|value| non_empty(value).is_some());

        if any(&[&self.gemini_api_key, &self.google_base_url]) {
            let settings = chat(&self.gemini_api_key, &self.google_base_url);
            providers.push(Arc::new(Gemini::google(&settings)?));
        }
        let gcloud = non_empty(&self.gcloud_credentials).is_some_and(|path| Path::new(path).exists());
        if gcloud
            || any(&[
                &self.vertex_credentials,
                &self.vertex_project,
                &self.vertex_base_url,
                &self.metadata_host,
            ])
        {
            let own = |value: &Option<String>| non_empty(value).map(str::to_owned);
            let vertex = VertexSettings {
                project: own(&self.vertex_project),
                location: own(&self.vertex_location),
                credentials_file: own(&self.vertex_credentials).map(PathBuf::from),
                gcloud_file: own(&self.gcloud_credentials).map(PathBuf::from),
                metadata_host: own(&self.metadata_host),
            };
            providers.push(Arc::new(Gemini::vertex(&chat(&None, &self.vertex_base_url), &vertex)?));
        }
        if any(&[&self.openai_api_key, &self.openai_base_url]) {
            let settings = chat(&self.openai_api_key, &self.openai_base_url);
            providers.push(Arc::new(OpenAi::new(&settings)?));
        }
        if any(&[&self.anthropic_api_key, &self.anthropic_base_url]) {
            let settings = chat(&self.anthropic_api_key, &self.anthropic_base_url);
            let anthropic = Anthropic::new(&settings)?;
            providers.push(Arc::new(match non_empty(&self.anthropic_version) {
                Some(version) => anthropic.with_api_version(version, &settings)?,
                None => anthropic,
            }));
        }
        // A local server needs no credentials; whether it runs shows with the first call.
        providers.push(Arc::new(OpenAi::ollama(&chat(&None, &self.ollama_host))?));
        Ok(providers)
    }

    fn keys(&self) -> Vec<String> {
        let keys = [&self.gemini_api_key, &self.openai_api_key, &self.anthropic_api_key];
        keys.into_iter().filter_map(non_empty).map(str::to_owned).collect()
    }
}
