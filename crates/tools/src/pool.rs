//! [`ToolPool`], the tools of every project, and [`ToolSet`], those that one run may call.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use emergent_domain::{
    agent::{AvailableNames, ShownNames, ToolScopes},
    artifact::ARTIFACT_TOOL,
    ids::ProjectId,
    run_event::UnavailableServer,
    token::Scope,
    tool_name::{self, Grant, external},
};
use emergent_llm::ToolSpec;
use hashlink::LruCache;
use parking_lot::Mutex;

use crate::{
    Effect, NameConflicts, Tool,
    labels::{LabelledTool, is_plain, label_tools, qualified_name},
    missing::{self, MissingAgent},
    remote::{FailedServers, HeldTool, McpServers, RemoteTools},
    unavailable_tool::UnavailableTool,
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

type LabelledToolsCache = LruCache<ProjectId, (i64, Arc<Vec<LabelledTool>>)>;

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

    /// Every tool of a project with its names, like [`ToolPool::project_tools`].
    pub async fn project_labels(&self, project: ProjectId) -> Arc<Vec<LabelledTool>> {
        let remote = match &self.remote {
            Some(servers) => Some(servers.project_tools(project).await),
            None => None,
        };
        self.labelled_tools(project, remote.as_ref())
    }

    /// The names that several tools of a project have.
    pub async fn name_conflicts(&self, project: ProjectId) -> NameConflicts {
        let builtin = self.builtin.iter().map(|tool| tool.info()).filter(|info| info.server.is_none());
        let builtin = builtin.map(|info| info.name.clone()).collect();
        let remote = match &self.remote {
            Some(servers) => servers.project_tools(project).await,
            None => RemoteTools::empty(),
        };
        NameConflicts::new(builtin, remote)
    }

    /// The tools of a project with their labels, from the cache if the external tools have not changed.
    fn labelled_tools(&self, project: ProjectId, remote: Option<&RemoteTools>) -> Arc<Vec<LabelledTool>> {
        let revision = remote.map_or(-1, |remote| remote.revision);
        if let Some((cached_revision, labelled)) = self.labelled_cache.lock().get(&project)
            && *cached_revision == revision
        {
            return Arc::clone(labelled);
        }
        let external = remote.map(|remote| remote.tools.as_slice()).unwrap_or_default();
        let no_owners = HashMap::new();
        let owners = remote.map_or(&no_owners, |remote| &*remote.owners);
        let accepted = remote.map(|remote| remote.accepted.as_slice()).unwrap_or_default();
        let labelled = Arc::new(label_tools(self.builtin.iter().chain(external).cloned(), owners, accepted));
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
        let (tools_complete, unreached_servers) = match &self.remote {
            Some(servers) => {
                let remote = servers.project_tools(project).await;
                (remote.is_complete(), remote.unreached_servers())
            }
            None => (true, Vec::new()),
        };
        // Tools that are held back are not among the tools of the project, so each of these was accepted.
        let unaccepted_tools = BTreeSet::new();
        let shown = ShownNames::All;
        AvailableNames { tools, tools_complete, unreached_servers, unaccepted_tools, agents, shown }
    }

    /// The tools that a whitelist selects. Servers that were never reached, and that the whitelist may mean,
    /// are connected first. A run that another run started (`depth` above 0) gets coordination tools only if
    /// it may delegate, its whitelist names them, and `depth` is below the maximum.
    pub async fn resolve(
        &self,
        project: ProjectId,
        whitelist: &[String],
        depth: i64,
        may_delegate: bool,
    ) -> ToolSet {
        let caller = Caller { depth, may_delegate };
        self.resolve_with(project, whitelist, caller, FailedServers::Skip).await
    }

    /// Like [`ToolPool::resolve`], for the start of a run. Tools that are added to the pool later are available
    /// to later runs only. Servers that failed are tried once more, and the set knows those that the
    /// whitelist names and that cannot be used.
    pub async fn resolve_for_run(
        &self,
        project: ProjectId,
        whitelist: &[String],
        depth: i64,
        may_delegate: bool,
    ) -> ToolSet {
        let caller = Caller { depth, may_delegate };
        self.resolve_with(project, whitelist, caller, FailedServers::Retry).await
    }

    async fn resolve_with(
        &self,
        project: ProjectId,
        whitelist: &[String],
        caller: Caller,
        failed: FailedServers,
    ) -> ToolSet {
        // An empty whitelist grants no tools, so no server has to be connected.
        if whitelist.is_empty() {
            return ToolSet::default();
        }
        let Some(servers) = &self.remote else {
            return ToolSet::granted(&self.labelled_tools(project, None), whitelist, caller);
        };
        let mut remote = servers.project_tools(project).await;
        let mut labelled = self.labelled_tools(project, Some(&remote));
        let mut set = ToolSet::granted(&labelled, whitelist, caller);
        if remote.servers.is_empty()
            && whitelist.iter().all(|entry| external::split_qualified(entry).is_none())
        {
            return set;
        }
        let meant = missing::meant_servers(whitelist, &remote, &labelled, &set);
        if !meant.is_empty() {
            set.unavailable = servers.check_availability(project, &meant, failed).await;
            let after = servers.project_tools(project).await;
            if after.revision != remote.revision {
                labelled = self.labelled_tools(project, Some(&after));
                let unavailable = std::mem::take(&mut set.unavailable);
                set = ToolSet { unavailable, ..ToolSet::granted(&labelled, whitelist, caller) };
                remote = after;
            }
        }
        set.unmatched = missing::unmatched_names(whitelist, &labelled);
        set.unavailable.extend(missing::absent_servers(whitelist, &set.unmatched, &remote));
        set.held = missing::held_tools(whitelist, &remote);
        set.missing = missing::missing_names(whitelist, &labelled, &set.held);
        set.add_disabled_tools();
        set
    }
}

