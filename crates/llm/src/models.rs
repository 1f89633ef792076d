//! All models a server can reach: they are chosen by `provider/name`, called with retries, and priced.

mod choice;
mod settings;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use emergent_domain::{agent::ModelConfig, chat::Usage, run_event::ModelRetry};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout_at},
};
use tracing::warn;

use crate::{
    Answer, ChatRequest, Delta, Error, Provider, Script,
    chat::{AnswerRecorder, Rehearsal, Relay, Replay},
    prices::Prices,
    retry::RetryPolicy,
};

pub use choice::ProviderStatus;
pub use settings::ModelSettings;

/// The default number of concurrent calls per provider.
const DEFAULT_CONCURRENT_CALLS: usize = 256;
/// An error that followers of a run see is at most this long.
const MAX_ERROR_CHARS: usize = 500;

/// Gives access to the providers. Clones share the same state.
#[derive(Clone)]
pub struct Models {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    providers: HashMap<String, ProviderEntry>,
    rehearsal: Arc<Rehearsal>,
    recorder: Option<Arc<AnswerRecorder>>,
    /// Takes precedence over the model of a definition.
    override_model: Option<ModelConfig>,
    prices: Prices,
    policy: RetryPolicy,
    calls_at_once: usize,
    /// The keys of the providers, which no error may contain.
    secrets: Vec<String>,
}

#[derive(Clone)]
struct ProviderEntry {
    provider: Arc<dyn Provider>,
    /// `None` for a provider inside this process, which needs no limit.
    permits: Option<Arc<Semaphore>>,
}

/// The provider and model that a call finally goes to.
struct Target<'a> {
    entry: &'a ProviderEntry,
    name: &'a str,
    recorder: Option<&'a AnswerRecorder>,
}

impl Default for Models {
    /// Contains only rehearsals and remote agents, which need no configuration.
    fn default() -> Self {
        let models = Inner {
            providers: HashMap::new(),
            rehearsal: Arc::new(Rehearsal::new(Vec::new())),
            recorder: None,
            override_model: None,
            prices: Prices::default(),
            policy: RetryPolicy::CHAT,
            calls_at_once: DEFAULT_CONCURRENT_CALLS,
            secrets: Vec::new(),
        };
        Self { inner: Arc::new(models) }.with_scripts_in(Vec::new()).insert(Arc::new(Relay), None)
    }
}

