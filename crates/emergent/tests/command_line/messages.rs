//! Errors in the words of the command line, and commands that show one thing.

use serde_json::json;

use crate::{
    chat::home_with_talker,
    common::{Home, command_output, failed, json_of, text},
    home_with_agent,
    terminal::{on_terminal, written_lines},
    write,
};

#[test]
fn an_error_names_the_flag_that_was_typed() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Person", "ada"]));
    let check = |args: &[&str], expected: &str| {
        let told = failed(&home.run(args));
        assert!(told.contains(expected), "{args:?}: {told}");
    };
    check(&["graph", "traverse", "Person/ada", "--depth", "99"], "error: --depth: must be 0 to 16");
    check(&["object", "list", "--as-of", "yesterday"], "error: --as-of: expected a time");
    check(&["agent", "trigger", "echo", "--input", "x", "--timeout", "0"], "error: --timeout: must be 1");
    let trigger = ["agent", "trigger", "echo", "--input", "x"];
    let check_trigger = |args: &[&str], expected: &str| check(&[&trigger, args].concat(), expected);
    check_trigger(&["--max-total-tokens", "0"], "error: --max-total-tokens: must be at least 1");
    check(&["dispatch", "x", "--max-concurrent", "0"], "--max-concurrent: must be 1");
    check(&["embeddings", "measure", "--embeddings", "foo"], "error: --embeddings: unknown embeddings `foo`");
    let early = ["graph", "traverse", "Person/ada", "--as-of", "2020-01-01T00:00:00Z"];
    check(&early, "`Person/ada` did not exist at 2020-01-01T00:00:00Z");
    check(&["graph", "traverse", "Person/ada", "--as-of", "24h"], "`Person/ada` did not exist 24h ago");
    check(&["object", "create", "Article/x"], "emergent object create Article x");
    check(&["agent", "create", "echo.json"], "`emergent agent apply echo.json` changes it");
    check(&["restore", "nope.db", "--data-dir", "other"], "there is no file `nope.db`");
    let same = command_output(home.run(&["object", "update", "Person/ada"]));
    assert!(same.contains("is unchanged, version 1"), "{same}");
}

