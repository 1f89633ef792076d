//! Short ids, `last`, unique names and suggestions.

use crate::{
    common::{Home, command_output, failed, json_of, text},
    home_with_agent,
    terminal::on_terminal,
    write,
};

#[test]
fn a_run_is_named_by_the_end_of_its_id_or_as_the_last_one() {
    let home = home_with_agent();
    for input in ["one", "two"] {
        command_output(home.run(&["agent", "trigger", "echo", "--input", input, "--follow"]));
    }
    let runs = json_of(home.run(&["run", "list", "--json"]));
    let ids: Vec<&str> = (0..2).map(|index| runs[index]["id"].as_str().expect("an id")).collect();
    let shown = |reference: &str| {
        json_of(home.run(&["run", "show", reference, "--json"]))["id"].as_str().expect("an id").to_owned()
    };
    assert_eq!(shown("last"), ids[0]);
    for id in ids {
        assert_eq!(shown(&id[28..]), id);
        assert_eq!(shown(&id[26..].to_uppercase()), id);
    }
    let short = failed(&home.run(&["run", "show", &runs[0]["id"].as_str().expect("an id")[33..]]));
    assert!(short.contains("too short") && short.contains("at least 4"), "{short}");
    let none = failed(&home.run(&["run", "show", "ffffffffff"]));
    assert!(none.contains("there is no run `ffffffffff`") && none.contains("emergent run list"), "{none}");
    let calls = command_output(home.run(&["run", "tool-calls", "last"]));
    assert!(calls.starts_with("STEP"), "{calls}");
    command_output(home.run(&["run", "messages", "last"]));
}

#[test]
fn a_relationship_is_named_by_the_end_of_its_id_or_as_the_last_one() {
    let home = home_with_agent();
    for key in ["ada", "bob", "eve"] {
        command_output(home.run(&["object", "create", "Person", key]));
    }
    command_output(home.run(&["relationship", "create", "Person/ada", "knows", "Person/bob"]));
    command_output(home.run(&["relationship", "create", "Person/ada", "knows", "Person/eve"]));
    let edges = json_of(home.run(&["relationship", "list", "Person/ada", "--json"]));
    let ids: Vec<&str> = (0..2).map(|index| edges[index]["id"].as_str().expect("an id")).collect();
    let versions = |reference: &str| json_of(home.run(&["relationship", "history", reference, "--json"]));
    assert_eq!(versions("last")[0]["id"], ids[0]);
    assert_eq!(versions(&ids[1][28..])[0]["id"], ids[1]);
    let told = command_output(home.run(&["relationship", "delete", &ids[1][28..]]));
    assert!(told.contains(ids[1]), "the whole id: {told}");
    assert_eq!(versions(&ids[1][28..])[0]["id"], ids[1], "the history of a deleted one");
    command_output(home.run(&["relationship", "restore", &ids[1][28..]]));
    let refused = failed(&home.run(&["relationship", "restore", &ids[1][28..]]));
    assert!(refused.contains("there is no deleted relationship"), "it is live: {refused}");
    assert!(refused.contains("emergent relationship list --deleted"), "{refused}");
    command_output(home.run(&["relationship", "delete", "last"]));
    let shown = json_of(home.run(&["object", "show", "Person/ada", "--json"]));
    assert_eq!(shown, json_of(home.run(&["graph", "show", "Person/ada", "--json"])));
    let left = json_of(home.run(&["relationship", "list", "Person/ada", "--json"]));
    assert_eq!((left.as_array().map(Vec::len), &left[0]["id"]), (Some(1), &edges[1]["id"]));
}

#[test]
fn the_token_in_use_is_not_revoked_as_the_last_one() {
    let home = home_with_agent();
    let told = failed(&home.run(&["token", "revoke", "last"]));
    assert!(told.contains("name it by its name or its id (`emergent token list` lists them)"), "{told}");
    command_output(home.run(&["token", "list"]));
}

