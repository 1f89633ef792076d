//! Says which agents have a model that the server can call.

use emergent_wire::{
    agent::AgentView,
    diagnostics::{DiagnosticsView, ModelProviderView, ProbeStatus},
};

/// The providers of a server, and its model for everything.
pub struct UsableModels {
    for_all: Option<String>,
    providers: Vec<Provider>,
}

struct Provider {
    name: String,
    configured: bool,
    setting: Option<String>,
    /// Why it was not reached.
    failure: Option<String>,
}

impl UsableModels {
    /// What a running server says about itself.
    pub fn from_server(state: &DiagnosticsView) -> Self {
        Self::new(state.model.clone(), &state.models)
    }

    /// The providers that a server has, or would have, and its model for everything.
    pub fn new(for_all: Option<String>, providers: &[ModelProviderView]) -> Self {
        let provider = |view: &ModelProviderView| Provider {
            name: view.provider.clone(),
            configured: view.configured,
            setting: view.setting.clone(),
            failure: (view.probe.status == ProbeStatus::Failed)
                .then(|| view.probe.message.clone().unwrap_or_default()),
        };
        Self { for_all, providers: providers.iter().map(provider).collect() }
    }

    /// Why the agent has no usable model; `None` if it has one. A flow needs one too: it is checked when it starts.
    pub fn problem(&self, agent: &AgentView) -> Option<String> {
        let is_pinned = agent.config.get("pin_model").is_some_and(|pinned| pinned == true);
        let own = agent.model.as_ref().map(|model| format!("{}/{}", model.provider, model.name));
        self.problem_of_model(own.as_deref(), is_pinned)
    }

    fn problem_of_model(&self, own: Option<&str>, is_pinned: bool) -> Option<String> {
        let model = self.for_all.as_deref().filter(|_| !is_pinned).or(own);
        let Some(model) = model else { return Some("no model is set for it".to_owned()) };
        let provider = model.split('/').next().unwrap_or_default();
        match self.providers.iter().find(|known| known.name == provider) {
            Some(Provider { failure: Some(failure), .. }) => {
                Some(format!("{provider}, the provider of its model {model}, does not work: {failure}"))
            }
            Some(known) if known.configured => None,
            Some(Provider { setting: Some(setting), .. }) => {
                Some(format!("its model {model} needs {setting}"))
            }
            _ => Some(format!("its model {model} has the unknown provider `{provider}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_needs_a_provider_that_is_configured_and_reached() {
        let provider =
            |name: &str, configured: bool, status: &str, setting: Option<&str>| -> ModelProviderView {
                let probe = json!({ "status": status, "message": "no answer", "millis": 1 });
                let view =
                    json!({ "provider": name, "configured": configured, "setting": setting, "probe": probe });
                serde_json::from_value(view).unwrap()
            };
        let providers = [
            provider("rehearsal", true, "not_probed", None),
            provider("ollama", true, "failed", Some("OLLAMA_HOST")),
            provider("google", false, "not_probed", Some("GEMINI_API_KEY")),
        ];
        let problem = |for_all: Option<&str>, model: &str| {
            UsableModels::new(for_all.map(str::to_owned), &providers).problem_of_model(Some(model), false)
        };
        assert_eq!(problem(None, "rehearsal/echo"), None);
        assert_eq!(problem(Some("rehearsal/echo"), "google/x"), None);
        assert_eq!(problem(None, "google/x").as_deref(), Some("its model google/x needs GEMINI_API_KEY"));
        assert_eq!(
            problem(None, "ollama/x").as_deref(),
            Some("ollama, the provider of its model ollama/x, does not work: no answer")
        );
        assert_eq!(
            problem(None, "nobody/x").as_deref(),
            Some("its model nobody/x has the unknown provider `nobody`")
        );
    }
}
