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
    let again = home.run(&["document", "add", "notes.md"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("notes.md was not added again"), "{again:?}");
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
    assert_eq!(titled[0]["mimeType"], "text/markdown", "also under another title");

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
    let deleted = json_of(home.run(&["object", "list", "--deleted", "--json"]));
    assert_eq!((&deleted[0]["key"], deleted[0]["deletedAt"].is_string()), (&json!("ada"), true));
    assert!(command_output(home.run(&["object", "list", "--deleted"])).contains("Person/ada"));
    command_output(home.run(&["object", "restore", "Person/ada"]));
    assert_eq!(json_of(home.run(&["object", "list", "--deleted", "--json"])), json!([]));
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
    let told = failed(&home.run(&["object", "create", "Person", "ada"]));
    assert!(told.contains("`properties.name`: is required"), "{told}");
    assert!(told.contains("the type `Person` in the pack `people@1.0.0`"), "{told}");
    assert!(told.contains("`emergent pack show people@1.0.0`"), "{told}");
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
    assert!(shown.contains("\n    properties\n") && shown.contains("graph:read"), "{shown}");
}

#[test]
fn the_settings_of_a_project_are_shown_and_set() {
    let home = Home::sqlite();
    command_output(home.run(&["project", "create", "research"]));
    let shown = command_output(home.run(&["project", "show", "research"]));
    for part in [
        "research  ",
        "strict       no",
        "runs forever",
        "emergent dispatch --from-graph",
        "rules        none",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    write(&home, "reviewer.json", r#"{ "name": "reviewer" }"#);
    command_output(home.run(&["agent", "create", "reviewer.json", "-p", "research"]));
    let update = |args: &[&str]| home.run(&[&["project", "update", "research"], args].concat());
    command_output(update(&["--auto-dispatch", "true", "--selection-rule", "kind:test=reviewer"]));
    command_output(update(&["--discussion-kind", "collaboration", "--discussion-rounds", "2"]));
    let phases = ["--discussion-phase", "ask:question=a,b", "--discussion-phase", "decide:vote"];
    let shown = command_output(update(&phases));
    for part in [
        "are executed by themselves",
        "kind:test → reviewer",
        "kind collaboration, at most 2 rounds",
        "phase ask: question by a, b",
        "phase decide: vote by everybody",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    let set = home.run(&[
        "project",
        "set",
        "research",
        "--discussion-kind",
        "default",
        "--discussion-phase",
        "none",
    ]);
    assert!(command_output(set).contains("discussions  at most 2 rounds\n"));
    let json = json_of(home.run(&["project", "show", "research", "--json"]));
    assert_eq!((&json["autoDispatch"], &json["discussions"]["rounds"]), (&json!(true), &json!(2)));
    assert!(failed(&update(&[])).contains("nothing to change"));
    assert!(failed(&update(&["--discussion-kind", "chat"])).contains("--discussion-kind"));
    assert!(failed(&update(&["--discussion-rounds", "many"])).contains("--discussion-rounds"));
    // Without a name it is the project of the command.
    assert!(command_output(home.run(&["project", "show"])).starts_with("default  "));
    assert!(command_output(home.run(&["project", "show", "-p", "research"])).starts_with("research  "));
}
