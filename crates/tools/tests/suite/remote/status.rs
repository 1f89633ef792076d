//! Servers that cannot be used: what a run is told, and what every process shows.

use std::time::{Duration, Instant};

use emergent_domain::time::Clock;
use emergent_secrets::{Secret, SecretName};
use emergent_testkit::both_engines;
use emergent_tools::remote::{McpServers, RemoteSettings, Status};
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
