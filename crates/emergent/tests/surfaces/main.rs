//! Real clients of other protocols talk to agents of a real server.

mod a2a;
mod a2a_cli;
mod agui;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod hook;
mod openai;
mod remote_task;
