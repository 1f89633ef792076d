//! `last` for objects and relationships: the newest of what lists show, and a question before it is deleted.

use serde_json::Value;

use crate::{
    chat_terminal::{converse, converse_to_end},
    common::{Home, command_output, failed, json_of, text},
    home_with_agent, write,
};

/// A folder with two notes, an edge between them, and a workflow that wrote newer objects and edges of its own.
fn home_with_notes() -> Home {
    let home = home_with_agent();
    for note in ["first", "second"] {
        command_output(home.run(&["object", "create", "Note", note]));
    }
    command_output(home.run(&["relationship", "create", "Note/first", "cites", "Note/second"]));
    write(&home, "plan.json", r#"[{ "key": "work", "title": "Work", "assignedAgent": "echo" }]"#);
    command_output(home.run(&["dispatch", "--tasks", "plan.json", "--follow"]));
    home
}

#[test]
fn last_is_the_newest_of_what_lists_show() {
    let home = home_with_notes();
    assert_eq!(json_of(home.run(&["object", "show", "last", "--json"]))["key"], "second");
    let listed = command_output(home.run(&["relationship", "list", "last"]));
    assert!(listed.contains("cites"), "{listed}");
    let history = command_output(home.run(&["relationship", "history", "last"]));
    assert!(history.starts_with("cites "), "{history}");
    let deleted = home.run(&["relationship", "delete", "last"]);
    let told = text(&deleted.stderr);
    assert!(told.contains("delete Note/first ─cites→ Note/second"), "it says what it deletes: {told}");
    command_output(deleted);
    let none = failed(&home.run(&["relationship", "delete", "last"]));
    assert!(none.contains("there is no relationship yet, apart from those of tasks"), "{none}");
    for note in ["second", "first"] {
        let deleted = home.run(&["object", "delete", "last", "--yes"]);
        assert!(text(&deleted.stderr).contains(&format!("delete Note/{note}")), "{}", text(&deleted.stderr));
        command_output(deleted);
    }
    let restored = command_output(home.run(&["object", "restore", "last"]));
    assert!(restored.starts_with("Note/first "), "the one that was deleted last: {restored}");
    assert_eq!(json_of(home.run(&["object", "show", "last", "--json"]))["key"], "first");
}

#[test]
fn relationships_are_listed_without_an_object() {
    let home = home_with_notes();
    command_output(home.run(&["relationship", "create", "Note/second", "answers", "Note/first"]));
    let list = |args: &[&str]| json_of(home.run(&[&["relationship", "list", "--json"], args].concat()));
    let types = |edges: &Value| {
        let types = edges.as_array().expect("a list").iter().map(|edge| edge["type"].as_str());
        types.map(|type_| type_.expect("a type").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(&list(&[])), ["answers", "cites"], "not those of tasks and sessions");
    assert_eq!(types(&list(&["--type", "cites"])), ["cites"]);
    assert_eq!(types(&list(&["--type", "has_session"])), ["has_session"]);
    assert_eq!(types(&list(&["--as-of", "1d"])), [""; 0]);
    let one = home.run(&["relationship", "list", "--limit", "1"]);
    assert!(text(&one.stderr).contains("1 shown, there are more: --limit N"), "{}", text(&one.stderr));
    let one = command_output(one);
    assert!(one.contains("Note/second  answers  Note/first") && !one.contains("cites"), "{one}");
    let misspelt = home.run(&["relationship", "list", "--type", "cite"]);
    assert!(text(&misspelt.stderr).contains("did you mean `cites`?"), "{}", text(&misspelt.stderr));
}

#[test]
fn a_person_is_asked_before_last_is_deleted() {
    let home = home_with_notes();
    let delete_edge = ["relationship", "delete", "last"];
    let steps = [("delete Note/first ─cites→ Note/second? [y/N]", "n\r"), ("Nothing was changed.", "")];
    let declined = converse_to_end(&home, &delete_edge, &steps);
    assert_eq!(declined.status.code(), Some(1), "{}", text(&declined.stdout));
    let steps = [("delete Note/first ─cites→ Note/second? [y/N]", "y\r"), ("cites is deleted", "")];
    converse(&home, &delete_edge, &steps);
    let steps = [("delete Note/second? [y/N]", "n\r"), ("Nothing was changed.", "")];
    let declined = converse_to_end(&home, &["object", "delete", "last"], &steps);
    assert_eq!(declined.status.code(), Some(1), "{}", text(&declined.stdout));
    command_output(home.run(&["object", "show", "Note/second"]));
    let steps = [("delete Note/second? [y/N]", "y\r"), ("is deleted", "")];
    converse(&home, &["object", "delete", "last"], &steps);
}

#[test]
fn an_object_is_not_restored_by_a_key_that_another_one_has_now() {
    let home = home_with_agent();
    let order = ["object", "create", "Order", "o1"];
    let old =
        json_of(home.run(&[&order[..], &["--json"]].concat()))["id"].as_str().expect("an id").to_owned();
    command_output(home.run(&["object", "delete", "Order/o1"]));
    let new =
        json_of(home.run(&[&order[..], &["--json"]].concat()))["id"].as_str().expect("an id").to_owned();
    let told = failed(&home.run(&["object", "restore", "Order/o1"]));
    assert!(told.contains(&format!("by the live object `{new}`")) && told.contains(&old), "{told}");
    command_output(home.run(&["object", "delete", "Order/o1"]));
    command_output(home.run(&["object", "restore", &old]));
    let live = json_of(home.run(&["object", "show", "Order/o1", "--json"]));
    assert_eq!(live["id"], old.as_str(), "{live}");
}

#[test]
fn a_person_is_asked_before_the_last_agent_document_or_conversation_is_deleted() {
    let home = home_with_agent();
    write(&home, "page.md", "# A page\n\nWith a text.\n");
    command_output(home.run(&["document", "add", "page.md"]));
    command_output(home.run(&["chat", "hello", "--agent", "echo"]));
    let questions = [
        ("agent", "delete the agent echo? [y/N]"),
        ("document", "delete the document page.md? [y/N]"),
        ("conversation", "(hello)? [y/N]"),
    ];
    // The agent is last: without it, the other commands would say so.
    for (kind, question) in questions.into_iter().rev() {
        let delete = [kind, "delete", "last"];
        let steps = [(question, "n\r"), ("Nothing was changed.", "")];
        let declined = converse_to_end(&home, &delete, &steps);
        assert_eq!(declined.status.code(), Some(1), "{kind}: {}", text(&declined.stdout));
        let deleted = home.run(&[kind, "delete", "last", "--yes"]);
        let announced = question.trim_end_matches("? [y/N]");
        assert!(text(&deleted.stderr).contains(announced), "{}", text(&deleted.stderr));
        command_output(deleted);
    }
}

#[test]
fn a_relationship_that_exists_already_is_not_told_as_a_new_one() {
    let home = home_with_notes();
    let create = ["relationship", "create", "Note/first", "quotes", "Note/second"];
    let made = command_output(home.run(&create));
    assert!(made.contains("leads from Note/first to Note/second, version 1"), "{made}");
    let again = home.run(&[&create[..], &["--set", "page=3"]].concat());
    assert!(text(&again.stderr).contains("stay as they were"), "{}", text(&again.stderr));
    let again = command_output(again);
    assert!(again.contains("from Note/first to Note/second exists already, version 1"), "{again}");
}

#[test]
fn deleted_relationships_are_listed_with_the_names_of_their_ends() {
    let home = home_with_notes();
    command_output(home.run(&["relationship", "delete", "last", "--yes"]));
    let listed = command_output(home.run(&["relationship", "list", "--deleted"]));
    assert!(listed.contains("Note/first  cites  Note/second"), "{listed}");
}
