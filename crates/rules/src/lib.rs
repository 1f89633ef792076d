//! Decisions over values: what a run does next, and what a workflow does next.
//!
//! This crate cannot see the store, a model, a clock or an async runtime, so the compiler keeps its
//! functions pure: the same values give the same decision on every server, and each rule is a test
//! without a database. `executor` and `coordination` load the values and carry the decisions out.

pub mod run;
pub mod workflow;
