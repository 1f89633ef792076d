//! Secrets over HTTP: values can be set but never read, and only in their own project.

use crate::common;

use axum::http::Method;
use common::Server;
use emergent_domain::token::Scope::{AdminRead, AdminWrite, AgentsRead, GraphRead};
use emergent_testkit::both_engines;
use serde_json::json;

const VALUE: &str = "S3cr3t-of-the-story";
const PATH: &str = "/api/admin/secrets/API_KEY";

both_engines! {
    async fn a_value_goes_in_and_never_out(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        let made = admin.put(PATH, json!({ "value": VALUE })).await;
        assert_eq!((&made.is(201)["name"], &made.body["data"]["version"]), (&json!("API_KEY"), &json!(1)));
        let changed = admin.put(PATH, json!({ "value": format!("{VALUE}-2") })).await;
        assert_eq!(changed.is(200)["version"], 2);
        admin.put("/api/admin/secrets/ANOTHER", json!({ "value": VALUE })).await.is(201);

        let listed = admin.get("/api/admin/secrets").await;
        let names: Vec<_> = listed.is(200).as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names, ["ANOTHER", "API_KEY"]);
        assert_eq!(listed.body["data"][0]["usedBy"], json!([]));
        for answer in [&made, &changed, &listed] {
            assert!(!answer.text.contains(VALUE), "{}", answer.text);
        }
        assert_eq!(admin.delete(PATH).await.is(200)["name"], "API_KEY");
        admin.delete(PATH).await.refused(404, "not_found");
        admin.get(PATH).await.refused(405, "method_not_allowed");
    }

    async fn a_webhook_is_signed_only_with_a_long_secret_of_whoever_sets_it(db: TestDb) {
        let server = Server::start(&db).await;
        let project = server.default_project;
        let operator = server.admin();
        let admin = server.client(Some(&server.token(&[AdminRead, AdminWrite], Some(project)).await));
        let secret = |name: &str| format!("/api/admin/secrets/{name}");
        operator.put(&secret("OPERATORS"), json!({ "value": "short pin" })).await.is(201);
        admin.put(&secret("SHORT"), json!({ "value": "fifteen bytes.." })).await.is(201);
        admin.put(&secret("OWN"), json!({ "value": VALUE })).await.is(201);
        let (path, url) = (format!("/api/projects/{project}"), "https://example.com/hook");
        let webhook = |name: &str| json!({ "webhook": { "url": url, "secret": name } });
        admin.patch(&path, webhook("OPERATORS")).await.refused(403, "secret_given_by_others");
        for (client, name) in [(&admin, "SHORT"), (&operator, "OPERATORS"), (&admin, "MISSING")] {
            let refused = client.patch(&path, webhook(name)).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), "webhook.secret");
        }
        assert!(admin.get(&path).await.is(200)["webhook"].is_null(), "nothing was written");
        admin.patch(&path, webhook("OWN")).await.is(200);
        let (name, secrets) = ("OWN".parse().unwrap(), &server.app.secrets);
        assert_eq!(secrets.signing_key(project, &name, url).await.unwrap().expose(), VALUE);
        assert!(secrets.signing_key(project, &name, "https://example.com/other").await.is_err());
        // The value of somebody else is not signed with, until they say so.
        operator.put(&secret("OWN"), json!({ "value": "of the operator, and long" })).await.is(200);
        assert!(secrets.signing_key(project, &name, url).await.is_err());
        admin.patch(&path, webhook("OWN")).await.refused(403, "secret_given_by_others");
        operator.patch(&path, webhook("OWN")).await.is(200);
        secrets.signing_key(project, &name, url).await.unwrap();
    }

    async fn a_webhook_from_before_its_secret_was_bound_is_still_signed(db: TestDb) {
        let server = Server::start(&db).await;
        let (project, url) = (server.default_project, "https://example.com/hook");
        server.admin().put("/api/admin/secrets/OLD", json!({ "value": "short pin" })).await.is(201);
        let key = server.app.secrets.signing_key(project, &"OLD".parse().unwrap(), url).await.unwrap();
        assert_eq!(key.expose(), "short pin");
    }

    async fn a_secret_is_one_projects_and_needs_the_scope(db: TestDb) {
        let server = Server::start(&db).await;
        let other = server.project("other").await;
        server.admin().put(PATH, json!({ "value": VALUE })).await.is(201);
        let there = server.token(&[AdminRead, AdminWrite], Some(other)).await;
        let there = server.client(Some(&there));
        assert_eq!(there.get("/api/admin/secrets").await.is(200), &json!([]));
        there.delete(PATH).await.refused(404, "not_found");
        there.put(PATH, json!({ "value": "of the other" })).await.is(201);
        assert_eq!(server.admin().get("/api/admin/secrets").await.is(200)[0]["version"], 1);
        there.post("/api/admin/secrets/rotate", json!({})).await.refused(403, "forbidden");

        let reader = server.token(&[AdminRead, AgentsRead], None).await;
        let reader = server.client(Some(&reader));
        reader.get("/api/admin/secrets").await.is(200);
        reader.put(PATH, json!({ "value": VALUE })).await.refused(403, "missing_scope");
        reader.delete(PATH).await.refused(403, "missing_scope");
        let nobody = server.token(&[AgentsRead], None).await;
        server.client(Some(&nobody)).get("/api/admin/secrets").await.refused(403, "missing_scope");
    }

    async fn only_who_gave_a_value_says_where_it_is_sent(db: TestDb) {
        let server = Server::start(&db).await;
        let project = server.project("ours").await;
        let token = || server.token(&[AdminRead, AdminWrite], Some(project));
        let (owner, other) = (server.client(Some(&token().await)), server.client(Some(&token().await)));
        let operator = server.admin().in_project(project);
        owner.put(PATH, json!({ "value": VALUE })).await.is(201);
        let hub = json!({ "name": "hub", "transport": "http", "url": "https://hub.example.com/mcp",
            "headers": { "Authorization": "Bearer ${API_KEY}" } });
        other.post("/api/admin/mcp-servers", hub).await.is(201);
        let allowed = async || owner.get("/api/admin/secrets").await.is(200)[0]["destinations"][0]["allowed"].clone();
        let listed = owner.get("/api/admin/secrets").await;
        assert_eq!(listed.is(200)[0]["usedBy"], json!(["hub"]));
        assert_eq!(
            listed.body["data"][0]["destinations"],
            json!([{ "server": "hub", "target": "https://hub.example.com/mcp", "allowed": false }])
        );
        let bind = format!("{PATH}/bindings");
        other.post(&bind, json!({ "server": "hub" })).await.refused(403, "secret_given_by_others");
        assert_eq!(allowed().await, false);
        let bound = owner.post(&bind, json!({ "server": "hub" })).await;
        assert_eq!(bound.is(200)["destinations"][0]["allowed"], true);
        // A value of another giver is not sent there, until this one says so.
        other.put(PATH, json!({ "value": format!("{VALUE}-2") })).await.is(200);
        assert_eq!(allowed().await, true, "it added the server, and gave the value");
        operator.put(PATH, json!({ "value": format!("{VALUE}-3") })).await.is(200);
        assert_eq!(allowed().await, false);
        operator.post(&bind, json!({ "server": "hub" })).await.is(200);
        assert_eq!(allowed().await, true);

        operator.post(&bind, json!({ "server": "nobody" })).await.refused(404, "not_found");
        operator.post(&bind, json!({ "server": "a\u{0}b" })).await.refused(404, "not_found");
        operator.post(&bind, json!({})).await.refused(400, "invalid");
        operator.post("/api/admin/secrets/NONE/bindings", json!({ "server": "hub" })).await.refused(404, "not_found");
        operator.put("/api/admin/secrets/OTHER", json!({ "value": VALUE })).await.is(201);
        operator.post("/api/admin/secrets/OTHER/bindings", json!({ "server": "hub" })).await.refused(409, "conflict");
    }

    async fn what_is_refused_is_not_repeated_and_nothing_is_written(db: TestDb) {
        let server = Server::start(&db).await;
        let admin = server.admin();
        for name in ["api_key", "9KEYS", "API-KEY", "S3cr3t-of-the-story", &"A".repeat(129)] {
            let answer = admin.put(&format!("/api/admin/secrets/{name}"), json!({ "value": VALUE })).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), "name");
            assert!(!answer.text.contains(name), "{}", answer.text);
        }
        for (body, code) in [
            (json!({ "value": "" }).to_string(), "invalid"),
            (json!({ "value": "short" }).to_string(), "invalid"),
            (json!({ "value": format!("{VALUE}\0") }).to_string(), "invalid"),
            (json!({ "value": VALUE.repeat(4_000) }).to_string(), "invalid"),
            (json!({ "value": { VALUE: VALUE } }).to_string(), "invalid"),
            (json!({ "value": VALUE, VALUE: VALUE }).to_string(), "invalid"),
            (format!("{{\"value\":{VALUE}}}"), "malformed"),
        ] {
            let answer = admin.raw(Method::PUT, PATH, "application/json", body).await;
            answer.refused(400, code);
            assert!(!answer.text.contains(VALUE), "{}", answer.text);
        }
        let short = admin.put(PATH, json!({ "value": "short" })).await;
        assert_eq!(short.field(), "value");
        assert!(short.text.contains("shorter than 6 bytes"), "{}", short.text);
        let long = json!({ "value": VALUE.repeat(40_000) }).to_string();
        admin.raw(Method::PUT, PATH, "application/json", long).await.refused(413, "too_large");
        admin.raw(Method::PUT, PATH, "text/plain", VALUE).await.refused(415, "unsupported_media_type");
        assert_eq!(admin.get("/api/admin/secrets").await.is(200), &json!([]));
        // The key of this server comes from its configuration, so it cannot create another one.
        admin.post("/api/admin/secrets/rotate", json!({})).await.refused(409, "conflict");
    }

    async fn a_refusal_confirms_no_guess(db: TestDb) {
        let server = Server::start(&db).await;
        let (ours, theirs) = (server.project("ours").await, server.project("theirs").await);
        let admin = server.admin();
        admin.in_project(ours).put(PATH, json!({ "value": VALUE })).await.is(201);
        admin.in_project(theirs).put("/api/admin/secrets/THEIR_KEY", json!({ "value": VALUE })).await.is(201);
        let reversed: String = VALUE.chars().rev().collect();
        let guesses = [reversed.as_str(), "zebra-9f2c", "beef-42"];

        let bound = server.client(Some(&server.token(&[AdminRead, AgentsRead, GraphRead], Some(ours)).await));
        for client in [bound, admin.clone(), admin.in_project("ours"), server.client(None)] {
            for wrong in guesses {
                for path in ["/api/projects/", "/api/graph/objects/", "/nowhere/", "/api/graph/objects?limit="] {
                    let right = client.get(&format!("{path}{VALUE}")).await;
                    let answer = client.get(&format!("{path}{wrong}")).await;
                    assert!(right.status.is_client_error(), "{}", right.text);
                    assert_eq!(right.text.replace(VALUE, "?"), answer.text.replace(wrong, "?"), "{path}");
                    assert!(!right.text.contains("[secret"), "{}", right.text);
                }
            }
            let wrong = reversed.as_str();
            let (right, answer) =
                (client.in_project(VALUE).get("/api/projects").await, client.in_project(wrong).get("/api/projects").await);
            assert_eq!(right.text.replace(VALUE, "?"), answer.text.replace(wrong, "?"));
        }
    }
}
