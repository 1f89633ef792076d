//! Tools: what an agent can do. A pool holds what a project offers, a whitelist says what one
//! agent gets of it, and a guard stands around every call.
//!
//! Built-in tools do not write by themselves: a tool that changes the graph prepares its change,
//! and whoever called it runs the change in a transaction together with the record of the call. A
//! crash can so neither lose nor repeat it.

pub mod builtin;
mod guard;
mod pool;
pub mod remote;
mod tool;

pub use guard::{Guard, GuardedOutput};
pub use pool::{ToolPool, ToolSet};
pub use tool::{Effect, GraphChange, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};
