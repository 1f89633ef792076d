//! Test harness: a project with products on a real database.

#![allow(dead_code, reason = "each test uses its own part of this")]

use std::collections::BTreeMap;

use emergent_domain::mcp_server::ConfiguredBy;
use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    ids::{ProjectId, TokenId},
    mcp_server::{McpServer, ToolStatus},
    time::{Clock, Timestamp},
    token::Scope,
};
use emergent_executor::Executor;
use emergent_graph::{Actor, Graph};
use emergent_llm::Models;
use emergent_products::{
    ChangeOptions, Consent, Error, ManifestInput, ProductOutcome, Products, ProjectState, Settings, builtin,
};
use emergent_secrets::{KeySource, Secrets};
use emergent_store::{
    Db, Engine, Tx, mcp_servers,
    mcp_tools::{self, StoredTool},
};
use emergent_testkit::TestDb;
use emergent_tools::{
    ToolPool,
    remote::{McpServers, RemoteSettings},
};
use serde_json::{Value, json};

pub struct Harness {
    pub products: Products,
    pub executor: Executor,
    pub actor: Actor,
}

impl Harness {
    pub async fn open(db: &TestDb) -> Self {
        Self::with(db, Settings::default(), Models::default()).await
    }

    pub async fn with(db: &TestDb, settings: Settings, models: Models) -> Self {
        for product in builtin::ALL {
            models.add_script(product.name, product.rehearsal.parse().expect("a script"));
        }
        let graph = Graph::new(db.db.clone(), Clock::system(), None);
        graph.ensure_builtin_packs().await.unwrap();
        let project = graph.ensure_default_project().await.unwrap().id;
        let tools = ToolPool::new(emergent_tools::builtin::tools());
        Self::build(graph, models, tools, settings, project)
    }

    /// Opens a harness whose tool pool includes external servers. No program is started.
    pub async fn with_servers(db: &TestDb) -> Self {
        let keys = KeySource::from_env_value("dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=").unwrap();
        let clock = Clock::system();
        let secrets = Secrets::open(db.db.clone(), clock.clone(), keys, Default::default()).await.unwrap();
        let settings = RemoteSettings { allow_stdio: false, ..RemoteSettings::default() };
        let servers = McpServers::new(db.db.clone(), clock.clone(), secrets, settings);
        let graph = Graph::new(db.db.clone(), clock, None);
        let project = graph.ensure_default_project().await.unwrap().id;
        let tools = ToolPool::new(emergent_tools::builtin::tools()).with_remote(servers);
        Self::build(graph, Models::default(), tools, Settings::default(), project)
    }

    fn build(graph: Graph, models: Models, tools: ToolPool, settings: Settings, project: ProjectId) -> Self {
        let executor = Executor::new(graph, models, tools, emergent_executor::Settings::default());
        let actor = Actor { project, author: Author::Token { id: TokenId::new() } };
        Self { products: Products::new(executor.clone(), settings), executor, actor }
    }

    /// Returns a harness for another project on the same server.
    pub async fn in_other_project(&self, name: &str) -> Self {
        let project = self.executor.graph().create_project(name, false).await.unwrap().id;
        let actor = Actor { project, ..self.actor };
        Self { products: self.products.clone(), executor: self.executor.clone(), actor }
    }

    pub fn db(&self) -> &Db {
        self.executor.graph().db()
    }

    pub async fn install(&self, manifest: &Value) -> Result<ProductOutcome, Error> {
        self.products.install(self.actor, manifest_input(manifest), accepted()).await
    }

    pub async fn upgrade(&self, manifest: &Value) -> Result<ProductOutcome, Error> {
        let name = manifest["name"].as_str().unwrap();
        self.products.upgrade(self.actor, name, Some(manifest_input(manifest)), accepted()).await
    }

    pub async fn uninstall(&self, name: &str) -> Result<ProductOutcome, Error> {
        self.products.uninstall(self.actor, name, false).await
    }

    pub async fn builtin(&self, name: &str) -> Result<ProductOutcome, Error> {
        self.products.install(self.actor, ManifestInput::Source(name.parse().unwrap()), accepted()).await
    }

    pub async fn state(&self) -> ProjectState {
        let project = self.actor.project;
        let read = move |tx: &mut Tx<'_>| ProjectState::read(tx, project);
        let state: emergent_store::Result<ProjectState> = self.db().read(read).await;
        state.unwrap()
    }

