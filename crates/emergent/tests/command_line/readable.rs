//! What commands print for people: values as lines, whole names and defaults, and errors that say what to do.

use serde_json::json;

use crate::{
    chat::home_with_talker,
    common::{Home, command_output, failed, json_of, text},
    home_with_agent,
    terminal::{on_terminal, written_lines},
    write,
};

#[test]
fn an_object_is_shown_with_a_line_for_each_property() {
    let home = Home::sqlite();
    let properties =
        r#"{"name":"Ada King","born":1815,"address":{"city":"London","houses":["Ockham","St James"]}}"#;
    command_output(home.run(&["object", "create", "Person", "ada", "--properties", properties]));
    let shown = command_output(home.run(&["graph", "show", "Person/ada"]));
    assert!(shown.starts_with("Person/ada  Ada King\n  id           "), "{shown}");
    for line in [
        "  name  Ada King\n",
        "  born  1815\n",
        "  address\n    city    London\n    houses  Ockham, St James\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains('{') && shown.contains("version      1, by token admin ("), "{shown}");
    assert_eq!(json_of(home.run(&["graph", "show", "Person/ada", "--json"]))["properties"]["born"], 1815);
    let long = "a reason that is long enough to need several lines on any terminal ".repeat(4);
    command_output(home.run(&["object", "update", "Person/ada", "--set", &format!("why={long}")]));
    let lines =
        written_lines(&text(&on_terminal(&home, (24, 60), "", &["object", "show", "Person/ada"]).stdout));
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("  why   a reason that")), "{lines:#?}");
}

#[test]
fn an_agent_is_shown_with_its_defaults_and_its_approvals_in_words() {
    let home = home_with_talker();
    let shown = command_output(home.run(&["agent", "show", "talker"]));
    assert!(shown.contains("  timeout      300 s (default)\n"), "{shown}");
    assert!(shown.contains("  approvals    ask: entities_delete\n"), "{shown}");
    write(&home, "other.yaml", "name: other\ndefaultTimeout: 60\nmaxSteps: 4\n");
    command_output(home.run(&["agent", "apply", "other.yaml"]));
    let shown = command_output(home.run(&["agent", "show", "other"]));
    assert!(shown.contains("  max steps    4\n") && shown.contains("  timeout      60 s\n"), "{shown}");
}

#[test]
fn a_list_of_what_waits_names_what_is_deleted() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    let listed = text(&on_terminal(&home, (24, 80), "", &["inbox", "list"]).stdout);
    assert!(listed.contains("entities_delete") && listed.contains("Note/old"), "{listed}");
}

#[test]
fn a_list_of_runs_shows_more_of_the_summary_than_a_word() {
    let home = home_with_agent();
    let said = "It is a summary that says something about patterns";
    command_output(home.run(&["agent", "trigger", "echo", "--follow", "--input", said]));
    let listed = text(&on_terminal(&home, (24, 80), "", &["run", "list"]).stdout);
    assert!(listed.contains("It is a summary that"), "{listed}");
}

#[test]
fn a_review_is_listed_with_its_verdict() {
    let home = Home::sqlite();
    command_output(home.run(&["object", "create", "CodeReview", "--set", "verdict=APPROVE"]));
    let listed = command_output(home.run(&["object", "list"]));
    assert!(listed.contains("CodeReview/") && listed.contains("APPROVE"), "{listed}");
}

#[test]
fn a_limit_that_is_not_named_stays() {
    let home = home_with_agent();
    let set = |args: &[&str]| json_of(home.run(&[&["budget", "set", "--json"], args].concat()));
    set(&["--usd", "20"]);
    assert_eq!(
        set(&["--tokens", "1000000"])["project"]["limit"],
        json!({ "usd": 20.0, "tokens": 1_000_000 })
    );
    assert_eq!(set(&["--usd", "5"])["project"]["limit"], json!({ "usd": 5.0, "tokens": 1_000_000 }));
    set(&["--agent", "echo", "--tokens", "7"]);
    let limits = set(&["--agent", "echo", "--usd", "1"]);
    assert_eq!(limits["agents"][0]["limit"], json!({ "usd": 1.0, "tokens": 7 }));
    assert_eq!(set(&["--none"])["project"]["limit"], json!({ "usd": null, "tokens": null }));
    let shown = text(&on_terminal(&home, (24, 80), "", &["budget", "show"]).stdout);
    assert!(shown.contains("$0.00 of $1.00, 0 of 7 tokens"), "{shown}");
}

#[test]
fn a_task_with_blockers_asks_for_the_flag_of_the_workflow() {
    let home = home_with_agent();
    let refused = failed(&home.run(&["task", "add", "t2", "--blocked-by", "t1"]));
    assert!(refused.contains("--workflow") && !refused.contains("workflowId"), "{refused}");
}

#[test]
fn a_task_outside_of_workflows_is_named_by_its_key_wherever_a_task_is_named() {
    let home = home_with_agent();
    command_output(home.run(&["task", "add", "find"]));
    command_output(home.run(&["task", "add", "build", "--blocked-by", "find"]));
    let shown = command_output(home.run(&["task", "show", "SpecTask/build"]));
    assert!(shown.starts_with("build  pending"), "{shown}");
    let plan =
        command_output(home.run(&["dispatch", "--from-graph", "--root", "SpecTask/build", "--dry-run"]));
    let (find, build) = (plan.find("find"), plan.find("build"));
    assert!(find.is_some() && find < build, "{plan}");
    assert!(failed(&home.run(&["task", "show", "SpecTask/nobody"])).contains("SpecTask/nobody"));
}

