//! Decisions over values: what a run does next, and what a workflow does next.
//!
//! This crate cannot see the store, a model, a clock or an async runtime, so the compiler keeps its
//! functions pure: the same values give the same decision on every server, and each rule is a test
//! without a database. `executor` and `coordination` load the values and carry the decisions out.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod run;
pub mod workflow;
