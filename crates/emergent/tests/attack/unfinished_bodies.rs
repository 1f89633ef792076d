//! Bodies that never end, and bodies with millions of values: others are served, and the memory stays bounded.

use std::{io::Write, net::TcpStream, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::Method;

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    create_agent, project_token, with_slow_model,
};

/// The head of a request with a JSON body of this length; `headers` end with line breaks.
fn head(path: &str, headers: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {length}\r\n\r\n"
    )
}

fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.trim_start_matches("http://")).expect("a connection")
}

fn bearer(api: &Api) -> String {
    let request = api.request(Method::GET, "/").build().unwrap();
    request.headers()["authorization"].to_str().unwrap().to_owned()
}

async fn unfinished_logins(home: Home) {
    let server = home.start().await;
    let bystander = Bystander::start(&server).await;
    let mut unfinished: Vec<TcpStream> = (0..1_100).map(|_| connect(server.url())).collect();
    for stream in &mut unfinished {
        // Most are refused, and may be closed before all is sent.
        let _ = stream.write_all(format!("{}{{", head("/api/session", "", 1_000)).as_bytes());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for path in ["/api/graph/objects", "/ready"] {
        assert_eq!(server.api.get(path).await.status, 200, "{path}");
    }
    bystander.assert_served(&server).await;
    drop(unfinished);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_logins_keep_out_nobody_with_a_token() {
    unfinished_logins(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_logins_keep_out_nobody_with_a_token_on_postgres() {
    unfinished_logins(Home::postgres().await).await;
}

async fn large_unfinished_bodies(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let attacker =
        project_token(&server, "attacker", &["agents:read", "agents:write", "agents:invoke"]).await;
    let agent = create_agent(&attacker, "quick", &[]).await;
    let bystander = Bystander::start(&server).await;
    let (token, part) = (bearer(&attacker), vec![b' '; 7 << 20]);
    let mut unfinished = Vec::new();
    for n in 0..200 {
        let headers = format!("Authorization: {token}\r\nIdempotency-Key: {n}\r\n");
        let path = if n % 4 == 0 { "/api/session".to_owned() } else { format!("{agent}/trigger") };
        let mut stream = connect(server.url());
        // The server does not read all of a body that it refuses.
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let _ = stream.write_all(head(&path, &headers, 8 << 20).as_bytes());
        let _ = stream.write_all(&part);
        unfinished.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
    bystander.assert_served(&server).await;
    drop(unfinished);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_that_never_end_take_bounded_memory() {
    large_unfinished_bodies(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_that_never_end_take_bounded_memory_on_postgres() {
    large_unfinished_bodies(Home::postgres().await).await;
}

async fn bodies_with_millions_of_values(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let scopes = ["graph:read", "graph:write", "agents:read", "agents:write", "agents:invoke"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    let agent = create_agent(&attacker, "quick", &[]).await;
    let bystander = Bystander::start(&server).await;
    let lists = format!("[{}[0]]", "[0],".repeat(2_000_000));
    let bodies = [
        (
            "/api/graph/search".to_owned(),
            format!(r#"{{"query":"x","filters":[{{"path":"a","op":"eq","value":{lists}}}]}}"#),
        ),
        ("/api/graph/objects".to_owned(), format!(r#"{{"type":"Note","properties":{{"lists":{lists}}}}}"#)),
        (format!("{agent}/trigger"), format!(r#"{{"input":"go","context":{lists}}}"#)),
    ];
    let bodies = bodies.map(|(path, body)| (path, Bytes::from(body)));
    let requests = (0..24).map(|n| {
        let (path, body) = &bodies[n % bodies.len()];
        let request = attacker.request(Method::POST, path).header("content-type", "application/json");
        request.body(body.clone()).send()
    });
    for answer in join_all(requests).await {
        let status = answer.expect("an answer").status().as_u16();
        assert!(matches!(status, 413 | 429), "{status}");
    }
    bystander.assert_served(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_with_millions_of_values_do_not_delay_others() {
    bodies_with_millions_of_values(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_with_millions_of_values_do_not_delay_others_on_postgres() {
    bodies_with_millions_of_values(Home::postgres().await).await;
}