    pub async fn agent(&self, name: &str) -> Agent {
        self.executor.find_agent(self.actor.project, name).await.unwrap()
    }

    /// Who may save an agent with any tool: the token of the tests has no scopes.
    fn operator(&self) -> Actor {
        Actor { author: Author::System, ..self.actor }
    }

    pub async fn own_agent(&self, definition: AgentDefinition) -> Agent {
        self.executor.create_agent(self.operator(), definition).await.unwrap()
    }

    pub async fn change(&self, name: &str, change: fn(&mut AgentDefinition)) {
        let id = self.agent(name).await.id;
        let change = move |mut definition: AgentDefinition| {
            change(&mut definition);
            definition
        };
        self.executor.update_agent(self.operator(), id, None, change).await.unwrap();
    }

    /// Deletes an agent, as a person would.
    pub async fn delete(&self, name: &str) -> Result<(), emergent_executor::Error> {
        let id = self.agent(name).await.id;
        let scopes = Scope::ALL.iter().copied().collect();
        let (token, _) = self.executor.graph().create_token("admin", scopes, None, None).await.unwrap();
        let actor = Actor { author: Author::Token { id: token.id }, ..self.actor };
        self.executor.delete_agent(actor, id).await.map(|_| ())
    }

    /// Disables a server of a product, as a person would.
    pub async fn switch_off(&self, server: &str) {
        self.change_server(server, |tx, mut server| {
            server.enabled = false;
            mcp_servers::update(tx, &server)
        })
        .await;
    }

    /// Stores tools as if the server had listed them.
    pub async fn set_listed_tools(&self, server: &str, tools: &[(&str, ToolStatus)]) {
        let now = Timestamp::now();
        let stored = |(name, status): &(&str, ToolStatus)| StoredTool {
            name: (*name).to_owned(),
            tool: json!({ "name": name, "inputSchema": { "type": "object" } }).to_string(),
            digest: "1".to_owned(),
            pinned_digest: "1".to_owned(),
            pinned_tool: "{}".to_owned(),
            status: *status,
            first_seen: now,
            changed_at: None,
            accepted_by: None,
            accepted_at: Some(now),
        };
        let tools: Vec<StoredTool> = tools.iter().map(stored).collect();
        self.change_server(server, move |tx, server| {
            tools.iter().try_for_each(|tool| mcp_tools::upsert(tx, server.id, tool))?;
            mcp_servers::record_listing(tx, server.id, server.version, now, true)?;
            mcp_servers::bump_revision(tx, server.project)
        })
        .await;
    }

    async fn change_server(
        &self,
        name: &str,
        change: impl Fn(&mut Tx<'_>, McpServer) -> emergent_store::Result<()> + Send + 'static,
    ) {
        let (project, name) = (self.actor.project, name.to_owned());
        let work = move |tx: &mut Tx<'_>| {
            let server = mcp_servers::get_by_name(tx, project, &name)?.expect("a server");
            change(tx, server)
        };
        let done: emergent_store::Result<()> = self.db().write(work).await;
        done.unwrap();
    }

    pub async fn default_agent(&self) -> Option<String> {
        let agent = self.executor.default_agent(self.actor.project).await.unwrap();
        agent.map(|agent| agent.definition.name)
    }

    /// Returns everything that products installed in the project, without ids and timestamps.
    pub async fn fingerprint(&self) -> Value {
        fingerprint(self.db(), self.actor.project).await
    }

    /// Returns the number of rows of each table.
    pub async fn rows(&self) -> BTreeMap<String, i64> {
        let count = |tx: &mut Tx<'_>| {
            let tables = match tx.engine() {
                Engine::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
                Engine::Postgres => {
                    "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'kb'"
                }
            };
            let tables: Vec<String> = tx.query(tables, &[], |row| row.get(0))?;
            let mut rows = BTreeMap::new();
            for table in
                tables.into_iter().filter(|table| !table.contains("fts") && !table.starts_with("sqlite_"))
            {
                let counted =
                    tx.query(&format!("SELECT count(*) FROM {table}"), &[], |row| row.get::<i64>(0))?;
                rows.insert(table, counted[0]);
            }
            Ok::<_, emergent_store::Error>(rows)
        };
        self.db().read(count).await.unwrap()
    }
}

