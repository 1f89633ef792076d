//! The domain model of Emergent: the types that all other crates share, and the rules they obey.
//!
//! The crate contains agents, runs, tasks, workflows, triggers, graph objects and relationships,
//! template packs and MCP servers, together with their validation. It also contains the pure
//! algorithms that work on them, such as rank fusion, cron schedules, loop detection and redaction.
//!
//! Nothing in this crate performs I/O, waits, or reads a clock. The crates above it (`store`,
//! `graph`, `executor`, `coordination`, `api`) pass in whatever comes from a database, a model or
//! the time of day, so every rule can be tested with plain values.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod agent;
pub mod approval;
pub mod arrangement;
pub mod artifact;
pub mod audit;
pub mod author;
pub mod browser_session;
pub mod change;
pub mod chat;
pub mod client_tool;
pub mod conversation;
pub mod coordination;
pub mod cron;
pub mod cursor;
pub mod dates;
pub mod dependency_cycles;
pub mod discussion_options;
pub mod document;
pub mod filter;
pub mod foreign_json;
pub mod fusion;
pub mod ids;
pub mod inbox;
pub mod indexed_text;
pub mod invalid;
pub mod json;
pub mod json_cost;
pub mod linked;
pub mod loops;
pub mod mcp_server;
pub mod mentions;
pub mod merge;
pub mod object;
pub mod object_ref;
pub mod output_schema;
pub mod pack;
pub mod parse_message;
pub mod patch;
mod plain_value;
pub mod project;
pub mod project_event;
pub mod prompt;
pub mod query;
pub mod question_names;
pub mod redact;
pub mod relationship;
pub mod reserved_keys;
pub mod run;
pub mod run_event;
pub mod run_input;
pub mod run_summary;
pub mod run_write;
pub mod stored_json;
pub mod task;
pub mod task_links;
pub mod task_rights;
pub mod text;
pub mod text_query;
pub mod time;
pub mod token;
pub mod tool_name;
pub mod trigger;
pub mod verdict;
pub mod workflow;
pub mod workflow_event;
pub mod workflow_template;
