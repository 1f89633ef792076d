//! `emergent chat` in scripts, and `emergent conversation`.

use std::{fs::File, process::Output};

use serde_json::Value;

use crate::{
    common::{Home, command_output, failed, finish, json_of, text},
    write,
};

const SCRIPT: &str = r#"
rules:
  - when: { tool_result: entities_delete }
    answer: { text: That is all. }
  - when: { tool_result: entities_query }
    answer: { text: "The first note is {{result.objects.0.key}}." }
  - when: { contains: fail }
    fault: auth
  - when: { tool_result: ask_user }
    answer: { text: "The answer is {{result.answer}}." }
  - when: { contains: ask me }
    answer: { calls: [{ tool: ask_user, input: { question: Which colour?, options: [red, blue] } }] }
  - when: { contains: remove }
    chunk_delay_ms: 100
    answer: { text: "I look at it once more and then I delete it for good and all.", calls: [{ tool: entities_delete, input: { id: "Note/old" } }] }
  - when: { contains: delete }
    answer: { text: I remove it., calls: [{ tool: entities_delete, input: { id: "Note/old" } }] }
  - when: { contains: both }
    answer: { calls: [{ tool: entities_delete, input: { id: "Note/old" } }, { tool: entities_delete, input: { id: "Note/other" } }] }
  - when: { contains: look }
    answer: { calls: [{ tool: entities_query, input: { type: Note } }] }
  - when: { contains: slowly }
    chunk_delay_ms: 100
    answer: { text: "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty end" }
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;
const TALKER: &str = r#"{ "name": "talker", "tools": ["entities_*", "ask_user"],
    "model": { "provider": "rehearsal", "name": "talk" },
    "approvals": [{ "tools": ["entities_delete"], "action": "ask" }] }"#;

/// A folder with a note and an agent that talks, without a server.
pub fn home_with_talker() -> Home {
    let home = Home::sqlite();
    std::fs::create_dir_all(home.data().join("rehearsals")).expect("a folder");
    std::fs::write(home.data().join("rehearsals/talk.yaml"), SCRIPT).expect("a script");
    write(&home, "talker.json", TALKER);
    command_output(home.run(&["agent", "apply", "talker.json"]));
    command_output(home.run(&["object", "create", "Note", "old"]));
    home
}

fn run_with_input(home: &Home, args: &[&str], input: &str) -> Output {
    write(home, "input", input);
    let mut command = home.command(args);
    command.stdin(File::open(home.folder().join("input")).expect("a file"));
    finish(command)
}

#[test]
fn without_an_agent_and_a_model_it_is_said_how_to_be_answered() {
    let home = home_with_talker();
    let told = failed(&home.run(&["chat", "Hello"]));
    assert!(
        told.contains("no default agent") && told.contains("`--agent NAME` (there are `talker`)"),
        "{told}"
    );
    assert!(told.contains("emergent product install emergent.memory"), "{told}");
    assert!(told.contains("EMERGENT_MODEL") && !told.contains("definition"), "{told}");
}

