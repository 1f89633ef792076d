//! The state that a driver continues a run from, and checks of the definition that decide how it is driven.

use emergent_domain::{
    agent::{AgentDefinition, FlowType},
    approval::Approval,
    run::{Origin, Run},
    tool_name,
};
use emergent_store::runs::conversation::Conversation;

/// The state that a driver continues a run from.
pub(crate) struct LoadedRun {
    pub definition: AgentDefinition,
    /// The conversations of the runs that this one resumes, oldest first.
    pub earlier: Vec<Conversation>,
    pub own: Conversation,
    /// Whether a budget limit applies to the run.
    pub limited: bool,
    /// The requests to people for calls of this run; empty unless it has held calls.
    pub approvals: Vec<Approval>,
}

/// Whether a run is a flow. If a flow names its own agent as a part, that part is an ordinary run. So is a
/// sequential flow without parts. For a resumed run, `run` is the first one of its chain: whoever resumes a part of
/// a flow continues that part, and starts no flow.
pub(crate) fn is_flow(run: &Run, definition: &AgentDefinition, parent: Option<&Run>) -> bool {
    let is_own_part = run.origin == Origin::Flow && parent.is_some_and(|parent| parent.agent == run.agent);
    let has_no_parts = definition.flow_type == FlowType::Sequential && flow_agents(definition).is_empty();
    definition.flow_type != FlowType::Single && !is_own_part && !has_no_parts
}

/// Returns the names of the agents that a flow runs; none if its definition lists none.
pub(crate) fn flow_agents(definition: &AgentDefinition) -> &[String] {
    definition.flow_config.as_ref().map_or(&[], |flow| &flow.agents)
}

/// Whether the definition lists patterns, so that the tools of the run are known only when the pool is
/// asked.
pub(crate) fn has_tool_patterns(definition: &AgentDefinition) -> bool {
    definition.tools.iter().any(|entry| tool_name::is_glob(entry))
}
