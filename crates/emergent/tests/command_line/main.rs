//! What a person at a terminal relies on: names and short ids, suggestions, what Ctrl-C means, folders that are
//! not created by mistake, chats, output that fits the terminal, and the files that `make install` puts in place.

#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod agents;
mod chat;
mod chat_sample;
mod chat_stream;
mod chat_terminal;
mod eval;
mod files;
mod flows;
mod graph_output;
mod inbox_last;
mod inbox_review;
mod interrupt;
mod last_of_graph;
mod lists;
mod login;
mod messages;
mod mistakes;
mod names;
mod newcomer;
mod newcomer_postgres;
mod packaging;
mod readable;
mod rehearsals;
mod resources;
mod search;
mod settings;
mod terminal;
mod tokens;
mod width;
mod without_server;

use common::Home;

/// A definition whose model repeats the input.
pub const ECHO: &str = r#"{ "name": "echo", "systemPrompt": "You repeat.",
    "model": { "provider": "rehearsal", "name": "echo" } }"#;

/// A folder with an agent `echo`, without a server.
pub fn home_with_agent() -> Home {
    let home = Home::sqlite();
    write(&home, "echo.json", ECHO);
    common::command_output(home.run(&["agent", "apply", "echo.json"]));
    home
}

pub fn write(home: &Home, name: &str, content: &str) {
    std::fs::write(home.folder().join(name), content).expect("a file");
}
