//! What a token is offered in a project: the tools that its scopes allow, and the agents with external
//! visibility, each as a tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use emergent_domain::{agent::Visibility, ids::AgentId, token::Scope, tool_name};
use emergent_executor::Executor;
use emergent_mcp::server::{Annotations, Fault, JsonFields, Tool as Listed, ToolList};
use emergent_store::agents as rows;
use emergent_tools::{Effect, Tool, ToolInfo};
use serde_json::{Value, json, value::RawValue};

use super::{host::McpCaller, resources};

/// Scopes as one number, so that tokens with the same scopes share a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScopeSet(u32);

impl ScopeSet {
    pub fn from_scopes(scopes: &BTreeSet<Scope>) -> Self {
        Self(scopes.iter().fold(0, |set, scope| set | 1 << *scope as u32))
    }
}

/// The selected tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolSelection {
    /// Including the tools of external servers, which may have to be connected first.
    All,
    /// Only tools that need no external server.
    LocalOnly,
}

pub(super) struct Catalog {
    pub offer: Arc<ToolList>,
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

pub(super) enum CatalogEntry {
    Tool(Arc<dyn Tool>),
    Agent(AgentTool),
}

pub(super) struct AgentTool {
    pub id: AgentId,
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

const AGENT_PREFIX: &str = "agent_";

impl Catalog {
    pub async fn load(executor: &Executor, who: &McpCaller, selection: ToolSelection) -> Result<Self, Fault> {
        let (mut entries, mut withheld) = (BTreeMap::new(), BTreeMap::new());
        for (name, tool) in tools(executor, who, selection).await {
            // A tool without a scope is for agents only.
            let Some(scope) = tool.info().scope else { continue };
            if who.has_scope(scope) {
                entries.insert(name, CatalogEntry::Tool(tool));
            } else {
                withheld.insert(name, scope);
            }
        }
        for agent in external_agents(executor, who).await? {
            let name = agent_tool_name(&agent.name);
            // An external tool may have the same name; the first one is offered.
            if entries.contains_key(&name) {
                continue;
            }
            if who.has_scope(Scope::AgentsInvoke) {
                entries.insert(name, CatalogEntry::Agent(agent));
            } else {
                withheld.insert(name, Scope::AgentsInvoke);
            }
        }
        let listed =
            entries.iter().map(|(name, entry)| listed_tool(name, entry)).collect::<Result<Vec<_>, _>>()?;
        let offer = ToolList::from_tools(&listed)?;
        let prompts = resources::prompts(executor, who).await?;
        let marks = ListHashes { tools: hash_list(offer.json()), prompts: hash_list(&prompts) };
        Ok(Self { offer: Arc::new(offer), hashes: marks, entries, missing_scopes: withheld })
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
async fn tools(
    executor: &Executor,
    who: &McpCaller,
    selection: ToolSelection,
) -> Vec<(String, Arc<dyn Tool>)> {
    let pool = executor.tools();
    match selection {
        ToolSelection::All => {
            let all = pool.resolve(who.project, &["*".to_owned()], 0, true).await;
            let named = all.names().filter_map(|name| Some((name.to_owned(), Arc::clone(all.get(name)?))));
            named.collect()
        }
        ToolSelection::LocalOnly => {
            let known = pool.project_tools(who.project).await.into_iter();
            let ours = known.filter(|tool| tool.info().server.is_none());
            ours.map(|tool| (tool.info().name.clone(), tool)).collect()
        }
    }
}

async fn external_agents(executor: &Executor, who: &McpCaller) -> Result<Vec<AgentTool>, Fault> {
    let project = who.project;
    let all = executor.graph().db().read(move |tx| rows::list_all(tx, project)).await;
    let open = all
        .map_err(Fault::internal)?
        .into_iter()
        .filter(|agent| agent.definition.visibility == Visibility::External);
    Ok(open
        .map(|agent| AgentTool {
            id: agent.id,
            name: agent.definition.name,
            description: agent.definition.description,
        })
        .collect())
}

/// Names of tools consist of at most 128 letters, digits, `_`, `-` and `.`; names of agents may contain
/// other characters.
fn agent_tool_name(agent: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    AGENT_PREFIX.chars().chain(agent.chars().map(plain)).take(128).collect()
}

fn listed_tool(name: &str, entry: &CatalogEntry) -> Result<Listed, Fault> {
    let (description, input_schema, annotations) = match entry {
        CatalogEntry::Tool(tool) => {
            let info = tool.info();
            (info.description.as_ref().to_owned(), input_schema(info)?, annotations(info))
        }
        CatalogEntry::Agent(agent) => (agent.tool_description(), raw(&agent_input())?, AGENT_HINTS),
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
        let about = self.description.trim();
        let begin = if about.is_empty() { format!("The agent `{}`.", self.name) } else { about.to_owned() };
        format!("{begin} Give it a task as `input`; it works on its own and answers when it is done.")
    }
}

fn agent_input() -> Value {
    json!({
        "type": "object",
        "properties": { "input": { "type": "string", "minLength": 1, "description": "What the agent should do." } },
        "required": ["input"],
        "additionalProperties": false,
    })
}

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
        Effect::Coordinates => (false, true, false, true),
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
    for about in schema["properties"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        about.as_object_mut().map(|about| about.remove(HEADER));
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
    fn an_agents_tool_has_a_name_that_every_client_takes() {
        assert_eq!(agent_tool_name("research-assistant"), "agent_research-assistant");
        assert_eq!(agent_tool_name("über agent"), "agent__ber_agent");
        assert_eq!(agent_tool_name(&"x".repeat(500)).len(), 128);
    }

    #[test]
    fn tokens_with_the_same_scopes_share_an_offer_and_others_do_not() {
        let set = |scopes: &[Scope]| ScopeSet::from_scopes(&scopes.iter().copied().collect());
        assert_eq!(set(&[Scope::GraphRead, Scope::AdminWrite]), set(&[Scope::AdminWrite, Scope::GraphRead]));
        assert_ne!(set(&[Scope::GraphRead]), set(&[Scope::GraphWrite]));
    }
}
