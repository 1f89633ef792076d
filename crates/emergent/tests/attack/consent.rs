//! Consent: a product or an edited server cannot send a secret to another host, and a program that is no longer
//! admitted is not started.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    common::{Api, Home, Server},
    project_token, stdio_server,
};

const ADMIN: &[&str] = &["admin:read", "admin:write"];
const SERVERS: &str = "/api/admin/mcp-servers";
const SECRET: &str = "/api/admin/secrets/HUB_TOKEN";
const VALUE: &str = "S3cr3t-of-the-hub";

/// A host that notes everything it is sent.
struct Host {
    url: String,
    heard: Arc<Mutex<String>>,
}

impl Host {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let heard = Arc::new(Mutex::new(String::new()));
        let noted = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                tokio::spawn(async move {
                    let mut buffer = [0; 4_096];
                    let read = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut buffer)).await;
                    let length = read.map_or(0, |read| read.unwrap_or(0));
                    noted.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
                    let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
                });
            }
        });
        Self { url, heard }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    fn server(&self, name: &str) -> Value {
        json!({ "name": name, "transport": "http", "url": format!("{}/mcp", self.url),
                "headers": { "Authorization": "Bearer ${HUB_TOKEN}" } })
    }
}

/// Has the server connect, and returns the error.
async fn inspect(api: &Api, id: &str) -> String {
    let inspection = api.post(&format!("{SERVERS}/{id}/inspect"), &json!({})).await.data();
    inspection["error"].as_str().expect("no MCP server answers").to_owned()
}

async fn add(api: &Api, server: &Value) -> String {
    api.post(SERVERS, server).await.data()["id"].as_str().expect("an id").to_owned()
}

/// A server whose operator gave the project `attacked` a secret.
async fn start(home: &Home) -> (Server, Api, Api) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", ADMIN).await;
    let operator = server.api.in_project("attacked");
    operator.put(SECRET, &json!({ "value": VALUE })).await.data();
    (server, operator, attacker)
}

async fn edit_a_server(home: Home) {
    let home = home.with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let (_server, operator, attacker) = start(&home).await;
    let (hub, evil) = (Host::listen().await, Host::listen().await);
    let id = add(&operator, &hub.server("hub")).await;
    inspect(&operator, &id).await;
    assert!(hub.heard().contains(VALUE), "what the operator configured works: {}", hub.heard());

    let path = format!("{SERVERS}/{id}");
    attacker.patch(&path, &json!({ "url": evil.url })).await.data();
    let refused = inspect(&attacker, &id).await;
    for said in ["HUB_TOKEN", &hub.url, &evil.url, "emergent secret allow HUB_TOKEN --mcp-server hub"] {
        assert!(refused.contains(said), "{refused}");
    }
    // The right place, in another form: another header, another text around it, another header beside it.
    attacker.patch(&path, &json!({ "url": format!("{}/mcp", hub.url) })).await.data();
    hub.heard.lock().unwrap().clear();
    for headers in [
        json!({ "X-Trace": "Bearer ${HUB_TOKEN}" }),
        json!({ "Authorization": "Basic ${HUB_TOKEN}" }),
        json!({ "Authorization": "Bearer ${HUB_TOKEN}", "X-Forward-To": "evil.example.com" }),
    ] {
        attacker.patch(&path, &json!({ "headers": headers })).await.data();
        let refused = inspect(&attacker, &id).await;
        assert!(
            refused.contains("with other headers") && refused.contains("emergent secret allow"),
            "{refused}"
        );
        assert_eq!(hub.heard(), "", "nobody even connected");
    }
    attacker.patch(&path, &json!({ "headers": { "Authorization": "Bearer ${HUB_TOKEN}" } })).await.data();
    inspect(&attacker, &id).await;
    assert!(hub.heard().contains(VALUE), "as the operator configured it, it is sent again");
    // Another customer of the same host.
    attacker.patch(&path, &json!({ "url": format!("{}/customers/evil", hub.url) })).await.data();
    hub.heard.lock().unwrap().clear();
    let refused = inspect(&attacker, &id).await;
    assert!(refused.contains("another path of") && refused.contains(&hub.url), "{refused}");
    assert_eq!(hub.heard(), "", "nobody even connected");
    // By the way of a server of its own, of a variable, and of an old transport.
    let mut others = [evil.server("second"), evil.server("third"), evil.server("fourth")];
    others[1]["headers"] = json!({ "X-Note": "${START}{HUB_TOKEN}" });
    others[1]["env"] = json!({ "START": "$" });
    others[2]["transport"] = json!("sse");
    for other in &others {
        let id = add(&attacker, other).await;
        assert!(inspect(&attacker, &id).await.contains("HUB_TOKEN"), "{other}");
    }
    let bind = format!("{SECRET}/bindings");
    let refused = attacker.post(&bind, &json!({ "server": "second" })).await;
    assert_eq!((refused.status, refused.code()), (403, "secret_given_by_others"));
    assert_eq!(evil.heard(), "", "nobody even connected");

    // By the way of a value of its own, which the operator replaces.
    attacker.put(SECRET, &json!({ "value": "value-of-the-attacker" })).await.data();
    let fifth = add(&attacker, &evil.server("fifth")).await;
    inspect(&attacker, &fifth).await;
    assert!(evil.heard().contains("value-of-the-attacker"), "it may send what it knows");
    operator.put(SECRET, &json!({ "value": VALUE })).await.data();
    attacker.patch(&path, &json!({ "description": "x" })).await.data();
    operator.patch(&path, &json!({ "description": "y" })).await.data();
    for one in attacker.get(SERVERS).await.data().as_array().expect("servers") {
        inspect(&attacker, one["id"].as_str().expect("an id")).await;
    }
    assert!(!evil.heard().contains(VALUE), "{}", evil.heard());

    attacker.patch(&path, &json!({ "url": format!("{}/mcp", hub.url) })).await.data();
    hub.heard.lock().unwrap().clear();
    inspect(&attacker, &id).await;
    assert!(hub.heard().contains(VALUE), "where it was given for, it goes on");
}