/// Who gets the tools, as far as coordination tools depend on it.
#[derive(Clone, Copy)]
struct Caller {
    depth: i64,
    may_delegate: bool,
}

impl Caller {
    /// Whether a run may have a coordination tool that its whitelist grants in this way.
    fn may_coordinate(self, grant: Grant) -> bool {
        let is_below_maximum = self.depth < emergent_domain::run::MAX_DEPTH;
        self.depth == 0 || (self.may_delegate && grant == Grant::Named && is_below_maximum)
    }
}

/// The tools of one run, by the label that the model calls them by.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// The servers that the whitelist names, and that cannot be used.
    unavailable: Vec<UnavailableServer>,
    /// The tools that the whitelist grants, and that are held back.
    held: Vec<HeldTool>,
    /// The bare names of the whitelist that no tool has.
    unmatched: Vec<String>,
    /// The names of the whitelist, bare or as `server.tool`, that no tool has.
    missing: Vec<String>,
}

impl ToolSet {
    /// The tools that a whitelist grants.
    fn granted(labelled: &[LabelledTool], whitelist: &[String], caller: Caller) -> Self {
        let mut set = Self::default();
        for labelled in labelled {
            let info = labelled.tool.info();
            let Some(grant) = tool_name::grant_for(whitelist, &labelled.grant_names()) else { continue };
            let coordinates =
                info.server.is_none() && tool_name::COORDINATION_TOOLS.contains(&info.name.as_str());
            // A pattern must not make an agent wait for people, or change what its callers get.
            let has_to_be_named =
                info.effect == Effect::Asks || (info.server.is_none() && info.name == ARTIFACT_TOOL);
            let is_named_if_required = !has_to_be_named || grant == Grant::Named;
            if is_named_if_required && (!coordinates || caller.may_coordinate(grant)) {
                set.tools.insert(labelled.label.clone(), Arc::clone(&labelled.tool));
            }
        }
        set
    }