/// Returns everything that products installed in a project, without ids and timestamps.
pub async fn fingerprint(db: &Db, project: ProjectId) -> Value {
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, emergent_store::Error>((
            ProjectState::read(tx, project)?,
            emergent_store::triggers::list(tx, project)?,
        ))
    };
    let (state, triggers) = db.read(read).await.expect("a state");
    let names: BTreeMap<_, _> =
        state.agents.iter().map(|agent| (agent.id, agent.definition.name.clone())).collect();
    let products = state.installed.iter().map(|row| json!([row.name, row.version.to_string(), row.raw]));
    let packs = state
        .packs
        .iter()
        .filter(|row| row.assigned)
        .map(|row| json!([row.pack, row.product, row.assigned_by]));
    let servers = state.servers.iter().map(|row| json!([row.product, row.spec, row.tool_filter]));
    let prompts = state.prompts.iter().map(|row| json!([row.product, row.prompt]));
    let schedules = state
        .schedules
        .iter()
        .map(|row| json!([row.product, row.name, row.cron, row.config, names.get(&row.agent)]));
    let triggers: BTreeMap<_, _> =
        triggers.iter().map(|row| (names.get(&row.agent).cloned().unwrap_or_default(), row.event)).collect();
    json!({
        "products": products.collect::<Vec<_>>(),
        "agents": state.agents.iter().map(|row| &row.definition).collect::<Vec<_>>(),
        "packs": packs.collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
        "prompts": prompts.collect::<Vec<_>>(),
        "schedules": schedules.collect::<Vec<_>>(),
        "triggers": triggers,
    })
}

/// The operator accepts what the product uses.
pub fn accepted() -> ChangeOptions {
    ChangeOptions { by: ConfiguredBy::Operator, consent: Consent::Everything, dry_run: false }
}

/// The operator only looks.
pub fn shown() -> ChangeOptions {
    ChangeOptions { dry_run: true, consent: Consent::NotGiven, ..accepted() }
}

pub fn manifest_input(manifest: &Value) -> ManifestInput {
    ManifestInput::Manifest(Box::new(manifest.clone()))
}

/// Returns a built-in manifest as JSON.
pub fn builtin_manifest(name: &str) -> Value {
    let product = builtin::ALL.into_iter().find(|product| product.name == name).expect("a built-in product");
    serde_json::from_str(product.manifest).unwrap()
}

/// A product that uses every feature, in two versions in which everything differs.
pub fn sample(version: u32) -> Value {
    let first = version == 1;
    let last = if first { "old" } else { "new" };
    json!({
        "name": "acme.support", "version": format!("{version}.0.0"),
        "template_packs": [
            { "name": "support", "version": format!("{version}.0.0"), "object_type_schemas": { "Ticket": { "type": "object",
                "properties": { "title": { "type": "string", "maxLength": 100 * version } } } } },
            { "name": format!("support-{last}"), "version": "1.0.0", "object_type_schemas": { last: { "type": "object" } } }],
        "agents": [
            { "name": "triage", "system_prompt": format!("Version {version}."), "model": { "provider": "rehearsal", "name": "echo" },
              "tools": ["search_hybrid"], "is_default": true, "visibility": "external", "trigger": "on_document_ingested" },
            { "name": "steady", "system_prompt": "Always the same.", "flow_type": "sequential", "flow_config": { "agents": ["triage"] } },
            { "name": format!("{last}-one"), "visibility": "internal" }],
        "jobs": [
            { "name": "daily", "cron": if first { "0 8 * * *" } else { "0 9 * * *" }, "agent": "triage" },
            { "name": format!("{last}-job"), "cron": "*/5 * * * *", "agent": "steady", "config": { "input": "go" } }],
        "mcp": {
            "servers": [
                { "name": "hub", "transport": "http", "url": format!("https://example.com/v{version}"), "headers": { "Authorization": "Bearer ${HUB_TOKEN}" } },
                { "name": last, "transport": "stdio", "command": "true" }],
            "prompts": [
                { "name": "ask", "messages": [{ "role": "user", "content": format!("v{version}") }] },
                { "name": format!("ask-{last}"), "messages": [{ "role": "user", "content": "hi" }] }],
            "tool_filter": ["*"] }
    })
}
