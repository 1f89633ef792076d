//! A client for agents of other systems that speak A2A (Agent2Agent) 1.0, over JSON-RPC or HTTP with JSON, as the
//! agent's card says. The size of everything that an agent sends is limited, and a call ends at its timeout at
//! the latest; the task is then cancelled on the other side.
//!
//! This crate implements the wire protocol only. Which agents there are, and what is done with their answers, is
//! decided in other crates.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod binding;
mod body;
mod call;
mod card;
mod client;
mod error;
mod task;

pub use call::{CallOptions, OnWait, Patience, Wait};
pub use card::{AgentCard, Skill};
pub use client::{AgentClient, ClientOptions, Endpoint};
pub use error::Error;
pub use task::{FilePart, Outcome, OutgoingMessage, TaskState};

/// The version of the protocol that this client speaks.
pub const VERSION: &str = "1.0";