#[test]
fn what_was_deleted_last_is_restored_as_the_last_one() {
    let home = home_with_agent();
    for key in ["ada", "bob", "eve", "zoe"] {
        command_output(home.run(&["object", "create", "Person", key]));
    }
    let none = failed(&home.run(&["relationship", "restore", "last"]));
    assert!(none.contains("there is no deleted relationship yet"), "{none}");
    for to in ["bob", "eve", "zoe"] {
        command_output(home.run(&["relationship", "create", "Person/ada", "knows", &format!("Person/{to}")]));
    }
    let edges = json_of(home.run(&["relationship", "list", "Person/ada", "--json"]));
    let id = |index: usize| edges[index]["id"].as_str().expect("an id");
    // Not in the order of their creation; the third one stays, and is the newest that lives.
    for index in [1, 2] {
        command_output(home.run(&["relationship", "delete", id(index)]));
    }
    let deleted = json_of(home.run(&["relationship", "list", "--deleted", "--json"]));
    assert_eq!(deleted.as_array().map(Vec::len), Some(2), "{deleted}");
    let of_bob = json_of(home.run(&["relationship", "list", "Person/bob", "--deleted", "--json"]));
    assert_eq!((of_bob.as_array().map(Vec::len), &of_bob[0]["id"]), (Some(1), &edges[2]["id"]));
    let restore = |noun: &str| json_of(home.run(&[noun, "restore", "last", "--json"]))["id"].clone();
    assert_eq!(
        (restore("relationship"), restore("relationship")),
        (edges[2]["id"].clone(), edges[1]["id"].clone())
    );
    // An object takes its relationships along, and brings them back.
    for key in ["zoe", "bob"] {
        command_output(home.run(&["object", "delete", &format!("Person/{key}")]));
    }
    assert_eq!(json_of(home.run(&["relationship", "list", "--deleted", "--json"])), serde_json::json!([]));
    restore("object");
    let keys = json_of(home.run(&["object", "list", "--deleted", "--json"]));
    assert_eq!((keys.as_array().map(Vec::len), keys[0]["key"].as_str()), (Some(1), Some("zoe")));
    command_output(home.run(&["object", "restore", "zoe"]));
    let live = failed(&home.run(&["object", "restore", "last"]));
    assert!(live.contains("there is no deleted object yet"), "{live}");
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest_one() {
    let home = home_with_agent();
    command_output(home.run(&["project", "create", "research"]));
    let check = |args: &[&str], expected: &str| {
        let told = failed(&home.run(args));
        assert!(told.contains(&format!("did you mean `{expected}`?")), "{args:?}: {told}");
    };
    command_output(home.run(&["object", "create", "Person", "ada-lovelace"]));
    command_output(home.run(&["object", "create", "Person", "mary"]));
    command_output(home.run(&["relationship", "create", "Person/mary", "taught", "Person/ada-lovelace"]));
    check(&["object", "show", "Persn/ada-lovelace"], "Person");
    check(&["graph", "traverse", "Person/ada-lovelac"], "ada-lovelace");
    let unused = home.run(&["relationship", "list", "Person/mary", "--type", "tought"]);
    assert!(crate::common::text(&unused.stderr).contains("did you mean `taught`?"), "{unused:?}");
    write(
        &home,
        "weekly.yaml",
        "trigger: 0 9 * * MON\ndispatch: { tasks: [{ key: one, title: One, assigned_agent: echo }] }\n",
    );
    command_output(home.run(&["trigger", "save", "weekly", "weekly.yaml"]));
    check(&["trigger", "pause", "weekli"], "weekly");
    check(&["trigger", "delete", "weekli"], "weekly");
    let paused = failed(&home.run(&["trigger", "pause", "weekli"]));
    assert_eq!(paused.matches("did you mean").count(), 1, "{paused}");
    check(&["agent", "show", "ecko"], "echo");
    check(&["agent", "trigger", "echoo", "--input", "x"], "echo");
    check(&["project", "delete", "reserch", "--yes"], "research");
    check(&["agent", "list", "-p", "reserch"], "research");
    check(&["run", "list", "--agent", "ecko"], "echo");
    check(&["budget", "set", "--agent", "ecko", "--tokens", "5"], "echo");
    command_output(home.run(&["task", "add", "greet"]));
    check(&["task", "reassign", "greet", "ecko"], "echo");
    check(&["task", "add", "part", "--agent", "ecko"], "echo");
    check(&["tool", "show", "search_hibrid"], "search_hybrid");
    let server = r#"{"name": "files", "transport": "http", "url": "https://files.example/mcp"}"#;
    write(&home, "server.json", server);
    command_output(home.run(&["mcp-server", "add", "server.json"]));
    check(&["mcp-server", "show", "fils"], "files");
    command_output(home.run(&["product", "install", "emergent.memory"]));
    check(&["product", "show", "emergent.memry"], "emergent.memory");
    let last = json_of(home.run(&["product", "show", "last", "--json"]));
    assert_eq!(last["name"], "emergent.memory");
    check(&["product", "uninstall", "emergent.memori"], "emergent.memory");
    check(&["product", "upgrade", "emergent.memorry"], "emergent.memory");
    let trigger =
        "trigger: \"0 9 * * MON\"\ndispatch: { tasks: [{ key: one, title: One, assigned_agent: echo }] }\n";
    write(&home, "trigger.yaml", trigger);
    command_output(home.run(&["trigger", "save", "weekly-report", "trigger.yaml"]));
    check(&["trigger", "delete", "weekly-reprot"], "weekly-report");
}

#[test]
fn an_object_without_a_key_is_named_as_lists_show_it() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Finding", "--set", "name=One"]));
    command_output(home.run(&["object", "create", "Finding", "--set", "name=Two"]));
    let listed = command_output(home.run(&["object", "list", "--type", "Finding"]));
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 2, "{listed}");
    for name in names {
        let id = name.strip_prefix("Finding/").expect("a type");
        // In a pipe the whole id is shown, on a terminal its end.
        for reference in [name.to_owned(), format!("Finding/{}", &id[28..])] {
            let shown = json_of(home.run(&["graph", "show", &reference, "--json"]));
            assert_eq!(shown["id"], id, "{reference}");
            let versions = json_of(home.run(&["graph", "history", &reference, "--json"]));
            assert_eq!(versions[0]["id"], id, "{reference}");
            command_output(home.run(&["graph", "traverse", &reference]));
        }
        let wrong = failed(&home.run(&["graph", "show", &format!("Note/{id}")]));
        assert!(wrong.contains("there is no Note with the key"), "{wrong}");
    }
    let first =
        listed.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("a name").to_owned();
    command_output(home.run(&["object", "delete", &first]));
    let restored = command_output(home.run(&["object", "restore", &first]));
    assert!(restored.contains("is live, version 3"), "{restored}");
}

