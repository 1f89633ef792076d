//! What `emergent graph`, `relationship`, `run revert` and `task` print about the graph: who wrote what, and by which
//! name a person finds it again.

use serde_json::json;

use crate::{
    common::{Home, command_output, failed, json_of, text},
    home_with_agent, write,
};

const SCRIPT: &str = r#"
rules:
  - when: { turn: 2 }
    answer: { text: Done. }
  - when: {}
    answer: { calls: [{ tool: entities_create, input: { type: Note, key: fresh, properties: { text: new } } }] }
"#;

fn home_with_people() -> Home {
    let home = home_with_agent();
    for person in ["ada", "charles", "mary"] {
        command_output(home.run(&["object", "create", "Person", person]));
    }
    for (from, type_, to) in
        [("ada", "knows", "charles"), ("ada", "knows", "mary"), ("mary", "taught", "charles")]
    {
        let (from, to) = (format!("Person/{from}"), format!("Person/{to}"));
        command_output(home.run(&["relationship", "create", &from, type_, &to]));
    }
    home
}

#[test]
fn a_traversal_prints_every_edge_that_it_counts() {
    let home = home_with_people();
    let shown = command_output(home.run(&["graph", "traverse", "Person/ada", "--depth", "2"]));
    assert!(shown.contains("─knows→ Person/charles") && shown.contains("─knows→ Person/mary"), "{shown}");
    assert!(shown.contains("\nPerson/mary ─taught→ Person/charles\n"), "{shown}");
    assert!(shown.ends_with("3 objects, 3 edges\n"), "{shown}");
    assert_eq!(shown.matches('→').count(), 3, "{shown}");
    let reached = command_output(home.run(&["graph", "traverse", "Person/charles"]));
    assert!(reached.contains("←knows─ Person/ada"), "{reached}");
}

#[test]
fn an_object_and_its_relationships_are_shown_as_they_were() {
    let home = home_with_people();
    let newest = json_of(home.run(&["relationship", "list", "Person/mary", "--type", "taught", "--json"]));
    let then = newest[0]["updatedAt"].as_str().expect("a time");
    command_output(home.run(&["object", "update", "Person/ada", "--set", "name=Ada"]));
    command_output(home.run(&["object", "delete", "Person/mary"]));
    for noun in ["object", "graph"] {
        let ada = |more: &[&str]| {
            json_of(home.run(&[&[noun, "show", "Person/ada", "--json"], more].concat()))["version"].clone()
        };
        assert_eq!((ada(&[]), ada(&["--as-of", then])), (json!(2), json!(1)), "{noun}");
        let deleted = command_output(home.run(&[noun, "show", "Person/mary", "--as-of", then]));
        assert!(deleted.contains("Person/charles"), "{deleted}");
        let early = failed(&home.run(&[noun, "show", "Person/ada", "--as-of", "2020-01-01T00:00:00Z"]));
        assert!(early.contains("`Person/ada` did not exist at 2020-01-01T00:00:00Z"), "{early}");
    }
    let list = ["relationship", "list", "Person/ada"];
    let now = command_output(home.run(&list));
    assert!(now.contains("Person/charles") && !now.contains("Person/mary"), "{now}");
    let before = command_output(home.run(&[&list[..], &["--as-of", then]].concat()));
    assert!(before.contains("Person/charles") && before.contains("Person/mary"), "{before}");
}

#[test]
fn a_key_names_the_object_that_had_it_at_the_time() {
    let home = home_with_people();
    let newest = json_of(home.run(&["relationship", "list", "Person/mary", "--type", "taught", "--json"]));
    let then = newest[0]["updatedAt"].as_str().expect("a time");
    let first = json_of(home.run(&["object", "show", "Person/mary", "--json"]))["id"].clone();
    command_output(home.run(&["object", "delete", "Person/mary"]));
    for args in [["object", "show"], ["graph", "show"], ["graph", "traverse"], ["relationship", "list"]] {
        let deleted = failed(&home.run(&[&args[..], &["Person/mary", "--as-of", "0s"]].concat()));
        assert!(deleted.contains("the object `Person/mary` was deleted at "), "{args:?}: {deleted}");
    }
    command_output(home.run(&["object", "create", "Person", "mary"]));
    for noun in ["object", "graph"] {
        let id = |more: &[&str]| {
            json_of(home.run(&[&[noun, "show", "Person/mary", "--json"], more].concat()))["id"].clone()
        };
        assert_ne!(id(&[]), first, "{noun}");
        assert_eq!(id(&["--as-of", then]), first, "{noun}");
    }
    let reached = json_of(home.run(&["graph", "traverse", "Person/mary", "--as-of", then, "--json"]));
    assert_eq!((&reached["nodes"][0]["id"], reached["edges"].as_array().map(Vec::len)), (&first, Some(3)));
    let list = ["relationship", "list", "Person/mary", "--json"];
    assert_eq!(json_of(home.run(&list)), json!([]));
    let listed = json_of(home.run(&[&list[..], &["--as-of", then]].concat()));
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let misspelt = failed(&home.run(&["graph", "traverse", "person/mary", "--as-of", then]));
    assert!(misspelt.contains("did not exist at") && misspelt.contains("`Person/mary`?"), "{misspelt}");
}

