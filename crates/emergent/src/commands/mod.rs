//! The subcommands of `emergent`, one module each, and what they share.

pub mod agent;
pub mod audit;
pub mod backup;
pub mod budget;
pub mod chat;
pub mod completions;
mod confirm;
pub mod conversation;
pub mod demo;
pub mod discussion;
pub mod dispatch;
pub mod doctor;
pub mod document;
mod editor;
pub mod embeddings;
pub mod eval;
pub mod extract_document;
pub mod graph;
pub mod health;
mod history;
pub mod inbox;
pub mod login_link;
pub mod mcp;
pub mod mcp_server;
mod moment;
mod newest;
mod number;
pub mod object;
mod object_types;
pub mod pack;
mod paused_schedule;
mod pending_embeddings;
pub mod product;
pub mod project;
pub mod relationship;
mod resolve;
mod revert;
mod reverted_runs;
pub mod run;
mod run_bulk;
mod search;
pub mod secret;
pub mod task;
pub mod token;
pub mod tool;
mod tool_calls;
pub mod transfer;
mod traversal;
mod tree;
pub mod trigger;
pub mod watch;
mod watch_run;
mod watch_workflow;
pub mod workflow;

pub use resolve::suggestion;

use std::{io::Read, path::Path};

use emergent_domain::foreign_json;
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::error::{Error, Result};

/// Parses the value of a flag as a type of the API; the error names the flag. `None` when it is not given.
fn parse_flag<T: DeserializeOwned>(flag: &str, value: Option<&str>) -> Result<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    let parsed = T::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(value));
    parsed.map(Some).map_err(|error| {
        Error::Usage(match expected_words(&error.to_string()) {
            Some(words) => {
                let suggestion = resolve::suggestion(value, words.iter().map(String::as_str));
                format!("{flag}: `{value}` is not one of {}{suggestion}", words.join(", "))
            }
            None => format!("{flag} `{value}`: {error}"),
        })
    })
}

/// The words that serde expected, from its message about a word that it does not know.
fn expected_words(message: &str) -> Option<Vec<String>> {
    let (_, words) = message.strip_prefix("unknown variant ")?.split_once(", expected ")?;
    Some(words.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Percent-encodes a value for a path segment or a query.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// Reads a file; `-` is standard input.
fn read_text_file(path: &Path) -> Result<String> {
    let failed = |source| Error::input_file(path, source);
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path).map_err(failed);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads JSON from a file; `-` is standard input.
fn read_json_file<T: DeserializeOwned>(path: &Path) -> Result<T> {
    foreign_json::from_str(&read_text_file(path)?)
        .map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use emergent_domain::task::Priority;

    use super::*;

    #[test]
    fn an_unknown_word_of_a_flag_is_answered_with_the_words_there_are() {
        let error = parse_flag::<Priority>("--priority", Some("hihg")).unwrap_err().to_string();
        assert_eq!(
            error,
            "--priority: `hihg` is not one of critical, high, medium, low; did you mean `high`?"
        );
        assert_eq!(parse_flag::<Priority>("--priority", Some("low")).unwrap(), Some(Priority::Low));
    }
}
