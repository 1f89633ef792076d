//! A project with external servers, and what must not be left of them.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use emergent_domain::{
    ids::{McpServerId, ProjectId},
    mcp_server::{ConfiguredBy, McpServer, ServerSpec},
    redact::Redactor,
    run_event::UnavailableServer,
    time::Clock,
};
use emergent_graph::Graph;
use emergent_secrets::{KeySource, Secret, Secrets};
use emergent_testkit::TestDb;
use emergent_tools::{
    CallInput, CallReport, CallReporter, Guard, GuardedOutput, Tool, ToolContext, ToolPool,
    remote::{McpServers, NewServer, RemoteSettings},
};
use serde_json::{Value, json};

pub struct Site {
    pub db: TestDb,
    pub servers: McpServers,
    pub secrets: Secrets,
    pub pool: ToolPool,
    pub graph: Graph,
    pub project: ProjectId,
    pub guard: Guard,
    dir: tempfile::TempDir,
    /// Every process of this site has it in its command line.
    pub tag: String,
}

pub fn settings() -> RemoteSettings {
    RemoteSettings {
        allow_private_hosts: true,
        grace: Duration::from_millis(300),
        probe_timeout: Duration::from_millis(1_500),
        ..RemoteSettings::default()
    }
}

impl Site {
    pub async fn open(db: TestDb) -> Self {
        Self::with(db, settings(), Clock::system()).await
    }

    pub async fn with(db: TestDb, settings: RemoteSettings, clock: Clock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeySource::from_file(dir.path().join("secret-key"));
        let secrets = Secrets::open(db.db.clone(), clock.clone(), keys, Redactor::default()).await.unwrap();
        let graph = Graph::new(db.db.clone(), clock.clone(), None);
        let project = graph.ensure_default_project().await.unwrap().id;
        let servers = McpServers::new(db.db.clone(), clock, secrets.clone(), settings);
        let pool = ToolPool::new(emergent_tools::builtin::tools()).with_remote(servers.clone());
        let tag = format!("rogue-{}", uuid::Uuid::now_v7().simple());
        Self { db, servers, secrets, pool, graph, project, guard: Guard::default(), dir, tag }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub async fn put_secret(&self, name: &str, value: &str) {
        let value = Secret::new(value.to_owned());
        self.secrets.put(self.project, None, &name.parse().unwrap(), value).await.unwrap();
    }

    pub async fn add(&self, spec: Value) -> McpServer {
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        self.servers.create(self.project, ConfiguredBy::Operator, NewServer::new(spec)).await.unwrap()
    }

    /// A rogue program as a server of this name.
    pub fn rogue(&self, name: &str) -> Value {
        let cancelled = self.file("cancelled");
        json!({ "name": name, "transport": "stdio", "command": env!("CARGO_BIN_EXE_rogue-mcp-server"),
                "args": [self.tag], "env": { "ROGUE_CANCELLED": cancelled.to_str().unwrap() } })
    }

    /// A rogue program with further tools, whose names are in a file that the server reads at each listing.
    pub fn rogue_with(&self, name: &str, tools: &[&str]) -> Value {
        let mut spec = self.rogue(name);
        spec["env"]["ROGUE_NAMES"] = json!(self.file(&format!("{name}.names")));
        spec["env"]["ROGUE_WHO"] = json!(name);
        self.announce(name, tools);
        spec
    }

    /// Sets the further tools of a rogue program. They are seen at its next listing.
    pub fn announce(&self, name: &str, tools: &[&str]) {
        std::fs::write(self.file(&format!("{name}.names")), tools.join(" ")).unwrap();
    }

    /// What a whitelist gives: each label with its server.
    pub async fn granted(&self, whitelist: &[&str]) -> Vec<(String, String)> {
        let whitelist: Vec<String> = whitelist.iter().map(|entry| (*entry).to_owned()).collect();
        let set = self.pool.resolve_for_run(self.project, &whitelist, 0, false).await;
        let servers = set.servers();
        let server_of = |label: &str| servers.get(label).copied().unwrap_or("built-in").to_owned();
        set.names().map(|label| (label.to_owned(), server_of(label))).collect()
    }

    pub async fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.pool.resolve(self.project, &["*".into()], 0, false).await.get(name).cloned()
    }

