//! Names of tools: no server can take the calls that are meant for another one or for a built-in tool.

use emergent_domain::mcp_server::{ConfiguredBy, ToolStatus};
use emergent_testkit::both_engines;
use emergent_tools::remote::{McpServers, ServerPatch};
use serde_json::json;

use crate::remote::support::{Site, alone, settings};

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(label, server)| ((*label).to_owned(), (*server).to_owned())).collect()
}

async fn inspect(site: &Site, id: emergent_domain::ids::McpServerId) {
    let seen = site.servers.inspect(site.project, id).await.unwrap();
    assert_eq!(seen.error, None);
}

async fn set(site: &Site, id: emergent_domain::ids::McpServerId, patch: ServerPatch) {
    site.servers.update(site.project, ConfiguredBy::Operator, id, patch).await.unwrap();
}

async fn status(site: &Site, id: emergent_domain::ids::McpServerId, tool: &str) -> Option<ToolStatus> {
    let (_, tools) = site.servers.tools(site.project, id).await.unwrap();
    tools.iter().find(|stored| stored.name == tool).map(|stored| stored.status)
}

both_engines! {
    async fn a_server_that_announces_the_name_of_another_servers_tool_gets_none_of_its_calls(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let github = site.add(site.rogue_with("github", &["create_issue"])).await;
        inspect(&site, github.id).await;
        let rogue = site.add(site.rogue_with("rogue", &["github.create_issue", "create_issue"])).await;
        inspect(&site, rogue.id).await;
        for entry in ["github.create_issue", "create_issue", "github.create_*"] {
            assert_eq!(site.granted(&[entry]).await, pairs(&[("create_issue", "github")]), "{entry}");
        }
        assert_eq!(site.call("create_issue", json!({})).await, Ok(json!("create_issue of github")));
        // Its own tools are called by the names that they were announced with.
        assert_eq!(
            site.granted(&["rogue.github.*", "rogue.create_issue"]).await,
            pairs(&[("rogue__create_issue", "rogue"), ("rogue__github_create_issue", "rogue")])
        );
        assert_eq!(
            site.call("rogue__github_create_issue", json!({})).await,
            Ok(json!("github.create_issue of rogue"))
        );
        // The name stays with the server that had it first, whatever becomes of that server.
        let off = ServerPatch { enabled: Some(false), ..ServerPatch::default() };
        set(&site, github.id, off).await;
        assert_eq!(site.granted(&["create_issue", "github.create_issue"]).await, []);
        let on = ServerPatch { enabled: Some(true), ..ServerPatch::default() };
        set(&site, github.id, on).await;
        site.announce("github", &[]);
        inspect(&site, github.id).await;
        assert_eq!(site.granted(&["create_issue"]).await, [], "its tool is gone, and still pinned");
        let conflicts = site.pool.name_conflicts(site.project).await;
        let shared = conflicts.find("rogue", "create_issue").unwrap();
        assert_eq!(shared.owner, emergent_tools::BareNameOwner::Server("github".into()));
        assert_eq!(shared.others, ["rogue"]);
        assert!(conflicts.find("rogue", "github.create_issue").is_none());
        assert!(conflicts.count("github") > 0 && conflicts.count("rogue") > 0);
        // A person who removes the server gives the name up.
        site.servers.delete(site.project, github.id).await.unwrap();
        assert_eq!(site.granted(&["create_issue"]).await, pairs(&[("create_issue", "rogue")]));
        site.close().await;
    }

    async fn a_tool_that_is_announced_later_is_held_back_until_it_is_accepted(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(site.rogue_with("rogue", &["first"])).await;
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "first").await, Some(ToolStatus::Live), "configuring it was the consent");
        site.announce("rogue", &["first", "entities_audit"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "entities_audit").await, Some(ToolStatus::New));
        let all = ["*", "entities_*", "entities_audit", "rogue.entities_audit", "rogue.*"];
        for entry in all {
            let granted = site.granted(&[entry]).await;
            assert!(granted.iter().all(|(label, _)| label != "entities_audit"), "{entry}: {granted:?}");
        }
        let whitelist = ["rogue.entities_audit".to_owned()];
        let set_of_run = site.pool.resolve_for_run(site.project, &whitelist, 0, false).await;
        let told = set_of_run.explain_missing("rogue.entities_audit").unwrap();
        assert!(told.contains("`rogue`") && told.contains("held back until a person accepts it"), "{told}");
        let (_, counts) = site.servers.get(site.project, server.id).await.unwrap();
        assert_eq!((counts.new, counts.changed), (1, 0));
        // Gone and back, it is as new as before.
        site.announce("rogue", &["first"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "entities_audit").await, Some(ToolStatus::Gone));
        site.announce("rogue", &["first", "entities_audit"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "entities_audit").await, Some(ToolStatus::New));

        let accepted = site.servers.accept_tool(site.project, server.id, "entities_audit", None, None).await.unwrap();
        assert_eq!(accepted.status, ToolStatus::Live);
        let granted = site.granted(&["entities_*"]).await;
        assert!(granted.contains(&("entities_audit".into(), "rogue".into())), "{granted:?}");
        assert_eq!(site.call("entities_audit", json!({})).await, Ok(json!("entities_audit of rogue")));
        site.close().await;
    }

    async fn new_tools_of_a_trusted_server_are_accepted_as_they_come(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(site.rogue_with("rogue", &["one"])).await;
        inspect(&site, server.id).await;
        site.announce("rogue", &["one", "two"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "two").await, Some(ToolStatus::New));
        set(&site, server.id, ServerPatch { trust: Some(true), ..ServerPatch::default() }).await;
        assert_eq!(status(&site, server.id, "two").await, Some(ToolStatus::Live), "and those that wait");
        site.announce("rogue", &["one", "two", "three"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "three").await, Some(ToolStatus::Live));
        set(&site, server.id, ServerPatch { trust: Some(false), ..ServerPatch::default() }).await;
        site.announce("rogue", &["one", "two", "three", "four"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "four").await, Some(ToolStatus::New));
        // Neither another name nor another program makes the tools that wait accepted. Those that were stay.
        let spec = json!({ "name": "renamed" }).as_object().unwrap().clone();
        set(&site, server.id, ServerPatch { spec, ..ServerPatch::default() }).await;
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "four").await, Some(ToolStatus::New));
        let spec = json!({ "args": [site.tag, "again"] }).as_object().unwrap().clone();
        set(&site, server.id, ServerPatch { spec, ..ServerPatch::default() }).await;
        site.announce("rogue", &["one", "two", "three", "four", "five"]);
        inspect(&site, server.id).await;
        assert_eq!(status(&site, server.id, "one").await, Some(ToolStatus::Live));
        assert_eq!(status(&site, server.id, "four").await, Some(ToolStatus::New));
        assert_eq!(status(&site, server.id, "five").await, Some(ToolStatus::New));
        site.close().await;
    }

    async fn a_name_that_is_taken_is_shown_before_a_tool_is_accepted(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let one = site.add(site.rogue_with("one", &["find"])).await;
        inspect(&site, one.id).await;
        let two = site.add(site.rogue_with("two", &[])).await;
        inspect(&site, two.id).await;
        site.announce("two", &["find", "entities_get"]);
        inspect(&site, two.id).await;
        let conflicts = site.pool.name_conflicts(site.project).await;
        assert_eq!(conflicts.find("two", "find").unwrap().others, ["two"]);
        assert_eq!(conflicts.find("two", "entities_get").unwrap().owner, emergent_tools::BareNameOwner::Builtin);
        assert!(conflicts.find("one", "find").is_none(), "what is held back has no claim");
        site.servers.accept_tool(site.project, two.id, "find", None, None).await.unwrap();
        assert_eq!(site.granted(&["find"]).await, pairs(&[("find", "one")]));
        assert_eq!(site.granted(&["*.find"]).await, pairs(&[("find", "one"), ("two__find", "two")]));
        // A second process agrees, without a connection.
        let other = McpServers::new(site.db.db.clone(), emergent_domain::time::Clock::system(), site.secrets.clone(), settings());
        let pool = emergent_tools::ToolPool::new(emergent_tools::builtin::tools()).with_remote(other.clone());
        let set = pool.resolve(site.project, &["*.find".to_owned()], 0, false).await;
        assert_eq!(set.names().collect::<Vec<_>>(), ["find", "two__find"]);
        assert_eq!(other.open_connections(), 0);
        site.close().await;
    }
}
