//! The interface of OpenAI's chat completions: an agent is a model with the name of the agent.

pub mod chunks;
pub mod completion;
pub mod error;
pub mod models;
pub mod request;
pub mod response_format;
pub mod segment;
pub mod tools;
mod turns;

use emergent_domain::{ids::RunId, time::Timestamp};

/// What the content of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// What the agent writes, in every step.
    Text,
    /// The JSON of the output of the run. What the agent writes before is not sent: it may be refused by the output
    /// schema, and a client that parses the content would get two values.
    Value,
}

/// The id of a completion, from which the run can be found. A run that goes on with the results of its caller's tools
/// has several completions, one for each `seq` after which it goes on.
fn completion_id(run: RunId, after_seq: i64) -> String {
    match after_seq {
        0 => format!("chatcmpl-{run}"),
        seq => format!("chatcmpl-{run}-{seq}"),
    }
}

/// Seconds since 1970.
fn unix_seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
