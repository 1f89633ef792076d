//! [`ToolPool`], the tools of every project, and [`ToolSet`], those that one run may call.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use emergent_domain::{
    agent::{AvailableNames, ToolScopes},
    ids::ProjectId,
    token::Scope,
    tool_name::{self, Grant},
};
use emergent_llm::ToolSpec;
use hashlink::LruCache;
use parking_lot::Mutex;

use crate::{
    Tool, ToolInfo,
    remote::{McpServers, RemoteTools},
};

/// The labelled tools of this many projects are cached.
const CACHE_CAPACITY: usize = 1_000;

/// The tools of all projects; clones share them. Every project has the built-in tools, and the tools of
/// its own external MCP servers.
#[derive(Clone)]
pub struct ToolPool {
    builtin: Arc<Vec<Arc<dyn Tool>>>,
    remote: Option<McpServers>,
    /// The labelled tools of each project, with the revision of its external tools.
    labelled_cache: Arc<Mutex<LabelledToolsCache>>,
}

type LabelledTools = Vec<(ToolLabel, Arc<dyn Tool>)>;
type LabelledToolsCache = LruCache<ProjectId, (i64, Arc<LabelledTools>)>;

impl Default for ToolPool {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl ToolPool {
    /// A pool of built-in tools, without external servers.
    pub fn new(builtin: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(Arc::new(builtin), None)
    }

    fn with(builtin: Arc<Vec<Arc<dyn Tool>>>, remote: Option<McpServers>) -> Self {
        Self { builtin, remote, labelled_cache: Arc::new(Mutex::new(LruCache::new(CACHE_CAPACITY))) }
    }

    /// A copy of the pool that also has the tools of each project's external servers.
    #[must_use]
    pub fn with_remote(&self, servers: McpServers) -> Self {
        Self::with(Arc::clone(&self.builtin), Some(servers))
    }

    /// The external servers; `None` for a pool without them.
    pub fn remote(&self) -> Option<&McpServers> {
        self.remote.as_ref()
    }

    /// A copy of the pool with one more built-in tool.
    #[must_use]
    pub fn with_tool(&self, tool: Arc<dyn Tool>) -> Self {
        let mut tools = self.builtin.as_ref().clone();
        tools.push(tool);
        Self::with(Arc::new(tools), self.remote.clone())
    }

    /// Every tool of a project. This connects to no server, so a server that was never reached has none.
    pub async fn project_tools(&self, project: ProjectId) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.builtin.as_ref().clone();
        if let Some(servers) = &self.remote {
            tools.extend(servers.project_tools(project).await.tools.iter().cloned());
        }
        tools
    }

    /// The tools of a project with their labels, from the cache if the external tools have not changed.
    fn labelled_tools(&self, project: ProjectId, remote: Option<&RemoteTools>) -> Arc<LabelledTools> {
        let revision = remote.map_or(-1, |remote| remote.revision);
        if let Some((cached_revision, labelled)) = self.labelled_cache.lock().get(&project)
            && *cached_revision == revision
        {
            return Arc::clone(labelled);
        }
        let external = remote.map(|remote| remote.tools.as_slice()).unwrap_or_default();
        let labelled = Arc::new(label_tools(self.builtin.iter().chain(external).cloned().collect()));
        self.labelled_cache.lock().insert(project, (revision, Arc::clone(&labelled)));
        labelled
    }

    /// The scope that a client needs for each built-in tool. Tools that only agents can call start other
    /// agents, or list them.
    pub fn builtin_scopes(&self) -> ToolScopes {
        let scope = |tool: &Arc<dyn Tool>| tool.info().scope.unwrap_or(Scope::AgentsInvoke);
        self.builtin.iter().map(|tool| (tool.info().name.clone(), scope(tool))).collect()
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
        // A server that was never reached may have tools that this list does not contain.
        let tools_are_complete = match &self.remote {
            Some(servers) => servers.project_tools(project).await.is_complete(),
            None => true,
        };
        AvailableNames { tools, tools_complete: tools_are_complete, agents }
    }

