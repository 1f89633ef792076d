//! The settings in `config` that say which agents start which, and with which model: `allow_delegation`,
//! `dispatchable`, `may_spawn` and `pin_model`.

use serde_json::Value;

use super::{AgentDefinition, Visibility};
use crate::tool_name::glob_matches;

const ALLOW_DELEGATION: &str = "allow_delegation";
const DISPATCHABLE: &str = "dispatchable";
const MAY_SPAWN: &str = "may_spawn";
const PIN_MODEL: &str = "pin_model";
const MAX_PATTERNS: usize = 200;
const MAX_PATTERN_BYTES: usize = 128;

impl AgentDefinition {
    /// Returns whether a run of this agent may delegate when another run has spawned it. A
    /// top-level run may always delegate.
    pub fn allows_delegation(&self) -> bool {
        self.config.get(ALLOW_DELEGATION) == Some(&Value::Bool(true))
    }

    /// Returns whether the dispatcher may start this agent for a task. An internal agent has to say so
    /// itself, because a token that may not start it could otherwise do so with a workflow.
    pub fn is_dispatchable(&self) -> bool {
        self.visibility != Visibility::Internal || self.config.get(DISPATCHABLE) == Some(&Value::Bool(true))
    }

    /// Returns whether the dispatcher leaves this agent to tasks that name it: `config.dispatchable` is `false`.
    pub fn is_only_named(&self) -> bool {
        self.config.get(DISPATCHABLE) == Some(&Value::Bool(false))
    }

    /// Returns whether the agent keeps the model of its definition when a run that was started with another
    /// model starts it. A remote agent does in any case: with another model it would be another agent.
    pub fn pins_model(&self) -> bool {
        self.config.get(PIN_MODEL) == Some(&Value::Bool(true)) || self.remote_agent().is_some()
    }

    /// Returns whether this agent may start another one with `spawn_agents`. Without `config.may_spawn` it
    /// may start any.
    pub fn may_spawn(&self, name: &str) -> bool {
        match self.config.get(MAY_SPAWN) {
            None => true,
            Some(_) => self.spawn_patterns().any(|pattern| glob_matches(pattern, name)),
        }
    }

    /// The names and patterns of `config.may_spawn`.
    pub fn spawn_patterns(&self) -> impl Iterator<Item = &str> {
        let patterns = self.config.get(MAY_SPAWN).and_then(Value::as_array);
        patterns.into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn check_delegation(&self, add_problem: &mut impl FnMut(&str, String)) {
        if self.config.get(DISPATCHABLE).is_some_and(|value| !value.is_boolean()) {
            add_problem("config.dispatchable", "must be true or false".into());
        }
        if self.config.get(PIN_MODEL).is_some_and(|value| !value.is_boolean()) {
            add_problem("config.pin_model", "must be true or false".into());
        }
        if self.pins_model() && self.model.is_none() {
            add_problem("config.pin_model", "needs a `model` that it pins".into());
        }
        let Some(may_spawn) = self.config.get(MAY_SPAWN) else { return };
        let Some(patterns) = may_spawn.as_array().filter(|patterns| patterns.len() <= MAX_PATTERNS) else {
            let reason = format!(
                "must be a list of at most {MAX_PATTERNS} names of agents, in which `*` stands for any characters"
            );
            return add_problem("config.may_spawn", reason);
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
        for (index, pattern) in patterns.iter().enumerate() {
            let text = pattern.as_str().unwrap_or_default();
            if text.is_empty() || text.len() > MAX_PATTERN_BYTES || !text.chars().all(is_allowed) {
                let reason = "must be the name of an agent, in which `*` stands for any characters";
                add_problem(&format!("config.may_spawn[{index}]"), reason.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::AvailableNames;

    fn with_config(config: Value) -> AgentDefinition {
        AgentDefinition {
            config: config.as_object().cloned().unwrap_or_default(),
            ..AgentDefinition::new("a")
        }
    }

    #[test]
    fn an_agent_may_spawn_those_that_it_names() {
        assert!(with_config(json!({})).may_spawn("anyone"));
        let some = with_config(json!({ "may_spawn": ["writer", "research-*"] }));
        assert!(some.may_spawn("writer") && some.may_spawn("research-web"));
        assert!(!some.may_spawn("writers") && !some.may_spawn("admin"));
        assert!(!with_config(json!({ "may_spawn": [] })).may_spawn("writer"));
        assert!(
            !with_config(json!({ "may_spawn": "*" })).may_spawn("writer"),
            "a wrong shape grants nothing"
        );
    }

    #[test]
    fn an_internal_agent_is_dispatched_only_if_it_says_so() {
        assert!(with_config(json!({})).is_dispatchable());
        let internal = |config| AgentDefinition { visibility: Visibility::Internal, ..with_config(config) };
        assert!(!internal(json!({})).is_dispatchable());
        assert!(!internal(json!({ "dispatchable": "true" })).is_dispatchable());
        assert!(internal(json!({ "dispatchable": true })).is_dispatchable());
    }

    #[test]
    fn a_wrong_shape_is_refused_with_its_field() {
        let wrong = |config| match with_config(config).check(&AvailableNames::default()) {
            Ok(()) => Vec::new(),
            Err(invalid) => invalid.problems.into_iter().map(|problem| problem.field).collect(),
        };
        assert_eq!(wrong(json!({ "dispatchable": false, "may_spawn": ["a*"] })), [""; 0]);
        assert_eq!(wrong(json!({ "dispatchable": 1 })), ["config.dispatchable"]);
        assert_eq!(wrong(json!({ "pin_model": "yes" })), ["config.pin_model"]);
        assert_eq!(wrong(json!({ "pin_model": true })), ["config.pin_model"], "there is no model to pin");
        assert_eq!(wrong(json!({ "may_spawn": "a" })), ["config.may_spawn"]);
        assert_eq!(
            wrong(json!({ "may_spawn": ["a", 1, "b c"] })),
            ["config.may_spawn[1]", "config.may_spawn[2]"]
        );
    }
}
