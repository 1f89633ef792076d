//! The discussions of tasks: loads them with the runs of their turns, advances them by the rules, and
//! writes their entries and outcomes to the graph.

mod advance;
mod load;
mod write;

use std::collections::HashMap;

use emergent_domain::ids::{AgentId, ObjectId, RunId};
use emergent_rules::workflow::discussion::{DiscussionStep, NewTurn, PlannedReview};

pub(crate) use advance::{advance_all, open_review};
pub(crate) use load::load_discussion;
pub(crate) use write::{decision_json, write_discussion};

/// The property that marks the review that a task requires, unlike discussions that agents start.
const REQUIRED_PROPERTY: &str = "required";

/// Turns that could not be started, by discussion and index, and why.
pub(crate) type FailedTurns = HashMap<(ObjectId, i64), String>;

/// What a transaction writes for a discussion.
pub(crate) enum DiscussionWrite {
    /// Opens the review of an attempt, with the attempt as its first turn.
    Open {
        id: ObjectId,
        task: ObjectId,
        run: RunId,
        agent: String,
        proposal: String,
        review: Box<PlannedReview>,
    },
    /// Writes the next step of an open discussion.
    Advance {
        id: ObjectId,
        task: ObjectId,
        step: DiscussionStep,
        /// The runs of the turns that the step starts.
        started: Vec<StartedTurn>,
    },
}

impl DiscussionWrite {
    /// How many runs the write starts.
    pub fn run_count(&self) -> usize {
        match self {
            DiscussionWrite::Open { .. } => 0,
            DiscussionWrite::Advance { started, .. } => started.len(),
        }
    }
}

/// A turn with the agent and the id of the run that it is started with.
pub(crate) struct StartedTurn {
    turn: NewTurn,
    agent: AgentId,
    run: RunId,
}
