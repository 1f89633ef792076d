//! Which agents a workflow can use. Visibility restricts who starts an agent from outside, and a workflow
//! starts agents on behalf of whoever dispatched it. So the dispatcher leaves internal agents alone, unless
//! their definition says `config.dispatchable`; then it may choose them, and agents may name them in a task.
//! A token cannot name an internal agent.

use emergent_domain::{
    agent::{Agent, AgentDefinition, Visibility},
    author::Author,
    coordination::CoordinationSettings,
    ids::{AgentId, ProjectId},
    pack::nearest_name,
    token::Scope,
};
use emergent_store::{Result, Tx, agents, tokens};

/// The agents that the dispatcher may start.
pub(crate) fn dispatchable_agents(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let mut all = agents::list_all(tx, project)?;
    all.retain(|agent| agent.definition.is_dispatchable());
    Ok(all)
}

/// Whether an agent may be chosen for a task that does not name it. An internal agent of a product is a helper of the
/// product's other agents: it is chosen only if the project says so. An internal agent that the project defined
/// itself says so with `config.dispatchable`. Any other agent can refuse with `config.dispatchable: false`.
pub(crate) fn is_selectable(definition: &AgentDefinition, settings: &CoordinationSettings) -> bool {
    let is_helper = definition.visibility == Visibility::Internal && definition.product.is_some();
    let may_start = definition.is_dispatchable() && !definition.is_only_named();
    may_start && (!is_helper || settings.select_internal_agents)
}

/// Whether the author of a request may learn which agents there are.
pub(crate) fn may_read_agents(tx: &mut Tx<'_>, author: Author) -> Result<bool> {
    let Author::Token { id } = author else { return Ok(true) };
    // The server itself checks what is stored as if a token had sent it that does not exist. What it finds is told to
    // whoever reads about triggers and workflows, who may be no reader of agents.
    Ok(tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::AgentsRead)))
}

/// The agents that somebody may name in a task, a discussion or a workflow.
pub(crate) struct NameableAgents {
    names: Vec<String>,
    internal: Vec<String>,
    /// Whether an unknown name is answered with those that there are.
    may_list: bool,
}

impl NameableAgents {
    pub fn load(tx: &mut Tx<'_>, project: ProjectId, author: Author) -> Result<Self> {
        let all = agents::list_all(tx, project)?;
        Self::from_agents(tx, &all, author)
    }

    /// Those of all agents of a project that the author may name.
    pub fn from_agents(tx: &mut Tx<'_>, all: &[Agent], author: Author) -> Result<Self> {
        Ok(Self { may_list: may_read_agents(tx, author)?, ..Self::new(all, author) })
    }

    fn new(all: &[Agent], author: Author) -> Self {
        let may_name = |agent: &&Agent| match author {
            Author::Token { .. } => agent.definition.visibility != Visibility::Internal,
            Author::Run { .. } | Author::System => agent.definition.is_dispatchable(),
        };
        // An id is that agent's, whatever name another one has. New agents cannot have such a name.
        let is_id_of_another = |agent: &&Agent| {
            let id = agent.definition.name.parse::<AgentId>();
            id.is_ok_and(|id| all.iter().any(|other| other.id == id && other.id != agent.id))
        };
        let (nameable, internal): (Vec<&Agent>, Vec<&Agent>) =
            all.iter().filter(|agent| !is_id_of_another(agent)).partition(may_name);
        let names = |agents: Vec<&Agent>| agents.iter().map(|agent| agent.definition.name.clone()).collect();
        Self { names: names(nameable), internal: names(internal), may_list: true }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether there is an agent of this name, which cannot be named.
    pub fn is_internal(&self, name: &str) -> bool {
        self.internal.iter().any(|known| known == name)
    }

    /// Why the name cannot be used, with a similar name if `suggest`; `None` if it can.
    pub fn problem(&self, name: &str, suggest: bool) -> Option<String> {
        if self.contains(name) {
            return None;
        }
        if self.is_internal(name) {
            return Some(format!(
                "the agent `{name}` is internal: name another one, or none; the dispatcher may choose an internal \
                 agent if its definition has `config.dispatchable`"
            ));
        }
        let similar = (suggest && self.may_list)
            .then(|| nearest_name(name, self.names.iter().map(String::as_str)))
            .flatten();
        Some(match similar {
            Some(similar) => format!("there is no agent `{name}`; did you mean `{similar}`?"),
            None => format!("there is no agent `{name}`"),
        })
    }

    /// Like [`NameableAgents::problem`] with a similar name. If none is similar, it lists the agents there are.
    pub fn problem_with_list(&self, name: &str) -> Option<String> {
        let problem = self.problem(name, true)?;
        let has_none = self.names.is_empty() || !self.may_list;
        let is_answered = problem.ends_with('?') || self.is_internal(name) || has_none;
        Some(if is_answered { problem } else { format!("{problem}; there are {}", self.names.join(", ")) })
    }
}
