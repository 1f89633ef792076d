//! The catalog of a token in a project: the tools that its scopes allow, and the agents with external
//! visibility, each as a tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use emergent_domain::{agent::Visibility, ids::AgentId, time::Timestamp, token::Scope, tool_name};
use emergent_executor::Executor;
use emergent_mcp::server::{Annotations, Fault, JsonFields, Tool as Listed, ToolList};
use emergent_store::agents as rows;
use emergent_tools::{Effect, Tool, ToolInfo};
use serde_json::{Value, json, value::RawValue};

use super::{
    agent_labels::{Labels, NewLabel, ToolLabels, label_agents},
    database_errors::request_failure,
    host::McpCaller,
    resources,
};

/// Scopes as one number, so that tokens with the same scopes share a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScopeSet(u32);

impl ScopeSet {
    pub fn from_scopes(scopes: &BTreeSet<Scope>) -> Self {
        Self(scopes.iter().fold(0, |set, scope| set | 1 << *scope as u32))
    }
}

/// Which tools a catalog contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolSelection {
    /// Including the tools of external servers, which may have to be connected first.
    All,
    /// Only tools that need no external server.
    LocalOnly,
}

/// The tools that callers with the same project and scopes can list and call.
pub(super) struct Catalog {
    /// The list of tools, serialised.
    pub tools: Arc<ToolList>,
    pub hashes: ListHashes,
    entries: BTreeMap<String, CatalogEntry>,
    /// Tools that exist, but need a scope that the token lacks.
    missing_scopes: BTreeMap<String, Scope>,
}

/// Hashes of the lists of tools and prompts, which differ if the lists do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListHashes {
    pub tools: u64,
    pub prompts: u64,
}

/// What a call of a listed tool executes.
pub(super) enum CatalogEntry {
    Tool(Arc<dyn Tool>),
    Agent(AgentTool),
}

/// An agent that can be called as a tool.
pub(super) struct AgentTool {
    pub id: AgentId,
    created_at: Timestamp,
    pub name: String,
    description: String,
}

/// These tools have the same effect however often they are called; a second call of the others has a
/// further effect.
const IDEMPOTENT: &[&str] = &[
    "documents_create",
    "entities_delete",
    "entities_restore",
    "entities_update",
    "relationships_create",
    "relationships_delete",
    "relationships_update",
    "schema_pack_assign",
];

impl Catalog {
    /// Reads the tools and agents of the caller's project.
    pub async fn load(
        executor: &Executor,
        caller: &McpCaller,
        selection: ToolSelection,
    ) -> Result<Self, Fault> {
        let (mut entries, mut missing_scopes) = (BTreeMap::new(), BTreeMap::new());
        let agents = external_agents(executor, caller).await?;
        let labels = agent_labels(executor, caller, &agents).await;
        for (name, tool) in project_tools(executor, caller, selection).await {
            // A tool without a scope is for agents only.
            let Some(scope) = tool.info().scope else { continue };
            let name = labels.renamed_tools.get(&name).cloned().unwrap_or(name);
            if caller.has_scope(scope) {
                entries.insert(name, CatalogEntry::Tool(tool));
            } else {
                missing_scopes.insert(name, scope);
            }
        }
        for (name, agent) in labels.agents.into_iter().zip(agents) {
            if caller.has_scope(Scope::AgentsInvoke) {
                entries.insert(name, CatalogEntry::Agent(agent));
            } else {
                missing_scopes.insert(name, Scope::AgentsInvoke);
            }
        }
        let listed =
            entries.iter().map(|(name, entry)| listed_tool(name, entry)).collect::<Result<Vec<_>, _>>()?;
        let tools = ToolList::from_tools(&listed)?;
        let prompts = resources::prompts(executor, caller).await?;
        let hashes = ListHashes { tools: hash_list(tools.json()), prompts: hash_list(&prompts) };
        Ok(Self { tools: Arc::new(tools), hashes, entries, missing_scopes })
    }

    /// Returns the tool with this name or alias.
    pub fn find(&self, name: &str) -> Result<&CatalogEntry, Fault> {
        let canonical = tool_name::canonical(name);
        if let Some(entry) = self.entries.get(name).or_else(|| self.entries.get(canonical)) {
            return Ok(entry);
        }
        match self.missing_scopes.get(name).or_else(|| self.missing_scopes.get(canonical)) {
            Some(scope) => Err(Fault::Forbidden { scope: scope.to_string() }),
            None => Err(Fault::invalid(format!("there is no tool `{name}`; `tools/list` lists all tools"))),
        }
    }
}

fn hash_list(list: &JsonFields) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(list.as_bytes());
    hasher.finish()
}

