//! `agent apply`, `edit`, `history` and `delete`.

use serde_json::json;

use crate::{
    common::{Home, command_output, failed, json_of, text},
    home_with_agent, write,
};

#[test]
fn applying_a_file_creates_or_changes_an_agent_and_a_second_time_changes_nothing() {
    let home = Home::sqlite();
    write(
        &home,
        "a.yaml",
        "name: writer\ndescription: Writes\nmax_steps: 7\nsystem_prompt: |\n  You write.\n  Briefly.\n",
    );
    let apply = |files: &[&str]| command_output(home.run(&[&["agent", "apply"], files].concat()));
    assert_eq!(apply(&["a.yaml"]), "writer is created (version 1)\n");
    assert_eq!(apply(&["a.yaml"]), "writer is unchanged (version 1)\n");
    let shown = json_of(home.run(&["agent", "show", "writer", "--json"]));
    assert_eq!((&shown["systemPrompt"], &shown["maxSteps"]), (&json!("You write.\nBriefly.\n"), &json!(7)));

    // What the file leaves out gets its default.
    write(&home, "b.toml", "name = \"writer\"\nsystem_prompt = \"You write.\"\n");
    assert_eq!(apply(&["b.toml"]), "writer is changed (version 2)\n");
    let shown = json_of(home.run(&["agent", "show", "writer", "--json"]));
    assert_eq!((&shown["description"], &shown["maxSteps"]), (&json!(""), &json!(null)));

    // A file that cannot be read changes none of the agents.
    write(&home, "bad.json", "{ \"name\": 1 }");
    let refused = home.run(&["agent", "apply", "a.yaml", "bad.json"]);
    assert!(failed(&refused).contains("bad.json"), "{refused:?}");
    assert_eq!(json_of(home.run(&["agent", "show", "writer", "--json"]))["version"], 2);
    write(&home, "typo.json", "{ \"name\": \"writer\", \"sytemPrompt\": \"x\", \"descripton\": \"y\" }");
    let refused = failed(&home.run(&["agent", "apply", "typo.json"]));
    assert!(refused.contains("sytemPrompt") && refused.contains("descripton"), "{refused}");
}

#[test]
fn a_dry_run_of_applying_files_says_what_would_be_done() {
    let home = Home::sqlite();
    write(&home, "first.yaml", "name: first\ndescription: Exists\n");
    command_output(home.run(&["agent", "apply", "first.yaml"]));
    write(&home, "changed.yaml", "name: first\ndescription: Changed\n");
    write(&home, "second.yaml", "name: second\n");
    let files = ["first.yaml", "changed.yaml", "second.yaml"];
    let tried = command_output(home.run(&[&["agent", "apply", "--dry-run"], &files[..]].concat()));
    let lines: Vec<&str> = tried.lines().collect();
    assert_eq!(
        lines,
        [
            "first would be unchanged (version 1)",
            "first would be changed (version 2)",
            "second would be created (version 1)",
        ]
    );
    assert_eq!(json_of(home.run(&["agent", "show", "first", "--json"]))["version"], 1);
    assert!(failed(&home.run(&["agent", "show", "second"])).contains("second"));
    write(&home, "wrong.yaml", "name: third\ntools: [no_such_tool]\n");
    assert!(failed(&home.run(&["agent", "apply", "--dry-run", "wrong.yaml"])).contains("no_such_tool"));
}

