//! What a mistake is answered with: what failed, why, and what to do instead.

use crate::{
    common::{command_output, failed, json_of, text},
    home_with_agent, write,
};

#[test]
fn an_audit_of_an_unknown_action_is_refused_with_the_nearest() {
    let home = home_with_agent();
    let told = failed(&home.run(&["audit", "--action", "agents"]));
    assert!(told.contains("--action: must be one of") && told.contains("did you mean `agent`?"), "{told}");
    let entries = json_of(home.run(&["audit", "--action", "agent.create", "--json"]));
    assert_eq!(entries.as_array().map(Vec::len), Some(1));
}

#[test]
fn a_budget_that_is_used_up_names_the_whole_command_that_raises_it() {
    let home = home_with_agent();
    command_output(home.run(&["budget", "set", "--agent", "echo", "--tokens", "1"]));
    let output = home.run(&["agent", "trigger", "echo", "--input", "x", "--follow"]);
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(told.contains("emergent budget set --agent echo --tokens N"), "{told}");
}

#[test]
fn an_object_takes_its_key_as_a_flag_and_a_taken_key_says_how_to_change_it() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Person", "--key", "bob"]));
    let shown = json_of(home.run(&["object", "show", "Person/bob", "--json"]));
    assert_eq!(shown["key"], "bob");
    let taken = failed(&home.run(&["object", "create", "Person", "bob"]));
    assert!(taken.contains("`emergent object update Person/bob` changes it"), "{taken}");
}

#[test]
fn a_dispatch_of_no_tasks_says_how_to_add_one() {
    let home = home_with_agent();
    let told = failed(&home.run(&["dispatch", "--from-graph"]));
    assert!(told.contains("no pending task is outside a workflow: `emergent task add KEY`"), "{told}");
}

#[test]
fn a_misspelt_word_is_answered_with_the_nearest_one() {
    let home = home_with_agent();
    let told = failed(&home.run(&["run", "list", "--status", "pausd"]));
    assert!(told.contains("did you mean `paused`?"), "{told}");
    write(&home, "server.json", r#"{ "name": "files", "transport": "studio", "command": "files" }"#);
    let told = failed(&home.run(&["mcp-server", "add", "server.json"]));
    assert!(told.contains("did you mean `stdio`?"), "{told}");
}

#[test]
fn a_secret_in_plain_text_is_answered_with_the_command_that_stores_it() {
    let home = home_with_agent();
    let server = r#"{ "name": "files", "transport": "http", "url": "https://files.example/mcp",
        "headers": { "Authorization": "Bearer abc" } }"#;
    write(&home, "server.json", server);
    let told = failed(&home.run(&["mcp-server", "add", "server.json"]));
    assert!(told.contains("store it with `emergent secret set NAME` and write ${NAME}"), "{told}");
}

#[test]
fn a_caller_from_outside_is_told_what_it_may_read_and_how_to_make_an_agent_external() {
    let home = home_with_agent();
    let told = failed(&home.run(&["agent", "invoke", "nobody", "--input", "x"]));
    assert!(told.contains("`GET /api/agents/card`") && !told.contains("agent list"), "{told}");
    let told = failed(&home.run(&["agent", "invoke", "echo", "--input", "x"]));
    assert!(told.contains("`visibility: external`"), "{told}");
    assert!(told.contains("`emergent agent trigger echo`"), "{told}");
}

#[test]
fn a_file_that_is_not_added_is_named_with_what_is_accepted_and_what_was_added_before() {
    let home = home_with_agent();
    write(&home, "page.md", "# A page\n\nWith a text.\n");
    std::fs::write(home.folder().join("image.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").expect("a file");
    let told = failed(&home.run(&["document", "add", "page.md", "image.png"]));
    assert!(told.contains("`image.png` was not added"), "{told}");
    assert!(told.contains("text, Markdown, HTML and PDF of at most 64 MiB"), "{told}");
    assert!(told.contains("(added before it: `page.md`)"), "{told}");
    write(&home, "empty.txt", "");
    let output = home.run(&["document", "add", "empty.txt"]);
    let told = text(&output.stderr);
    assert!(told.contains("`empty.txt`"), "{told}");
}

#[test]
fn a_number_that_is_none_is_refused_without_words_of_the_programming_language() {
    let home = home_with_agent();
    for (arguments, expected) in [
        (vec!["budget", "set", "--tokens", "5k"], "it is not a whole number"),
        (vec!["agent", "trigger", "echo", "--input", "x", "--max-cost-usd", "abc"], "it is not a number"),
    ] {
        let output = home.run(&arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(expected) && !told.contains("literal") && !told.contains("digit"), "{told}");
    }
}

#[test]
fn an_mcp_server_that_does_not_exist_has_no_list_of_tools() {
    let home = home_with_agent();
    let server = r#"{ "name": "files", "transport": "stdio", "command": "files" }"#;
    write(&home, "server.json", server);
    command_output(home.run(&["mcp-server", "add", "server.json"]));
    let told = failed(&home.run(&["tool", "list", "--mcp-server", "fils"]));
    assert!(told.contains("there is no MCP server `fils`; did you mean `files`?"), "{told}");
    command_output(home.run(&["tool", "list", "--mcp-server", "files"]));
}

#[test]
fn a_traversal_along_an_unknown_type_of_relationship_is_answered_with_the_nearest() {
    let home = home_with_agent();
    for key in ["ada", "bob"] {
        command_output(home.run(&["object", "create", "Person", key]));
    }
    command_output(home.run(&["relationship", "create", "Person/ada", "knows", "Person/bob"]));
    let traverse = |type_: &str| home.run(&["graph", "traverse", "Person/ada", "--type", type_]);
    let told = text(&traverse("knwos").stderr);
    assert!(told.contains("has the type `knwos`; did you mean `knows`?"), "{told}");
    assert_eq!(text(&traverse("knows").stderr), "");
}

#[test]
fn a_name_that_no_secret_can_have_is_refused_before_its_value_is_read() {
    let home = home_with_agent();
    for name in ["bad name", "lower"] {
        let told = failed(&home.run(&["secret", "set", name]));
        assert!(
            told.contains("a secret is named like GITHUB_TOKEN") && !told.contains("secret delete"),
            "{told}"
        );
    }
    let told = failed(&home.run(&["secret", "set", "GOOD"]));
    assert!(told.contains("the value of `GOOD` is empty"), "{told}");
}

#[test]
fn a_task_alone_has_a_key_that_a_workflow_can_keep() {
    let home = home_with_agent();
    let told = failed(&home.run(&["task", "add", "c d!"]));
    assert!(told.contains("key") && told.contains("must have 1 to 64 letters, digits"), "{told}");
    command_output(home.run(&["task", "add", "c-d.1"]));
}

#[test]
fn a_list_has_at_least_one_item() {
    let home = home_with_agent();
    let told = failed(&home.run(&["run", "list", "--limit", "0"]));
    assert!(told.contains("--limit: must be at least 1"), "{told}");
    command_output(home.run(&["run", "list", "--limit", "101"]));
}

#[test]
fn the_help_says_what_holds_for_the_command() {
    let home = home_with_agent();
    let help = |args: &[&str]| {
        let help = command_output(home.run(&[args, &["--help"]].concat()));
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let demo = help(&["demo"]);
    assert!(demo.contains("[default: ./emergent-demo]") && !demo.contains("./data]"), "{demo}");
    assert!(!help(&["serve"]).contains("--json"));
    assert!(help(&["run", "tool-calls"]).contains("held, running, completed, error"));
}