#[test]
fn a_question_in_a_script_prints_the_answer_and_nothing_else() {
    let home = home_with_talker();
    let output = home.run(&["chat", "Hello", "--agent", "talker"]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(command_output(output), "You said: Hello\n");
    let answer: Value = json_of(home.run(&["chat", "look", "--conversation", "last", "--json"]));
    assert_eq!(answer["content"], "The first note is old.");
    assert_eq!(answer["status"], "completed");
    assert_eq!(answer["citations"][0]["key"], "old", "{answer}");
    let piped = run_with_input(&home, &["chat", "-", "-c", "last"], "From\na pipe\n");
    assert_eq!(command_output(piped), "You said: From\na pipe\n");
    let listed: Value = json_of(home.run(&["conversation", "list", "--json"]));
    assert_eq!(listed.as_array().expect("a list").len(), 1, "one conversation: {listed}");
    assert_eq!(listed[0]["messageCount"], 6, "{listed}");
}

#[test]
fn with_json_standard_output_has_only_lines_of_json_whatever_the_commands_print() {
    let home = home_with_talker();
    let input = "/help\nHello\n/agents\n/history\n/open\n/follow\n/stop\n/new\nAgain\n";
    let output = run_with_input(&home, &["chat", "--agent", "talker", "--json"], input);
    let texts = text(&output.stderr);
    let answers: Vec<Value> = command_output(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let contents: Vec<&str> = answers.iter().filter_map(|answer| answer["content"].as_str()).collect();
    // `/follow` repeats the newest answer.
    assert_eq!(contents, ["You said: Hello", "You said: Hello", "You said: Again"]);
    for part in
        ["/agents", "* talker", "You said: Hello", "No answer is being written.", "A new conversation"]
    {
        assert!(texts.contains(part), "{part}: {texts}");
    }
}

#[test]
fn a_script_without_a_message_is_told_so() {
    let home = home_with_talker();
    for input in ["", "\n \n"] {
        let told = failed(&run_with_input(&home, &["chat", "--agent", "talker"], input));
        assert!(
            told.contains("nothing was sent: no message was given, and standard input is empty"),
            "{told}"
        );
        assert!(told.contains("`emergent chat 'MESSAGE'`"), "{told}");
    }
    command_output(run_with_input(&home, &["chat", "--agent", "talker"], "/agents\n"));
}

#[test]
fn an_answer_that_failed_is_an_error_with_its_reason() {
    let home = home_with_talker();
    let told = failed(&home.run(&["chat", "fail", "--agent", "talker"]));
    assert!(told.contains("error: the answer failed ("), "{told}");
    let unknown = failed(&home.run(&["chat", "Hello", "--agent", "talkre"]));
    assert!(unknown.contains("did you mean `talker`?"), "{unknown}");
    let none = failed(&home.run(&["chat", "Hello", "--conversation", "last2"]));
    assert!(none.contains("there is no conversation `last2`"), "{none}");
    let long = run_with_input(&home, &["chat", "-", "--agent", "talker"], &"x".repeat(70_000));
    assert!(failed(&long).contains("longer than 65536 bytes"), "{long:?}");
}

#[test]
fn an_answer_that_waits_for_a_person_ends_a_script_with_the_commands_that_decide() {
    let home = home_with_talker();
    let told = failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    assert!(told.contains("waits for a person") && told.contains("emergent inbox show "), "{told}");
    let again = failed(&home.run(&["chat", "Hello", "--conversation", "last"]));
    for part in ["waits for a person", "emergent inbox show ", "emergent chat -c ", "--queue"] {
        assert!(again.contains(part), "{part}: {again}");
    }
    let shown = command_output(home.run(&["conversation", "show", "last"]));
    assert!(shown.contains("waiting for a person") && shown.contains("I remove it."), "{shown}");
    let request = command_output(home.run(&["inbox", "show", "last"]));
    for part in ["delete it", "I remove it.", "emergent inbox edit ", "emergent inbox deny "] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let is_pastable = |line: &str| !line.starts_with("emergent ") || !line.contains('[');
    assert!(request.lines().all(is_pastable), "{request}");
    command_output(home.run(&["inbox", "deny", "last", "--reason", "we need it"]));
    let newest = json_of(home.run(&["inbox", "list", "--all", "--json"]))[0]["id"].clone();
    let decided = failed(&home.run(&["inbox", "approve", newest.as_str().expect("an id")]));
    assert!(decided.contains("entities_delete was already denied (by "), "{decided}");
    let rest = run_with_input(&home, &["chat", "--conversation", "last"], "Thanks\n");
    let shown = command_output(rest);
    assert!(shown.contains("That is all.") && shown.contains("You said: Thanks"), "{shown}");
}

#[test]
fn each_line_of_a_pipe_is_a_message_or_a_command() {
    let home = home_with_talker();
    let input = "Hello\n//etc\nlook\n/agents\n/history\n/open last\n/new\nAgain\n";
    let output = run_with_input(&home, &["chat", "--agent", "talker"], input);
    assert!(text(&output.stderr).contains(" tokens in, "), "{output:?}");
    let shown = command_output(output);
    let is_footer = |line: &str| line.contains(" tokens in, ") && line.contains("  run ");
    assert!(!shown.lines().any(is_footer), "what it cost is not among the answers: {shown}");
    for part in [
        "You said: Hello\n",
        "You said: /etc\n",
        "✓ entities_query  {\"type\":\"Note\"}  ",
        "The first note is old.\n",
        "1. Note/old",
        "→ emergent graph show Note/old",
        "* talker",
        "You said: Again\n",
    ] {
        assert!(shown.contains(part), "{part:?} is missing:\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "no colour: {shown:?}");
    let listed: Value = json_of(home.run(&["conversation", "list", "--json"]));
    assert_eq!(listed.as_array().expect("a list").len(), 2, "/new begins another one");
    let bad = run_with_input(&home, &["chat", "--agent", "talker"], "/hepl\n");
    assert!(failed(&bad).contains("there is no command `/hepl`; did you mean `/help`?"), "{bad:?}");
    let lines = run_with_input(&home, &["chat", "--agent", "talker", "--json"], "One\nTwo\n");
    let answers: Vec<Value> =
        command_output(lines).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers[1]["content"], "You said: Two", "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_are_listed_shown_renamed_exported_and_deleted_on_a_server() {
    let home = home_with_talker();
    let server = home.start().await;
    let args =
        ["chat", "Hello", "--agent", "talker", "--server", server.url(), "--token", crate::common::TOKEN];
    assert_eq!(command_output(home.run(&args)), "You said: Hello\n");
    let renamed = command_output(home.run(&["conversation", "rename", "last", "Small talk"]));
    assert!(renamed.contains("is now called Small talk"), "{renamed}");
    let listed: Value = json_of(home.run(&["conversation", "list", "--json"]));
    let id = listed[0]["id"].as_str().expect("an id").to_owned();
    let shown = command_output(home.run(&["conversation", "show", &id[28..]]));
    for part in ["Small talk", "talker", "user", "Hello", "assistant", "You said: Hello"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let exported = command_output(home.run(&["conversation", "export", "last"]));
    assert!(exported.contains("Small talk") && exported.contains("You said: Hello"), "{exported}");
    command_output(home.run(&["conversation", "export", "last", "--format", "jsonl", "-o", "talk.jsonl"]));
    let lines = std::fs::read_to_string(home.folder().join("talk.jsonl")).expect("a file");
    assert!(
        lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) && lines.contains("You said")
    );
    command_output(home.run(&["conversation", "delete", "last"]));
    let none = failed(&home.run(&["conversation", "show", "last"]));
    assert!(none.contains("there is no conversation yet"), "{none}");
}
