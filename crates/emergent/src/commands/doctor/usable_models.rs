//! Says which agents have a model that the server can call.

use emergent_domain::agent::calls_no_model;
use emergent_wire::{
    agent::AgentView,
    diagnostics::{DiagnosticsView, ModelProviderView, ProbeStatus},
};

use crate::{commands::suggestion, messages};

/// Why an agent cannot be started, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelProblem {
    pub reason: String,
    pub fix: String,
}

impl ModelProblem {
    fn new(reason: impl Into<String>, fix: &str) -> Self {
        Self { reason: reason.into(), fix: fix.to_owned() }
    }
}

const PROVIDER_FIX: &str =
    "make that provider usable, or set EMERGENT_MODEL=provider/name, and start the server again";
const MODEL_FIX: &str =
    "give its definition a `model`, or start the server with EMERGENT_MODEL=provider/name";
const NAME_FIX: &str =
    "correct the `model` of its definition, or start the server with EMERGENT_MODEL=provider/name";

/// The field of the warnings about the models of agents. All others are about tools.
pub const MODEL_FIELD: &str = "model";
/// What a provider says of a script or a recording that it cannot read.
const UNREADABLE: &str = " cannot be used: ";

/// What to do about a warning that an agent has no model. `edit` is the command that changes the agent. One about a
/// script that is missing says so itself.
pub fn fix_of_model_warning(reason: &str, edit: &str) -> Option<String> {
    reason
        .contains(UNREADABLE)
        .then(|| format!("correct that file, or give the agent another model with `{edit}`"))
}

/// The providers of a server, and its model for everything.
pub struct UsableModels {
    /// Whether a server runs, which has to be started again to know of a changed setting.
    has_server: bool,
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
        Self { has_server: true, ..Self::without_server(state.model.clone(), &state.models) }
    }

    /// The providers that a server would have, and its model for everything.
    pub fn without_server(for_all: Option<String>, providers: &[ModelProviderView]) -> Self {
        let provider = |view: &ModelProviderView| Provider {
            name: view.provider.clone(),
            configured: view.configured,
            setting: view.setting.clone(),
            failure: (view.probe.status == ProbeStatus::Failed)
                .then(|| view.probe.message.clone().unwrap_or_default()),
        };
        Self { has_server: false, for_all, providers: providers.iter().map(provider).collect() }
    }

    /// Whether a server that is started here would replace the model of the agent. What a running server says of an agent
    /// is about the model that it uses.
    pub fn would_replace_model_of(&self, agent: &AgentView) -> bool {
        !self.has_server && self.for_all.is_some() && !is_pinned(agent)
    }

    /// Why the agent has no usable model; `None` if it has one, or needs none because it is a flow of other agents.
    pub fn problem(&self, agent: &AgentView) -> Option<ModelProblem> {
        let parts = agent.flow_config.as_ref().map_or(&[][..], |flow| &flow.agents);
        if calls_no_model(agent.flow_type, parts) {
            return None;
        }
        let own = agent.model.as_ref().map(|model| format!("{}/{}", model.provider, model.name));
        let problem = self.problem_of_model(own.as_deref(), is_pinned(agent))?;
        Some(match self.has_server {
            true => problem,
            false => ModelProblem { fix: messages::without_server(&problem.fix), ..problem },
        })
    }

    fn problem_of_model(&self, own: Option<&str>, is_pinned: bool) -> Option<ModelProblem> {
        let model = self.for_all.as_deref().filter(|_| !is_pinned).or(own);
        let Some(model) = model else { return Some(ModelProblem::new("no model is set for it", MODEL_FIX)) };
        let provider = model.split('/').next().unwrap_or_default();
        match self.providers.iter().find(|known| known.name == provider) {
            Some(Provider { failure: Some(failure), .. }) => Some(ModelProblem::new(
                format!("{provider}, the provider of its model {model}, does not work: {failure}"),
                PROVIDER_FIX,
            )),
            Some(known) if known.configured => None,
            Some(Provider { setting: Some(setting), .. }) => {
                Some(ModelProblem::new(format!("its model {model} needs {setting}"), PROVIDER_FIX))
            }
            _ => {
                let nearest = suggestion(provider, self.providers.iter().map(|known| known.name.as_str()));
                let reason = format!("its model {model} has the unknown provider `{provider}`{nearest}");
                Some(ModelProblem::new(reason, NAME_FIX))
            }
        }
    }
}

fn is_pinned(agent: &AgentView) -> bool {
    agent.config.get("pin_model").is_some_and(|pinned| pinned == true)
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
            let models = UsableModels::without_server(for_all.map(str::to_owned), &providers);
            models.problem_of_model(Some(model), false).map(|problem| problem.reason)
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
        assert_eq!(
            problem(None, "gogle/x").as_deref(),
            Some("its model gogle/x has the unknown provider `gogle`; did you mean `google`?")
        );
        let unset = UsableModels::without_server(None, &providers).problem_of_model(None, false).unwrap();
        assert_eq!(unset, ModelProblem::new("no model is set for it", MODEL_FIX));
    }
}