impl Models {
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn Provider>) -> Self {
        let permits = Arc::new(Semaphore::new(self.inner.calls_at_once));
        self.insert(provider, Some(permits))
    }

    fn insert(mut self, provider: Arc<dyn Provider>, permits: Option<Arc<Semaphore>>) -> Self {
        let name = provider.name().to_owned();
        self.edit().providers.insert(name, ProviderEntry { provider, permits });
        self
    }

    /// Adds a script, which `rehearsal/<name>` plays. Existing clones see it too.
    #[must_use]
    pub fn with_script(self, name: impl Into<String>, script: Script) -> Self {
        self.add_script(name, script);
        self
    }

    /// Like [`Models::with_script`], for a product that is installed while the server runs.
    pub fn add_script(&self, name: impl Into<String>, script: Script) {
        self.inner.rehearsal.add(name.into(), script);
    }

    /// Searches scripts in these directories, in order. Scripts that were added before are discarded.
    #[must_use]
    pub fn with_scripts_in(mut self, folders: Vec<PathBuf>) -> Self {
        let rehearsal = Arc::new(Rehearsal::new(folders));
        self.edit().rehearsal = rehearsal.clone();
        self.insert(rehearsal, None)
    }

    /// Records the answers of `record/…` in `folder`, where `replay/…` finds them. `secrets` are redacted.
    #[must_use]
    pub fn with_recordings(mut self, folder: PathBuf, secrets: Vec<String>) -> Self {
        self.edit().recorder = Some(Arc::new(AnswerRecorder::new(folder.clone(), secrets)));
        self.insert(Arc::new(Replay::new(folder)), None)
    }

    /// Removes these texts from the errors of providers.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Vec<String>) -> Self {
        self.edit().secrets = secrets;
        self
    }

    /// Uses this model for everything, whatever a definition says.
    #[must_use]
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        self.edit().override_model = Some(model);
        self
    }

    /// Sets the number of concurrent calls per provider; further calls wait.
    #[must_use]
    pub fn with_limit(mut self, calls_at_once: usize) -> Self {
        let models = self.edit();
        models.calls_at_once = calls_at_once;
        for permits in models.providers.values_mut().filter_map(|entry| entry.permits.as_mut()) {
            *permits = Arc::new(Semaphore::new(calls_at_once));
        }
        self
    }

    /// Sets the context window of the models with a `provider/prefix`.
    #[must_use]
    pub fn with_window(mut self, prefix: &str, tokens: u64) -> Self {
        self.edit().prices.set_window(prefix, tokens);
        self
    }

    fn edit(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.inner)
    }

    /// Calls a model until it answers, fails permanently, or `deadline` passes.
    pub async fn chat(
        &self,
        model: &ModelConfig,
        mut request: ChatRequest<'_>,
        deadline: Instant,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let Target { entry, name, recorder } = self.target(model)?;
        request.model = name;
        for failed in 1.. {
            let permit = entry.acquire(model, deadline).await?;
            let mut has_output = false;
            let mut pass_on = |delta| {
                has_output = true;
                on_delta(delta);
            };
            let asked = entry.provider.chat(request, &mut pass_on);
            let result = timeout_at(deadline, asked).await;
            // While this call waits for its retry, another one can use its permit.
            drop(permit);
            let error = match result {
                Ok(Ok(answer)) => {
                    if let Some(recorder) = recorder {
                        recorder.write(entry.provider.name(), &request, &answer)?;
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) => error.without_secrets(&self.inner.secrets),
                Err(_) => return Err(deadline_error(model, "no answer before the deadline")),
            };
            let Some(wait) = self.inner.policy.next_wait(failed, &error, deadline) else {
                return Err(error);
            };
            warn!(%model, wait_ms = wait.as_millis() as u64, "{error}; asking again");
            if has_output {
                on_delta(Delta::Restart { why: error.to_string() });
            }
            on_delta(Delta::Retry(ModelRetry {
                model: model.to_string(),
                error: error.to_string().chars().take(MAX_ERROR_CHARS).collect(),
                attempt: failed,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            }));
            sleep(wait).await;
        }
        unreachable!("the last attempt returns")
    }

    /// Returns the cost in US dollars; `None` if the price of the model is unknown.
    pub fn cost(&self, model: &ModelConfig, usage: &Usage) -> Option<f64> {
        self.inner.prices.cost(recorded_model(model).as_ref().unwrap_or(model), usage)
    }

    /// Returns the context window of the model in tokens.
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
        let Some(permits) = &self.permits else { return Ok(None) };
        if let Ok(permit) = permits.try_acquire() {
            return Ok(Some(permit));
        }
        match timeout_at(deadline, permits.acquire()).await {
            #[expect(clippy::expect_used, reason = "nothing closes this semaphore")]
            Ok(permit) => Ok(Some(permit.expect("the semaphore is never closed"))),
            Err(_) => {
                let message = "all concurrent calls (`EMERGENT_MODEL_CALLS`) stayed in use";
                Err(deadline_error(model, message))
            }
        }
    }
}

fn deadline_error(model: &ModelConfig, message: &str) -> Error {
    Error::Overloaded { model: model.to_string(), message: message.into(), source: None }
}

/// Returns the model behind `record/…`.
fn recorded_model(model: &ModelConfig) -> Option<ModelConfig> {
    if model.provider == choice::RECORD { model.name.parse().ok() } else { None }
}
