//! Which tools there are, and which of them one agent gets.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use emergent_domain::{
    agent::AvailableNames,
    ids::ProjectId,
    tool_name::{self, Grant},
};
use emergent_llm::ToolSpec;
use hashlink::LruCache;
use parking_lot::Mutex;

use crate::{
    Tool, ToolInfo,
    remote::{McpServers, RemoteTools},
};

/// Named pools are kept for this many projects.
const CACHE_CAPACITY: usize = 1_000;

/// What a server offers to its projects; clones share it. Built-in tools are the same everywhere;
/// external ones are each project's own.
#[derive(Clone)]
pub struct ToolPool {
    builtin: Arc<Vec<Arc<dyn Tool>>>,
    remote: Option<McpServers>,
    /// Each project's tools with their names, by the revision of its external ones.
    named: Arc<Mutex<LabelledByProject>>,
}

type LabelledTools = Vec<(ToolLabel, Arc<dyn Tool>)>;
type LabelledByProject = LruCache<ProjectId, (i64, Arc<LabelledTools>)>;

impl Default for ToolPool {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl ToolPool {
    pub fn new(builtin: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(Arc::new(builtin), None)
    }

    fn with(builtin: Arc<Vec<Arc<dyn Tool>>>, remote: Option<McpServers>) -> Self {
        Self { builtin, remote, named: Arc::new(Mutex::new(LruCache::new(CACHE_CAPACITY))) }
    }

    /// The same pool, and the tools of each project's external servers.
    #[must_use]
    pub fn with_remote(&self, servers: McpServers) -> Self {
        Self::with(Arc::clone(&self.builtin), Some(servers))
    }

    /// The external servers, where there can be any.
    pub fn remote(&self) -> Option<&McpServers> {
        self.remote.as_ref()
    }

    /// The same pool and one tool more.
    #[must_use]
    pub fn with_tool(&self, tool: Arc<dyn Tool>) -> Self {
        let mut tools = self.builtin.as_ref().clone();
        tools.push(tool);
        Self::with(Arc::new(tools), self.remote.clone())
    }

    /// Every tool of a project, as far as it is known: nothing is connected to.
    pub async fn project_tools(&self, project: ProjectId) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.builtin.as_ref().clone();
        if let Some(servers) = &self.remote {
            tools.extend(servers.project_tools(project).await.tools.iter().cloned());
        }
        tools
    }

    /// The tools with the names they go by, from memory while nothing changed.
    fn labelled_tools(&self, project: ProjectId, remote: Option<&RemoteTools>) -> Arc<LabelledTools> {
        let revision = remote.map_or(-1, |remote| remote.revision);
        if let Some((known, named)) = self.named.lock().get(&project)
            && *known == revision
        {
            return Arc::clone(named);
        }
        let external = remote.map(|remote| remote.tools.as_slice()).unwrap_or_default();
        let named = Arc::new(label_tools(self.builtin.iter().chain(external).cloned().collect()));
        self.named.lock().insert(project, (revision, Arc::clone(&named)));
        named
    }

