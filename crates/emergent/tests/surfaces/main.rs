//! Real clients of other protocols talk to agents of a real server.

#[path = "../common/mod.rs"]
mod common;
mod openai;
