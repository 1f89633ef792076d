//! Network code that several crates share: checks of addresses, TLS, HTTP clients, the decoder of event
//! streams, the limits for large messages, percent-decoding, backoff, the clock of a call, trace
//! contexts, and the formatting of errors.
//!
//! This crate depends on no other crate of the project, so each of them can use it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod address;
pub mod backoff;
pub mod call_clock;
pub mod errors;
pub mod http;
pub mod large_messages;
pub mod percent;
pub mod sse;
pub mod tls;
pub mod trace_context;
