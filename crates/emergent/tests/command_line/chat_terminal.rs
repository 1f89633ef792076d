//! `emergent chat` on a terminal: what a person sees, types and interrupts. Python makes the terminal.

use std::process::{Command, Output};

use serde_json::json;

use crate::{
    chat::home_with_talker,
    common::{Home, command_output, finish, text},
};

const CONVERSATION: &str = include_str!("terminal_conversation.py");

/// Runs a command on a terminal, which goes well. Each step waits for a text, and then types another. Returns all that
/// was written.
pub fn converse(home: &Home, args: &[&str], steps: &[(&str, &str)]) -> String {
    let output = converse_to_end(home, args, steps);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// As [`converse`], whatever the exit code is. It is 99 if a text did not appear.
pub fn converse_to_end(home: &Home, args: &[&str], steps: &[(&str, &str)]) -> Output {
    converse_through(home, &[], args, steps)
}

/// Runs a command on a terminal through a program, which gets it as its last arguments.
fn converse_through(home: &Home, program: &[&str], args: &[&str], steps: &[(&str, &str)]) -> Output {
    let direct = home.command(args);
    let mut command = Command::new("python3");
    command.args(["-c", CONVERSATION, &json!(steps).to_string()]).args(program).arg(direct.get_program());
    command.args(direct.get_args()).current_dir(home.folder()).env("NO_COLOR", "1").env("TERM", "xterm");
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finish(command)
}

#[test]
fn a_person_talks_opens_a_run_and_leaves() {
    let home = home_with_talker();
    let steps = [
        ("> ", "look\r"),
        ("✓ entities_query", ""),
        ("The first note is old.", ""),
        ("1. Note/old", ""),
        ("tokens in", ""),
        ("talker> ", "/open last\r"),
        ("completed", ""),
        ("talker> ", "one\\\r"),
        ("… ", "two\r"),
        ("You said: one", ""),
        ("two", ""),
        ("talker> ", "/quit\r"),
        ("to go on: emergent chat --conversation ", ""),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
}

#[test]
fn an_approval_is_asked_for_in_place() {
    let home = home_with_talker();
    let steps = [
        ("talker> ", "delete it\r"),
        ("✋ entities_delete waits for a person", ""),
        ("\"Note/old\"", ""),
        ("[a]pprove [e]dit [d]eny", "x"),
        ("`x` is none of the keys: [a]pprove [e]dit [d]eny", ""),
        ("[a]pprove [e]dit [d]eny", "a"),
        ("Really approve entities_delete? [y/N]", "y"),
        ("approved", ""),
        ("That is all.", ""),
        ("talker> ", "\u{4}"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    let gone = home.run(&["graph", "show", "Note/old"]);
    assert!(!gone.status.success(), "the note is deleted: {}", text(&gone.stdout));
}

#[test]
fn what_was_typed_before_the_keys_were_shown_approves_nothing() {
    let home = home_with_talker();
    let steps = [
        ("talker> ", "remove it\r"),
        ("I look", "and another thing"),
        ("[a]pprove [e]dit [d]eny", "?"),
        ("a  approve the call", ""),
        ("[a]pprove [e]dit [d]eny", "d"),
        ("reason", "\u{3}"),
        ("[a]pprove [e]dit [d]eny", "d"),
        ("reason", "no\r"),
        ("denied: no", ""),
        ("That is all.", ""),
        ("and another thing", "\r"),
        ("You said: and another thing", ""),
        ("talker> ", "/quit\r"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    command_output(home.run(&["graph", "show", "Note/old"]));
}

#[test]
fn an_input_is_changed_in_the_editor_before_it_is_approved() {
    let home = home_with_talker().with("EDITOR", "sed -i s/old/other/");
    command_output(home.run(&["object", "create", "Note", "other"]));
    let steps = [
        ("talker> ", "delete it\r"),
        ("[a]pprove [e]dit [d]eny", "e"),
        ("Really approve entities_delete? [y/N]", "y"),
        ("approved with another input", ""),
        ("talker> ", "\u{4}"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    command_output(home.run(&["graph", "show", "Note/old"]));
    assert!(!home.run(&["graph", "show", "Note/other"]).status.success(), "the other one is deleted");
}

#[test]
fn a_request_is_left_for_later_and_the_chat_is_left_at_once() {
    let home = home_with_talker();
    let steps = [
        ("talker> ", "delete it\r"),
        ("[a]pprove [e]dit [d]eny [l]ater [q]uit", "l"),
        ("It waits for a decision", ""),
        ("talker> ", "/follow\r"),
        ("[a]pprove [e]dit [d]eny [l]ater [q]uit", "/quit\r"),
        ("to go on: emergent chat --conversation ", ""),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    let left = "to go on: emergent chat --conversation ";
    let steps = [("talker> ", "slowly\r"), ("one two", "/quit\n"), (left, "")];
    let written = converse(&home, &["chat", "--agent", "talker"], &steps);
    assert!(!written.contains("twenty end"), "it left while the answer was written: {written}");
}

/// A terminal whose input comes from a file or another program ends right after the question.
#[test]
fn an_answer_is_printed_after_the_end_of_the_input() {
    let home = home_with_talker();
    let ended = "The input has ended";
    let steps = [
        ("talker> ", "slowly\r"),
        ("one two", "\u{4}"),
        (ended, ""),
        ("twenty end", ""),
        ("to go on: emergent chat --conversation ", ""),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    // A single answer reads nothing of the input.
    let steps = [("one two", "\u{4}"), ("twenty end", ""), ("to go on: ", "")];
    converse(&home, &["chat", "--agent", "talker", "slowly"], &steps);
    // Whoever goes on typing is answered.
    let steps = [
        ("talker> ", "slowly\r"),
        ("one two", "\u{4}"),
        (ended, "Hello\n"),
        ("twenty end", ""),
        ("You said: Hello", ""),
        ("talker> ", "/quit\r"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    let steps = [
        ("talker> ", "remove it\r"),
        ("I look", "\u{4}"),
        ("the answer waits for a person: `emergent inbox show", ""),
    ];
    let output = converse_to_end(&home, &["chat", "--agent", "talker"], &steps);
    assert_eq!(output.status.code(), Some(1), "the answer is elsewhere: {output:?}");
}

#[test]
fn the_number_of_an_option_answers_a_question() {
    let home = home_with_talker();
    let steps = [
        ("talker> ", "ask me\r"),
        ("2. blue", ""),
        ("[1-9] an option", "2"),
        ("answered", ""),
        ("The answer is blue.", ""),
        ("talker> ", "\u{4}"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
}

#[test]
fn ctrl_c_and_stop_end_the_answer_and_keep_what_was_said() {
    let home = home_with_talker();
    let steps = [
        ("talker> ", "slowly\r"),
        ("one two", "\u{3}"),
        ("✗ stopped by you; the text so far is kept", ""),
        ("talker> ", "slowly\r"),
        ("one two", "/stop\n"),
        ("✗ stopped", ""),
        ("talker> ", "Hello\r"),
        ("You said: Hello", ""),
        ("talker> ", "\u{3}"),
        ("Ctrl-C again", ""),
        ("talker> ", "/quit\r"),
    ];
    converse(&home, &["chat", "--agent", "talker"], &steps);
    let shown = command_output(home.run(&["conversation", "show", "last"]));
    assert!(shown.contains("assistant  stopped"), "{shown}");
    assert!(shown.contains("one two") && !shown.contains("twenty end"), "{shown}");
}

/// Runs the command that it gets, and then reads a line, as a shell reads the next command.
const SHELL: &[&str] = &["sh", "-c", r#""$0" "$@"; read -r line; echo "the shell read: $line""#];

#[test]
fn what_was_typed_after_a_single_question_is_read_by_the_shell() {
    let home = home_with_talker();
    let typed = ("", "the next command\r");
    let steps = [typed, ("You said: Hello", ""), ("the shell read: the next command", "")];
    let output = converse_through(&home, SHELL, &["chat", "Hello", "--agent", "talker"], &steps);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn an_approval_of_a_single_question_does_not_take_the_next_command() {
    let home = home_with_talker();
    let steps = [
        ("", "the next command\r"),
        ("✋ entities_delete waits for a person", ""),
        ("nothing is asked", ""),
        ("the shell read: the next command", ""),
    ];
    let output = converse_through(&home, SHELL, &["chat", "delete it", "--agent", "talker"], &steps);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let steps = [
        ("[a]pprove [e]dit [d]eny", "a"),
        ("Really approve entities_delete? [y/N]", "y"),
        ("That is all.", ""),
        ("to go on: ", "the next command\r"),
        ("the shell read: the next command", ""),
    ];
    command_output(home.run(&["inbox", "deny", "last", "--reason", "later"]));
    let output = converse_through(&home, SHELL, &["chat", "delete it", "--agent", "talker"], &steps);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn the_run_of_something_else_is_not_the_last_one_of_a_new_chat() {
    let home = home_with_talker();
    command_output(home.run(&["agent", "trigger", "talker", "--input", "elsewhere", "--follow"]));
    let steps = [
        ("Ctrl-D leaves", "/open last\r"),
        ("Nothing was said yet.", "/open\r"),
        ("Nothing was said yet.", "\x04"),
    ];
    let told = converse(&home, &["chat", "--agent", "talker"], &steps);
    assert!(!told.contains("elsewhere"), "{told}");
}
