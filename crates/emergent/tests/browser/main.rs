//! A real browser: the link of `emergent serve` logs it in, and pages of other servers can do nothing with its
//! login. Without a Chromium (`EMERGENT_TEST_CHROMIUM`, or one on the `PATH`) the test is skipped and says so.

#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod chromium;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use chromium::Chromium;
use common::Home;
use serde_json::json;

/// Serves a page with a form on every path, until the test ends. Returns its port.
fn serve_form(action: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let page = format!("<!doctype html><form method=post action=\"{action}\"></form>");
    std::thread::spawn(move || {
        // A browser opens connections in advance, on which no request may come.
        for stream in listener.incoming().map_while(Result::ok) {
            let page = page.clone();
            std::thread::spawn(move || answer(stream, &page));
        }
    });
    port
}

fn answer(mut stream: TcpStream, page: &str) {
    let _ = stream.read(&mut [0; 4096]);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}", page.len());
    let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_servers_can_do_nothing_with_a_login() {
    let Some(program) = chromium::find() else {
        eprintln!("skipped: there is no Chromium on this machine (EMERGENT_TEST_CHROMIUM names one)");
        return;
    };
    let home = Home::sqlite().with("EMERGENT_EMBEDDINGS", "off");
    let server = home.start().await;
    let said = server.launched.said.clone();
    let link = said.split_whitespace().find(|word| word.contains("/login?code=")).expect("a link").to_owned();
    let work = json!({ "tasks": [{ "key": "one", "title": "One" }] });
    let workflow = server.api.post("/api/coordination/dispatch", &work).await.data()["workflowId"].clone();
    let workflow = format!("/api/coordination/workflows/{}", workflow.as_str().expect("an id"));
    let url = server.url().to_owned();
    let cancel = format!("{url}{workflow}/cancel");
    let port = serve_form(&cancel);

    let story = tokio::task::spawn_blocking(move || {
        let mut browser = Chromium::start(program);
        browser.open(&link);
        browser.evaluate("document.forms[0].requestSubmit()");
        browser.wait_for("location.pathname === '/'");
        browser.open(&format!("{url}/api/session"));
        assert!(browser.text().contains("\"tokenName\":\"admin\""), "{}", browser.text());
        assert_eq!(browser.evaluate("document.cookie"), "", "scripts cannot read the cookie");

        // Another port is of the same site, so the browser sends the cookie; the server refuses it.
        browser.open(&format!("http://127.0.0.1:{port}/"));
        let fetched = format!(
            "fetch({}, {{ method: 'POST', credentials: 'include' }}).then(() => 'read', () => 'refused')",
            json!(cancel)
        );
        assert_eq!(browser.evaluate(&fetched), "refused", "the answer cannot be read");
        browser.evaluate("document.forms[0].submit()");
        browser.wait_for("document.body.innerText.includes('success')");
        assert!(browser.text().contains("cross_origin"), "{}", browser.text());
        // To another site the browser does not send it.
        browser.open(&format!("http://localhost:{port}/"));
        browser.evaluate("document.forms[0].submit()");
        browser.wait_for("document.body.innerText.includes('success')");
        assert!(browser.text().contains("unauthorized"), "{}", browser.text());
        (browser, url, cancel)
    });
    let (mut browser, url, cancel) = story.await.expect("a browser");
    assert_ne!(server.api.get(&workflow).await.data()["status"], "cancelled");

    let text = tokio::task::spawn_blocking(move || {
        browser.open(&format!("{url}/login"));
        browser
            .evaluate(&format!("document.forms[0].action = {}; document.forms[0].submit()", json!(cancel)));
        browser.wait_for("document.body.innerText.includes('success')");
        browser.text()
    });
    let text = text.await.expect("a browser");
    assert!(text.contains("\"status\":\"cancelled\""), "a page of the server itself may: {text}");
}