    /// Finds a tool by its label or alias, or as `server.tool`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.find(name).map(|(_, tool)| tool)
    }

    /// The label of the tool with this label or alias, or of `server.tool`; `None` if this run does not have
    /// it.
    pub fn resolve_name(&self, name: &str) -> Option<&str> {
        self.find(name).map(|(label, _)| label.as_str())
    }

    fn find(&self, name: &str) -> Option<(&String, &Arc<dyn Tool>)> {
        let by_label = |name: &str| self.tools.get_key_value(name);
        by_label(name).or_else(|| by_label(tool_name::canonical(name))).or_else(|| {
            let (server, tool) = external::split_qualified(name)?;
            self.tools.iter().find(|(_, candidate)| {
                let info = candidate.info();
                info.server.as_deref() == Some(server) && info.name == tool
            })
        })
    }

    /// Adds a tool that is not from the pool, labelled with its own name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.info().name.clone(), tool);
    }

    /// Adds a tool for each name that no tool has, if a server that may have it lacks a secret: it answers
    /// with the name of the secret.
    fn add_disabled_tools(&mut self) {
        if self.unavailable.iter().all(|server| server.missing_secret.is_none()) {
            return;
        }
        for name in self.unmatched.clone() {
            if let Some(reason) = self.explain_missing(&name).filter(|_| is_plain(&name)) {
                self.tools.insert(name.clone(), Arc::new(UnavailableTool::new(&name, reason)));
            }
        }
    }

    /// Removes every tool that is not in `names`, the labels that a run got when it started. `servers` has the
    /// servers of external tools at that time: a label that means a tool of another server now is removed.
    pub fn retain(&mut self, names: &[String], servers: &BTreeMap<String, String>) {
        self.tools.retain(|label, tool| {
            let info = tool.info();
            let same_server = servers.get(label).is_none_or(|server| info.server.as_ref() == Some(server));
            // Records of earlier versions have `server.tool`, and names that are no labels.
            let earlier = || {
                let qualified = qualified_name(info);
                names
                    .iter()
                    .any(|name| qualified.as_ref() == Some(name) || (*name == info.name && !is_plain(name)))
            };
            (names.contains(label) && same_server) || earlier()
        });
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The server of each external tool, by label.
    pub fn servers(&self) -> BTreeMap<&str, &str> {
        let tools = self.tools.iter();
        tools.filter_map(|(label, tool)| Some((label.as_str(), tool.info().server.as_deref()?))).collect()
    }

    /// The names of the whitelist that no tool had when the set was resolved.
    pub fn missing_tools(&self) -> &[String] {
        &self.missing
    }

    /// The servers that the whitelist names, and that could not be used when the set was resolved or a tool of theirs
    /// was called.
    pub fn unavailable_servers(&self) -> &[UnavailableServer] {
        &self.unavailable
    }

    /// Adds a server that a call could not use. Returns false if the set knows already that it cannot be used.
    pub fn add_unavailable_server(&mut self, unavailable: UnavailableServer) -> bool {
        let is_known = self.unavailable.iter().any(|one| one.server == unavailable.server);
        if !is_known {
            self.unavailable.push(unavailable);
        }
        !is_known
    }

    /// Why a tool is not in the set, for the model: its server cannot be used, or the tool is held back.
    /// `None` if there is no such tool.
    pub fn explain_missing(&self, name: &str) -> Option<String> {
        missing::explain(name, &self.unavailable, &self.held, &self.unmatched)
    }

    /// Why the agent of a server, which is to execute a run, is not in the set; `None` if it is.
    pub fn explain_missing_agent(&self, server: &str) -> Option<MissingAgent> {
        let is_there = self.tools.values().any(|tool| tool.info().server.as_deref() == Some(server));
        (!is_there).then(|| missing::explain_agent(server, &self.unavailable, &self.held))
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
