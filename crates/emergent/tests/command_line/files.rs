//! Errors about a file that a command reads name the file, and the field as the file writes it.

use crate::{common::failed, home_with_agent, write};

#[test]
fn a_refused_file_is_named_with_its_field() {
    let home = home_with_agent();
    let check = |command: &[&str], file: &str, content: &str, expected: &str| {
        write(&home, file, content);
        let told = failed(&home.run(&[command, &[file]].concat()));
        assert!(told.contains(&format!("error: `{file}`: {expected}")), "{told}");
    };
    check(
        &["agent", "apply"],
        "agent.json",
        r#"{ "name": "x", "flow_type": "seq" }"#,
        "`flow_type`: unknown variant",
    );
    check(&["agent", "create"], "agent.yaml", "name: x\nmax_stepz: 4\n", "unknown field `max_stepz`");
    check(
        &["dispatch", "--tasks"],
        "tasks.yaml",
        "- { key: a, title: A, priority: huge }",
        "`tasks[0].priority`: unknown variant",
    );
    let server =
        r#"{ "name": "files", "transport": "http", "url": "https://example.com", "pin_policy": "zz" }"#;
    check(&["mcp-server", "add"], "server.json", server, "`pin_policy`: unknown variant `zz`");
    check(
        &["pack", "add"],
        "pack.json",
        r#"{ "name": "p", "versionn": "1.0.0" }"#,
        "`versionn`: is not a known field",
    );
    check(
        &["product", "install"],
        "manifest.json",
        r#"{ "name": "p", "versionn": 1 }"#,
        "the manifest cannot be used",
    );
    check(&["trigger", "save", "weekly"], "trigger.yaml", "trigger: never\n", "");
    // What a flag says is not in the file.
    write(&home, "tasks.yaml", "- { key: a, title: A, assigned_agent: echo }");
    let told = failed(&home.run(&["dispatch", "--tasks", "tasks.yaml", "--max-concurrent", "0"]));
    assert!(told.starts_with("error: --max-concurrent: "), "{told}");
}

#[test]
fn a_document_that_cannot_be_read_leaves_nothing_behind() {
    let home = home_with_agent();
    write(&home, "broken.pdf", "%PDF-1.4\nbroken");
    let told = failed(&home.run(&["document", "add", "broken.pdf"]));
    assert!(told.starts_with("error: `broken.pdf` was not added: could not read the PDF: "), "{told}");
    assert!(!told.contains("accepted"), "a PDF is accepted: {told}");
    write(&home, "data.bin", "a\0b");
    let told = failed(&home.run(&["document", "add", "data.bin"]));
    assert!(told.contains("text, Markdown, HTML and PDF"), "{told}");
    let refused = failed(&home.run(&["document", "add", "data.bin", "-p", "nowhere"]));
    assert!(!refused.contains("Markdown"), "it is about the project: {refused}");
    let listed = crate::common::json_of(home.run(&["document", "list", "--json"]));
    assert_eq!(listed, serde_json::json!([]));
}
