//! The rules of Emergent, as values: what things are called, what is allowed, what follows.
//!
//! Nothing here does I/O or waits. What a database, a model or a clock must be asked for is
//! handed in by the crates above.

pub mod agent;
pub mod author;
pub mod change;
pub mod chat;
pub mod cron;
pub mod cursor;
pub mod document;
pub mod filter;
pub mod fusion;
pub mod ids;
pub mod indexed_text;
pub mod invalid;
pub mod json;
pub mod loops;
pub mod mcp_server;
pub mod merge;
pub mod object;
pub mod pack;
pub mod patch;
pub mod project;
pub mod prompt;
pub mod query;
pub mod redact;
pub mod relationship;
pub mod run;
pub mod run_event;
pub mod task;
pub mod text_query;
pub mod time;
pub mod token;
pub mod tool_name;
pub mod trigger;
pub mod verdict;
pub mod workflow;
pub mod workflow_event;
