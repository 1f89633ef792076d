//! Clients that subscribe to single resources.

use std::time::Duration;

use axum::{body::BodyDataStream, response::Response};
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::mcp::{
    common::{Client, Server},
    peer::Peer,
};

/// The notifications of a stream, in order.
struct Notifications(BodyDataStream, String);

impl Notifications {
    fn on(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        Self(response.into_body().into_data_stream(), String::new())
    }

    /// Returns the next one, if it arrives within this time.
    async fn next(&mut self, patience: Duration) -> Option<Value> {
        tokio::time::timeout(patience, async {
            loop {
                if let Some((frame, rest)) =
                    self.1.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
                {
                    self.1 = rest;
                    if let Some(data) = frame.lines().find_map(|line| line.strip_prefix("data: ")) {
                        return serde_json::from_str(data).unwrap();
                    }
                    continue;
                }
                let part = self.0.next().await.expect("it goes on").unwrap();
                self.1.push_str(std::str::from_utf8(&part).unwrap());
            }
        })
        .await
        .ok()
    }

    async fn update_of(&mut self, uri: &str) -> Value {
        let told = self.next(Duration::from_secs(10)).await.expect("an update in time");
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!(uri)),
            "{told}"
        );
        told
    }

    async fn nothing(&mut self) {
        let told = self.next(Duration::from_secs(2)).await;
        assert_eq!(told, None);
    }
}

async fn change(client: &Client, id: &str, to: &str) {
    client.patch(&format!("/api/graph/objects/{id}"), json!({ "properties": { "name": to } })).await.is(200);
}

both_engines! {
    async fn a_session_hears_of_the_resources_it_subscribed_to_and_of_no_others(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let (ada, bob) = (admin.object("Person", "ada", json!({})).await, admin.object("Person", "bob", json!({})).await);
        let peer = Peer::legacy(admin.clone()).await;
        let (by_id, by_key) = (format!("emergent://objects/{ada}"), "emergent://objects/Person/ada");
        peer.asks("resources/subscribe", json!({ "uri": by_id })).await;
        let mut heard = Notifications::on(peer.stream().await);
        change(&admin, &bob, "Bob").await;
        heard.nothing().await;
        change(&admin, &ada, "Ada").await;
        heard.update_of(&by_id).await;

        // The subscription is added while the stream is open; a deletion is a change too.
        peer.asks("resources/subscribe", json!({ "uri": by_key })).await;
        peer.asks("resources/unsubscribe", json!({ "uri": by_id })).await;
        admin.delete(&format!("/api/graph/objects/{ada}")).await.is(200);
        heard.update_of(by_key).await;
        heard.nothing().await;

        let missing = peer.fails("resources/subscribe", json!({ "uri": "emergent://objects/Person/none" })).await;
        assert_eq!(missing["code"], -32002, "{missing}");
        let nobody = server.client(Some(&server.token(&[Scope::AgentsRead], None).await));
        let refused = Peer::legacy(nobody).await.send("resources/subscribe", json!({ "uri": "emergent://schema" })).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        for n in 0..20 {
            let key = format!("k{n}");
            admin.object("Many", &key, json!({})).await;
            let answer = peer.send("resources/subscribe", json!({ "uri": format!("emergent://objects/Many/{key}") })).await;
            assert_eq!(answer.status, if n < 19 { 200 } else { 429 }, "{n}: {}", answer.text);
        }
    }

    async fn a_modern_client_names_its_resources_when_it_listens(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let ada = admin.object("Person", "ada", json!({})).await;
        let peer = Peer::modern(admin.clone());
        let uris = [format!("emergent://objects/{ada}"), "emergent://schema/Person".to_owned()];
        let wish = json!({ "notifications": { "resourceSubscriptions": uris } });
        let mut heard = Notifications::on(peer.open("subscriptions/listen", wish).await);
        let first = heard.next(Duration::from_secs(5)).await.expect("what was accepted");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["notifications"]["resourceSubscriptions"], json!(uris), "{first}");
        change(&admin, &ada, "Ada").await;
        let told = heard.update_of(&uris[0]).await;
        assert_eq!(told["params"]["_meta"], first["params"]["_meta"], "it says whose it is");
        // The description of a type changes when there are more objects of it.
        admin.object("Person", "bob", json!({})).await;
        heard.update_of(&uris[1]).await;

        let missing = json!({ "notifications": { "resourceSubscriptions": ["emergent://objects/Person/none"] } });
        assert_eq!(peer.fails("subscriptions/listen", missing).await["code"], -32602);
        let wrong = json!({ "notifications": { "resourceSubscriptions": [7] } });
        assert_eq!(peer.fails("subscriptions/listen", wrong).await["code"], -32602);
        let many: Vec<_> = (0..21).map(|n| format!("emergent://objects/Many/{n}")).collect();
        let many = peer.send("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": many } })).await;
        assert_eq!(many.status, 429, "{}", many.text);
    }
}
