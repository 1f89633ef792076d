//! The JSON types of the HTTP API: requests, responses and events. Each can be serialised and deserialised,
//! and has an OpenAPI schema.
//!
//! The server and the command line use the same types, so they cannot disagree about a field. These types
//! must stay compatible; the types of `domain` may change. Conversions that need only types of `domain` are
//! here; conversions of the types of services (`executor`, `graph`, `coordination` and others) are in `api`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod agent;
pub mod agent_parts;
pub mod approval;
pub mod audit;
pub mod author;
pub mod budget;
pub mod bulk;
pub mod change;
pub mod chat;
pub mod chat_frame;
pub mod diagnostics;
pub mod discussion;
pub mod dispatch;
pub mod document;
pub mod envelope;
mod escalation_action;
pub mod fields;
pub mod import;
pub mod invoke;
pub mod mcp_server;
pub mod object;
pub mod pack;
pub mod product;
pub mod project;
pub mod project_event;
pub mod relationship;
pub mod revert;
pub mod run;
pub mod run_bulk;
pub mod run_detail;
pub mod run_event;
pub mod run_message;
pub mod run_write;
pub mod schema;
pub mod search;
pub mod secret;
pub mod session;
pub mod source;
pub mod subgraph;
pub mod task;
pub mod token;
pub mod tool;
pub mod tool_call;
pub mod traverse;
pub mod trigger;
pub mod withheld;
pub mod workflow;
pub mod workflow_event;