#[test]
fn a_long_result_is_shown_from_its_beginning_with_the_command_that_shows_all() {
    let home = home_with_talker();
    for key in 0..9 {
        let text = "word".repeat(20);
        command_output(home.run(&[
            "object",
            "create",
            "Note",
            &format!("note-{key}"),
            "--set",
            &format!("t={text}"),
        ]));
    }
    command_output(home.run(&["agent", "trigger", "talker", "--input", "look", "--follow"]));
    for width in [80, 40] {
        let shown = text(&on_terminal(&home, (24, width), "", &["run", "messages", "last"]).stdout);
        let lines = written_lines(&shown);
        assert!(lines.iter().any(|line| line.starts_with(r#"  {"objects":[{"#)), "{shown}");
        let command = lines.last().expect("lines").clone();
        assert!(command.contains("emergent run tool-calls ") && command.ends_with(" --full"), "{shown}");
        assert!(lines.iter().all(|line| *line == command || line.chars().count() <= width), "{shown}");
    }
    let all = command_output(home.run(&["run", "tool-calls", "last", "--full"]));
    assert!(all.contains("note-8") && all.contains("note-0"), "{all}");
}

/// JSON has no such numbers: they would be sent as null, which takes a limit away.
#[test]
fn a_number_that_is_not_finite_is_refused() {
    let home = home_with_agent();
    for number in ["nan", "inf", "1e999"] {
        for args in [
            &["workflow", "budget", "last", "--tokens", "5", "--usd", number][..],
            &["workflow", "resume", "last", "--budget-usd", number],
            &["dispatch", "Greet.", "--budget-usd", number],
            &["budget", "set", "--usd", number],
            &["relationship", "create", "Person/ada", "knows", "Person/bob", "--weight", number],
            &["graph", "search", "ada", "--min-similarity", number],
        ] {
            let told = failed(&home.run(args));
            assert!(told.contains("it is not a finite number"), "{args:?}: {told}");
        }
    }
}

#[test]
fn a_time_is_given_as_a_moment_or_as_for_how_long_before_now() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Person", "ada"]));
    for (args, flag) in [
        (&["audit"][..], "--since"),
        (&["audit"], "--until"),
        (&["object", "list"], "--as-of"),
        (&["graph", "traverse", "Person/ada"], "--as-of"),
        (&["run", "list"], "--since"),
    ] {
        for moment in ["0s", "2126-01-31T08:00:00Z"] {
            command_output(home.run(&[args, &[flag, moment]].concat()));
        }
        let told = failed(&home.run(&[args, &[flag, "yesterday"]].concat()));
        assert!(told.contains(&format!("{flag}: expected a time")) && told.contains("7d"), "{told}");
    }
    let listed = json_of(home.run(&["object", "list", "--as-of", "1h", "--json"]));
    assert_eq!(listed, json!([]), "an hour ago there was none");
    let changes = json_of(home.run(&["audit", "--since", "1h", "--json"]));
    assert!(!changes.as_array().expect("a list").is_empty());
    assert_eq!(json_of(home.run(&["audit", "--until", "1h", "--json"])), json!([]));
}

#[test]
fn the_address_of_a_database_is_refused_with_the_setting_it_came_from() {
    let home = Home::sqlite();
    let told = failed(&home.run(&["run", "list", "--database-url", "postgres://me:pw@127.0.0.1:1/x"]));
    assert!(told.contains("`--database-url`") && !told.contains("pw@"), "{told}");
    assert!(told.contains("PostgreSQL does not answer at 127.0.0.1:1"), "{told}");
    let home = home.with("EMERGENT_DATABASE_URL", "mysql://x/y");
    let told = failed(&home.run(&["run", "list"]));
    assert!(told.contains("`EMERGENT_DATABASE_URL`") && told.contains("start with postgres://"), "{told}");
    assert!(failed(&home.run(&["demo"])).contains("unset EMERGENT_DATABASE_URL"));
}

#[test]
fn models_without_credentials_are_refused_with_the_ways_out_once() {
    let home = Home::sqlite();
    for (name, provider) in [("a", "google"), ("b", "openai")] {
        let agent = json!({ "name": name, "model": { "provider": provider, "name": "m" } });
        write(&home, "agent.json", &agent.to_string());
        command_output(home.run(&["agent", "apply", "agent.json"]));
    }
    let told = failed(&home.run(&["agent", "trigger", "a", "--input", "x"]));
    assert!(told.contains("--model provider/name"), "{told}");
    let told = failed(&home.run(&["agent", "trigger", "a", "--input", "x", "--model", "openai/m"]));
    assert!(
        !told.contains("--model") && told.contains("OPENAI_API_KEY"),
        "whoever named a model knows it: {told}"
    );
    let task = |key: &str| json!({ "key": key, "title": key, "assignedAgent": key });
    write(&home, "plan.json", &json!([task("a"), task("b")]).to_string());
    let told = failed(&home.run(&["dispatch", "--tasks", "plan.json"]));
    assert!(told.contains("`a` (`google/m`), `b` (`openai/m`)"), "{told}");
    assert!(told.contains("`GEMINI_API_KEY` and `OPENAI_API_KEY`"), "{told}");
    assert_eq!(told.matches("--model provider/name").count(), 1, "{told}");
}

#[test]
fn a_task_with_the_key_of_another_one_is_added_with_a_warning() {
    let home = home_with_agent();
    let add = |args: &[&str]| {
        let output = home.run(&[&["task", "add"][..], args].concat());
        let warning = text(&output.stderr);
        (command_output(output), warning)
    };
    assert_eq!(add(&["design"]).1, "");
    command_output(home.run(&["task", "skip", "design"]));
    // A task that has ended has its key still.
    let (_, warning) = add(&["design"]);
    assert!(warning.contains("has the key design as well, so commands need the id of this one"), "{warning}");
    let refused = failed(&home.run(&["task", "show", "design"]));
    assert!(refused.contains("is the name of 2 tasks"), "{refused}");
    assert_eq!(add(&["review"]).1, "");
}

#[test]
fn a_misspelt_word_of_any_flag_is_answered_with_the_nearest_one() {
    let home = home_with_agent();
    for (args, expected) in [
        (&["inbox", "list", "--status", "pendin"][..], "did you mean `pending`?"),
        (&["inbox", "list", "--kind", "aproval"], "did you mean `approval`?"),
        (&["discussion", "list", "--status", "abandned"], "did you mean `abandoned`?"),
        (&["trigger", "firings", "--status", "admited"], "did you mean `admitted`?"),
        (
            &["project", "update", "default", "--discussion-kind", "consesus"],
            "--discussion-kind: must be one of",
        ),
        (&["project", "update", "default", "--discussion-kind", "consesus"], "did you mean `consensus`?"),
    ] {
        let told = failed(&home.run(args));
        assert!(told.contains(expected), "{args:?}: {told}");
        assert_eq!(told.matches("did you mean").count(), 1, "{args:?}: {told}");
    }
}

#[test]
fn one_task_and_the_relationships_of_an_object_are_shown() {
    let home = home_with_agent();
    command_output(home.run(&["task", "add", "design", "--title", "Design it"]));
    let shown = command_output(home.run(&["task", "show", "design"]));
    assert!(shown.starts_with("design  pending") && shown.contains("Design it"), "{shown}");
    assert_eq!(json_of(home.run(&["task", "show", "design", "--json"]))["key"], "design");
    let absent = "01990000-0000-7000-8000-000000000000";
    assert!(failed(&home.run(&["task", "show", absent])).contains("there is no task"));

    let person = |key: &str| json!({ "type": "Person", "key": key });
    let edge = |from: &str, to: &str| json!({ "kind": "relationship", "type": "knows", "from": person(from), "to": person(to) });
    let object = |key: &str| json!({ "kind": "object", "type": "Person", "key": key });
    let lines = [
        object("ada"),
        object("charles"),
        edge("ada", "charles"),
        edge("charles", "ada"),
        edge("ada", "ada"),
    ];
    write(&home, "people.ndjson", &lines.map(|line| line.to_string()).join("\n"));
    command_output(home.run(&["graph", "import", "people.ndjson"]));
    let count = |direction: &str| {
        let listed = home.run(&["relationship", "list", "Person/ada", "--direction", direction]);
        command_output(listed).lines().count() - 1
    };
    assert_eq!((count("out"), count("in"), count("both")), (2, 2, 3), "the loop is listed once");
    let listed = command_output(home.run(&["relationship", "list", "Person/charles", "--direction", "out"]));
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[1..4], ["Person/charles", "knows", "Person/ada"], "{listed}");
}