    /// Every name that a whitelist may use for a built-in tool.
    pub fn builtin_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for tool in self.builtin.iter() {
            let name = &tool.info().name;
            names.extend(tool_name::aliases(name).map(str::to_owned));
            names.push(name.clone());
        }
        names
    }

    /// What a definition's whitelist may name in a project.
    pub async fn available_names(&self, project: ProjectId, agents: Vec<String>) -> AvailableNames {
        let mut tools = Vec::new();
        for tool in self.project_tools(project).await {
            let info = tool.info();
            if info.server.is_none() {
                tools.extend(tool_name::aliases(&info.name).map(str::to_owned));
            }
            tools.extend(qualified_name(info));
            tools.push(info.name.clone());
        }
        // A server that was never reached may have any tool.
        let tools_are_complete = match &self.remote {
            Some(servers) => servers.project_tools(project).await.is_complete(),
            None => true,
        };
        AvailableNames { tools, tools_complete: tools_are_complete, agents }
    }

    /// The tools of one run. Resolved once, when the run starts: what is added to the pool later
    /// is for later runs.
    pub async fn resolve(
        &self,
        project: ProjectId,
        whitelist: &[String],
        depth: i64,
        may_delegate: bool,
    ) -> ToolSet {
        let mut set = ToolSet::default();
        // An empty list is no tools, so no server has to be asked for its own.
        if whitelist.is_empty() {
            return set;
        }
        let remote = match &self.remote {
            Some(servers) => Some(servers.tools_for_run(project).await),
            None => None,
        };
        for (name, tool) in self.labelled_tools(project, remote.as_ref()).iter() {
            let info = tool.info();
            let granted = match &info.server {
                // Its own name is a built-in's here: whoever lists that does not mean this one.
                Some(_) if name.hides_a_builtin => tool_name::grant_for(whitelist, &name.text, None),
                server => tool_name::grant_for(whitelist, &info.name, server.as_deref()),
            };
            let Some(grant) = granted else { continue };
            let coordinates =
                info.server.is_none() && tool_name::COORDINATION_TOOLS.contains(&info.name.as_str());
            let allowed = depth == 0
                || (may_delegate && grant == Grant::Named && depth < emergent_domain::run::MAX_DEPTH);
            if coordinates && !allowed {
                continue;
            }
            set.tools.insert(name.text.clone(), Arc::clone(tool));
        }
        set
    }
}

fn qualified_name(info: &ToolInfo) -> Option<String> {
    info.server.as_ref().map(|server| format!("{server}.{}", info.name))
}

struct ToolLabel {
    text: String,
    /// A built-in has, or is also called by, the name that the tool has on its server.
    hides_a_builtin: bool,
}

/// Each tool with the name it goes by in its pool. A built-in keeps its own; two servers' tools of
/// one name, or one that a built-in has, are told apart as `server.tool`. It depends on the pool
/// and not on who is granted what, so that a tool has one name for every agent of a project.
fn label_tools(tools: Vec<Arc<dyn Tool>>) -> Vec<(ToolLabel, Arc<dyn Tool>)> {
    let mut servers: HashMap<String, Vec<Option<String>>> = HashMap::new();
    for tool in &tools {
        let info = tool.info();
        let of_name = servers.entry(info.name.clone()).or_default();
        if !of_name.contains(&info.server) {
            of_name.push(info.server.clone());
        }
    }
    let builtin = |name: &str| servers.get(tool_name::canonical(name)).is_some_and(|all| all.contains(&None));
    tools
        .into_iter()
        .map(|tool| {
            let info = tool.info();
            let hides_a_builtin = info.server.is_some() && builtin(&info.name);
            let clashes = hides_a_builtin || servers[&info.name].len() > 1;
            let text = qualified_name(info).filter(|_| clashes).unwrap_or_else(|| info.name.clone());
            (ToolLabel { text, hides_a_builtin }, tool)
        })
        .collect()
}

/// The tools of one run, by the name the model calls them.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolSet {
    /// The tool of this name or alias, if this run has it. A server's tool is also found as
    /// `server.tool` when it goes by its short name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .get(name)
            .or_else(|| self.tools.get(tool_name::canonical(name)))
            .or_else(|| self.tools.values().find(|tool| qualified_name(tool.info()).as_deref() == Some(name)))
    }

    /// The name this run knows a tool by, whichever of its names was used.
    pub fn resolve_name(&self, name: &str) -> Option<&str> {
        let known = |name: &str| self.tools.get_key_value(name).map(|(name, _)| name.as_str());
        known(name).or_else(|| known(tool_name::canonical(name)))
    }

    /// Adds a tool that is in no pool, under its own name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.info().name.clone(), tool);
    }

    /// Lets go of every tool that is not among these.
    pub fn retain(&mut self, names: &[String]) {
        self.tools.retain(|name, _| names.contains(name));
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// As the model is told of them, in the order of their names.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .iter()
            .map(|(name, tool)| ToolSpec {
                name: name.clone(),
                description: Arc::clone(&tool.info().description),
                input_schema: tool.info().input_schema.clone(),
            })
            .collect()
    }
}
