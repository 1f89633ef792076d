//! The Model Context Protocol, both eras of it, both ways: the wire of a server and of a client. What
//! is offered and what is called stands elsewhere.

pub mod client;
pub mod message;
pub mod server;
