//! Every model a server can reach: chosen by `provider/name`, asked with patience, priced.

mod choice;
mod settings;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use emergent_domain::{agent::ModelConfig, chat::Usage};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout_at},
};
use tracing::warn;

use crate::{
    Answer, ChatRequest, Delta, Error, Provider, Script,
    chat::{AnswerRecorder, Rehearsal, Replay},
    prices::Prices,
    retry::RetryPolicy,
};

pub use choice::ProviderStatus;
pub use settings::ModelSettings;

/// How many calls one provider gets at once, unless a setting says otherwise.
const DEFAULT_CONCURRENT_CALLS: usize = 256;

/// A handle on the providers; clones share it.
#[derive(Clone)]
pub struct Models {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    providers: HashMap<String, ProviderEntry>,
    rehearsal: Arc<Rehearsal>,
    recorder: Option<Arc<AnswerRecorder>>,
    /// Goes before what a definition says.
    override_model: Option<ModelConfig>,
    prices: Prices,
    policy: RetryPolicy,
    calls_at_once: usize,
}

#[derive(Clone)]
struct ProviderEntry {
    provider: Arc<dyn Provider>,
    /// None: what runs in this process needs no sparing.
    permits: Option<Arc<Semaphore>>,
}

/// Whom a call goes to in the end.
struct Target<'a> {
    source: &'a ProviderEntry,
    name: &'a str,
    recorder: Option<&'a AnswerRecorder>,
}

impl Default for Models {
    /// Rehearsals only: they need nothing.
    fn default() -> Self {
        let models = Inner {
            providers: HashMap::new(),
            rehearsal: Arc::new(Rehearsal::new(Vec::new())),
            recorder: None,
            override_model: None,
            prices: Prices::default(),
            policy: RetryPolicy::CHAT,
            calls_at_once: DEFAULT_CONCURRENT_CALLS,
        };
        Self { inner: Arc::new(models) }.with_scripts_in(Vec::new())
    }
}

impl Models {
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn Provider>) -> Self {
        let places = Arc::new(Semaphore::new(self.inner.calls_at_once));
        self.insert(provider, Some(places))
    }

    fn insert(mut self, provider: Arc<dyn Provider>, places: Option<Arc<Semaphore>>) -> Self {
        let name = provider.name().to_owned();
        self.edit().providers.insert(name, ProviderEntry { provider, permits: places });
        self
    }

    /// Adds a script: `rehearsal/<name>` plays it. Handles made before see it too.
    #[must_use]
    pub fn with_script(self, name: impl Into<String>, script: Script) -> Self {
        self.add_script(name, script);
        self
    }

    /// The same for a product that is installed while the server runs.
    pub fn add_script(&self, name: impl Into<String>, script: Script) {
        self.inner.rehearsal.add(name.into(), script);
    }

    /// Looks for scripts in these folders, in their order. Scripts added before are forgotten.
    #[must_use]
    pub fn with_scripts_in(mut self, folders: Vec<PathBuf>) -> Self {
        let rehearsal = Arc::new(Rehearsal::new(folders));
        self.edit().rehearsal = rehearsal.clone();
        self.insert(rehearsal, None)
    }

    /// Writes what `record/…` hears into `folder`, where `replay/…` finds it. `secrets` are blotted
    /// out.
    #[must_use]
    pub fn with_recordings(mut self, folder: PathBuf, secrets: Vec<String>) -> Self {
        self.edit().recorder = Some(Arc::new(AnswerRecorder::new(folder.clone(), secrets)));
        self.insert(Arc::new(Replay::new(folder)), None)
    }

    /// Uses this model for everything, whatever a definition says.
    #[must_use]
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        self.edit().override_model = Some(model);
        self
    }

    /// How many calls each provider gets at once; the rest wait for their turn.
    #[must_use]
    pub fn with_limit(mut self, calls_at_once: usize) -> Self {
        let models = self.edit();
        models.calls_at_once = calls_at_once;
        for places in models.providers.values_mut().filter_map(|source| source.permits.as_mut()) {
            *places = Arc::new(Semaphore::new(calls_at_once));
        }
        self
    }

    /// Says how many tokens the models of a `provider/prefix` can read at once.
    #[must_use]
    pub fn with_window(mut self, prefix: &str, tokens: u64) -> Self {
        self.edit().prices.set_window(prefix, tokens);
        self
    }

    fn edit(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.inner)
    }

    /// Asks a model until it answers, fails for good, or `deadline` comes.
    pub async fn chat(
        &self,
        model: &ModelConfig,
        mut request: ChatRequest<'_>,
        deadline: Instant,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let Target { source, name, recorder } = self.target(model)?;
        request.model = name;
        for failed in 1.. {
            let place = source.acquire(model, deadline).await?;
            let mut said = false;
            let mut pass_on = |delta| {
                said = true;
                on_delta(delta);
            };
            let asked = source.provider.chat(request, &mut pass_on);
            let result = timeout_at(deadline, asked).await;
            // While this call waits to ask again, another can have its place.
            drop(place);
            let error = match result {
                Ok(Ok(answer)) => {
                    if let Some(recorder) = recorder {
                        recorder.write(source.provider.name(), &request, &answer)?;
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                Err(_) => return Err(deadline_error(model, "no answer in the time there was")),
            };
            let Some(wait) = self.inner.policy.next_wait(failed, &error, deadline) else {
                return Err(error);
            };
            warn!(%model, wait_ms = wait.as_millis() as u64, "{error}; asking again");
            if said {
                on_delta(Delta::Restart { why: error.to_string() });
            }
            sleep(wait).await;
        }
        unreachable!("the last attempt returns")
    }

    /// In US dollars; `None` when the model's price is not known.
    pub fn cost(&self, model: &ModelConfig, usage: &Usage) -> Option<f64> {
        self.inner.prices.cost(recorded_model(model).as_ref().unwrap_or(model), usage)
    }

    /// How many tokens the model can read at once.
    pub fn window(&self, model: &ModelConfig) -> u64 {
        self.inner.prices.window(recorded_model(model).as_ref().unwrap_or(model))
    }
}

impl ProviderEntry {
    async fn acquire(
        &self,
        model: &ModelConfig,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, Error> {
        let Some(places) = &self.permits else { return Ok(None) };
        if let Ok(place) = places.try_acquire() {
            return Ok(Some(place));
        }
        match timeout_at(deadline, places.acquire()).await {
            Ok(place) => Ok(Some(place.expect("nobody closes it"))),
            Err(_) => {
                let message = "every place among the calls at once (`EMERGENT_MODEL_CALLS`) stayed taken";
                Err(deadline_error(model, message))
            }
        }
    }
}

fn deadline_error(model: &ModelConfig, message: &str) -> Error {
    Error::Overloaded { model: model.to_string(), message: message.into(), source: None }
}

/// The model behind `record/…`.
fn recorded_model(model: &ModelConfig) -> Option<ModelConfig> {
    if model.provider == choice::RECORD { model.name.parse().ok() } else { None }
}
