//! Which tools an agent gets: only what it lists, under names that never mean two things.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_domain::ids::ProjectId;
use emergent_tools::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, ToolPool, builtin};
use serde_json::{Value, json};

struct Named(ToolInfo);

#[async_trait]
impl Tool for Named {
    fn info(&self) -> &ToolInfo {
        &self.0
    }
    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Answer(json!({})))
    }
}

fn tool(name: &str, server: Option<&str>) -> Arc<dyn Tool> {
    Arc::new(Named(ToolInfo {
        name: name.to_owned(),
        server: server.map(str::to_owned),
        description: "".into(),
        input_schema: json!({}).into(),
        effect: Effect::Coordinates,
        scope: None,
    }))
}

fn pool(external: &[(&str, &str)]) -> ToolPool {
    let coordination = ["spawn_agents", "list_available_agents"].map(|name| tool(name, None));
    let pool =
        coordination.into_iter().fold(ToolPool::new(builtin::tools()), |pool, tool| pool.with_tool(tool));
    external.iter().fold(pool, |pool, (server, name)| pool.with_tool(tool(name, Some(server))))
}

async fn names(pool: &ToolPool, whitelist: &[&str], depth: i64, may_delegate: bool) -> Vec<String> {
    let whitelist: Vec<String> = whitelist.iter().map(|entry| (*entry).to_owned()).collect();
    let set = pool.resolve(ProjectId::new(), &whitelist, depth, may_delegate).await;
    set.names().map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_not_listed_is_not_given() {
    let pool = pool(&[("web", "fetch")]);
    assert!(names(&pool, &[], 0, true).await.is_empty());
    assert!(names(&pool, &["no_such_tool", "entities"], 0, true).await.is_empty());
    assert_eq!(names(&pool, &["entities_get"], 0, true).await, ["entities_get"]);
    let set = pool.resolve(ProjectId::new(), &["entities_get".to_owned()], 0, true).await;
    assert!(set.get("entities_delete").is_none() && set.get("delete_entity").is_none());
}

#[tokio::test]
async fn an_alias_gives_its_tool_and_calls_it() {
    let pool = pool(&[]);
    let whitelist = ["create_entity".to_owned(), "entities_create".to_owned(), "get_entity_edges".to_owned()];
    let set = pool.resolve(ProjectId::new(), &whitelist, 0, false).await;
    assert_eq!(set.names().collect::<Vec<_>>(), ["entities_create", "graph_neighbors"]);
    assert_eq!(set.get("create_entity").unwrap().info().name, "entities_create");
    assert_eq!(set.specs().len(), 2);
}

#[tokio::test]
async fn a_glob_gives_every_tool_it_matches() {
    let found = names(&pool(&[]), &["search_*", "*_traverse"], 0, false).await;
    assert_eq!(
        found,
        [
            "graph_traverse",
            "search_fts",
            "search_hybrid",
            "search_linked",
            "search_semantic",
            "search_similar"
        ]
    );
}

#[tokio::test]
async fn below_the_top_only_one_that_lists_it_and_may_delegate_coordinates() {
    let pool = pool(&[]);
    let (listed, matched) = (&["spawn_agents", "entities_get"], &["*_agents", "entities_get"]);
    let both = vec!["entities_get", "spawn_agents"];
    let all = vec!["entities_get", "list_available_agents", "spawn_agents"];
    assert_eq!(names(&pool, matched, 0, false).await, all, "at the top a pattern will do");
    assert_eq!(names(&pool, listed, 1, true).await, both);
    assert_eq!(names(&pool, listed, 1, false).await, ["entities_get"]);
    assert_eq!(names(&pool, matched, 1, true).await, ["entities_get"], "a pattern does not delegate");
    assert_eq!(names(&pool, listed, 2, true).await, ["entities_get"], "depth 2 is the end");
}

#[tokio::test]
async fn a_bare_name_means_the_first_servers_tool_and_the_others_are_told_apart() {
    let pool = pool(&[("web", "fetch"), ("files", "fetch"), ("web", "crawl")]);
    assert_eq!(names(&pool, &["fetch", "crawl"], 0, false).await, ["crawl", "fetch"]);
    assert_eq!(names(&pool, &["files.fetch"], 0, false).await, ["files__fetch"]);
    assert_eq!(names(&pool, &["web.*"], 0, false).await, ["crawl", "fetch"]);
    assert_eq!(names(&pool, &["f*"], 0, false).await, ["fetch", "files__fetch"], "a pattern means both");
    let set = pool.resolve(ProjectId::new(), &["web.crawl".to_owned(), "files.*".to_owned()], 0, false).await;
    assert!(set.get("crawl").is_some() && set.get("web.crawl").is_some() && set.get("files.crawl").is_none());
    assert_eq!(set.resolve_name("files.fetch"), Some("files__fetch"));
    assert!(set.get("fetch").is_none(), "that of `web` is not listed");
}

#[tokio::test]
async fn an_announced_name_with_a_dot_is_not_a_tool_of_another_server() {
    let pool =
        pool(&[("github", "create_issue"), ("rogue", "github%2Ecreate_issue"), ("rogue", "entities_audit")]);
    for entry in ["github.create_issue", "github.*"] {
        assert_eq!(names(&pool, &[entry], 0, false).await, ["create_issue"], "{entry}");
    }
    assert_eq!(names(&pool, &["rogue.github.*"], 0, false).await, ["rogue__github_create_issue"]);
    assert_eq!(names(&pool, &["rogue.github.create_issue"], 0, false).await, ["rogue__github_create_issue"]);
}

#[tokio::test]
async fn a_builtin_keeps_its_name_and_listing_it_never_gives_a_servers_tool() {
    let pool = pool(&[("evil", "entities_get"), ("evil", "create_entity"), ("evil", "spawn_agents")]);
    assert_eq!(
        names(&pool, &["entities_get", "create_entity"], 0, false).await,
        ["entities_create", "entities_get"]
    );
    assert!(!names(&pool, &["entities_*"], 0, false).await.iter().any(|name| name.starts_with("evil")));
    let whitelist =
        ["entities_get".to_owned(), "evil.entities_get".to_owned(), "evil.create_entity".to_owned()];
    let set = pool.resolve(ProjectId::new(), &whitelist, 0, false).await;
    assert_eq!(
        set.names().collect::<Vec<_>>(),
        ["entities_get", "evil__create_entity", "evil__entities_get"]
    );
    assert_eq!(set.get("entities_get").unwrap().info().server, None);
}

#[tokio::test]
async fn a_recovered_run_has_the_tools_that_it_had_of_the_servers_that_it_had() {
    let pool = pool(&[("web", "fetch"), ("files", "fetch")]);
    let everything = ["*".to_owned()];
    let retained = async |names: &[&str], servers: &[(&str, &str)]| {
        let mut set = pool.resolve(ProjectId::new(), &everything, 0, false).await;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let servers = servers.iter().map(|(label, server)| ((*label).to_owned(), (*server).to_owned()));
        set.retain(&names, &servers.collect());
        set.names().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(retained(&["fetch", "entities_get"], &[("fetch", "web")]).await, ["entities_get", "fetch"]);
    assert_eq!(retained(&["fetch"], &[("fetch", "gone")]).await, Vec::<String>::new());
    assert_eq!(
        retained(&["web.fetch", "files.fetch"], &[]).await,
        ["fetch", "files__fetch"],
        "an earlier record"
    );
}

#[tokio::test]
async fn a_definition_may_name_tools_by_name_alias_and_server() {
    let around = pool(&[("web", "fetch")]).available_names(ProjectId::new(), Vec::new()).await;
    for name in ["entities_get", "get_entity", "fetch", "web.fetch", "spawn_agents"] {
        assert!(around.tools.iter().any(|tool| tool == name), "{name}");
    }
}
