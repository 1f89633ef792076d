//! The Model Context Protocol (MCP) for servers and clients, in both of its eras: the stateless
//! revision 2026-07-28 ("modern") and the session-based revisions before it ("legacy").
//!
//! This crate implements the wire protocol only. [`server`] answers requests on behalf of a host, which
//! provides tools, prompts and resources; [`client`] connects to other servers and calls their tools.
//! Which tools there are, and what they do, is decided in other crates.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod client;
pub mod message;
pub mod server;
