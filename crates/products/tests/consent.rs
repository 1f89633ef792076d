//! A product is installed with a consent to what it uses, and upgraded with one to what is new. Its secrets
//! are bound to where they are sent.

mod support;

use emergent_domain::{ids::TokenId, mcp_server::ConfiguredBy};
use emergent_products::{ChangeOptions, Consent, Error};
use emergent_store::{Tx, secret_bindings};
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::{Harness, accepted, manifest_input};

fn product(version: &str, url: &str, job: bool) -> Value {
    let jobs = if job { json!([{ "name": "j", "cron": "0 8 * * *", "agent": "a" }]) } else { json!([]) };
    json!({ "name": "p", "version": version, "agents": [{ "name": "a" }], "jobs": jobs, "mcp": { "servers": [
        { "name": "hub", "transport": "http", "url": url, "headers": { "Authorization": "Bearer ${KEY}" } }] } })
}

fn with(consent: Consent) -> ChangeOptions {
    ChangeOptions { consent, ..accepted() }
}

/// The bindings of the product as `secret target operator|token`.
async fn bindings(harness: &Harness) -> Vec<String> {
    let project = harness.actor.project;
    let read = move |tx: &mut Tx<'_>| {
        secret_bindings::list_for_owner(tx, project, &secret_bindings::product_owner("p"))
    };
    let found: emergent_store::Result<Vec<_>> = harness.db().read(read).await;
    let by = |binding: &secret_bindings::SecretBinding| match binding.allowed_by {
        Some(_) => "token",
        None => "operator",
    };
    let target = |one: &secret_bindings::SecretBinding| {
        let address = one.target.strip_suffix(r#" authorization: "Bearer ${KEY}""#);
        address.expect("the address and the header of the product").to_owned()
    };
    found.unwrap().iter().map(|one| format!("{} {} {}", one.secret, target(one), by(one))).collect()
}

