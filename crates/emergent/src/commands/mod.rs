//! The commands, one file each.

pub mod agent;
pub mod budget;
pub mod demo;
pub mod discussion;
pub mod dispatch;
pub mod doctor;
pub mod graph;
pub mod mcp;
pub mod mcp_server;
pub mod product;
pub mod project;
pub mod run;
pub mod secret;
pub mod task;
pub mod token;
pub mod transfer;
mod tree;
pub mod trigger;
mod watch_run;
mod watch_workflow;
pub mod workflow;

/// Percent-encodes what goes into a path or a query.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}
