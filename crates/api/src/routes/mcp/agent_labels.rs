//! The names by which clients call agents. An agent is called `agent_…`. An external tool may have the same name,
//! and so may another agent, because names of agents have more characters than names of tools. Whoever was
//! there first keeps the name; a hash is appended to that of the other.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::time::Timestamp;
use emergent_tools::hex_hash;

const AGENT_PREFIX: &str = "agent_";
const MAX_TOOL_NAME_CHARS: usize = 128;
/// How many hexadecimal digits of a hash are appended.
const HASH_CHARS: usize = 8;

/// The labels of tools that clients can call, and since when each tool is there; `None` for a built-in tool,
/// which is always there.
pub(super) type ToolLabels = BTreeMap<String, Option<Timestamp>>;

/// An agent to be labelled.
pub(super) struct NewLabel<'a> {
    pub agent: &'a str,
    pub created_at: Timestamp,
}

/// The names of agents and tools that would have the same otherwise.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    /// The label of each agent, in the order of the agents.
    pub agents: Vec<String>,
    /// The tools that came after an agent of the same label, each with its new label.
    pub renamed_tools: BTreeMap<String, String>,
}

/// Labels the agents of a project. The oldest agent comes first.
pub(super) fn label_agents(agents: &[NewLabel<'_>], tools: &ToolLabels) -> Labels {
    let mut labels = Labels::default();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for agent in agents {
        let readable = readable_label(agent.agent);
        let came_later = |since: &Option<Timestamp>| since.is_some_and(|since| since > agent.created_at);
        let label = match (taken.contains(&readable), tools.get(&readable)) {
            (false, None) => readable,
            (false, Some(since)) if came_later(since) => {
                labels.renamed_tools.insert(readable.clone(), with_hash(&readable, &readable));
                readable
            }
            _ => with_hash(&readable, agent.agent),
        };
        taken.insert(label.clone());
        labels.agents.push(label);
    }
    labels
}

/// Names of tools consist of at most 128 letters, digits, `_`, `-` and `.`; names of agents may contain other
/// characters.
fn readable_label(agent: &str) -> String {
    let to_allowed = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    AGENT_PREFIX.chars().chain(agent.chars().map(to_allowed)).take(MAX_TOOL_NAME_CHARS).collect()
}

/// The label with a hash of the name that it stands for.
fn with_hash(label: &str, name: &str) -> String {
    let hash: String = hex_hash(name).chars().take(HASH_CHARS).collect();
    let prefix: String = label.chars().take(MAX_TOOL_NAME_CHARS - HASH_CHARS - 1).collect();
    format!("{prefix}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn labels(agents: &[(&str, i64)], tools: &[(&str, Option<i64>)]) -> Labels {
        let agents: Vec<_> =
            agents.iter().map(|(agent, second)| NewLabel { agent, created_at: at(*second) }).collect();
        let tools = tools.iter().map(|(label, second)| ((*label).to_owned(), second.map(at))).collect();
        label_agents(&agents, &tools)
    }

    #[test]
    fn the_tool_name_of_an_agent_has_only_allowed_characters() {
        let found = labels(&[("research-assistant", 1), ("über agent", 2), (&"x".repeat(500), 3)], &[]);
        assert_eq!(found.agents[..2], ["agent_research-assistant", "agent__ber_agent"]);
        assert_eq!(found.agents[2].len(), 128);
    }

    #[test]
    fn whoever_was_there_first_keeps_the_name() {
        // Another agent.
        let found = labels(&[("a b", 1), ("a_b", 2)], &[]);
        assert_eq!(found.agents[0], "agent_a_b");
        assert!(found.agents[1].starts_with("agent_a_b_") && found.agents[1].len() == 18, "{found:?}");
        // A tool that was accepted before the agent was created, or comes with the server.
        for since in [Some(1), None] {
            let found = labels(&[("x", 2)], &[("agent_x", since)]);
            assert!(found.agents[0].starts_with("agent_x_"), "{found:?}");
            assert!(found.renamed_tools.is_empty());
        }
        // A tool that was accepted later.
        let found = labels(&[("x", 2)], &[("agent_x", Some(3))]);
        assert_eq!(found.agents, ["agent_x"]);
        assert!(found.renamed_tools["agent_x"].starts_with("agent_x_"), "{found:?}");
    }
}
