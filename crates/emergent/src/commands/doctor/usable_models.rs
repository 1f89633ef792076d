//! Says which agents have a model that the server can call.

use emergent_llm::Models;
use emergent_wire::{agent::AgentView, diagnostics::DiagnosticsView};

use crate::config::Settings;

/// The providers of a server, and its model for everything.
pub struct UsableModels {
    for_all: Option<String>,
    providers: Vec<Provider>,
}

struct Provider {
    name: String,
    configured: bool,
    setting: Option<String>,
}

impl UsableModels {
    /// What a running server says about itself.
    pub fn from_server(state: &DiagnosticsView) -> Self {
        let provider = |view: &emergent_wire::diagnostics::ModelProviderView| Provider {
            name: view.provider.clone(),
            configured: view.configured,
            setting: view.setting.clone(),
        };
        Self { for_all: state.model.clone(), providers: state.models.iter().map(provider).collect() }
    }

    /// What a server with these settings would have; `None` if it would not start.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let models = Models::from_settings(&settings.models()).ok()?;
        let provider = |status: emergent_llm::ProviderStatus| Provider {
            name: status.name,
            configured: status.configured,
            setting: status.setting.map(str::to_owned),
        };
        let providers = models.status().into_iter().map(provider).collect();
        Some(Self { for_all: settings.model.clone(), providers })
    }

    /// Why the agent has no usable model; `None` if it has one. A flow needs one too: it is checked when it starts.
    pub fn problem(&self, agent: &AgentView) -> Option<String> {
        let is_pinned = agent.config.get("pin_model").is_some_and(|pinned| pinned == true);
        let own = agent.model.as_ref().map(|model| format!("{}/{}", model.provider, model.name));
        let model = self.for_all.clone().filter(|_| !is_pinned).or(own);
        let Some(model) = model else { return Some("no model is set for it".to_owned()) };
        let provider = model.split('/').next().unwrap_or_default();
        match self.providers.iter().find(|known| known.name == provider) {
            Some(known) if known.configured => None,
            Some(Provider { setting: Some(setting), .. }) => {
                Some(format!("its model {model} needs {setting}"))
            }
            _ => Some(format!("its model {model} has the unknown provider `{provider}`")),
        }
    }
}
