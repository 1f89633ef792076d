//! The tools that agents call. A [`ToolPool`] has the tools of every project, the whitelist of an
//! agent selects some of them as its [`ToolSet`], and a [`Guard`] validates and limits every call.
//!
//! Built-in tools do not write by themselves: a tool that changes the graph returns a
//! [`GraphChange`], and the caller runs it in the transaction that records the tool call. So a
//! crash can neither lose nor repeat the change.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod builtin;
mod call_report;
mod conflicts;
mod guard;
mod labels;
mod missing;
mod pool;
pub mod remote;
mod tool;
mod unavailable_tool;

pub use call_report::{CallReport, CallReporter};
pub use conflicts::{NameConflicts, SharedName};
pub use emergent_mcp::client::{CallInput, Form, FormAnswer, InputHandler};
pub use guard::{Guard, GuardedOutput};
pub use labels::{BareNameOwner, LabelledTool, hex_hash};
pub use missing::MissingAgent;
pub use pool::{ToolPool, ToolSet};
pub use tool::{Effect, ExternalContent, GraphChange, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};
