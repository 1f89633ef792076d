//! Completions of arguments for clients.

use emergent_domain::{prompt::Prompt, token::Scope};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::mcp::{common::Server, peer::Peer};

const BY_KEY: &str = "emergent://objects/{type}/{key}";

fn asked(of: Value, argument: &str, value: &str, known: Value) -> Value {
    json!({ "ref": of, "argument": { "name": argument, "value": value }, "context": { "arguments": known } })
}

fn resource(uri: &str) -> Value {
    json!({ "type": "ref/resource", "uri": uri })
}

both_engines! {
    async fn arguments_of_resources_and_prompts_are_completed_from_the_graph_in_both_eras(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let ada = admin.object("Person", "ada-lovelace", json!({})).await;
        for (type_, key) in [("Person", "Adele"), ("Person", "grace"), ("Place", "adelaide")] {
            admin.object(type_, key, json!({})).await;
        }
        let prompt = json!({ "name": "ask", "arguments": [{ "name": "topic" }, { "name": "type" }],
                             "messages": [{ "role": "user", "content": "{{topic}} {{type}}" }] });
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        let project = server.default_project;
        let put = move |tx: &mut Tx<'_>| emergent_store::prompts::upsert_for_product(tx, project, "a.product", &prompt);
        server.graph.db().write(put).await.unwrap();
        let prompt = || json!({ "type": "ref/prompt", "name": "ask" });

        for peer in [Peer::modern(admin.clone()), Peer::legacy(admin.clone()).await] {
            let check = async |asked: Value, expected: &[&str]| {
                let done = peer.asks("completion/complete", asked.clone()).await["completion"].clone();
                assert_eq!((&done["values"], &done["hasMore"]), (&json!(expected), &json!(false)), "{asked}");
            };
            check(asked(resource(BY_KEY), "type", "p", json!({})), &["Person", "Place"]).await;
            check(asked(resource(BY_KEY), "key", "ad", json!({ "type": "Person" })), &["Adele", "ada-lovelace"]).await;
            check(asked(resource(BY_KEY), "key", "ad", json!({})), &["adelaide", "Adele", "ada-lovelace"]).await;
            check(asked(resource(BY_KEY), "key", "x", json!({ "type": "Nothing" })), &[]).await;
            check(asked(resource("emergent://schema/{type}"), "type", "Pl", json!({})), &["Place"]).await;
            check(asked(resource("emergent://objects/{id}"), "id", &ada, json!({})), &[&ada]).await;
            check(asked(prompt(), "topic", "gr", json!({})), &["grace"]).await;
            check(asked(prompt(), "type", "pe", json!({})), &["Person"]).await;
            for (wrong, told) in [
                (asked(resource("emergent://nothing/{x}"), "x", "", json!({})), "emergent://nothing/{x}"),
                (asked(resource(BY_KEY), "id", "", json!({})), "`id`"),
                (asked(prompt(), "tonic", "", json!({})), "`tonic`"),
                (asked(json!({ "type": "ref/prompt", "name": "none" }), "x", "", json!({})), "`none`"),
                (json!({ "ref": prompt() }), "argument"),
            ] {
                let error = peer.fails("completion/complete", wrong).await;
                assert_eq!(error["code"], -32602, "{error}");
                assert!(error["message"].as_str().unwrap().contains(told), "{error}");
            }
        }
        // Values that a token may not read are not suggested to it.
        let stranger = Peer::modern(server.client(Some(&server.token(&[Scope::AgentsRead], None).await)));
        let done = stranger.asks("completion/complete", asked(prompt(), "topic", "", json!({}))).await;
        assert_eq!(done["completion"]["values"], json!([]));
    }

    async fn no_more_than_a_hundred_are_suggested(db: TestDb) {
        let server = Server::start(&db).await;
        let objects: Vec<_> = (0..130).map(|n| json!({ "type": "Many", "key": format!("k{n}") })).collect();
        server.admin().post("/api/graph/objects/bulk", json!({ "objects": objects })).await.found();
        let peer = Peer::modern(server.admin());
        let done = peer.asks("completion/complete", asked(resource(BY_KEY), "key", "k", json!({ "type": "Many" }))).await;
        assert_eq!((done["completion"]["values"].as_array().map(Vec::len), &done["completion"]["hasMore"]), (Some(100), &json!(true)));
    }
}
