//! What is next in the discussions of a task: what was said goes into the graph, who has to speak is
//! asked, and who cannot be asked abstains.

use emergent_domain::ids::{ObjectId, RunId};

use super::{Absent, Asked, End, Entry, Step, Talking, Unheard};
use crate::{
    apply::Item,
    discuss::{self, Ask, Next, Turn},
    known::Known,
    state::Talk,
};

/// The discussions of a task that are under way.
fn open_ones(known: &Known, task: ObjectId) -> impl Iterator<Item = &Talking> {
    known.talking.get(&task).into_iter().flatten().filter(|one| one.talk() == Talk::Open)
}

/// What is next in the discussions of a task.
pub(crate) fn next(known: &Known, task: ObjectId, unheard: &Unheard) -> Vec<Item> {
    open_ones(known, task).filter_map(|talking| next_in(known, task, talking, unheard)).collect()
}

fn next_in(known: &Known, task: ObjectId, talking: &Talking, unheard: &Unheard) -> Option<Item> {
    let (turns, new) = turns(known, talking, unheard);
    let absent: Vec<Absent> = talking.absent.iter().cloned().chain(new.iter().cloned()).collect();
    let asked = discuss::asked(&talking.settings, &turns);
    let mut sequence = i64::try_from(talking.entered.len()).unwrap_or(0);
    let mut entered: Vec<i64> = talking.entered.iter().copied().collect();
    let mut entries = Vec::new();
    for (place, run, _) in &talking.runs {
        let turn = talking.turns.iter().find(|turn| turn.place == *place);
        let (Some(ended), Some(ask)) =
            (turn.and_then(|turn| turn.ended.as_ref()), asked.iter().find(|ask| ask.place == *place))
        else {
            continue;
        };
        if talking.entered.contains(place) || !ended.ok {
            continue;
        }
        sequence += 1;
        entered.push(*place);
        entries.push(Entry {
            run: *run,
            sequence,
            ask: ask.clone(),
            content: ended.text.clone(),
            vote: ended.vote.clone(),
        });
    }
    entered.sort_unstable();
    let (mut asks, mut end) = (Vec::new(), None);
    match discuss::next(&talking.settings, &turns, talking.decided.as_ref()) {
        Next::Wait => {}
        Next::Ask(wanted) => {
            for ask in wanted {
                let agent = known.agents.iter().find(|agent| agent.definition.name == ask.agent);
                asks.extend(agent.map(|agent| Asked { ask, agent: agent.id, run: RunId::new() }));
            }
        }
        Next::Resolve(outcome) => end = Some(End::Resolved(outcome)),
        Next::Escalate { reason, options, so_far } => {
            let not_asked = absent.iter().map(|one| format!("; `{}` was not asked: {}", one.agent, one.why));
            let reason = not_asked.fold(reason, |reason, more| reason + &more);
            end = Some(End::Escalated { reason, options, so_far });
        }
    }
    if entries.is_empty() && asks.is_empty() && end.is_none() && new.is_empty() {
        return None;
    }
    let step = Step::Go { id: talking.id, task, entered, absent, entries, asks, end };
    Some(Item::Talk(Box::new(step)))
}

/// Everybody who was heard so far, or was not. Whose turn cannot be started, or who is not there any
/// more, abstains: said with the turns that this is new for.
fn turns(known: &Known, talking: &Talking, unheard: &Unheard) -> (Vec<Turn>, Vec<Absent>) {
    let why = |ask: &Ask| match unheard.get(&(talking.id, ask.place)) {
        Some(why) => Some(why.clone()),
        None if known.agents.iter().any(|agent| agent.definition.name == ask.agent) => None,
        None => Some("there is no such agent any more".to_owned()),
    };
    let mut turns = talking.turns.clone();
    let mut absent = Vec::new();
    while let Next::Ask(asks) = discuss::next(&talking.settings, &turns, None) {
        let gone = |ask: Ask| Some(Absent { place: ask.place, why: why(&ask)?, agent: ask.agent });
        let gone: Vec<Absent> = asks.into_iter().filter_map(gone).collect();
        if gone.is_empty() {
            break;
        }
        turns.extend(gone.iter().map(Absent::turn));
        absent.extend(gone);
    }
    (turns, absent)
}
