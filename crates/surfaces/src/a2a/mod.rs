//! A2A 1.0: the protocol in which agents of others reach an agent of this system. A task is a resume chain of runs,
//! with the id of its first run. Its context is the conversation that the run belongs to.
//!
//! The two bindings, JSON-RPC ([`jsonrpc`]) and HTTP+JSON, carry the same operations and the same objects
//! ([`types`]). They differ in how a request and an error are wrapped.

pub mod card;
pub mod error;
pub mod jsonrpc;
pub mod message;
pub mod push;
pub mod request;
pub mod stream;
pub mod task;
pub mod types;
pub mod version;

/// The version of the protocol, without the patch number, which does not count.
pub const PROTOCOL_VERSION: &str = "1.0";
/// The media type of the HTTP+JSON binding.
pub const MEDIA_TYPE: &str = "application/a2a+json";