/// Returns the project's tools with their offered names.
async fn project_tools(
    executor: &Executor,
    caller: &McpCaller,
    selection: ToolSelection,
) -> Vec<(String, Arc<dyn Tool>)> {
    let pool = executor.tools();
    match selection {
        ToolSelection::All => {
            let tools = pool.resolve(caller.project, &["*".to_owned()], 0, true).await;
            let named =
                tools.names().filter_map(|name| Some((name.to_owned(), Arc::clone(tools.get(name)?))));
            named.collect()
        }
        ToolSelection::LocalOnly => {
            let tools = pool.project_tools(caller.project).await.into_iter();
            let local = tools.filter(|tool| tool.info().server.is_none());
            local.map(|tool| (tool.info().name.clone(), tool)).collect()
        }
    }
}

/// Returns the labels of agents, and the tools that would have the same ones. All tools that were accepted count,
/// whether their servers can be reached or not, so a label always means the same.
async fn agent_labels(executor: &Executor, caller: &McpCaller, agents: &[AgentTool]) -> Labels {
    let labelled = executor.tools().project_labels(caller.project).await;
    let tools: ToolLabels = labelled.iter().map(|tool| (tool.label.clone(), tool.accepted_at)).collect();
    let agents: Vec<_> =
        agents.iter().map(|agent| NewLabel { agent: &agent.name, created_at: agent.created_at }).collect();
    label_agents(&agents, &tools)
}

/// Returns the agents of the project that are visible to clients, the oldest first.
async fn external_agents(executor: &Executor, caller: &McpCaller) -> Result<Vec<AgentTool>, Fault> {
    let project = caller.project;
    let agents = executor.graph().db().read(move |tx| rows::list_all(tx, project)).await;
    let external = agents
        .map_err(request_failure)?
        .into_iter()
        .filter(|agent| agent.definition.visibility == Visibility::External);
    let mut agents: Vec<AgentTool> = external
        .map(|agent| AgentTool {
            id: agent.id,
            created_at: agent.created_at,
            name: agent.definition.name,
            description: agent.definition.description,
        })
        .collect();
    agents.sort_by_key(|agent| (agent.created_at, agent.id));
    Ok(agents)
}

fn listed_tool(name: &str, entry: &CatalogEntry) -> Result<Listed, Fault> {
    let (description, input_schema, annotations) = match entry {
        CatalogEntry::Tool(tool) => {
            let info = tool.info();
            (info.description.as_ref().to_owned(), input_schema(info)?, annotations(info))
        }
        CatalogEntry::Agent(agent) => (agent.tool_description(), raw(&agent_input_schema())?, AGENT_HINTS),
    };
    Ok(Listed {
        name: name.to_owned(),
        title: None,
        description,
        input_schema,
        annotations: Some(annotations),
    })
}

impl AgentTool {
    fn tool_description(&self) -> String {
        let description = self.description.trim();
        let first = match description {
            "" => format!("The agent `{}`.", self.name),
            _ => description.to_owned(),
        };
        format!("{first} Give it a task as `input`; it works on its own and answers when it is done.")
    }
}

fn agent_input_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "input": { "type": "string", "minLength": 1, "description": "What the agent should do." } },
        "required": ["input"],
        "additionalProperties": false,
    })
}

/// An agent may do anything, so its hints are the most careful ones.
const AGENT_HINTS: Annotations = Annotations {
    read_only_hint: false,
    destructive_hint: true,
    idempotent_hint: false,
    open_world_hint: true,
};

fn annotations(info: &ToolInfo) -> Annotations {
    let (read_only_hint, destructive_hint, idempotent_hint, open_world_hint) = match info.effect {
        Effect::Reads => (true, false, true, false),
        Effect::Writes { destructive } => {
            (false, destructive, IDEMPOTENT.contains(&info.name.as_str()), false)
        }
        Effect::External { read_only, idempotent } => (read_only, !read_only, read_only || idempotent, true),
        Effect::Coordinates | Effect::Asks => (false, true, false, true),
    };
    Annotations { read_only_hint, destructive_hint, idempotent_hint, open_world_hint }
}

/// Returns the input schema of a tool. The headers that its own server requests are removed, because
/// they do not concern our clients.
fn input_schema(info: &ToolInfo) -> Result<Box<RawValue>, Fault> {
    const HEADER: &str = "x-mcp-header";
    if !info.input_schema.as_str().contains(HEADER) {
        return RawValue::from_string(info.input_schema.as_str().to_owned()).map_err(Fault::internal);
    }
    let mut schema = info.input_schema.as_value().clone();
    for property in schema["properties"].as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        property.as_object_mut().map(|property| property.remove(HEADER));
    }
    raw(&schema)
}

fn raw(value: &Value) -> Result<Box<RawValue>, Fault> {
    serde_json::value::to_raw_value(value).map_err(Fault::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_share_a_catalog_if_and_only_if_their_scopes_are_the_same() {
        let set = |scopes: &[Scope]| ScopeSet::from_scopes(&scopes.iter().copied().collect());
        assert_eq!(set(&[Scope::GraphRead, Scope::AdminWrite]), set(&[Scope::AdminWrite, Scope::GraphRead]));
        assert_ne!(set(&[Scope::GraphRead]), set(&[Scope::GraphWrite]));
    }
}
