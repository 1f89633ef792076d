//! Servers that cannot be used: what a run is told, and what every process shows.

use std::time::{Duration, Instant};

use emergent_domain::{
    ids::TokenId,
    mcp_server::{ConfiguredBy, PinPolicy},
    time::Clock,
};
use emergent_secrets::{Secret, SecretName};
use emergent_testkit::both_engines;
use emergent_tools::{
    ToolPool,
    remote::{Error, McpServers, RemoteSettings, ServerPatch, Status},
};
use serde_json::json;

use crate::remote::support::{Site, alone, settings};

fn unreachable(name: &str) -> serde_json::Value {
    // Nothing listens there: the port was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    json!({ "name": name, "transport": "http", "url": format!("http://127.0.0.1:{port}/mcp") })
}

async fn unavailable(site: &Site, whitelist: &[&str]) -> Vec<(String, Option<String>)> {
    let whitelist: Vec<String> = whitelist.iter().map(|entry| (*entry).to_owned()).collect();
    let set = site.pool.resolve_for_run(site.project, &whitelist, 0, false).await;
    let servers = set.unavailable_servers().iter();
    servers.map(|server| (server.server.clone(), server.missing_secret.clone())).collect()
}

both_engines! {
    async fn a_run_is_told_which_of_its_servers_cannot_be_used_and_why(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        site.add(unreachable("down")).await;
        let mut keyed = site.rogue("keyed");
        keyed["env"]["ROGUE_KEY"] = json!("${THE_KEY}");
        site.add(keyed).await;
        let down = ("down".to_owned(), None);
        let lacking = ("keyed".to_owned(), Some("THE_KEY".to_owned()));
        assert_eq!(unavailable(&site, &["down.search"]).await, std::slice::from_ref(&down));
        assert_eq!(unavailable(&site, &["keyed.*"]).await, std::slice::from_ref(&lacking));
        assert_eq!(unavailable(&site, &["*"]).await, [down.clone(), lacking.clone()]);
        assert_eq!(unavailable(&site, &["some_tool"]).await, [down, lacking], "it may be a tool of either");
        assert_eq!(unavailable(&site, &["entities_*", "entities_get"]).await, [], "built-in tools need no server");
        assert_eq!(unavailable(&site, &["nowhere.tool"]).await, [("nowhere".to_owned(), None)]);
        let disabled = site.pool.resolve_for_run(site.project, &["some_tool".to_owned()], 0, false).await;
        let offered = disabled.specs();
        assert!(offered[0].name == "some_tool" && offered[0].description.contains("`THE_KEY`"), "{offered:?}");
        let whitelist = ["keyed.echo".to_owned()];
        let set = site.pool.resolve_for_run(site.project, &whitelist, 0, false).await;
        let told = set.explain_missing("keyed__echo").unwrap();
        assert!(told.contains("`keyed`") && told.contains("`THE_KEY`"), "{told}");

        let name: SecretName = "THE_KEY".parse().unwrap();
        site.secrets.put(site.project, None, &name, Secret::new("a-long-enough-value".into())).await.unwrap();
        assert_eq!(unavailable(&site, &["keyed.*"]).await, [], "as soon as the secret is there");
        site.close().await;
    }

    async fn a_run_hears_of_a_program_that_was_started_before_and_is_broken(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let program = site.file("program");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_rogue-mcp-server"), &program).unwrap();
        let mut spec = site.rogue("gone");
        spec["command"] = json!(program);
        let server = site.add(spec).await;
        let (answer, told) = site.call_for_reports(&site.servers, "echo").await;
        assert_eq!((answer, told), (Ok(json!("{}")), Vec::new()), "a call that works reports nothing");
        let (refused, told) = site.call_for_reports(&site.servers, "fail").await;
        assert!(refused.is_err() && told.is_empty(), "nor does one that the server refuses: {refused:?}");
        site.servers.shutdown().await;
        std::fs::remove_file(&program).unwrap();

        let restarted = site.other_servers();
        let (row, _) = restarted.get(site.project, server.id).await.unwrap();
        assert_eq!(restarted.status(&row), Status::Idle);
        let (error, told) = site.call_for_reports(&restarted, "echo").await;
        let error = error.unwrap_err();
        assert!(error.starts_with("the call failed: the MCP server `gone` could not start "), "{error}");
        assert_eq!((told.len(), told[0].server.as_str(), &told[0].missing_secret), (1, "gone", &None));
        assert!(told[0].reason.starts_with("could not start "), "{told:?}");
        let pool = ToolPool::new(Vec::new()).with_remote(restarted.clone());
        let next = pool.resolve_for_run(site.project, &["gone.echo".to_owned()], 0, false).await;
        assert!(next.get("echo").is_some(), "its tools are known");
        let told = next.unavailable_servers();
        assert!(told[0].reason.starts_with("could not start "), "the next run hears of it at its start: {told:?}");
        restarted.shutdown().await;
        site.close().await;
    }

    async fn a_run_hears_of_a_secret_that_was_deleted_and_no_tool_is_blamed_for_it(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        site.put_secret("LATER", "a-long-enough-value").await;
        let mut spec = site.rogue("keyed");
        spec["env"]["ROGUE_KEY"] = json!("${LATER}");
        site.add(spec).await;
        assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
        site.secrets.delete(site.project, &"LATER".parse().unwrap()).await.unwrap();
        let (error, told) = site.call_for_reports(&site.servers, "echo").await;
        let error = error.unwrap_err();
        let expected = "the call failed: the MCP server `keyed` cannot be connected, because of `env.ROGUE_KEY`: there is no \
                        secret `LATER`";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(told[0].missing_secret.as_deref(), Some("LATER"));
        site.close().await;
    }

    async fn a_token_of_a_project_does_not_decide_which_tools_of_the_operators_program_are_accepted(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(site.rogue("rogue")).await;
        let update = async |by: ConfiguredBy, patch: ServerPatch| {
            site.servers.update(site.project, by, server.id, patch).await
        };
        let project = ConfiguredBy::Project(TokenId::new());
        let trust = ServerPatch { trust: Some(true), ..ServerPatch::default() };
        let policy = ServerPatch { pin_policy: Some(PinPolicy::Off), ..ServerPatch::default() };
        for patch in [&trust, &policy] {
            let refused = update(project, patch.clone()).await.unwrap_err();
            assert!(matches!(refused, Error::ProgramNotAllowed { .. }), "{refused}");
        }
        let same = ServerPatch { trust: Some(false), timeout_seconds: Some(9), ..ServerPatch::default() };
        assert_eq!(update(project, same).await.unwrap().timeout_seconds, 9, "nothing is accepted by that");
        let changed = update(ConfiguredBy::Operator, trust).await.unwrap();
        assert!(changed.trust && changed.pin_policy == PinPolicy::Pin);
        site.close().await;
    }

    async fn a_server_that_failed_is_shown_as_failing_by_every_process_until_it_works_again(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let other = McpServers::new(site.db.db.clone(), Clock::system(), site.secrets.clone(), settings());
        let server = site.add(site.rogue("rogue")).await;
        site.timeout(server.id, 1).await;
        assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
        let seen_by = async |servers: &McpServers| {
            let (row, _) = servers.get(site.project, server.id).await.unwrap();
            (servers.status(&row), row.last_error, row.last_error_at.is_some())
        };
        assert_eq!(seen_by(&other).await, (Status::Idle, None, false));
        site.call("hang", json!({})).await.unwrap_err();
        for servers in [&site.servers, &other] {
            let (status, error, timed) = seen_by(servers).await;
            assert_eq!((status, timed), (Status::Failing, true), "though the connection is open");
            assert!(error.unwrap().contains("no answer within 1 seconds"));
        }
        assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
        assert_eq!(seen_by(&site.servers).await, (Status::Connected, None, false), "a call that works clears it");
        assert_eq!(seen_by(&other).await, (Status::Idle, None, false));
        site.close().await;
    }

    async fn a_server_that_is_enabled_again_has_no_error_of_before(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(unreachable("down")).await;
        let set_enabled = async |enabled: bool| {
            let patch = ServerPatch { enabled: Some(enabled), ..ServerPatch::default() };
            site.servers.update(site.project, ConfiguredBy::Operator, server.id, patch).await.unwrap()
        };
        site.servers.inspect(site.project, server.id).await.unwrap().error.unwrap();
        let unchanged = set_enabled(true).await;
        assert!(unchanged.last_error.is_some(), "it was enabled already");
        assert!(set_enabled(false).await.last_error.is_some(), "it says why it was switched off");
        let enabled = set_enabled(true).await;
        assert_eq!((enabled.last_error.as_deref(), enabled.last_error_at), (None, None));
        assert_eq!(site.servers.status(&enabled), Status::New);
        site.close().await;
    }

    async fn a_program_with_a_raised_timeout_has_as_long_for_its_first_start(db: TestDb) {
        let _alone = alone().await;
        let limits = RemoteSettings { connect_timeout: Duration::from_millis(300), ..settings() };
        let site = Site::with(db, limits, Clock::system()).await;
        let mut slow = site.rogue("slow");
        slow["env"]["ROGUE_DELAY_MS"] = json!("1000");
        let server = site.add(slow).await;
        let refused = site.servers.inspect(site.project, server.id).await.unwrap().error.unwrap();
        assert!(refused.contains("gave no answer within 0.3 seconds"), "{refused}");
        site.timeout(server.id, 61).await;
        let inspection = site.servers.inspect(site.project, server.id).await.unwrap();
        assert_eq!(inspection.error, None);
        assert!(!inspection.tools.is_empty());
        site.close().await;
    }

    async fn the_start_of_a_run_waits_a_bounded_time_and_only_for_servers_that_it_names(db: TestDb) {
        let _alone = alone().await;
        let limits = RemoteSettings { run_start_timeout: Duration::from_millis(500), ..settings() };
        let site = Site::with(db, limits, Clock::system()).await;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", silent.local_addr().unwrap());
        site.add(json!({ "name": "silent", "transport": "http", "url": url })).await;
        let began = Instant::now();
        assert_eq!(unavailable(&site, &["entities_*"]).await, []);
        assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(unavailable(&site, &["silent.tool"]).await, [("silent".to_owned(), None)]);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        site.close().await;
    }
}
