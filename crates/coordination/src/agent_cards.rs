//! Builds the cards by which the selector compares agents: each has an agent's description and how its
//! earlier tasks ended.

use emergent_domain::{
    agent::Agent,
    coordination::CoordinationSettings,
    ids::{ProjectId, WorkflowId},
    task::Task,
};
use emergent_rules::workflow::select::AgentCard;
use emergent_store::{
    Tx,
    tasks::{self, TaskOutcome},
};

use crate::dispatchable::is_selectable;

/// Only the newest tasks count, because agents change over time.
const MAX_OUTCOMES: i64 = 200;

/// Loads how earlier tasks of other workflows ended. Returns nothing if no task needs an agent to be
/// chosen.
pub(crate) fn load_outcomes(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: WorkflowId,
    workflow_tasks: &[Task],
) -> Result<Vec<TaskOutcome>, emergent_store::Error> {
    if workflow_tasks.iter().any(needs_selection) {
        tasks::list_outcomes(tx, project, workflow, MAX_OUTCOMES)
    } else {
        Ok(Vec::new())
    }
}

/// Whether an agent has to be chosen for a task, and the task has a kind by which earlier tasks compare.
fn needs_selection(task: &Task) -> bool {
    !task.status.is_terminal() && !task.agent_is_named && !task.kind.is_empty()
}

/// Builds the card of each agent, with the outcomes of its earlier tasks.
pub(crate) fn agent_cards(
    agents: &[Agent],
    coordination: &CoordinationSettings,
    outcomes: &[TaskOutcome],
) -> Vec<AgentCard> {
    let card = |agent: &Agent| AgentCard {
        is_selectable: is_selectable(&agent.definition, coordination),
        ..AgentCard::from_definition(&agent.definition)
    };
    let mut cards: Vec<AgentCard> = agents.iter().map(card).collect();
    for TaskOutcome { kind, agent, completed } in outcomes {
        if let Some(card) = cards.iter_mut().find(|card| card.name == *agent) {
            card.track_record.add(kind, usize::from(*completed), usize::from(!completed));
        }
    }
    cards
}

/// Adds how tasks of the same kind have ended so far in the same workflow.
pub(crate) fn count_tasks_of_kind(cards: &mut [AgentCard], kind: &str, tasks: &[Task]) {
    if kind.is_empty() {
        return;
    }
    for task in tasks.iter().filter(|task| task.kind.eq_ignore_ascii_case(kind)) {
        if let Some(card) = cards.iter_mut().find(|card| task.assigned_agent.as_ref() == Some(&card.name)) {
            card.track_record.count_task(task);
        }
    }
}
