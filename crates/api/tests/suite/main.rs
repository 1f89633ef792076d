//! The tests of this crate that use its public interface. They are one program, because linking
//! one program per file took longer than running the tests.

mod agents;
mod audit;
mod authorisation;
mod bad_input;
mod common;
mod coordination;
mod graph;
mod http2;
mod limits;
mod mcp;
mod mcp_servers;
mod meta;
mod metrics;
mod object_refs;
mod products;
mod projects;
mod runs;
mod secrets;
mod sources;
mod storage;
mod streams;
mod triggers;
