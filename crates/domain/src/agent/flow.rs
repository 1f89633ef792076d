//! Flows: how an agent executes other agents, or itself several times.

use serde::{Deserialize, Serialize};

use super::{AgentDefinition, AvailableNames, check::unknown_name, string_enum};

const MAX_FLOW_AGENTS: usize = 50;
pub const MAX_ITERATIONS: u32 = 50;

string_enum! {
    /// How an agent executes: alone, or as a flow over other agents.
    #[derive(Default)]
    FlowType {
        #[default]
        Single = "single",
        /// Runs `flow_config.agents` in order. Each agent receives the output of the previous one.
        Sequential = "sequential",
        /// Repeats its agents until `flow_config.until` is met.
        Loop = "loop",
        /// Runs `flow_config.agents` concurrently, then joins their outputs.
        Parallel = "parallel",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// Names of agents in the same project. If empty, the flow runs the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
}

/// The condition that ends a loop: the last output contains a text, or equals it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Until {
    Text(String),
    Rule(UntilRule),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UntilRule {
    Contains(String),
    Equals(String),
}

impl Until {
    pub fn is_met(&self, output: &str) -> bool {
        match self {
            Until::Text(text) | Until::Rule(UntilRule::Contains(text)) => output.contains(text.as_str()),
            Until::Rule(UntilRule::Equals(text)) => output.trim() == text.trim(),
        }
    }
}

impl AgentDefinition {
    pub(super) fn check_flow(&self, available: &AvailableNames, add_problem: &mut impl FnMut(&str, String)) {
        let flow = self.flow_config.as_ref();
        let agents = flow.map_or(&[][..], |flow| &flow.agents);
        if self.flow_type == FlowType::Single && flow.is_some_and(|flow| *flow != FlowConfig::default()) {
            add_problem(
                "flowConfig",
                "is only for the flow types `sequential`, `loop` and `parallel`".into(),
            );
        }
        if self.flow_type == FlowType::Parallel && agents.is_empty() {
            add_problem("flowConfig.agents", "is required: list the agents to run concurrently".into());
        }
        if agents.len() > MAX_FLOW_AGENTS {
            add_problem("flowConfig.agents", format!("has more than {MAX_FLOW_AGENTS} entries"));
        }
        // A list that is too long is refused anyway: comparing each of its names with all agents would take
        // long, and would add a problem for each.
        let checked = if agents.len() > MAX_FLOW_AGENTS { &[][..] } else { agents };
        for (index, name) in checked.iter().enumerate() {
            let field = format!("flowConfig.agents[{index}]");
            if *name == self.name {
                add_problem(&field, "an agent cannot be a part of its own flow".into());
            } else if !available.agents.contains(name) {
                let names = available.shown_agents().iter().map(String::as_str);
                let hint = crate::pack::nearest_name(name, names);
                add_problem(&field, unknown_name("agent", name, hint));
            }
        }
        if let Some(n) = flow.and_then(|flow| flow.max_iterations)
            && !(1..=MAX_ITERATIONS).contains(&n)
        {
            add_problem("flowConfig.maxIterations", format!("must be 1 to {MAX_ITERATIONS}"));
        }
        if flow.is_some_and(|flow| flow.until.is_some()) && self.flow_type != FlowType::Loop {
            add_problem("flowConfig.until", "is only for the flow type `loop`".into());
        }
    }
}