both_engines! {
    async fn nothing_is_written_without_a_consent(db: TestDb) {
        let harness = Harness::open(&db).await;
        let (v1, before) = (product("1.0.0", "https://a.test/", true), harness.rows().await);
        let install = |consent| harness.products.install(harness.actor, manifest_input(&v1), with(consent));
        let refused = install(Consent::NotGiven).await;
        let Err(Error::ConsentRequired { uses, added, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((uses.clone(), uses.hosts.len(), uses.schedules.len()), (added, 1, 1));
        let stale = install(Consent::Digest("of something else".into())).await;
        assert!(matches!(stale, Err(Error::ConsentRequired { .. })), "{stale:?}");
        assert_eq!(harness.rows().await, before);
        let done = install(Consent::Digest(uses.digest())).await.unwrap();
        assert_eq!(done.product.unwrap().accepted, *uses, "it is stored");
        assert_eq!(bindings(&harness).await, ["KEY https://a.test/ operator"]);
        harness.uninstall("p").await.unwrap();
        assert!(bindings(&harness).await.is_empty());
        // The log and the stream of the project tell of both changes; nothing else of the consent and the binding is left.
        let (mut after, mut before) = (harness.rows().await, before);
        for table in ["audit_log", "project_events"] {
            assert_eq!(after.remove(table).unwrap(), before.remove(table).unwrap() + 2, "{table}");
        }
        // Deleted agents and packs stay as tombstones with their history.
        for table in ["agent_definitions", "agent_definition_versions", "template_packs"] {
            after.remove(table);
            before.remove(table);
        }
        assert_eq!(after, before);
    }

    async fn an_upgrade_asks_for_what_is_new(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&product("1.0.0", "https://a.test/", true)).await.unwrap();
        let upgrade = async |version: &str, url: &str, job: bool| {
            let manifest = manifest_input(&product(version, url, job));
            harness.products.upgrade(harness.actor, "p", Some(manifest), with(Consent::NotGiven)).await
        };
        upgrade("1.1.0", "https://a.test", false).await.unwrap();
        let refused = upgrade("1.2.0", "https://a.test/", true).await;
        let Err(Error::ConsentRequired { added, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((added.schedules.len(), added.hosts.len()), (1, 0), "it was dropped, and is asked again");
        for elsewhere in ["https://evil.test/", "https://a.test/other"] {
            let refused = upgrade("1.2.0", elsewhere, false).await;
            let Err(Error::ConsentRequired { added, .. }) = refused else { panic!("{refused:?}") };
            assert!(added.secrets.first().unwrap().target.starts_with(&format!("{elsewhere} ")));
            assert_eq!(added.hosts.len(), 1);
        }
        assert_eq!(bindings(&harness).await, ["KEY https://a.test/ operator"]);
        harness.upgrade(&product("1.2.0", "https://b.test/", true)).await.unwrap();
        assert_eq!(bindings(&harness).await, ["KEY https://b.test/ operator"], "an operator directs it elsewhere");
    }

    async fn a_consent_of_a_project_is_not_taken_for_the_operators(db: TestDb) {
        let harness = Harness::open(&db).await;
        let by = ConfiguredBy::Project(TokenId::new());
        let project = ChangeOptions { by, ..accepted() };
        harness.install(&product("1.0.0", "https://a.test/", false)).await.unwrap();
        let evil = Some(manifest_input(&product("1.1.0", "https://evil.test/", false)));
        harness.products.upgrade(harness.actor, "p", evil, project).await.unwrap();
        let expected = ["KEY https://a.test/ operator", "KEY https://evil.test/ token"];
        assert_eq!(bindings(&harness).await, expected);
        // The operator upgrades to a version that adds nothing, and was not asked about the host.
        harness.upgrade(&product("1.2.0", "https://evil.test", false)).await.unwrap();
        assert_eq!(bindings(&harness).await, expected);
    }

    async fn a_product_from_before_is_not_asked_about_what_it_does(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&product("1.0.0", "https://a.test/", true)).await.unwrap();
        let forget = |tx: &mut Tx<'_>| {
            tx.execute("UPDATE installed_products SET accepted = NULL", &[])?;
            tx.execute("DELETE FROM secret_bindings", &[])?;
            tx.execute("UPDATE project_mcp_servers SET unbound_version = version", &[])
        };
        let forgotten: emergent_store::Result<u64> = harness.db().write(forget).await;
        forgotten.unwrap();
        let next = Some(manifest_input(&product("1.1.0", "https://a.test", true)));
        let options = ChangeOptions { by: ConfiguredBy::Project(TokenId::new()), ..ChangeOptions::default() };
        harness.products.upgrade(harness.actor, "p", next, options).await.unwrap();
        assert_eq!(bindings(&harness).await, ["KEY https://a.test/ operator"], "its secret goes where it went");
    }

    async fn a_product_that_was_accepted_for_an_origin_keeps_its_addresses_and_gets_no_others(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&product("1.0.0", "https://a.test/mcp", false)).await.unwrap();
        // As an earlier version stored it.
        let shorten = |tx: &mut Tx<'_>| {
            let accepted = r#"{"hosts":["https://a.test"],"secrets":[{"name":"KEY","target":"https://a.test"}]}"#;
            let accepted = emergent_store::Param::Json(accepted.into());
            tx.execute("UPDATE installed_products SET accepted = $1", &[accepted])?;
            tx.execute("UPDATE secret_bindings SET target = 'https://a.test'", &[])?;
            tx.execute("UPDATE project_mcp_servers SET origin_bound_version = version", &[])
        };
        let shortened: emergent_store::Result<u64> = harness.db().write(shorten).await;
        shortened.unwrap();
        let upgrade = async |version: &str, url: &str, job: bool| {
            let manifest = manifest_input(&product(version, url, job));
            harness.products.upgrade(harness.actor, "p", Some(manifest), with(Consent::NotGiven)).await
        };
        let refused = upgrade("1.1.0", "https://a.test/other", false).await;
        assert!(matches!(refused, Err(Error::ConsentRequired { .. })), "{refused:?}");
        upgrade("1.1.0", "https://a.test:443/mcp", false).await.unwrap();
        let read = |tx: &mut Tx<'_>| {
            tx.query("SELECT target FROM secret_bindings ORDER BY target", &[], |row| row.get(0))
        };
        let found: emergent_store::Result<Vec<String>> = harness.db().read(read).await;
        let expected = r#"https://a.test/mcp authorization: "Bearer ${KEY}""#.to_owned();
        assert!(found.as_ref().unwrap().contains(&expected), "{found:?}");
    }

    async fn the_agents_of_other_systems_are_accepted_installed_and_removed_like_servers(db: TestDb) {
        let harness = Harness::open(&db).await;
        let manifest = |version: &str, url: &str| {
            json!({ "name": "p", "version": version,
                    "agents": [{ "name": "clerk", "model": { "provider": "a2a", "name": "writer" } }],
                    "mcp": { "tool_filter": ["search_*"] },
                    "a2a": { "agents": [{ "name": "writer", "url": url,
                                          "headers": { "Authorization": "Bearer ${KEY}" } }] } })
        };
        let (v1, before) = (manifest("1.0.0", "https://a.test/writer"), harness.rows().await);
        let refused = harness.products.install(harness.actor, manifest_input(&v1), with(Consent::NotGiven)).await;
        let Err(Error::ConsentRequired { uses, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(uses.hosts.iter().collect::<Vec<_>>(), ["https://a.test/writer"]);
        assert_eq!((uses.secrets.len(), uses.programs.len()), (1, 0));
        assert_eq!(harness.rows().await, before);
        harness.install(&v1).await.unwrap();
        assert_eq!(bindings(&harness).await, ["KEY https://a.test/writer operator"]);
        let read = |tx: &mut Tx<'_>| {
            let columns = "SELECT name || ' ' || transport || ' ' || CAST(tool_filter AS text) FROM project_mcp_servers";
            tx.query(columns, &[], |row| row.get(0))
        };
        let found: emergent_store::Result<Vec<String>> = harness.db().read(read).await;
        assert_eq!(found.unwrap(), [r#"writer a2a ["*"]"#], "the filter is about MCP servers");

        let moved = manifest_input(&manifest("1.1.0", "https://b.test/writer"));
        let refused = harness.products.upgrade(harness.actor, "p", Some(moved), with(Consent::NotGiven)).await;
        let Err(Error::ConsentRequired { added, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(added.hosts.iter().collect::<Vec<_>>(), ["https://b.test/writer"]);
        harness.uninstall("p").await.unwrap();
        assert!(bindings(&harness).await.is_empty());
        let found: emergent_store::Result<Vec<String>> = harness.db().read(read).await;
        assert_eq!(found.unwrap(), Vec::<String>::new());
    }
}
