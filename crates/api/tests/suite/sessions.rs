//! Logins of browsers: the cookie, the one-time code, the page, and what other web pages cannot do.

use crate::{common, streams::Frames};

use std::net::IpAddr;

use axum::{
    body::Body,
    http::{Method, header},
};
use common::{Answer, Client, Server};
use emergent_api::server::Peer;
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

/// A browser that is logged in. Its pages are those of this server.
struct Browser {
    client: Client,
    cookie: String,
}

impl Browser {
    async fn log_in(server: &Server, proof: Value) -> Self {
        let client = server.client(None);
        let answer = client.post("/api/session", proof).await;
        answer.is(201);
        Self { client, cookie: cookie(&answer) }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.client.request(method, path).header(header::COOKIE, &self.cookie);
        request = request.header(header::HOST, "emergent.test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = match body {
            Some(body) => {
                request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))
            }
            None => request.body(Body::empty()),
        };
        self.client.send(request.unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }
}

const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

/// `name=value` of the cookie that an answer sets.
#[track_caller]
fn cookie(answer: &Answer) -> String {
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// A request of somebody at an address.
async fn from_address(server: &Server, address: [u8; 4], proof: Value) -> Answer {
    let client = server.client(None);
    let request =
        client.request(Method::POST, "/api/session").header(header::CONTENT_TYPE, "application/json");
    let mut request = request.body(Body::from(proof.to_string())).unwrap();
    request.extensions_mut().insert(Peer { address: IpAddr::from(address), reserved: false });
    client.send(request).await
}

both_engines! {
    async fn a_cookie_stands_for_its_token(db: TestDb) {
        let server = Server::start(&db).await;
        let project = server.project("shop").await;
        let token = server.token(&[Scope::GraphRead], Some(project)).await;
        let answer = server.client(None).post("/api/session", json!({ "token": token })).await;
        let set = answer.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
        for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age="] {
            assert!(set.contains(attribute), "{set}");
        }
        assert!(set.starts_with("emergent_session=ems_") && !set.contains("Secure"), "{set}");
        assert!(!answer.text.contains("ems_"), "only the cookie has the secret: {}", answer.text);

        let browser = Browser { client: server.client(None), cookie: cookie(&answer) };
        let who = browser.get("/api/session").await.is(200).clone();
        assert_eq!(who, *answer.is(201));
        assert_eq!((&who["tokenName"], &who["project"], &who["scopes"]), (&json!("test"), &json!(project), &json!(["graph:read"])));
        assert!(who["id"].is_string() && who["expiresAt"].is_string(), "{who}");
        browser.get("/api/graph/objects").await.is(200);
        browser.get("/api/tokens").await.refused(403, "missing_scope");
        browser.send(Method::GET, "/api/graph/objects", &[("x-project-id", "default")], None).await.refused(404, "not_found");
        // A token in `Authorization` wins, also one that is not valid.
        browser.send(Method::GET, "/api/graph/objects", &[("authorization", "Bearer wrong")], None).await.refused(401, "unauthorized");
        let admin = format!("Bearer {}", server.admin);
        let named = browser.send(Method::GET, "/api/session", &[("authorization", &admin)], None).await;
        assert_eq!((&named.is(200)["tokenName"], named.is(200).get("id")), (&json!("admin"), None));
        // Neither secret works in the place of the other.
        let secret = browser.cookie.split_once('=').unwrap().1.to_owned();
        server.client(Some(&secret)).get("/api/session").await.refused(401, "unauthorized");
        let swapped = Browser { client: server.client(None), cookie: format!("emergent_session={token}") };
        swapped.get("/api/session").await.refused(401, "unauthorized");
        let stored: Vec<Vec<u8>> = server.graph.db().read(|tx| tx.query("SELECT hash FROM browser_sessions", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert!(stored.len() == 1 && stored[0].len() == 32, "only its hash is stored");
    }

    async fn a_login_needs_a_valid_token_or_code_and_one_of_them(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.client(None);
        for wrong in [json!({ "token": "emt_wrong" }), json!({ "code": "emc_wrong" }), json!({ "code": "x".repeat(10_000) })] {
            let answer = client.post("/api/session", wrong).await;
            answer.refused(401, "unauthorized");
            assert!(!answer.headers.contains_key(header::SET_COOKIE));
        }
        for (body, field) in [(json!({}), "token"), (json!({ "token": "a", "code": "b" }), "code"), (json!({ "user": "a" }), "user")] {
            let answer = client.post("/api/session", body).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field);
        }
    }

    async fn a_session_and_its_streams_end_with_the_token(db: TestDb) {
        let server = Server::start(&db).await;
        let (token, secret) = server.graph.create_token("t", Scope::ALL.iter().copied().collect(), None, None).await.unwrap();
        let browser = Browser::log_in(&server, json!({ "token": secret })).await;
        let mut live = Frames::from_request(&browser.client, browser.client.request(Method::GET, "/api/graph/changes").header(header::COOKIE, &browser.cookie)).await;
        assert_eq!(live.next().await.unwrap().1["type"], "ready");
        server.admin().delete(&format!("/api/tokens/{}", token.id)).await.is(200);
        browser.get("/api/session").await.refused(401, "unauthorized");
        assert!(live.next().await.is_none(), "nothing comes after the token was revoked");
    }

    async fn a_logout_ends_one_session_and_its_streams(db: TestDb) {
        let server = Server::start(&db).await;
        let proof = json!({ "token": server.admin });
        let (browser, other) = (Browser::log_in(&server, proof.clone()).await, Browser::log_in(&server, proof).await);
        let mut live = Frames::from_request(&browser.client, browser.client.request(Method::GET, "/api/graph/changes").header(header::COOKIE, &browser.cookie)).await;
        assert_eq!(live.next().await.unwrap().1["type"], "ready");
        let gone = browser.send(Method::DELETE, "/api/session", &[SAME_ORIGIN], None).await;
        gone.is(200);
        assert!(gone.headers.get_all(header::SET_COOKIE).iter().all(|cookie| cookie.to_str().unwrap().contains("Max-Age=0")));
        browser.get("/api/session").await.refused(401, "unauthorized");
        assert!(live.next().await.is_none(), "nothing comes after the logout");
        other.get("/api/session").await.is(200);
        server.admin().get("/api/session").await.is(200);
        server.admin().delete("/api/session").await.refused(409, "conflict");
    }

    async fn a_code_logs_in_once(db: TestDb) {
        let server = Server::start(&db).await;
        let token = server.token(&[Scope::GraphRead], Some(server.default_project)).await;
        let code = server.client(Some(&token)).post("/api/session/codes", json!({})).await.is(201).clone();
        assert_eq!(code["path"], json!(format!("/login?code={}", code["code"].as_str().unwrap())));
        let (first, second) = (server.client(None), server.client(None));
        let proof = json!({ "code": code["code"] });
        let (first, second) = tokio::join!(first.post("/api/session", proof.clone()), second.post("/api/session", proof));
        let (won, lost) = if first.status == 201 { (first, second) } else { (second, first) };
        lost.refused(401, "unauthorized");
        assert_eq!(won.is(201)["scopes"], json!(["graph:read"]));
        let browser = Browser { client: server.client(None), cookie: cookie(&won) };
        // Otherwise a session could outlive itself.
        browser.send(Method::POST, "/api/session/codes", &[SAME_ORIGIN], None).await.refused(403, "forbidden");

        let (token, secret) = server.graph.create_token("t", [Scope::GraphRead].into(), None, None).await.unwrap();
        let code = server.client(Some(&secret)).post("/api/session/codes", json!({})).await.is(201)["code"].clone();
        server.admin().delete(&format!("/api/tokens/{}", token.id)).await.is(200);
        server.client(None).post("/api/session", json!({ "code": code })).await.refused(401, "unauthorized");
    }

    async fn wrong_codes_are_limited_for_each_address(db: TestDb) {
        let server = Server::start(&db).await;
        let code = server.admin().post("/api/session/codes", json!({})).await.is(201)["code"].clone();
        for _ in 0..100 {
            from_address(&server, [192, 0, 2, 1], json!({ "code": "emc_wrong" })).await.refused(401, "unauthorized");
        }
        from_address(&server, [192, 0, 2, 1], json!({ "code": "emc_wrong" })).await.refused(429, "too_many_failed_logins");
        from_address(&server, [192, 0, 2, 1], json!({ "token": server.admin })).await.is(201);
        // The code of somebody behind the same proxy is not refused.
        from_address(&server, [192, 0, 2, 1], json!({ "code": code })).await.is(201);
        from_address(&server, [192, 0, 2, 1], json!({ "code": code })).await.refused(429, "too_many_failed_logins");
        from_address(&server, [192, 0, 2, 2], json!({ "code": code })).await.refused(401, "unauthorized");
    }

    async fn a_token_that_logs_in_too_often_waits_and_nothing_is_written(db: TestDb) {
        let server = Server::start(&db).await;
        let token = server.token(&[Scope::GraphRead], Some(server.default_project)).await;
        let client = server.client(None);
        for _ in 0..29 {
            client.post("/api/session", json!({ "token": token })).await.is(201);
        }
        server.client(Some(&token)).post("/api/session/codes", json!({})).await.is(201);
        let sessions = async || -> Vec<i64> {
            let sql = "SELECT count(*) FROM audit_log WHERE action = 'session.create'";
            server.graph.db().read(|tx| tx.query(sql, &[], |row| row.get(0)))
                .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
        };
        assert_eq!(sessions().await, [29]);
        let refused = client.post("/api/session", json!({ "token": token })).await;
        refused.refused(429, "too_many_logins");
        let wait: u64 = refused.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
        assert!((2..=60).contains(&wait), "{wait}");
        server.client(Some(&token)).post("/api/session/codes", json!({})).await.refused(429, "too_many_logins");
        assert_eq!(sessions().await, [29]);
        // The token itself goes on working, and so do others.
        server.client(Some(&token)).get("/api/session").await.is(200);
        client.post("/api/session", json!({ "token": server.admin })).await.is(201);
    }

    async fn with_a_cookie_only_pages_of_this_server_change_something(db: TestDb) {
        let server = Server::start(&db).await;
        let browser = Browser::log_in(&server, json!({ "token": server.admin })).await;
        let create = async |headers: &[(&str, &str)], name: &str| {
            browser.send(Method::POST, "/api/projects", headers, Some(json!({ "name": name }))).await
        };
        create(&[SAME_ORIGIN], "one").await.is(201);
        create(&[("origin", "http://emergent.test")], "two").await.is(201);
        let refused: [&[(&str, &str)]; 9] = [
            &[],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "cross-site"), ("origin", "http://emergent.test")],
            &[("origin", "http://evil.test")],
            &[("origin", "http://emergent.test:3000")],
            &[("origin", "null")],
            &[("referer", "http://emergent.test/")],
        ];
        for headers in refused {
            let answer = create(headers, "three").await;
            answer.refused(403, "cross_origin");
            assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{:?}", answer.headers);
        }
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            browser.send(method, "/api/session", &[], None).await.status.is_client_error().then_some(()).unwrap();
        }
        browser.send(Method::DELETE, "/api/session", &[("sec-fetch-site", "cross-site")], None).await.refused(403, "cross_origin");
        // Reading is not restricted: other pages cannot read the answer.
        browser.send(Method::GET, "/api/session", &[("sec-fetch-site", "cross-site")], None).await.is(200);
        let preflight = browser.send(Method::OPTIONS, "/api/projects", &[("origin", "http://evil.test"), ("access-control-request-method", "POST")], None).await;
        assert!(!preflight.status.is_success() && !preflight.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        // A token in `Authorization` is not sent by browsers on their own.
        let admin = format!("Bearer {}", server.admin);
        create(&[("authorization", &admin), ("sec-fetch-site", "cross-site")], "three").await.is(201);
        // Another page must not log a person in as somebody else either.
        let login = browser.client.request(Method::POST, "/api/session").header(header::CONTENT_TYPE, "application/json");
        let login = login.header("sec-fetch-site", "cross-site").body(Body::from(json!({ "token": server.admin }).to_string()));
        browser.client.send(login.unwrap()).await.refused(403, "cross_origin");
    }

    async fn the_login_page_uses_a_code_only_when_its_form_is_sent(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.client(None);
        let code = server.admin().post("/api/session/codes", json!({})).await.is(201)["code"].as_str().unwrap().to_owned();
        for _ in 0..2 {
            let page = client.get(&format!("/login?code={code}")).await;
            assert!(page.status == 200 && page.text.contains(&code), "{}", page.text);
            let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && policy.contains("form-action 'self'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
            assert!(page.text.contains("<main>") && page.text.contains("<h1>Emergent</h1>"), "{}", page.text);
            assert!(!page.text.contains("<script") && !page.headers.contains_key(header::SET_COOKIE));
        }
        let quoted = client.get("/login?code=%22%3E%3Cscript%3E").await;
        assert!(!quoted.text.contains("<script"), "{}", quoted.text);
        assert!(client.get("/login").await.text.contains("name=\"token\""));

        let form = |site: &'static str, body: String| {
            let request = client.request(Method::POST, "/login").header("sec-fetch-site", site);
            let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            client.send(request.body(Body::from(body)).unwrap())
        };
        assert_eq!(form("cross-site", format!("code={code}")).await.status, 403);
        let done = form("same-origin", format!("code={code}")).await;
        assert_eq!((done.status.as_u16(), &done.headers[header::LOCATION]), (303, &"/".parse().unwrap()), "{}", done.text);
        let browser = Browser { client: client.clone(), cookie: cookie(&done) };
        assert_eq!(browser.get("/api/session").await.is(200)["tokenName"], "admin");
        let again = form("same-origin", format!("code={code}")).await;
        assert!(again.status == 401 && again.text.contains("was used before") && again.text.contains("<form"), "{}", again.text);
        assert_eq!(form("same-origin", format!("token={}", server.admin)).await.status, 303);
        assert_eq!(form("same-origin", "other=1".to_owned()).await.status, 400);
    }

    async fn the_cookie_is_secure_over_https(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.client(None);
        let body = json!({ "token": server.admin });
        let request = client.request(Method::POST, "/api/session").header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::HOST, "emergent.test").header(header::ORIGIN, "https://emergent.test");
        let behind_proxy = client.send(request.body(Body::from(body.to_string())).unwrap()).await;
        let set = behind_proxy.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(set.starts_with("__Host-emergent_session=") && set.ends_with("; Secure"), "{set}");

        let plain = Browser::log_in(&server, body.clone()).await;
        server.app.set_listen_address(([127, 0, 0, 1], 4400).into(), true);
        let secure = Browser::log_in(&server, body).await;
        assert!(secure.cookie.starts_with("__Host-emergent_session="), "{}", secure.cookie);
        secure.get("/api/session").await.is(200);
        plain.get("/api/session").await.refused(401, "unauthorized");
    }

    async fn the_audit_log_names_the_session(db: TestDb) {
        let server = Server::start(&db).await;
        let browser = Browser::log_in(&server, json!({ "token": server.admin })).await;
        let id = browser.get("/api/session").await.is(200)["id"].clone();
        let body = json!({ "name": "made", "scopes": ["graph:read"] });
        browser.send(Method::POST, "/api/tokens", &[SAME_ORIGIN], Some(body)).await.is(201);
        browser.send(Method::DELETE, "/api/session", &[SAME_ORIGIN], None).await.is(200);
        let log = server.admin().get("/api/admin/audit?limit=3").await.is(200).clone();
        let told: Vec<_> = log.as_array().unwrap().iter().map(|entry| (entry["action"].as_str().unwrap(), entry["sessionId"].clone(), entry["token"]["name"].clone())).collect();
        let admin = json!("admin");
        assert_eq!(told, [("session.end", id.clone(), admin.clone()), ("token.create", id.clone(), admin.clone()), ("session.create", Value::Null, admin)]);
        assert_eq!(log[2]["target"]["id"], id);
    }

    async fn every_response_forbids_sniffing_and_loading(db: TestDb) {
        let server = Server::start(&db).await;
        for path in ["/", "/health", "/api/docs", "/login", "/nothing", "/api/graph/objects", "/api/openapi.json"] {
            let answer = server.client(None).get(path).await;
            assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
            let policy = answer.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        }
    }
}
