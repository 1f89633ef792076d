//! What is next in the discussions of a task: what was said goes into the graph, who has to speak is
//! asked, and who cannot be asked abstains.

use emergent_domain::ids::{ObjectId, RunId};
use emergent_rules::workflow::{
    discussion::{self, DiscussionAction, DiscussionTurn, NewTurn},
    snapshot::DiscussionProgress,
};

use super::{
    AbsentParticipant, DiscussionEnd, DiscussionWrite, FailedTurns, NewEntry, StartedTurn, TaskDiscussion,
};
use crate::{apply::WorkflowWrite, loaded_workflow::LoadedWorkflow};

/// The discussions of a task that are under way.
fn open_discussions(known: &LoadedWorkflow, task: ObjectId) -> impl Iterator<Item = &TaskDiscussion> {
    known
        .discussions
        .get(&task)
        .into_iter()
        .flatten()
        .filter(|one| one.progress() == DiscussionProgress::Open)
}

/// What is next in the discussions of a task.
pub(crate) fn advance_all(
    known: &LoadedWorkflow,
    task: ObjectId,
    unheard: &FailedTurns,
) -> Vec<WorkflowWrite> {
    open_discussions(known, task).filter_map(|talking| advance(known, task, talking, unheard)).collect()
}

fn advance(
    known: &LoadedWorkflow,
    task: ObjectId,
    talking: &TaskDiscussion,
    unheard: &FailedTurns,
) -> Option<WorkflowWrite> {
    let (turns, new) = turns_with_absent(known, talking, unheard);
    let absent: Vec<AbsentParticipant> = talking.absent.iter().cloned().chain(new.iter().cloned()).collect();
    let asked = discussion::expected_turns(&talking.settings, &turns);
    let mut sequence = i64::try_from(talking.recorded.len()).unwrap_or(0);
    let mut entered: Vec<i64> = talking.recorded.iter().copied().collect();
    let mut entries = Vec::new();
    for (place, run, _) in &talking.runs {
        let turn = talking.turns.iter().find(|turn| turn.index == *place);
        let (Some(ended), Some(ask)) =
            (turn.and_then(|turn| turn.result.as_ref()), asked.iter().find(|ask| ask.index == *place))
        else {
            continue;
        };
        if talking.recorded.contains(place) || !ended.ok {
            continue;
        }
        sequence += 1;
        entered.push(*place);
        entries.push(NewEntry {
            run: *run,
            sequence,
            ask: ask.clone(),
            content: ended.text.clone(),
            vote: ended.vote.clone(),
        });
    }
    entered.sort_unstable();
    let (mut asks, mut end) = (Vec::new(), None);
    match discussion::next_action(&talking.settings, &turns, talking.person_decision.as_ref()) {
        DiscussionAction::Wait => {}
        DiscussionAction::StartTurns(wanted) => {
            for ask in wanted {
                let agent = known.agents.iter().find(|agent| agent.definition.name == ask.agent);
                asks.extend(agent.map(|agent| StartedTurn { ask, agent: agent.id, run: RunId::new() }));
            }
        }
        DiscussionAction::Resolve(outcome) => end = Some(DiscussionEnd::Resolved(outcome)),
        DiscussionAction::Escalate { reason, options, so_far } => {
            let not_asked =
                absent.iter().map(|one| format!("; `{}` was not asked: {}", one.agent, one.reason));
            let reason = not_asked.fold(reason, |reason, more| reason + &more);
            end = Some(DiscussionEnd::Escalated { reason, options, so_far });
        }
    }
    if entries.is_empty() && asks.is_empty() && end.is_none() && new.is_empty() {
        return None;
    }
    let step = DiscussionWrite::Advance { id: talking.id, task, entered, absent, entries, asks, end };
    Some(WorkflowWrite::AdvanceDiscussion(Box::new(step)))
}

/// Everybody who was heard so far, or was not. Whose turn cannot be started, or who is not there any
/// more, abstains: said with the turns that this is new for.
fn turns_with_absent(
    known: &LoadedWorkflow,
    talking: &TaskDiscussion,
    unheard: &FailedTurns,
) -> (Vec<DiscussionTurn>, Vec<AbsentParticipant>) {
    let why = |ask: &NewTurn| match unheard.get(&(talking.id, ask.index)) {
        Some(why) => Some(why.clone()),
        None if known.agents.iter().any(|agent| agent.definition.name == ask.agent) => None,
        None => Some("there is no such agent any more".to_owned()),
    };
    let mut turns = talking.turns.clone();
    let mut absent = Vec::new();
    while let DiscussionAction::StartTurns(asks) = discussion::next_action(&talking.settings, &turns, None) {
        let gone =
            |ask: NewTurn| Some(AbsentParticipant { index: ask.index, reason: why(&ask)?, agent: ask.agent });
        let gone: Vec<AbsentParticipant> = asks.into_iter().filter_map(gone).collect();
        if gone.is_empty() {
            break;
        }
        turns.extend(gone.iter().map(AbsentParticipant::turn));
        absent.extend(gone);
    }
    (turns, absent)
}
