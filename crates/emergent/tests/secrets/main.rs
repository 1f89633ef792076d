//! A secret that the test knows is put into a server that logs everything, and then searched for:
//! in every file of the data folder, in every row of the database, in the log, in every answer, in
//! every command line.

#[path = "../common/mod.rs"]
mod common;
mod secret_locations;
mod servers;

use std::process::Output;

use common::{Home, TOKEN, finish};
use reqwest::Method;
use secret_locations::{
    Known, command_lines, encoded, search_answers, search_files, search_postgres, with_input,
};
use serde_json::{Value, json};

async fn story(home: Home) {
    let home = home.with("EMERGENT_LOG", "trace").with("EMERGENT_EMBEDDINGS", "off");
    let (known, server) = (Known::new(), home.start().await);
    let at_server = ["--server", server.url(), "--token", TOKEN, "--json"];
    let run = |args: &[&str]| finish(home.command(&[args, &at_server].concat()));

    // In by the command line, and by HTTP.
    let set = with_input(
        home.command(&[&["secret", "set", "API_KEY"], &at_server[..]].concat()),
        &format!("{}\n", known.value),
        &known,
    );
    assert!(set.status.success(), "{set:?}");
    let again = server.api.put("/api/admin/secrets/API_KEY", &json!({ "value": known.value })).await;
    assert_eq!((again.status, &again.body["data"]["version"]), (200, &json!(2)));
    known.must_not_be_in("an answer", again.body.to_string().as_bytes());
    let argument = run(&["secret", "set", "API_KEY", "misplaced words"]);
    let told = String::from_utf8_lossy(&argument.stderr).into_owned();
    assert!(
        !argument.status.success() && told.contains("standard input") && !told.contains("misplaced"),
        "{told}"
    );

    // Everything that is refused.
    for body in known.bad_bodies() {
        for name in ["API_KEY", "OTHER", "api-key"] {
            let request = server.api.request(Method::PUT, &format!("/api/admin/secrets/{name}"));
            let answer = request.header("content-type", "application/json").body(body.clone()).send().await;
            let answer = answer.expect("an answer");
            assert!(answer.status().is_client_error(), "{} for {body}", answer.status());
            known.must_not_be_in("a refusal", &answer.bytes().await.expect("a body"));
        }
    }
    let plain = server.api.request(Method::PUT, "/api/admin/secrets/API_KEY").body(known.value.clone());
    known.must_not_be_in("a refusal", &plain.send().await.expect("an answer").bytes().await.expect("a body"));
    // Where it has no business, the log has the path of the request. A refusal may cite to its sender what was
    // sent, and does not say that it is a secret.
    for path in ["/api/admin/secrets/", "/api/graph/objects/", "/api/projects/", "/nowhere/"] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let request = server.api.request(method, &format!("{path}{}", encoded(&known.value)));
            let answer = request.json(&json!({ "value": 1 })).send().await.expect("an answer");
            assert!(answer.status().is_client_error(), "{}", answer.status());
            let text = answer.text().await.expect("a body");
            assert!(!text.contains("[secret"), "{text}");
            if path == "/api/admin/secrets/" {
                known.must_not_be_in("a refusal", text.as_bytes());
            }
        }
    }
    let object =
        server.api.post("/api/graph/objects", &json!({ "type": known.value, "nonsense": known.value })).await;
    assert_eq!(object.status, 400);
    assert!(!object.body.to_string().contains("[secret"), "{}", object.body);
    assert!(server.launched.log().contains("[secret API_KEY]"), "it was there to be hidden");

    // A new key, and every place again.
    let listed = run(&["secret", "list"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let key = std::fs::read(home.data().join("secret-key")).expect("the key");
    let rotated: Value = serde_json::from_slice(&run(&["secret", "rotate"]).stdout).expect("JSON");
    assert_eq!(rotated["resealed"], 1);
    assert_ne!(std::fs::read(home.data().join("secret-key")).expect("the key"), key);
    search_answers(&server, &known).await;
    search_files(&home, &known);
    search_postgres(&home, &known).await;
    known.must_not_be_in("a command line", &command_lines());
    server.kill();
    search_files(&home, &known);

    // Without its key the database is no use to anybody, and the start says which one is missing.
    let wanted = rotated["key"].as_str().expect("an id");
    std::fs::write(home.data().join("secret-key"), &key).expect("the old key");
    assert!(refused(&home).contains(wanted));
    std::fs::remove_file(home.data().join("secret-key")).expect("a file");
    assert!(refused(&home).contains(wanted));
    assert!(!home.data().join("secret-key").exists(), "it does not make another");
}

/// Why a server does not start.
fn refused(home: &Home) -> String {
    let mut launched = home.launch(&[]);
    let told = launched.address().expect_err("it must not start");
    assert_eq!(launched.ended().code(), Some(1));
    told.lines().rfind(|line| line.starts_with("error: ")).expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_nowhere_to_be_found_on_sqlite() {
    story(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_nowhere_to_be_found_on_postgres() {
    story(Home::postgres().await.without_key()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_managed_on_the_data_folder_itself() {
    let (home, known) = (Home::sqlite(), Known::new());
    let command_output = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        command_output(with_input(home.command(&["secret", "set", "A_KEY"]), &known.value, &known)),
        "A_KEY is set\n"
    );
    let again = with_input(home.command(&["secret", "set", "A_KEY"]), "another\r\n", &known);
    assert_eq!(command_output(again), "A_KEY is set anew\n");
    let same = with_input(home.command(&["secret", "set", "A_KEY"]), "another\n", &known);
    assert_eq!(command_output(same), "A_KEY is set to the value that it had before\n");
    assert!(command_output(home.run(&["secret", "list"])).contains("A_KEY  3"));
    let other = command_output(home.run(&["project", "create", "other"]));
    assert!(
        !other.is_empty() && !command_output(home.run(&["secret", "list", "-p", "other"])).contains("A_KEY")
    );
    assert!(command_output(home.run(&["secret", "rotate"])).contains("sealed anew: 1"));
    let empty = with_input(home.command(&["secret", "set", "A_KEY"]), "\n", &known);
    assert!(String::from_utf8_lossy(&empty.stderr).contains("is empty"), "{empty:?}");
    let short = with_input(home.command(&["secret", "set", "A_KEY"]), "12345\n", &known);
    assert!(String::from_utf8_lossy(&short.stderr).contains("shorter than 6 bytes"), "{short:?}");
    let misnamed = home.run(&["secret", "delete", "a=key"]);
    assert!(!misnamed.status.success() && !String::from_utf8_lossy(&misnamed.stderr).contains("a=key"));
    assert_eq!(command_output(home.run(&["secret", "delete", "A_KEY"])), "A_KEY is deleted\n");
    let gone = home.run(&["secret", "delete", "A_KEY"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("there is no secret `A_KEY`"), "{gone:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(home.data().join("secret-key")).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the owner reads it");
    }
    let bad = home
        .command(&["secret", "list"])
        .env("EMERGENT_SECRET_KEY", "bm90IGEga2V5")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        told.contains("EMERGENT_SECRET_KEY") && told.contains("openssl") && !told.contains("bm90"),
        "{told}"
    );
}
