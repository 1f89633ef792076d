//! Agents that another system executes: their model is `a2a/<server>`.

use std::borrow::Cow;

use super::AgentDefinition;

/// The provider of a model that is an agent of another system. The name of the model is that of a server of the
/// project with the transport `a2a`.
pub const REMOTE_AGENT_PROVIDER: &str = "a2a";

/// The only tool of this system that an agent of another system can make use of: its questions go to a person.
const ASK_USER: &str = "ask_user";

impl AgentDefinition {
    /// The server of the remote agent that executes this agent, if it is not a model of this system.
    pub fn remote_agent(&self) -> Option<&str> {
        let model = self.model.as_ref().filter(|model| model.provider == REMOTE_AGENT_PROVIDER)?;
        Some(&model.name)
    }

    /// The whitelist of the agent. A remote agent has the tool by which it is reached. It cannot call others, since
    /// it has tools of its own in its own system.
    pub fn granted_tools(&self) -> Cow<'_, [String]> {
        let Some(server) = self.remote_agent() else { return Cow::Borrowed(&self.tools) };
        let asks = self.tools.iter().filter(|entry| *entry == ASK_USER).take(1).cloned();
        Cow::Owned(std::iter::once(format!("{server}.*")).chain(asks).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_remote_agent_has_the_tool_by_which_it_is_reached() {
        let definition = |model: serde_json::Value| -> AgentDefinition {
            let tools = json!(["ask_user", "entities_*"]);
            serde_json::from_value(json!({ "name": "a", "model": model, "tools": tools })).unwrap()
        };
        let remote = definition(json!({ "provider": "a2a", "name": "writer" }));
        assert_eq!(remote.granted_tools().as_ref(), ["writer.*", "ask_user"]);
        assert!(remote.pins_model(), "another model would be another agent");
        let own = definition(json!({ "provider": "google", "name": "gemini-3" }));
        assert_eq!(own.granted_tools().as_ref(), ["ask_user", "entities_*"]);
        assert!(own.remote_agent().is_none() && !own.pins_model());
    }
}
