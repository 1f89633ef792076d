//! The JSON of the HTTP API: requests, responses and events, each readable and writable, each with
//! its schema.
//!
//! The server answers with these types and the command line reads them, so a field that is renamed
//! on one side fails to compile on the other. They are ours to keep stable; the types of `domain`
//! are free to change. What is made from types of `domain` alone is converted here; what needs a
//! service (`executor`, `graph`, `coordination`, …) is converted in `api`.

pub mod agent;
pub mod agent_parts;
pub mod author;
pub mod budget;
pub mod bulk;
pub mod change;
pub mod discussion;
pub mod dispatch;
pub mod document;
pub mod envelope;
pub mod fields;
pub mod import;
pub mod mcp_server;
pub mod object;
pub mod pack;
pub mod product;
pub mod project;
pub mod relationship;
pub mod revert;
pub mod run;
pub mod run_detail;
pub mod run_event;
pub mod run_message;
pub mod schema;
pub mod search;
pub mod secret;
pub mod source;
pub mod subgraph;
pub mod task;
pub mod token;
pub mod tool;
pub mod tool_call;
pub mod traverse;
pub mod trigger;
pub mod workflow;
pub mod workflow_event;
