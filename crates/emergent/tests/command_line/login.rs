//! The login of a browser, as a person sees it.

use reqwest::Method;
use serde_json::json;

use crate::common::{Home, TOKEN};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_leads_to_a_page_and_the_session_says_who_is_logged_in() {
    let home = Home::sqlite();
    let server = home.start().await;
    let login = server.api.request(Method::POST, "/api/session").json(&json!({ "token": TOKEN }));
    let login = login.send().await.expect("an answer");
    let cookie = login.headers()["set-cookie"].to_str().expect("a text").split(';').next().expect("a cookie");
    let get = |path: &str, accept: &str| {
        let request = server.api.request(Method::GET, path);
        request.header("accept", accept.to_owned()).header("cookie", cookie.to_owned()).send()
    };
    let page = get("/", "text/html").await.expect("an answer");
    assert!(page.status().is_success());
    let shown = page.text().await.expect("a page");
    assert!(shown.contains("<title>Emergent</title>"), "{shown}");
    let session =
        get("/api/session", "application/json").await.expect("an answer").text().await.expect("a body");
    assert!(session.contains("\"tokenName\":\"admin\""), "{session}");
}