#[test]
fn an_object_that_is_not_deleted_is_not_restored() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Person", "ada"]));
    let live = command_output(home.run(&["object", "restore", "Person/ada"]));
    assert!(live.contains("is not deleted, and nothing was restored: it is live, version 1"), "{live}");
    command_output(home.run(&["object", "delete", "Person/ada"]));
    let restored = command_output(home.run(&["object", "restore", "Person/ada"]));
    assert!(restored.contains(") is live, version 3"), "{restored}");
}

#[test]
fn a_type_that_does_not_exist_is_answered_with_the_nearest_one() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Person", "ada"]));
    let listed = home.run(&["object", "list", "--type", "Persn"]);
    assert!(listed.status.success());
    let notice = String::from_utf8_lossy(&listed.stderr);
    assert!(
        notice.contains("there is no type `Persn`") && notice.contains("did you mean `Person`?"),
        "{notice}"
    );
    let known = home.run(&["object", "list", "--type", "Person"]);
    assert!(!String::from_utf8_lossy(&known.stderr).contains("no type"));
    let wrong = failed(&home.run(&["object", "show", "person/ada"]));
    assert!(wrong.contains("did you mean `Person/ada`?"), "{wrong}");
}

#[test]
fn a_list_of_objects_leaves_out_what_the_server_writes_about_its_work() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Note", "a"]));
    command_output(home.run(&["object", "create", "SessionMessage", "m", "--set", "content=x"]));
    let listed = |args: &[&str]| command_output(home.run(&[&["object", "list"], args].concat()));
    assert!(listed(&[]).contains("Note/a") && !listed(&[]).contains("SessionMessage/m"), "{}", listed(&[]));
    for all in [&["--all"][..], &["--include-system"], &["--type", "SessionMessage"]] {
        assert!(listed(all).contains("SessionMessage/m"), "{all:?}");
    }
}

