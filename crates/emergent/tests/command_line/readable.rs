//! What commands print for people: values as lines, whole names and defaults, and errors that say what to do.

use crate::{
    chat::home_with_talker,
    common::{command_output, failed, text},
    home_with_agent,
    terminal::on_terminal,
};

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