#[test]
fn a_pattern_that_matches_no_tool_is_warned_about_when_the_agent_is_saved() {
    let home = Home::sqlite();
    write(&home, "searcher.json", r#"{ "name": "searcher", "tools": ["serch_*"] }"#);
    for command in ["create", "apply"] {
        let saved = home.run(&["agent", command, "searcher.json"]);
        let warning = text(&saved.stderr);
        assert!(warning.contains("warning: tools[0]: the pattern `serch_*` matches no tool"), "{warning}");
        let said = command_output(saved);
        assert!(said.starts_with("searcher is ") && said.ends_with("(version 1)\n"), "{said}");
    }
}

#[test]
fn the_history_of_an_agent_names_the_changed_fields_and_prints_old_versions() {
    let home = home_with_agent();
    write(&home, "echo.json", r#"{ "name": "echo", "systemPrompt": "Again.", "maxSteps": 2 }"#);
    command_output(home.run(&["agent", "apply", "echo.json"]));
    let history = command_output(home.run(&["agent", "history", "echo"]));
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines[1].starts_with('2') && lines[1].contains(" token "), "{history}");
    assert!(lines[1].contains("maxSteps: none → 2, model: "), "{history}");
    assert!(lines[1].ends_with(r#"systemPrompt: "You repeat." → "Again.""#), "{history}");
    assert!(lines[2].starts_with('1') && lines[2].ends_with("created"), "{history}");

    let first = command_output(home.run(&["agent", "history", "echo", "1"]));
    write(&home, "before.yaml", &first);
    assert_eq!(command_output(home.run(&["agent", "apply", "before.yaml"])), "echo is changed (version 3)\n");
    let restored = json_of(home.run(&["agent", "show", "echo", "--json"]));
    assert_eq!(restored["systemPrompt"], "You repeat.");
    let missing = failed(&home.run(&["agent", "history", "echo", "9"]));
    assert!(missing.contains("the newest is 3"), "{missing}");

    command_output(home.run(&["agent", "delete", "echo"]));
    assert!(failed(&home.run(&["agent", "show", "echo"])).contains("echo"));
}

#[test]
fn the_editor_shows_the_approvals_of_an_agent_and_a_removed_one_is_removed() {
    let home = Home::sqlite();
    let definition =
        "name: careful\ntools: [\"entities_*\"]\napprovals:\n  - tools: [entities_delete]\n    action: ask\n";
    write(&home, "careful.yaml", definition);
    command_output(home.run(&["agent", "apply", "careful.yaml"]));
    let edit = |editor: &str| {
        let mut command = home.command(&["agent", "edit", "careful"]);
        command.env("EDITOR", editor).env_remove("VISUAL").env("TMPDIR", home.folder());
        command_output(crate::common::finish(command))
    };
    assert_eq!(edit("sed -i 's/entities_delete/entities_update/'"), "careful is at version 2\n");
    let shown = json_of(home.run(&["agent", "show", "careful", "--json"]));
    assert_eq!(shown["approvals"][0]["tools"], json!(["entities_update"]));
    assert_eq!(edit("sed -i '/^approvals:/d'"), "careful is at version 3\n");
    assert_eq!(json_of(home.run(&["agent", "show", "careful", "--json"]))["approvals"], json!([]));
}

#[test]
fn an_agent_is_edited_in_the_editor_and_a_refused_text_is_not_lost() {
    let home = home_with_agent();
    let edit = |editor: &str| {
        let mut command = home.command(&["agent", "edit", "echo"]);
        command.env("EDITOR", editor).env_remove("VISUAL").env("TMPDIR", home.folder());
        crate::common::finish(command)
    };
    assert_eq!(command_output(edit("true")), "nothing was changed\n");
    assert_eq!(command_output(edit("sed -i 's/You repeat/You answer/'")), "echo is at version 2\n");
    assert_eq!(json_of(home.run(&["agent", "show", "echo", "--json"]))["systemPrompt"], "You answer.");

    let refused = edit("sed -i 's/^systemPrompt:.*/maxSteps: 0/'");
    let told = failed(&refused);
    assert!(told.contains("maxSteps") && told.contains("emergent agent apply"), "{told}");
    let kept = told.split_whitespace().find(|word| word.ends_with(".yaml:")).expect("the path of the text");
    assert!(std::fs::read_to_string(kept.trim_end_matches(':')).expect("the text").contains("maxSteps: 0"));
    let no_editor = edit("false");
    assert!(failed(&no_editor).contains("$EDITOR"), "{}", text(&no_editor.stderr));
}