#[test]
fn a_dry_run_says_of_each_file_what_is_wrong() {
    let home = home_with_agent();
    write(&home, "broken.yaml", "name: [\n");
    write(&home, "wrong.yaml", "name: third\ntools: [no_such_tool]\n");
    write(&home, "right.yaml", "name: second\n");
    let tried = home.run(&["agent", "apply", "--dry-run", "broken.yaml", "wrong.yaml", "right.yaml"]);
    let told = failed(&tried);
    assert!(told.contains("`broken.yaml` cannot be read"), "{told}");
    assert!(told.contains("`wrong.yaml`: ") && told.contains("no_such_tool"), "{told}");
    assert_eq!((told.matches("wrong.yaml").count(), told.matches("right.yaml").count()), (1, 0), "{told}");
    let alone = failed(&home.run(&["agent", "apply", "--dry-run", "wrong.yaml"]));
    assert_eq!(alone.matches("wrong.yaml").count(), 1, "{alone}");
    let applied = failed(&home.run(&["agent", "apply", "wrong.yaml", "right.yaml"]));
    assert!(applied.contains("`wrong.yaml`: ") && !applied.contains("right.yaml"), "{applied}");
    assert!(told.contains("2 of 3 files cannot be applied"), "{told}");
    assert!(text(&tried.stdout).contains("second would be created (version 1)\n"), "{}", text(&tried.stdout));
}

#[test]
fn the_history_of_a_relationship_names_its_ends() {
    let home = Home::sqlite();
    for person in ["ada", "mary"] {
        command_output(home.run(&["object", "create", "Person", person]));
    }
    command_output(home.run(&["relationship", "create", "Person/ada", "knows", "Person/mary"]));
    let history = command_output(home.run(&["relationship", "history", "last"]));
    assert!(history.starts_with("knows Person/ada → Person/mary\n"), "{history}");
}

#[test]
fn several_errors_of_a_file_are_a_line_each() {
    let home = home_with_agent();
    write(
        &home,
        "tasks.yaml",
        "- { key: a, title: a, complexity: 11 }\n- { key: b, title: b, complexity: 12 }\n",
    );
    let refused = failed(&home.run(&["dispatch", "--tasks", "tasks.yaml", "--dry-run"]));
    assert!(refused.contains(" fields are wrong:\n  `"), "{refused}");
    assert!(refused.contains("\n  `tasks[1].complexity`: "), "{refused}");
}

#[test]
fn an_import_of_another_format_names_the_one_that_is_read() {
    let home = home_with_agent();
    for content in ["name,born\nAda,1815\n", "[{\"kind\":\"object\"}]\n"] {
        write(&home, "people.csv", content);
        let imported = home.run(&["graph", "import", "people.csv"]);
        assert!(!imported.status.success());
        let said = text(&imported.stdout);
        assert!(said.contains("NDJSON") && said.contains(r#"{"kind":"object","type":"Person""#), "{said}");
    }
}

#[test]
fn an_import_whose_lines_have_the_right_form_is_not_told_which_one_to_have() {
    let home = home_with_agent();
    let import = |content: &str| {
        write(&home, "people.ndjson", content);
        let imported = home.run(&["graph", "import", "people.ndjson"]);
        assert!(!imported.status.success());
        text(&imported.stdout)
    };
    for line in [
        json!({ "kind": "object", "type": "bad type", "key": "ada" }),
        json!({ "kind": "object", "type": "Person", "key": "ada", "weight": 1 }),
        json!({ "kind": "relationship", "type": "knows", "from": { "type": "Person", "key": "x" },
                "to": { "type": "Person", "key": "y" } }),
    ] {
        let said = import(&line.to_string());
        assert!(
            said.contains("  line 1: ") && !said.contains("NDJSON") && !said.contains("looks like"),
            "{said}"
        );
    }
    let said = import(r#"{"type":"Person","key":"ada"}"#);
    assert!(said.contains("A line looks like this: ") && !said.contains("NDJSON"), "{said}");
}

#[test]
fn an_empty_list_of_triggers_names_a_command() {
    let home = home_with_agent();
    let said = command_output(home.run(&["trigger", "list"]));
    assert!(said.contains("emergent trigger save") && !said.contains("docs/"), "{said}");
}

#[test]
fn a_backup_says_what_it_has_in_lines_that_fit() {
    let home = home_with_agent();
    let columns = 50;
    let copy = home.folder().join("copy.db");
    let copy = copy.to_string_lossy();
    let said = text(&on_terminal(&home, (24, columns), "", &["backup", &copy]).stdout);
    let lines = written_lines(&said);
    let is_wide = |line: &&String| line.chars().count() > columns && line.contains(' ');
    assert!(lines.iter().filter(is_wide).all(|line| line.contains("copying")), "{lines:#?}");
    assert!(said.contains("0 documents") && said.contains("secrets is not in it"), "{lines:#?}");
}
