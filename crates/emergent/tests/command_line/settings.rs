//! Settings that cannot be used are refused by name, and `emergent doctor` shows them.

use crate::common::{Home, TOKEN, command_output, failed, text};

#[test]
fn a_setting_that_cannot_be_used_is_refused_by_name() {
    for (name, value, allowed) in [
        ("EMERGENT_LOG", "banana", "`debug`"),
        ("EMERGENT_LOG", "info,x=loud", "`debug`"),
        ("EMERGENT_LOG_FORMAT", "xml", "`text`, `json`"),
        ("EMERGENT_DATABASE_CONNECTIONS", "0", "1 or more"),
        ("EMERGENT_GITHUB_URL", "banana", "http or https URL"),
        ("EMERGENT_ALLOWED_HOSTS", "a.example.com, http://b.example.com/", "`agents.example.com`"),
    ] {
        let home = Home::sqlite().with(name, value);
        for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["object", "create", "Note", "a"]] {
            let told = failed(&home.run(args));
            assert!(told.contains(&format!("error: `{name}` cannot be used: ")), "{args:?}: {told}");
            assert!(told.contains(allowed), "{told}");
        }
        let checked = home.run(&["doctor"]);
        assert!(!checked.status.success());
        let told = text(&checked.stdout);
        assert!(
            told.contains("✗ configuration") && told.contains(&format!("`{name}` cannot be used")),
            "{told}"
        );
    }
    let file = Home::sqlite();
    std::fs::write(file.folder().join("emergent.toml"), "log-format = \"xml\"\n").expect("a file");
    assert!(
        failed(&file.run(&["object", "create", "Note", "a"]))
            .contains("`log-format` in `emergent.toml` cannot be used")
    );
}

#[test]
fn a_value_of_the_file_that_cannot_be_used_is_refused_by_its_key() {
    let home = Home::sqlite();
    for (content, key) in [
        ("tls-cert = \"no.pem\"\ntls-key = \"no.pem\"\n", "tls-cert"),
        ("database-url = \"x\"\n", "database-url"),
    ] {
        std::fs::write(home.folder().join("emergent.toml"), content).expect("a file");
        let told = failed(&home.run(&["serve", "--listen", "127.0.0.1:0"]));
        assert!(told.contains(&format!("error: `{key}` in `emergent.toml` cannot be used: ")), "{told}");
        let checked = text(&home.run(&["doctor"]).stdout);
        assert!(checked.contains(&format!("`{key}` in `emergent.toml` cannot be used: ")), "{checked}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_in_the_place_of_the_data_folder_matters_only_to_what_uses_the_folder() {
    let (home, elsewhere) = (Home::sqlite(), Home::sqlite());
    let server = home.start().await;
    std::fs::write(elsewhere.data(), "no folder").expect("a file");
    let at_server = ["--server", server.url(), "--token", TOKEN];
    command_output(elsewhere.run(&[&["object", "list"][..], &at_server].concat()));
    command_output(elsewhere.run(&[&["health"][..], &at_server].concat()));
    let problem = "the data folder `data` is a file: move it away, or name a folder with --data-dir";
    for args in
        [&["object", "list"][..], &["object", "create", "Note", "a"], &["serve", "--listen", "127.0.0.1:0"]]
    {
        let told = failed(&elsewhere.run(args));
        assert!(told.contains(problem), "{args:?}: {told}");
    }
    let checked = elsewhere.run(&["doctor"]);
    assert!(
        !checked.status.success() && text(&checked.stdout).contains(problem),
        "{}",
        text(&checked.stdout)
    );
    let named = elsewhere.with("EMERGENT_DATA_DIR", "data");
    let told = failed(&named.run(&["object", "list"]));
    assert!(told.contains("`data` is a file: `EMERGENT_DATA_DIR` has to name a folder"), "{told}");
}
