//! The subcommands of `emergent`, one module each, and what they share.

pub mod agent;
pub mod audit;
pub mod backup;
pub mod budget;
pub mod completions;
pub mod demo;
pub mod discussion;
pub mod dispatch;
pub mod doctor;
pub mod document;
pub mod embeddings;
pub mod extract_document;
pub mod graph;
pub mod health;
pub mod mcp;
pub mod mcp_server;
pub mod object;
pub mod pack;
pub mod product;
pub mod project;
mod resolve;
mod revert;
pub mod run;
pub mod secret;
pub mod task;
pub mod token;
pub mod tool;
mod tool_calls;
pub mod transfer;
mod tree;
pub mod trigger;
mod watch_run;
mod watch_workflow;
pub mod workflow;

use std::{io::Read, path::Path};

use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::error::{Error, Result};

/// Parses the value of a flag as a type of the API; the error names the flag. `None` when it is not given.
fn parse_flag<T: DeserializeOwned>(flag: &str, value: Option<&str>) -> Result<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    let parsed = T::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(value));
    parsed.map(Some).map_err(|error| Error::Usage(format!("{flag} `{value}`: {error}")))
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

/// Reads JSON from a file; `-` is standard input.
fn read_json_file<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
    } else {
        text = std::fs::read_to_string(path).map_err(failed)?;
    }
    serde_json::from_str(&text)
        .map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))
}
