//! Turns the next step of each discussion of a task into writes.

use emergent_domain::{
    agent::Agent,
    coordination::DiscussionDefaults,
    ids::{ObjectId, RunId},
    task::Task,
};
use emergent_rules::workflow::{
    discussion::{NewTurn, TaskDiscussion, advance, plan_review},
    select::AgentCard,
    snapshot::{Attempt, DiscussionProgress},
};

use super::{DiscussionWrite, FailedTurns, StartedTurn};

/// Opens the review that a task requires.
pub(crate) fn open_review(
    task: &Task,
    attempt: &Attempt,
    agents: &[AgentCard],
    earlier_agents: &[&str],
    project: &DiscussionDefaults,
) -> DiscussionWrite {
    DiscussionWrite::Open {
        id: ObjectId::new(),
        task: task.id,
        run: attempt.run,
        agent: attempt.agent.clone(),
        proposal: attempt.summary.clone(),
        review: Box::new(plan_review(task, attempt, agents, earlier_agents, project)),
    }
}

/// Advances the open discussions of a task.
pub(crate) fn advance_all(
    task: ObjectId,
    discussions: &[TaskDiscussion],
    agents: &[Agent],
    failed_turns: &FailedTurns,
) -> Vec<DiscussionWrite> {
    let find_agent = |name: &str| agents.iter().find(|agent| agent.definition.name == name);
    let advance_discussion = |discussion: &TaskDiscussion| {
        let step =
            advance(discussion, |turn: &NewTurn| match failed_turns.get(&(discussion.id, turn.index)) {
                Some(reason) => Some(reason.clone()),
                None if find_agent(&turn.agent).is_some() => None,
                None => Some("there is no such agent any more".to_owned()),
            })?;
        let start = |turn: &NewTurn| {
            Some(StartedTurn { agent: find_agent(&turn.agent)?.id, turn: turn.clone(), run: RunId::new() })
        };
        let started = step.turns.iter().filter_map(start).collect();
        Some(DiscussionWrite::Advance { id: discussion.id, task, step, started })
    };
    let open_discussions =
        discussions.iter().filter(|discussion| discussion.progress() == DiscussionProgress::Open);
    open_discussions.filter_map(advance_discussion).collect()
}
