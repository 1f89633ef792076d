//! What every connection to another server needs: which addresses may be reached, TLS, HTTP clients
//! and event streams, how long to wait before the next attempt, and how to print the error when none
//! of it worked.
//!
//! This crate knows nothing of the other crates, so each of them may use it.

pub mod address;
pub mod backoff;
pub mod errors;
pub mod http;
pub mod percent;
pub mod sse;
pub mod tls;
