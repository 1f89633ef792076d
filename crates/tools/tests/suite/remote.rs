//! External MCP servers: honest ones and others, over every transport.

mod http;
mod names;
mod peers;
mod pins;
mod sse;
mod status;
mod stdio;
mod support;