#[test]
fn a_relationship_is_created_and_deleted() {
    let home = home_with_people();
    let args = [
        "relationship",
        "create",
        "Person/ada",
        "met",
        "mary",
        "--set",
        "year=1834",
        "--weight",
        "0.5",
        "--json",
    ];
    let edge = json_of(home.run(&args));
    assert_eq!((&edge["properties"]["year"], &edge["weight"]), (&json!(1834), &json!(0.5)));
    let id = edge["id"].as_str().expect("an id");
    let deleted = command_output(home.run(&["relationship", "delete", id]));
    assert!(deleted.contains("relationship restore"), "{deleted}");
    let listed = command_output(home.run(&["relationship", "list", "Person/ada"]));
    assert!(!listed.contains("met"), "{listed}");
    let history = command_output(home.run(&["relationship", "history", id]));
    assert!(history.contains("deleted") && history.contains(r#"{"year":1834}"#), "{history}");
    let absent = failed(&home.run(&["relationship", "create", "Person/ada", "met", "Person/nobody"]));
    assert!(absent.contains("nobody"), "{absent}");
}

#[test]
fn a_history_names_its_authors_and_shows_what_changed() {
    let home = home_with_people();
    let long = "x".repeat(200);
    command_output(home.run(&["object", "update", "Person/ada", "--set", "born=1815"]));
    command_output(home.run(&[
        "object",
        "update",
        "Person/ada",
        "--set",
        "born=1816",
        "--set",
        &format!("note={long}"),
    ]));
    let history = command_output(home.run(&["graph", "history", "Person/ada"]));
    assert!(history.contains(&format!("born: 1815 → 1816, note: none → \"{long}\"")), "{history}");
    assert!(history.contains("born: none → 1815") && history.contains("token admin ("), "{history}");
}

#[test]
fn a_revert_names_what_it_undoes_and_the_history_names_the_run() {
    let home = home_with_agent();
    std::fs::create_dir_all(home.data().join("rehearsals")).expect("a folder");
    std::fs::write(home.data().join("rehearsals/write.yaml"), SCRIPT).expect("a script");
    let agent = json!({ "name": "writer", "tools": ["entities_create"], "model": { "provider": "rehearsal", "name": "write" } });
    write(&home, "writer.json", &agent.to_string());
    command_output(home.run(&["agent", "apply", "writer.json"]));
    command_output(home.run(&[
        "agent",
        "trigger",
        "writer",
        "--input",
        "go",
        "--follow",
        "--max-cost-usd",
        "1",
    ]));
    let run = json_of(home.run(&["run", "list", "--json"]))[0]["id"].as_str().expect("an id").to_owned();
    let shown = || {
        [&["list"][..], &["show", "last"]]
            .map(|view| command_output(home.run(&[&["run"][..], view].concat())))
    };
    assert!(shown().iter().all(|text| !text.contains("reverted")), "{:?}", shown());
    for args in [&["run", "revert", "last", "--dry-run"][..], &["run", "revert", "last"]] {
        let told = command_output(home.run(args));
        assert!(told.contains("object       Note/fresh\n"), "{told}");
    }
    let again = command_output(home.run(&["run", "revert", "last"]));
    assert!(again.starts_with("it was reverted already, at 20"), "{again}");
    let [list, show] = shown();
    assert!(list.contains("completed, reverted") && show.contains("  reverted     20"), "{list}{show}");
    let history = command_output(home.run(&["graph", "history", "Note/fresh"]));
    assert!(history.contains(&format!("version 2: run {run} was reverted")), "{history}");
    let newest = &json_of(home.run(&["graph", "history", "Note/fresh", "--json"]))[0];
    assert_eq!(newest["reason"], format!("run {run} was reverted"), "{newest}");
}

#[test]
fn a_task_of_the_graph_is_called_by_the_key_of_its_object() {
    let home = home_with_agent();
    let args = [
        "object",
        "create",
        "SpecTask",
        "t1",
        "--set",
        "title=Write a letter",
        "--set",
        "assigned_agent=echo",
    ];
    command_output(home.run(&args));
    assert!(command_output(home.run(&["task", "show", "t1"])).starts_with("t1  pending"));
    let done = command_output(home.run(&["dispatch", "--from-graph", "--task", "t1", "--follow"]));
    assert!(done.contains("t1") && !done.contains("write-a-letter"), "{done}");
    assert!(command_output(home.run(&["task", "show", "t1"])).starts_with("t1  completed"));
}

#[test]
fn a_token_ends_after_a_duration() {
    let home = home_with_agent();
    let created = json_of(home.run(&[
        "token",
        "create",
        "short",
        "--scopes",
        "graph:read",
        "--expires-at",
        "30d",
        "--json",
    ]));
    assert!(
        created["expiresAt"]
            .as_str()
            .is_some_and(|end| end > created["createdAt"].as_str().unwrap_or_default())
    );
    let told = failed(&home.run(&["token", "create", "x", "--scopes", "graph:read", "--expires-at", "soon"]));
    assert!(told.contains("30d") && told.contains("`soon` is neither"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_that_the_server_is_not_that_of_the_folder() {
    let home = home_with_agent();
    let server = home.start().await;
    let listen = server.url().trim_start_matches("http://").to_owned();
    let own = home.run(&["health"]);
    assert!(!text(&own.stderr).contains("No server uses"), "{}", text(&own.stderr));
    let elsewhere = Home::sqlite().with("EMERGENT_LISTEN", &listen);
    let other = elsewhere.run(&["health"]);
    assert!(
        other.status.success() && text(&other.stderr).contains("No server uses the data folder"),
        "{other:?}"
    );
}
