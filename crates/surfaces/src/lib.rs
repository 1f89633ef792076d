//! The protocols in which callers from outside reach agents, one module for each. Every surface is a view of the same
//! run: these functions turn runs and their events into the answers and frames of a protocol, and requests of a
//! protocol into what a run is started with. They take values and return values; HTTP, tokens and the database are
//! elsewhere.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod a2a;
pub mod agui;
pub mod card;
mod client_tools;
pub mod invoke;
pub mod openai;
#[cfg(test)]
mod samples;
mod sent_text;
