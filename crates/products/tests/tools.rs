//! Which tools the agents of a manifest may list: those of the pool as it will be once the change is
//! made, whatever it is before.

mod support;

use emergent_domain::mcp_server::ToolStatus::{Changed, Gone, Live};
use emergent_products::Error;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::{Shop, sample};

/// A product with one agent and one server, `hub`.
fn product(version: &str, filter: &[&str], tools: &[&str]) -> Value {
    json!({
        "name": "acme.tools", "version": version,
        "agents": [{ "name": "worker", "tools": tools }],
        "mcp": { "servers": [{ "name": "hub", "transport": "http", "url": "https://example.com/mcp" }], "tool_filter": filter },
    })
}

/// The tools that stand against it, by their places among the agent's.
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
        let shop = Shop::with_servers(&db).await;
        shop.install(&product("1.0.0", &["read_*"], &["read_page"])).await.unwrap();
        shop.reached("hub", &[("read_page", Live), ("write_page", Live)]).await;
        let narrow = shop.upgrade(&product("2.0.0", &["read_*"], &["read_page", "write_page"])).await;
        assert_eq!(refused(narrow), ["1"], "the filter keeps it out");
        shop.upgrade(&product("2.0.0", &["*_page"], &["read_page", "hub.write_page"])).await.unwrap();
        let narrower = shop.upgrade(&product("3.0.0", &["read_*"], &["read_page", "hub.write_page"])).await;
        assert_eq!(refused(narrower), ["1"], "and keeps it out again");
    }

    async fn a_server_that_is_off_and_a_tool_that_is_held_back_are_there_all_the_same(db: TestDb) {
        let shop = Shop::with_servers(&db).await;
        shop.install(&product("1.0.0", &["*"], &["fetch", "post"])).await.unwrap();
        shop.reached("hub", &[("fetch", Live), ("post", Changed), ("lost", Gone)]).await;
        shop.upgrade(&product("1.1.0", &["*"], &["fetch", "post", "hub.post"])).await.unwrap();
        shop.switch_off("hub").await;
        shop.upgrade(&product("1.2.0", &["*"], &["fetch", "post"])).await.unwrap();
        let lost = shop.upgrade(&product("1.3.0", &["*"], &["fetch", "lost"])).await;
        assert_eq!(refused(lost), ["1"], "the server itself no longer has it");
    }

    async fn an_upgrade_that_drops_a_server_cannot_keep_its_tools(db: TestDb) {
        let shop = Shop::with_servers(&db).await;
        shop.install(&product("1.0.0", &["*"], &["fetch", "search_hybrid"])).await.unwrap();
        shop.reached("hub", &[("fetch", Live)]).await;
        let mut dropped = product("2.0.0", &["*"], &["fetch", "hub.fetch", "search_hybrid"]);
        dropped["mcp"]["servers"] = json!([]);
        let before = shop.fingerprint().await;
        assert_eq!(refused(shop.upgrade(&dropped).await), ["0", "1"]);
        assert_eq!(shop.fingerprint().await, before);
        dropped["agents"][0]["tools"] = json!(["search_hybrid", "fetch*"]);
        shop.upgrade(&dropped).await.unwrap();
    }

    async fn a_server_that_stays_has_its_tools_whoever_brought_it(db: TestDb) {
        let shop = Shop::with_servers(&db).await;
        shop.install(&product("1.0.0", &["fetch"], &[])).await.unwrap();
        shop.reached("hub", &[("fetch", Live), ("post", Live)]).await;
        let user = |tools: &[&str]| json!({ "name": "user", "version": "1.0.0", "agents": [{ "name": "u", "tools": tools }] });
        assert_eq!(refused(shop.install(&user(&["hub.fetch", "post"])).await), ["1"], "the other's filter counts");
        shop.install(&user(&["hub.fetch", "fetch"])).await.unwrap();
    }

    async fn a_server_that_nobody_asked_may_have_whatever_its_filter_lets_through(db: TestDb) {
        let shop = Shop::with_servers(&db).await;
        let listed = ["web_fetch", "hub.web_post", "serch_hybrid", "hub.other", "search_hybrid"];
        let guessed = shop.install(&product("1.0.0", &["web_*"], &listed)).await;
        assert_eq!(refused(guessed), ["2", "3"], "no filter lets those in, so they are nobody's");
        shop.install(&product("1.0.0", &["web_*"], &listed[..2])).await.unwrap();
        // One that was asked has said what it has, also when another was not asked.
        shop.reached("hub", &[("web_fetch", Live)]).await;
        let mut two = product("2.0.0", &["*"], &["web_fetch", "hub.web_post", "new.any", "any"]);
        let new = json!({ "name": "new", "transport": "stdio", "command": "true" });
        two["mcp"]["servers"].as_array_mut().unwrap().push(new);
        assert_eq!(refused(shop.upgrade(&two).await), ["1"]);
        // One that becomes another server has to be asked again.
        two["mcp"]["servers"][0]["url"] = json!("https://example.com/other");
        shop.upgrade(&two).await.unwrap();
    }

    async fn a_sample_that_lists_only_what_is_built_in_is_never_held_up(db: TestDb) {
        let shop = Shop::with_servers(&db).await;
        shop.install(&sample(1)).await.unwrap();
        shop.reached("hub", &[]).await;
        shop.upgrade(&sample(1)).await.unwrap();
    }
}