    /// Calls a tool as a run would.
    pub async fn call(&self, name: &str, input: Value) -> Result<Value, String> {
        let tool = self.tool(name).await.ok_or_else(|| format!("no tool `{name}`"))?;
        self.call_tool(tool.as_ref(), input).await
    }

    /// Adds a server to another project, and calls a tool of it there.
    pub async fn call_in_other_project(&self, spec: Value, name: &str) -> Result<Value, String> {
        let project = self.graph.create_project("other", false).await.unwrap().id;
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        self.servers.create(project, ConfiguredBy::Operator, NewServer::new(spec)).await.unwrap();
        let tools = self.pool.resolve(project, &["*".into()], 0, false).await;
        let context = ToolContext::new(self.graph.clone(), project, None);
        match self.guard.call(tools.get(name).unwrap().as_ref(), &context, json!({})).await {
            GuardedOutput::Answer(answer) => Ok(answer),
            GuardedOutput::Error(why) => Err(why),
            GuardedOutput::Change(_) => Err("a change".into()),
        }
    }

    pub async fn call_tool(&self, tool: &dyn Tool, input: Value) -> Result<Value, String> {
        self.call_with_input(tool, input, None).await
    }

    /// The servers of the same database in another process, or after a restart.
    pub fn other_servers(&self) -> McpServers {
        McpServers::new(self.db.db.clone(), Clock::system(), self.secrets.clone(), settings())
    }

    /// Calls a tool as a run would, and returns the servers that the run is told it cannot use.
    pub async fn call_for_reports(
        &self,
        servers: &McpServers,
        name: &str,
    ) -> (Result<Value, String>, Vec<UnavailableServer>) {
        let pool = ToolPool::new(Vec::new()).with_remote(servers.clone());
        let tools = pool.resolve(self.project, &["*".into()], 0, false).await;
        let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let teller = Arc::clone(&told);
        let report = Arc::new(move |report| {
            if let CallReport::ServerUnavailable(server) = report {
                teller.lock().push(server);
            }
        });
        let reporter = Some(CallReporter { report, waits_until: None });
        let context = ToolContext { reporter, ..ToolContext::new(self.graph.clone(), self.project, None) };
        let tool = tools.get(name).expect("the stored list has the tool");
        let answer = match self.guard.call(tool.as_ref(), &context, json!({})).await {
            GuardedOutput::Answer(answer) => Ok(answer),
            GuardedOutput::Error(why) => Err(why),
            GuardedOutput::Change(_) => Err("a change".into()),
        };
        let told = told.lock().clone();
        (answer, told)
    }

    /// Calls a tool with somebody who can be asked for input, or with nobody.
    pub async fn call_with_input(
        &self,
        tool: &dyn Tool,
        input: Value,
        person: Option<CallInput>,
    ) -> Result<Value, String> {
        let context =
            ToolContext { input: person, ..ToolContext::new(self.graph.clone(), self.project, None) };
        match self.guard.call(tool, &context, input).await {
            GuardedOutput::Answer(answer) => Ok(answer),
            GuardedOutput::Error(why) => Err(why),
            GuardedOutput::Change(_) => Err("a change".into()),
        }
    }

    pub async fn timeout(&self, id: McpServerId, seconds: i64) {
        let patch =
            emergent_tools::remote::ServerPatch { timeout_seconds: Some(seconds), ..Default::default() };
        self.servers.update(self.project, ConfiguredBy::Operator, id, patch).await.unwrap();
    }

    /// Command lines of the processes of this site.
    pub fn processes(&self) -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).replace('\0', " "))
        });
        lines.filter(|line| line.contains(&self.tag)).collect()
    }

    pub async fn close(self) {
        self.servers.shutdown().await;
        let tag = self.tag.clone();
        eventually(&format!("no process of {tag} is left"), || self.processes().is_empty()).await;
        assert_eq!(self.servers.open_connections(), 0);
    }
}

/// Pipes and sockets of this process, by kind.
pub fn open_ends() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        let kind = target.split(':').next().unwrap_or_default();
        if matches!(kind, "pipe" | "socket") {
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    kinds
}

/// Kilobytes of memory this process has.
pub fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("not within ten seconds: {what}");
}

/// Tests that count what this process has open wait for one another.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ALONE.lock().await
}
