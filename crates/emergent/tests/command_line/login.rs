//! The login of a browser, as a person sees it.

use reqwest::Method;
use serde_json::json;

use crate::common::{Home, TOKEN};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_page_says_who_is_logged_in_and_until_when() {
    let home = Home::sqlite();
    let server = home.start().await;
    let login = server.api.request(Method::POST, "/api/session").json(&json!({ "token": TOKEN }));
    let login = login.send().await.expect("an answer");
    let cookie = login.headers()["set-cookie"].to_str().expect("a text").split(';').next().expect("a cookie");
    let page = |cookie: &str| {
        let request = server.api.request(Method::GET, "/");
        request.header("accept", "text/html").header("cookie", cookie.to_owned()).send()
    };
    let shown = page(cookie).await.expect("an answer").text().await.expect("a page");
    assert!(shown.contains("You are logged in as <strong>admin</strong> until 20"), "{shown}");
    let stranger = page("emergent_session=unknown").await.expect("an answer").text().await.expect("a page");
    assert!(stranger.contains("<h1>Emergent</h1>") && !stranger.contains("You are logged in"), "{stranger}");
}
