//! The interface of OpenAI's chat completions: an agent is a model with the name of the agent.

pub mod chunks;
pub mod completion;
pub mod error;
pub mod models;
pub mod request;

use emergent_domain::{ids::RunId, time::Timestamp};

/// The id of a completion, from which the run can be found.
fn completion_id(run: RunId) -> String {
    format!("chatcmpl-{run}")
}

/// Seconds since 1970.
fn unix_seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