#[test]
fn a_rehearsal_that_does_not_exist_is_answered_with_its_folder_and_the_nearest_one() {
    let home = home_with_agent();
    let folder = home.data().join("rehearsals");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = "rules:\n  - when: {}\n    answer: { text: found }\n";
    std::fs::write(folder.join("search.yaml"), script).expect("a file");
    let args = ["agent", "trigger", "echo", "--input", "x", "--model", "rehearsal/serch", "--follow"];
    let output = home.run(&args);
    let told = format!("{}{}", crate::common::text(&output.stdout), crate::common::text(&output.stderr));
    assert!(told.contains("did you mean `search`?"), "{told}");
    assert!(told.contains("rehearsals` (`EMERGENT_REHEARSALS` names another folder)"), "{told}");
}

#[test]
fn a_token_is_listed_with_its_project_and_revoked_by_its_name() {
    let home = home_with_agent();
    command_output(home.run(&["token", "create", "reader", "--scopes", "graph:read"]));
    command_output(home.run(&["token", "create", "wide", "--scopes", "graph:read", "--all-projects"]));
    command_output(home.run(&["token", "revoke", "reader"]));
    let listed = command_output(home.run(&["token", "list"]));
    let row = |name: &str| {
        let line = listed.lines().find(|line| line.contains(name)).expect("it is listed");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("reader")[1..4], ["reader", "default", "revoked"], "{listed}");
    assert_eq!(row("wide")[1..4], ["wide", "all", "valid"], "{listed}");
}

#[test]
fn completions_are_printed_for_every_shell() {
    let home = Home::sqlite();
    for (shell, expected) in
        [("bash", "complete -F"), ("zsh", "#compdef emergent"), ("fish", "complete -c emergent")]
    {
        let script = command_output(home.run(&["completions", shell]));
        assert!(script.contains(expected) && script.contains("tool-calls"), "{shell}: {}", &script[..200]);
    }
    assert!(!home.data().exists(), "nothing was created");
}

#[test]
fn what_cannot_be_written_makes_no_data_folder() {
    let home = Home::sqlite();
    write(&home, "wrong.json", "[1");
    for args in [
        &["object", "create", "bad type"][..],
        &["object", "create", "Person", "ada", "--set", "name"],
        &["object", "create", "Person", "ada", "--properties", "{"],
        &["agent", "create", "wrong.json"],
        &["agent", "apply", "wrong.json"],
        &["document", "add", "absent.md"],
        &["pack", "add", "wrong.json"],
        &["product", "install", "wrong.json"],
        &["project", "create", "no/name"],
        &["budget", "set"],
        &["budget", "set", "--usd", "-1"],
        &["token", "create", "reader", "--scopes", "graph:raed"],
        &["token", "create", "reader", "--scopes", "graph:read", "--expires-at", "soon"],
        &["mcp-server", "add", "wrong.json"],
        &["secret", "set", "KEY"],
        &["graph", "import", "absent.ndjson"],
    ] {
        let refused = home.run(args);
        assert!(!refused.status.success(), "{args:?}");
        assert!(!home.data().exists(), "{args:?}: {}", text(&refused.stderr));
    }
    let shown = command_output(on_terminal(&home, (24, 80), "", &["object", "create", "Person", "ada"]));
    assert!(shown.contains("a new data folder `data` was made"), "{shown}");
}

#[test]
fn a_command_that_makes_a_data_folder_says_where_also_in_a_script() {
    let home = Home::sqlite();
    let create = |folder: &str, key: &str| {
        let output = home.run(&["object", "create", "Person", key, "--data-dir", folder]);
        let notice = text(&output.stderr);
        (command_output(output), notice)
    };
    let (created, notice) = create("elsewhere", "ada");
    assert!(!created.contains("data folder"), "{created}");
    let folder = home.folder().canonicalize().expect("a folder");
    assert!(notice.contains("a new data folder `elsewhere` was made in "), "{notice}");
    assert!(notice.contains(&*folder.to_string_lossy()) && notice.contains("--data-dir"), "{notice}");
    assert_eq!(create("elsewhere", "mary").1, "", "it is there");
}
