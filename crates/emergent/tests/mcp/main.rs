//! `emergent mcp` on stdio, as a client sees it that starts it; and the official clients of others
//! against it and against `/mcp` of a server.

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod stdio;
