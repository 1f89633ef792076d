//! Large answers that nobody reads: the memory of the server stays bounded, and others are served.

use std::{
    io::Write,
    net::TcpStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    project_token,
};

/// Creates 48 objects of nearly a megabyte, and returns their ids.
async fn create_large_objects(api: &Api) -> Vec<Value> {
    let text = "x".repeat(950_000);
    let mut ids = Vec::new();
    for _ in 0..6 {
        let objects: Vec<_> =
            (0..8).map(|_| json!({ "type": "Large", "properties": { "text": text } })).collect();
        let created = api.post("/api/graph/objects/bulk", &json!({ "objects": objects })).await.data();
        ids.extend(created.as_array().expect("a list").iter().map(|one| one["id"].clone()));
    }
    ids
}

fn bearer(api: &Api) -> String {
    let request = api.request(Method::GET, "/").build().unwrap();
    request.headers()["authorization"].to_str().unwrap().to_owned()
}

async fn unread_answers(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    let ids = create_large_objects(&attacker).await;
    let (token, bystander) = (bearer(&attacker), Bystander::start(&server).await);
    let traversal = json!({ "startIds": ids, "maxDepth": 1 }).to_string();
    let requests = [
        "GET /api/graph/export HTTP/1.1\r\n".to_owned(),
        "GET /api/graph/objects?limit=100 HTTP/1.1\r\n".to_owned(),
        "POST /api/graph/traverse HTTP/1.1\r\nContent-Type: application/json\r\n".to_owned(),
    ];
    let mut unread = Vec::new();
    for n in 0..120 {
        let mut stream =
            TcpStream::connect(server.url().trim_start_matches("http://")).expect("a connection");
        let body = if n % 3 == 2 { traversal.as_str() } else { "" };
        let head = format!(
            "{}Host: localhost\r\nAuthorization: {token}\r\nContent-Length: {}\r\n\r\n{body}",
            requests[n % 3],
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        unread.push(stream);
    }
    // Long enough for some hundred requests of the other project, also on PostgreSQL.
    tokio::time::sleep(Duration::from_secs(10)).await;
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_lists_and_traversals_that_nobody_reads_take_bounded_memory_on_sqlite() {
    unread_answers(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_lists_and_traversals_that_nobody_reads_take_bounded_memory_on_postgres() {
    unread_answers(Home::postgres().await).await;
}

fn tls_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls")
}

/// A connection over HTTP/2 that accepts 64 KiB of each response.
async fn http2(address: &str) -> h2::client::SendRequest<bytes::Bytes> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_folder().join("cert.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    client.ready().await.expect("HTTP/2")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_answers_that_nobody_reads_take_bounded_memory() {
    let (certificate, key) = (tls_folder().join("cert.pem"), tls_folder().join("key.pem"));
    let home = Home::sqlite()
        .with("EMERGENT_TLS_CERT", certificate.to_str().unwrap())
        .with("EMERGENT_TLS_KEY", key.to_str().unwrap());
    emergent_net::tls::install_crypto_provider();
    let server = home.start().await;
    let root = reqwest::Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
    let reader = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let api = Api::with_client(reader, server.url(), crate::common::TOKEN);
    api.post("/api/projects", &json!({ "name": "attacker" })).await.data();
    let attacker = api.in_project("attacker");
    create_large_objects(&attacker).await;
    let address = server.url().strip_prefix("https://").expect("TLS").to_owned();
    api.post("/api/projects", &json!({ "name": "bystander" })).await.data();
    let (token, bystander) = (bearer(&api), Bystander::with(api.in_project("bystander")));
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut client = http2(&address).await;
        for _ in 0..100 {
            let request = axum::http::Request::get("https://localhost/api/graph/objects?limit=100")
                .header("authorization", &token)
                .header("x-project-id", "attacker")
                .body(())
                .unwrap();
            client = client.ready().await.expect("room for a request");
            unread.push(client.send_request(request, true).expect("a request").0);
        }
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    bystander.assert_served(&server).await;
    assert_eq!(api.get("/ready").await.status, 200);
    drop(unread);
}