async fn upgrade_a_product(home: Home) {
    let home = home.with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let (_server, operator, attacker) = start(&home).await;
    let (hub, evil) = (Host::listen().await, Host::listen().await);
    let product = |version: &str, servers: &[Value]| json!({ "name": "acme.hub", "version": version, "mcp": { "servers": servers } });
    let v1 = product("1.0.0", &[hub.server("hub")]);
    let refused = operator.post("/api/products/install", &json!({ "manifest": v1 })).await;
    assert_eq!((refused.status, refused.code()), (409, "consent_required"));
    assert_eq!(operator.get(SERVERS).await.data(), json!([]));
    operator.post("/api/products/install", &json!({ "manifest": v1, "accept": true })).await.data();

    let v2 = product("2.0.0", &[hub.server("hub"), evil.server("more")]);
    let upgrade = "/api/products/acme.hub/upgrade";
    let refused = operator.post(upgrade, &json!({ "manifest": v2 })).await;
    assert_eq!((refused.status, refused.code()), (409, "consent_required"));
    let adds = &refused.body["error"]["details"]["adds"];
    assert_eq!((&adds["hosts"], &adds["programs"]), (&json!([format!("{}/mcp", evil.url)]), &json!([])));
    let target = format!(r#"{}/mcp authorization: "Bearer ${{HUB_TOKEN}}""#, evil.url);
    assert_eq!(adds["secrets"], json!([{ "name": "HUB_TOKEN", "target": target }]));
    // A project's consent is not enough for a secret that the operator gave.
    attacker.post(upgrade, &json!({ "manifest": v2, "accept": true })).await.data();
    let v3 = product("3.0.0", &[hub.server("hub"), evil.server("renamed")]);
    operator.post(upgrade, &json!({ "manifest": v3 })).await.data();
    for one in operator.get(SERVERS).await.data().as_array().expect("servers") {
        inspect(&operator, one["id"].as_str().expect("an id")).await;
    }
    assert_eq!(evil.heard(), "");
    assert!(hub.heard().contains(VALUE));
}

async fn withdraw_a_pattern(home: Home) {
    let home = home.with("EMERGENT_STDIO_PROGRAMS", "touch out/started-*");
    // A program can write to folders beside the data folder.
    std::fs::create_dir(home.folder().join("out")).unwrap();
    let server = home.start().await;
    let admin = project_token(&server, "trusted", ADMIN).await;
    let id = add(&admin, &stdio_server("touch", &["out/started-project"])).await;
    let operators = server.api.in_project("trusted");
    let mut other = stdio_server("touch", &["out/started-operator"]);
    other["name"] = json!("other");
    let operators_id = add(&operators, &other).await;
    server.kill();

    let home = home.with("EMERGENT_STDIO_PROGRAMS", "");
    let server = home.start().await;
    let operators = server.api.in_project("trusted");
    let refused = inspect(&operators, &id).await;
    assert!(refused.contains("EMERGENT_STDIO_PROGRAMS"), "{refused}");
    assert!(!home.folder().join("out/started-project").exists());
    assert_eq!(operators.get(&format!("{SERVERS}/{id}")).await.data()["status"], "blocked");
    inspect(&operators, &operators_id).await;
    assert!(home.folder().join("out/started-operator").exists(), "the operator's program runs");
    // The operator takes it over.
    let path = format!("{SERVERS}/{id}");
    for enabled in [false, true] {
        operators.patch(&path, &json!({ "enabled": enabled })).await.data();
    }
    inspect(&operators, &id).await;
    assert!(home.folder().join("out/started-project").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_server_does_not_send_a_secret_elsewhere() {
    edit_a_server(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_server_does_not_send_a_secret_elsewhere_on_postgres() {
    edit_a_server(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_does_not_send_a_secret_elsewhere() {
    upgrade_a_product(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_does_not_send_a_secret_elsewhere_on_postgres() {
    upgrade_a_product(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_not_started_when_its_pattern_is_withdrawn() {
    withdraw_a_pattern(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_not_started_when_its_pattern_is_withdrawn_on_postgres() {
    withdraw_a_pattern(Home::postgres().await).await;
}
