//! Settings that cannot be used are refused by name, and `emergent doctor` shows them.

use crate::common::{Home, failed, text};

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
            .contains("`EMERGENT_LOG_FORMAT` cannot be used")
    );
}