    /// The tools of one run, selected by its whitelist when the run starts. Tools that are added to the
    /// pool later are available to later runs only. A run that another run started (`depth` above 0) gets
    /// coordination tools only if it may delegate, its whitelist names them, and `depth` is below the
    /// maximum.
    pub async fn resolve(
        &self,
        project: ProjectId,
        whitelist: &[String],
        depth: i64,
        may_delegate: bool,
    ) -> ToolSet {
        let mut set = ToolSet::default();
        // An empty whitelist grants no tools, so no server has to be connected.
        if whitelist.is_empty() {
            return set;
        }
        let remote = match &self.remote {
            Some(servers) => Some(servers.tools_for_run(project).await),
            None => None,
        };
        for (label, tool) in self.labelled_tools(project, remote.as_ref()).iter() {
            let info = tool.info();
            let granted = match &info.server {
                // A built-in tool has the same name, and a whitelist with that name grants the built-in tool.
                Some(_) if label.hides_a_builtin => tool_name::grant_for(whitelist, &label.text, None),
                server => tool_name::grant_for(whitelist, &info.name, server.as_deref()),
            };
            let Some(grant) = granted else { continue };
            let coordinates =
                info.server.is_none() && tool_name::COORDINATION_TOOLS.contains(&info.name.as_str());
            let may_coordinate = depth == 0
                || (may_delegate && grant == Grant::Named && depth < emergent_domain::run::MAX_DEPTH);
            if coordinates && !may_coordinate {
                continue;
            }
            set.tools.insert(label.text.clone(), Arc::clone(tool));
        }
        set
    }
}

/// `server.tool` for a tool of an external server; `None` for a built-in tool.
fn qualified_name(info: &ToolInfo) -> Option<String> {
    info.server.as_ref().map(|server| format!("{server}.{}", info.name))
}

/// The name by which the runs of a project call a tool.
struct ToolLabel {
    text: String,
    /// The name of the tool on its server is also a name or an alias of a built-in tool.
    hides_a_builtin: bool,
}

/// Labels each tool. A built-in tool is called by its own name. A tool of a server is called `server.tool`
/// if another server or a built-in tool has the same name. The labels depend on all tools of the project
/// and not on a whitelist, so that a tool has the same label for every agent.
fn label_tools(tools: Vec<Arc<dyn Tool>>) -> Vec<(ToolLabel, Arc<dyn Tool>)> {
    let mut servers: HashMap<String, Vec<Option<String>>> = HashMap::new();
    for tool in &tools {
        let info = tool.info();
        let servers_with_name = servers.entry(info.name.clone()).or_default();
        if !servers_with_name.contains(&info.server) {
            servers_with_name.push(info.server.clone());
        }
    }
    let is_builtin =
        |name: &str| servers.get(tool_name::canonical(name)).is_some_and(|servers| servers.contains(&None));
    tools
        .into_iter()
        .map(|tool| {
            let info = tool.info();
            let hides_a_builtin = info.server.is_some() && is_builtin(&info.name);
            let clashes = hides_a_builtin || servers[&info.name].len() > 1;
            let text = qualified_name(info).filter(|_| clashes).unwrap_or_else(|| info.name.clone());
            (ToolLabel { text, hides_a_builtin }, tool)
        })
        .collect()
}

/// The tools of one run, by the label that the model calls them by.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolSet {
    /// Finds a tool by its label or alias. A tool of a server is also found as `server.tool` if its label is
    /// the short name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .get(name)
            .or_else(|| self.tools.get(tool_name::canonical(name)))
            .or_else(|| self.tools.values().find(|tool| qualified_name(tool.info()).as_deref() == Some(name)))
    }

    /// The label of the tool with this label or alias; `None` if this run does not have it.
    pub fn resolve_name(&self, name: &str) -> Option<&str> {
        let find_label = |name: &str| self.tools.get_key_value(name).map(|(label, _)| label.as_str());
        find_label(name).or_else(|| find_label(tool_name::canonical(name)))
    }

    /// Adds a tool that is not from the pool, labelled with its own name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.info().name.clone(), tool);
    }

    /// Removes every tool whose label is not in `names`.
    pub fn retain(&mut self, names: &[String]) {
        self.tools.retain(|name, _| names.contains(name));
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The tools as a model request describes them, in the order of their labels.
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
