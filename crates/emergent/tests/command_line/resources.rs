//! `document`, `pack`, `object`, `tool` and `project`.

use serde_json::json;

use crate::{
    common::{Home, command_output, failed, json_of},
    write,
};

#[test]
fn documents_are_added_listed_shown_and_deleted() {
    let home = Home::sqlite();
    write(&home, "notes.md", "# Tags\n\nTags name things.\n");
    write(&home, "odd \"name\".txt", "Plain text.");
    let added = command_output(home.run(&["document", "add", "notes.md", "odd \"name\".txt"]));
    assert!(added.contains("notes.md") && added.contains("text/markdown"), "{added}");
    // The same bytes again would be the same document.
    write(&home, "more.md", "# More\n\nTags name things.\n");
    let titled = json_of(home.run(&[
        "document",
        "add",
        "more.md",
        "--title",
        "Mine",
        "--metadata",
        r#"{"by":"me"}"#,
        "--json",
    ]));
    assert_eq!((&titled[0]["title"], &titled[0]["metadata"]["by"]), (&json!("Mine"), &json!("me")));

    let listed = command_output(home.run(&["document", "list"]));
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let text = command_output(home.run(&["document", "show", "Mine", "--text"]));
    assert!(text.contains("Tags name things."), "{text}");
    let shown = command_output(home.run(&["document", "show", "last"]));
    assert!(shown.starts_with("Mine") && shown.contains("sha-256"), "{shown}");
    command_output(home.run(&["document", "delete", "Mine"]));
    assert!(failed(&home.run(&["document", "show", "Mine"])).contains("there is no document `Mine`"));
    assert!(failed(&home.run(&["document", "add", "missing.md"])).contains("missing.md"));
}

#[test]
fn objects_are_created_changed_and_deleted() {
    let home = Home::sqlite();
    let create = ["object", "create", "Person", "ada", "--set", "name=Ada Lovelace", "--set", "born=1815"];
    let created = command_output(home.run(&[&create[..], &["--label", "mathematics"]].concat()));
    assert!(created.starts_with("Person/ada (") && created.contains("is created, version 1"), "{created}");
    let update = ["object", "update", "Person/ada", "--unset", "born", "--status", "known"];
    command_output(home.run(&update));
    let shown = json_of(home.run(&["graph", "show", "ada", "--json"]));
    assert_eq!(shown["properties"], json!({ "name": "Ada Lovelace" }));
    assert_eq!((&shown["status"], &shown["labels"]), (&json!("known"), &json!(["mathematics"])));
    let stale = home.run(&["object", "update", "last", "--set", "x=1", "--expected-version", "1"]);
    assert!(failed(&stale).contains("version"), "{stale:?}");
    assert!(
        failed(&home.run(&["object", "create", "Person", "x", "--set", "nothing"])).contains("NAME=VALUE")
    );
    command_output(home.run(&["object", "delete", "Person/ada"]));
    assert!(failed(&home.run(&["graph", "show", "Person/ada"])).contains("ada"));
}

#[test]
fn packs_are_added_assigned_and_deleted() {
    let home = Home::sqlite();
    let pack = json!({ "name": "people", "version": "1.0.0", "objectTypeSchemas": { "Person": {
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] } } });
    write(&home, "pack.json", &pack.to_string());
    assert_eq!(
        command_output(home.run(&["pack", "add", "pack.json", "--assign"])),
        "people@1.0.0 is added and assigned\n"
    );
    assert!(failed(&home.run(&["object", "create", "Person", "ada"])).contains("name"));
    let listed = command_output(home.run(&["pack", "list"]));
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[1..4], ["people@1.0.0", "yes", "no"], "{listed}");
    assert!(command_output(home.run(&["pack", "show", "people"])).contains("Person"));
    assert!(failed(&home.run(&["pack", "show", "people@2.0.0"])).contains("it has 1.0.0"));
    assert!(failed(&home.run(&["pack", "delete", "people"])).contains("assigned"));
    command_output(home.run(&["pack", "unassign", "people@1.0.0"]));
    command_output(home.run(&["pack", "delete", "people"]));
    assert!(failed(&home.run(&["pack", "show", "people"])).contains("there is no template pack"));
}

#[test]
fn tools_are_listed_and_shown_with_their_input() {
    let home = crate::home_with_agent();
    let listed = command_output(home.run(&["tool", "list", "search"]));
    assert!(listed.contains("search_hybrid") && !listed.contains("entities_create"), "{listed}");
    let shown = command_output(home.run(&["tool", "show", "search_hybrid"]));
    assert!(shown.contains("\"properties\"") && shown.contains("graph:read"), "{shown}");
}
