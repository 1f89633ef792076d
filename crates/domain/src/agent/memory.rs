//! `config.remember`: whether the facts that people write to the agent in conversations reach the graph.

use serde_json::Value;

use super::AgentDefinition;

const REMEMBER: &str = "remember";

impl AgentDefinition {
    /// Returns whether messages of people in conversations with this agent are passed on to the extraction.
    pub fn remembers(&self) -> bool {
        self.config.get(REMEMBER) == Some(&Value::Bool(true))
    }

    pub(super) fn check_memory(&self, add_problem: &mut impl FnMut(&str, String)) {
        if self.config.get(REMEMBER).is_some_and(|value| !value.is_boolean()) {
            add_problem("config.remember", "must be true or false".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::agent::{AgentDefinition, AvailableNames};

    #[test]
    fn an_agent_remembers_only_if_it_says_so_and_other_values_are_refused() {
        let agent = |remember: serde_json::Value| {
            let mut agent = AgentDefinition::new("a");
            agent.config.insert("remember".into(), remember);
            agent
        };
        assert!(!AgentDefinition::new("a").remembers());
        assert!(agent(json!(true)).remembers());
        assert!(!agent(json!(false)).remembers());
        for wrong in [json!("yes"), json!(1), json!(null), json!({})] {
            let wrong = agent(wrong);
            assert!(!wrong.remembers());
            let problems = wrong.check(&AvailableNames::default()).unwrap_err().problems;
            assert_eq!(problems[0].field, "config.remember");
        }
    }
}
