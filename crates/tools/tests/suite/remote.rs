//! External MCP servers: honest ones and others, over every transport.

mod a2a;
mod a2a_rogue;
mod a2a_waits;
mod http;
mod names;
mod peers;
mod pins;
mod program_caches;
mod sse;
mod status;
mod stdio;
mod support;
