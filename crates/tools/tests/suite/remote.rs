//! External MCP servers: honest ones and others, over every transport.

mod http;
mod peers;
mod pins;
mod sse;
mod stdio;
mod support;
