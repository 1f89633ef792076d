//! The tools that agents of a manifest may list are those that exist after the change, regardless
//! of the current ones.

mod support;

use emergent_domain::mcp_server::ToolStatus::{Changed, Gone, Live};
use emergent_products::Error;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::{Harness, sample};

/// A product with one agent and one server, `hub`.
fn product(version: &str, filter: &[&str], tools: &[&str]) -> Value {
    json!({
        "name": "acme.tools", "version": version,
        "agents": [{ "name": "worker", "tools": tools }],
        "mcp": { "servers": [{ "name": "hub", "transport": "http", "url": "https://example.com/mcp" }], "tool_filter": filter },
    })
}

/// Returns the rejected tools by their index in the agent's list.
#[track_caller]
fn refused(outcome: Result<emergent_products::ProductOutcome, Error>) -> Vec<String> {
    match outcome {
        Err(Error::Manifest(problems)) => {
            let place = |at: &str| at.strip_prefix("/agents/0/tools/").map(str::to_owned);
            problems.iter().filter_map(|one| place(&one.pointer)).collect()
        }
        other => panic!("it is refused for its tools, not {other:?}"),
    }
}

both_engines! {
    async fn an_upgrade_may_list_what_its_wider_filter_lets_in(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        harness.install(&product("1.0.0", &["read_*"], &["read_page"])).await.unwrap();
        harness.set_listed_tools("hub", &[("read_page", Live), ("write_page", Live)]).await;
        let narrow = harness.upgrade(&product("2.0.0", &["read_*"], &["read_page", "write_page"])).await;
        assert_eq!(refused(narrow), ["1"], "the filter keeps it out");
        harness.upgrade(&product("2.0.0", &["*_page"], &["read_page", "hub.write_page"])).await.unwrap();
        let narrower = harness.upgrade(&product("3.0.0", &["read_*"], &["read_page", "hub.write_page"])).await;
        assert_eq!(refused(narrower), ["1"], "and keeps it out again");
    }

    async fn a_server_that_is_off_and_a_tool_that_is_held_back_are_there_all_the_same(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        harness.install(&product("1.0.0", &["*"], &["fetch", "post"])).await.unwrap();
        harness.set_listed_tools("hub", &[("fetch", Live), ("post", Changed), ("lost", Gone)]).await;
        harness.upgrade(&product("1.1.0", &["*"], &["fetch", "post", "hub.post"])).await.unwrap();
        harness.switch_off("hub").await;
        harness.upgrade(&product("1.2.0", &["*"], &["fetch", "post"])).await.unwrap();
        let lost = harness.upgrade(&product("1.3.0", &["*"], &["fetch", "lost"])).await;
        assert_eq!(refused(lost), ["1"], "the server itself no longer has it");
    }

    async fn an_upgrade_that_drops_a_server_cannot_keep_its_tools(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        harness.install(&product("1.0.0", &["*"], &["fetch", "search_hybrid"])).await.unwrap();
        harness.set_listed_tools("hub", &[("fetch", Live)]).await;
        let mut dropped = product("2.0.0", &["*"], &["fetch", "hub.fetch", "search_hybrid"]);
        dropped["mcp"]["servers"] = json!([]);
        let before = harness.fingerprint().await;
        assert_eq!(refused(harness.upgrade(&dropped).await), ["0", "1"]);
        assert_eq!(harness.fingerprint().await, before);
        dropped["agents"][0]["tools"] = json!(["search_hybrid", "fetch*"]);
        harness.upgrade(&dropped).await.unwrap();
    }

    async fn a_server_that_stays_has_its_tools_whoever_brought_it(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        harness.install(&product("1.0.0", &["fetch"], &[])).await.unwrap();
        harness.set_listed_tools("hub", &[("fetch", Live), ("post", Live)]).await;
        let user = |tools: &[&str]| json!({ "name": "user", "version": "1.0.0", "agents": [{ "name": "u", "tools": tools }] });
        assert_eq!(refused(harness.install(&user(&["hub.fetch", "post"])).await), ["1"], "the other's filter counts");
        harness.install(&user(&["hub.fetch", "fetch"])).await.unwrap();
    }

    async fn a_server_that_nobody_asked_may_have_whatever_its_filter_lets_through(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        let listed = ["web_fetch", "hub.web_post", "serch_hybrid", "hub.other", "search_hybrid"];
        let guessed = harness.install(&product("1.0.0", &["web_*"], &listed)).await;
        assert_eq!(refused(guessed), ["2", "3"], "no filter lets those in, so they are nobody's");
        harness.install(&product("1.0.0", &["web_*"], &listed[..2])).await.unwrap();
        // A server that has listed its tools has no others, even if another server has not listed
        // its own.
        harness.set_listed_tools("hub", &[("web_fetch", Live)]).await;
        let mut two = product("2.0.0", &["*"], &["web_fetch", "hub.web_post", "new.any", "any"]);
        let new = json!({ "name": "new", "transport": "stdio", "command": "true" });
        two["mcp"]["servers"].as_array_mut().unwrap().push(new);
        assert_eq!(refused(harness.upgrade(&two).await), ["1"]);
        // A server with changed settings must list its tools again.
        two["mcp"]["servers"][0]["url"] = json!("https://example.com/other");
        harness.upgrade(&two).await.unwrap();
    }

    async fn a_tool_that_only_an_unreached_server_could_have_is_warned_about(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        let told = |outcome: emergent_products::ProductOutcome| -> Vec<String> {
            let warnings = outcome.plan.warnings.iter().filter(|one| one.kind() == "tool_unknown");
            warnings.map(|one| format!("{} {one}", one.subject())).collect()
        };
        let own = ["web_fetch", "hub.web_post", "web_*", "hub.*", "search_hybrid"];
        let own = harness.install(&product("1.0.0", &["*"], &own)).await.unwrap();
        assert_eq!(told(own), [""; 0], "the product's own server may bring all of them");
        let near = harness.upgrade(&product("1.1.0", &["*"], &["serch_hybrid", "web_fetch"])).await.unwrap();
        let near = told(near);
        assert!(near.len() == 1 && near[0].contains("did you mean `search_hybrid`?"), "{near:?}");

        // The server of another product, which nobody has reached, may have any tool.
        let user = |tools: &[&str]| json!({ "name": "user", "version": "1.0.0", "agents": [{ "name": "u", "tools": tools }] });
        let warned = harness.install(&user(&["search_hybird", "entities_*", "hub.web_post", "mail_send", "entities_get"])).await;
        let warned = told(warned.unwrap());
        let expected = ["`hub.web_post` is not known: the MCP server `hub` was never reached", "`mail_send` is not known", "did you mean `search_hybrid`?"];
        assert_eq!(warned.len(), expected.len(), "{warned:#?}");
        for (warning, part) in warned.iter().zip(expected) {
            assert!(warning.starts_with("u agent `u`: the tool ") && warning.contains(part), "{warning}");
        }
        assert!(!warned[1].contains("did you mean"), "{}", warned[1]);
    }

    async fn a_pattern_that_matches_no_tool_is_warned_about(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        let user = json!({ "name": "user", "version": "1.0.0", "agents": [{ "name": "u", "tools": ["entites_*", "search_*"] }] });
        let plan = harness.install(&user).await.unwrap().plan;
        let warned: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
        assert!(warned.len() == 1 && warned[0].contains("the pattern `entites_*` matches no tool"), "{warned:?}");

        // The server of another product, which nobody has reached, does not hide the mistake.
        harness.install(&product("1.0.0", &["*"], &[])).await.unwrap();
        let other = json!({ "name": "other", "version": "1.0.0", "agents": [{ "name": "o", "tools": ["entitties_*", "hub.*", "search_*"] }] });
        let plan = harness.install(&other).await.unwrap().plan;
        let warned: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
        let expected = "the pattern `entitties_*` matches no known tool; the MCP server `hub` was never reached";
        assert!(warned.len() == 1 && warned[0].contains(expected), "{warned:?}");
    }

    async fn every_problem_of_a_manifest_comes_in_one_answer(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        let first = json!({ "name": "first", "version": "1.0.0", "agents": [{ "name": "taken" }] });
        harness.install(&first).await.unwrap();
        let second = json!({
            "name": "second", "version": "1.0.0", "descripton": "an unknown field",
            "agents": [{ "name": "taken" }, { "name": "other", "tools": ["serch_hybrid"] }],
            "jobs": [{ "name": "daily", "cron": "0 25 * * *", "agent": "nobody" }],
        });
        let before = harness.fingerprint().await;
        let refused = harness.install(&second).await;
        let Err(Error::Manifest(problems)) = refused else { panic!("{refused:?}") };
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        for part in ["did you mean `description`?", "five fields", "`search_hybrid`", "no agent `nobody`", "belongs to the product `first`"] {
            assert!(text.iter().any(|problem| problem.contains(part)), "{part}: {text:#?}");
        }
        assert_eq!(harness.fingerprint().await, before, "nothing was written");
    }

    async fn a_sample_that_lists_only_what_is_built_in_is_never_held_up(db: TestDb) {
        let harness = Harness::with_servers(&db).await;
        harness.install(&sample(1)).await.unwrap();
        harness.set_listed_tools("hub", &[]).await;
        harness.upgrade(&sample(1)).await.unwrap();
    }
}
