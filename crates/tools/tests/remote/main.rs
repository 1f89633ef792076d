//! External MCP servers: honest ones and others, over every transport.

mod http;
mod peers;
mod pins;
mod stdio;
mod support;
