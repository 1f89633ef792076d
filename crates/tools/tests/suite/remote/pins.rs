//! What a project gets of a server's tools, and what happens when they change.

use std::time::Duration;

use emergent_domain::{
    mcp_server::{ConfiguredBy, PinPolicy, ToolStatus},
    time::Clock,
};
use emergent_testkit::{both_engines, fixed_clock};
use emergent_tools::{
    Effect,
    remote::{Error, McpServers, ServerPatch},
};
use serde_json::json;

use crate::remote::support::{Site, alone, settings};

async fn policy(site: &Site, id: emergent_domain::ids::McpServerId, pin: PinPolicy) {
    let patch = ServerPatch { pin_policy: Some(pin), ..ServerPatch::default() };
    site.servers.update(site.project, ConfiguredBy::Operator, id, patch).await.unwrap();
}

both_engines! {
    async fn a_tool_that_changes_is_held_back_until_it_is_accepted(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(site.rogue("rogue")).await;
        let before = site.tool("echo").await.unwrap();
        site.call("change", json!({})).await.unwrap();
        let mut held = false;
        for _ in 0..100 {
            held = site.tool("echo").await.is_none();
            if held {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(held, "the pool does not have it any more");
        assert!(site.tool("hang").await.is_some(), "the others stay");
        assert!(site.tool("titled").await.is_none(), "a title is told where there is no description");
        // A run that was given it at its start hears why.
        let refused = site.call_tool(before.as_ref(), json!({})).await.unwrap_err();
        assert!(refused.contains("held back until somebody accepts it"), "{refused}");
        let (_, tools) = site.servers.tools(site.project, server.id).await.unwrap();
        let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
        assert_eq!(echo.status, ToolStatus::Changed);
        assert!(echo.tool.contains("Sends your files") && echo.pinned_tool.contains("Says it back"));

        // Somebody looked at the definition before the change, or at a later one.
        let accept = |digest: Option<String>| {
            let (servers, project, id) = (site.servers.clone(), site.project, server.id);
            async move { servers.accept_tool(project, id, "echo", digest.as_deref(), None).await }
        };
        for other in [echo.pinned_digest.clone(), "of a later one".to_owned(), "x".repeat(100_000)] {
            match accept(Some(other)).await {
                Err(Error::Conflict(reason)) => assert!(reason.contains(&echo.digest) && reason.len() < 500, "{reason}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(site.tool("echo").await.is_none(), "it is held back as before");
        accept(Some(echo.digest.clone())).await.unwrap();
        assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
        assert!(matches!(site.servers.accept_tool(site.project, server.id, "nope", None, None).await, Err(Error::NotFound { .. })));
        site.close().await;
    }

    async fn under_warn_a_changed_tool_is_used_and_reported(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let server = site.add(site.rogue("rogue")).await;
        policy(&site, server.id, PinPolicy::Warn).await;
        site.call("change", json!({})).await.unwrap();
        let mut changed = 0;
        for _ in 0..100 {
            changed = site.servers.get(site.project, server.id).await.unwrap().1.changed;
            if changed == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(changed, 2, "one in its description, one in its title");
        let echo = site.tool("echo").await.unwrap();
        assert_eq!(echo.info().description.as_ref(), "Sends your files to me.");
        assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
        site.close().await;
    }

    async fn tools_are_what_the_server_says_and_no_more_than_the_filter_lets_through(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let around = site.pool.available_names(site.project, vec![]).await;
        assert!(around.tools_complete);
        let server = site.add(site.rogue("rogue")).await;
        assert!(!site.pool.available_names(site.project, vec![]).await.tools_complete, "it was never reached");
        let echo = site.tool("echo").await.unwrap();
        assert!(site.pool.available_names(site.project, vec![]).await.tools_complete);
        assert_eq!(
            echo.info().input_schema.as_str(),
            r#"{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"number","maximum":1.50}},"$schema":"x"}"#,
            "to the letter"
        );
        assert_eq!(echo.info().effect, Effect::External { read_only: true, idempotent: true });
        let hang = site.tool("hang").await.unwrap();
        assert_eq!(hang.info().effect, Effect::External { read_only: false, idempotent: false });
        assert!(site.tool("task_only").await.is_none(), "it cannot be called plainly");
        assert_eq!(site.call("fail", json!({})).await.unwrap_err(), "there is no such file");
        let patch = ServerPatch { tool_filter: Some(vec!["e*".into()]), ..ServerPatch::default() };
        site.servers.update(site.project, ConfiguredBy::Operator, server.id, patch).await.unwrap();
        let set = site.pool.resolve(site.project, &["rogue.*".into()], 0, false).await;
        assert_eq!(set.names().collect::<Vec<_>>(), ["echo", "env"]);
        // What it was is not forgotten by a second process.
        let other = McpServers::new(site.db.db.clone(), Clock::system(), site.secrets.clone(), settings());
        let pool = emergent_tools::ToolPool::new(vec![]).with_remote(other.clone());
        assert_eq!(pool.project_tools(site.project).await.len(), 2);
        assert_eq!(other.open_connections(), 0, "known without a connection");
        site.close().await;
    }

    async fn after_three_failures_a_server_is_left_alone_for_a_minute(db: TestDb) {
        let _alone = alone().await;
        let clock = fixed_clock();
        let site = Site::with(db, settings(), clock.clone()).await;
        let server = site.add(site.rogue("rogue")).await;
        site.timeout(server.id, 1).await;
        let hang = site.tool("hang").await.unwrap();
        for _ in 0..3 {
            let error = site.call_tool(hang.as_ref(), json!({})).await.unwrap_err();
            assert!(error.contains("no answer within 1 seconds"), "{error}");
        }
        let echo = site.tool("echo").await.unwrap();
        let began = std::time::Instant::now();
        let error = site.call_tool(echo.as_ref(), json!({})).await.unwrap_err();
        assert!(error.contains("left alone until 2026-01-31T08:01:00") && error.contains("no answer"), "{error}");
        assert!(began.elapsed() < Duration::from_millis(500));
        let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
        assert_eq!(site.servers.breaker_open_until(&row), Some(clock.now() + Duration::from_secs(60)));
        clock.advance(Duration::from_secs(61));
        assert_eq!(site.servers.breaker_open_until(&row), None);
        assert_eq!(site.call_tool(echo.as_ref(), json!({})).await, Ok(json!("{}")));
        site.close().await;
    }

    async fn a_server_that_changes_or_goes_is_disconnected(db: TestDb) {
        let _alone = alone().await;
        let site = Site::open(db).await;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let minding = tokio::spawn({ let servers = site.servers.clone(); async move { servers.run(stopped).await } });
        let server = site.add(site.rogue("rogue")).await;
        let echo = site.tool("echo").await.unwrap();
        assert_eq!(site.servers.open_connections(), 1);
        let off = ServerPatch { enabled: Some(false), ..ServerPatch::default() };
        site.servers.update(site.project, ConfiguredBy::Operator, server.id, off).await.unwrap();
        crate::remote::support::eventually("a server that is switched off ends", || site.processes().is_empty()).await;
        assert!(site.tool("echo").await.is_none());
        let error = site.call_tool(echo.as_ref(), json!({})).await.unwrap_err();
        assert!(error.contains("is switched off"), "{error}");
        let on = ServerPatch { enabled: Some(true), ..ServerPatch::default() };
        site.servers.update(site.project, ConfiguredBy::Operator, server.id, on).await.unwrap();
        assert_eq!(site.call_tool(echo.as_ref(), json!({})).await, Ok(json!("{}")));
        let renamed = json!({ "name": "renamed" }).as_object().unwrap().clone();
        let patch = ServerPatch { spec: renamed, ..ServerPatch::default() };
        site.servers.update(site.project, ConfiguredBy::Operator, server.id, patch).await.unwrap();
        assert_eq!(site.call("renamed.echo", json!({})).await, Ok(json!("{}")));
        crate::remote::support::eventually("the old connection is gone", || site.processes().len() == 1).await;
        stop.send_replace(true);
        minding.await.unwrap();
        assert!(site.processes().is_empty(), "stopping ends every program");
        site.close().await;
    }
}
