//! The discussion of a task: what was said is read from its runs, the engine says who is next, and
//! both go into the graph as they happen.

mod write;

use std::collections::HashSet;

use emergent_domain::{
    ids::{AgentId, ObjectId, ProjectId, RunId},
    object::Object,
    run::RunStatus,
    task::Task,
    workflow::Hands,
};
use emergent_store::{Tx, runs, workflows};
use serde_json::Value;

use crate::{
    Result,
    apply::Item,
    discuss::{self, Ask, Decision, Ended, Kind, Next, Outcome, Participant, Settings, Turn, Vote},
    known::{self, Known},
    question::cut,
    select,
    state::Talk,
};

pub(crate) use write::write;

/// A discussion as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Talking {
    pub id: ObjectId,
    /// The first run of the attempt it is about.
    pub attempt: Option<RunId>,
    status: String,
    settings: Settings,
    turns: Vec<Turn>,
    /// The run of each turn, by place.
    runs: Vec<(i64, RunId, RunStatus)>,
    /// The places whose turns are in the graph.
    entered: HashSet<i64>,
    decided: Option<Decision>,
    /// What it came to, once it has.
    pub outcome: String,
}

impl Talking {
    /// Reads a `Discussion`; `None` for one that is not the dispatcher's.
    pub fn read(
        tx: &mut Tx<'_>,
        project: ProjectId,
        object: &Object,
    ) -> Result<Option<Self>, emergent_store::Error> {
        let map = object.properties.to_map();
        let kept = map.get("settings").and_then(|kept| serde_json::from_value::<Settings>(kept.clone()).ok());
        let Some(settings) = kept else { return Ok(None) };
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_run: Option<RunId> = text("run_id").parse().ok();
        let attempt = match of_run {
            Some(run) => known::first_run(tx, project, run)?,
            None => None,
        };
        let mut found = Vec::new();
        // In a review loop the attempt itself is the first word.
        if settings.kind == Kind::ReviewLoop
            && let Some(run) = of_run
        {
            found.extend(runs::get(tx, project, run)?.map(|run| (0, run)));
        }
        found.extend(workflows::turns(tx, object.id)?.into_iter().map(|run| (run.part, run)));
        let mut turns = Vec::with_capacity(found.len());
        let mut of_place = Vec::with_capacity(found.len());
        for (place, run) in found {
            let ended = match run.status.is_terminal() {
                true => Some(Ended {
                    ok: matches!(run.status, RunStatus::Completed | RunStatus::Paused),
                    text: run.summary.clone().unwrap_or_default(),
                    vote: match run.duty.hands {
                        Some(Hands::Vote) => runs::handed_in(tx, run.id)?
                            .and_then(|given| serde_json::from_value::<Vote>(given).ok()),
                        _ => None,
                    },
                }),
                false => None,
            };
            of_place.push((place, run.id, run.status));
            turns.push(Turn { place, agent: run.agent_name, phase: String::new(), round: 0, ended });
        }
        let places = map.get("entered").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let decided =
            map.get("decided_by_person").and_then(|given| serde_json::from_value(given.clone()).ok());
        let decision = map.get("final_decision");
        Ok(Some(Self {
            id: object.id,
            attempt,
            status: text("status"),
            settings,
            turns,
            runs: of_place,
            entered: places.iter().filter_map(Value::as_i64).collect(),
            decided,
            outcome: decision
                .and_then(|one| one.get("text"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        }))
    }

    pub fn talk(&self) -> Talk {
        match self.status.as_str() {
            "active" => Talk::Open,
            "escalated" if self.decided.is_some() => Talk::Open,
            "escalated" => Talk::Escalated,
            _ => Talk::Resolved,
        }
    }

    pub fn open_turns(&self) -> impl Iterator<Item = RunId> {
        let open = self.runs.iter().filter(|(_, _, status)| !status.is_terminal());
        open.map(|(_, run, _)| *run).filter(|_| self.talk() == Talk::Open)
    }

    pub fn topic(&self) -> &str {
        &self.settings.topic
    }

    pub fn kind(&self) -> &'static str {
        self.settings.kind.as_str()
    }

    /// What those who build on it are told: who said what, and what came of it.
    pub fn told(&self) -> String {
        let said = |turn: &Turn| {
            let text = &turn.ended.as_ref()?.text;
            Some(format!("{}: {}", turn.agent, cut(text, 500)))
        };
        let turns: Vec<String> = self.turns.iter().filter_map(said).collect();
        format!("{}\nDecided: {}", turns.join("\n"), self.outcome)
    }
}

/// What a task hands on once its discussions are resolved: the proposal that was approved; after any
/// other discussion, the decision as well.
pub(crate) fn conclude(talking: &[Talking], summary: &mut String) {
    let approved = talking.iter().find(|one| one.settings.kind == Kind::ReviewLoop);
    if let Some(review) = approved {
        summary.clone_from(&review.outcome);
    }
    for other in talking.iter().filter(|one| approved.is_none_or(|review| review.id != one.id)) {
        summary.push_str(&format!("\n\nDecided in a discussion of it: {}", other.outcome));
    }
}

/// What a transaction does about a discussion.
pub(crate) enum Step {
    /// It begins, with the attempt as its first word.
    Open { id: ObjectId, task: ObjectId, run: RunId, agent: String, said: String, settings: Box<Settings> },
    Go {
        id: ObjectId,
        task: ObjectId,
        entered: Vec<i64>,
        entries: Vec<Entry>,
        asks: Vec<Asked>,
        end: Option<End>,
    },
}

impl Step {
    /// How many runs it starts.
    pub fn runs(&self) -> usize {
        match self {
            Step::Open { .. } => 0,
            Step::Go { asks, .. } => asks.len(),
        }
    }
}

pub(crate) struct Entry {
    run: RunId,
    sequence: i64,
    ask: Ask,
    content: String,
    vote: Option<Vote>,
}

pub(crate) struct Asked {
    ask: Ask,
    agent: AgentId,
    run: RunId,
}

pub(crate) enum End {
    Resolved(Box<Outcome>),
    Escalated { reason: String, options: Vec<String>, so_far: Box<Outcome> },
}

/// Others look at what an attempt brought; `None` when there are no others.
pub(crate) fn open(known: &Known, id: ObjectId) -> Option<Item> {
    let (task, attempt) = (known.snapshot.get(id)?, known.snapshot.attempts.get(&id)?);
    let others = others(known, task, &attempt.agent);
    if others.is_empty() {
        return None;
    }
    let mut participants =
        vec![Participant { role: Some("proposer".into()), ..Participant::named(&attempt.agent) }];
    participants.extend(others.into_iter().map(Participant::named));
    let settings = Settings {
        context: task.description.clone(),
        participants,
        ..Settings::new(Kind::ReviewLoop, topic(task), &[])
    };
    let step = Step::Open {
        id: ObjectId::new(),
        task: id,
        run: attempt.run,
        agent: attempt.agent.clone(),
        said: attempt.summary.clone(),
        settings: Box::new(settings),
    };
    Some(Item::Talk(Box::new(step)))
}

fn topic(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

/// Those the task names, else the one who fits it best after its own agent.
fn others(known: &Known, task: &Task, agent: &str) -> Vec<String> {
    let there =
        |name: &&String| known.agents.iter().any(|one| &one.definition.name == *name) && *name != agent;
    let named: Vec<String> = task.collaborators.iter().filter(there).cloned().collect();
    if !named.is_empty() {
        return named;
    }
    let mut cards = known.cards();
    cards.retain(|card| card.name != agent);
    let open = Task { assigned_agent: None, ..task.clone() };
    select::rules(&open, &cards).agent.into_iter().collect()
}

/// The discussions of a task that are under way.
fn open_ones(known: &Known, task: ObjectId) -> impl Iterator<Item = &Talking> {
    known.talking.get(&task).into_iter().flatten().filter(|one| one.talk() == Talk::Open)
}

/// What is next in the discussions of a task.
pub(crate) fn next(known: &Known, task: ObjectId) -> Vec<Item> {
    open_ones(known, task).filter_map(|talking| next_in(known, task, talking)).collect()
}

fn next_in(known: &Known, task: ObjectId, talking: &Talking) -> Option<Item> {
    let turns = turns(known, talking);
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
        Next::Escalate { reason, options, so_far } => end = Some(End::Escalated { reason, options, so_far }),
    }
    if entries.is_empty() && asks.is_empty() && end.is_none() {
        return None;
    }
    let step = Step::Go { id: talking.id, task, entered, entries, asks, end };
    Some(Item::Talk(Box::new(step)))
}

/// A turn could not be started: a person decides.
pub(crate) fn give_up(known: &Known, task: ObjectId, why: &str) -> Vec<Item> {
    let asks = |talking: &&Talking| {
        let next = discuss::next(&talking.settings, &turns(known, talking), talking.decided.as_ref());
        matches!(next, Next::Ask(_))
    };
    let given_up = |talking: &Talking| {
        let mut entered: Vec<i64> = talking.entered.iter().copied().collect();
        entered.sort_unstable();
        let reason = format!("a turn could not be started: {why}");
        let end = End::Escalated { reason, options: Vec::new(), so_far: Box::default() };
        let (entries, asks) = (Vec::new(), Vec::new());
        let step = Step::Go { id: talking.id, task, entered, entries, asks, end: Some(end) };
        Item::Talk(Box::new(step))
    };
    open_ones(known, task).filter(asks).map(given_up).collect()
}

/// What was said so far. Who is not there any more abstains.
fn turns(known: &Known, talking: &Talking) -> Vec<Turn> {
    let mut turns = talking.turns.clone();
    while let Next::Ask(asks) = discuss::next(&talking.settings, &turns, None) {
        let there = |ask: &Ask| known.agents.iter().any(|agent| agent.definition.name == ask.agent);
        let before = turns.len();
        turns.extend(asks.into_iter().filter(|ask| !there(ask)).map(|ask| Turn {
            place: ask.place,
            agent: ask.agent,
            phase: ask.phase,
            round: ask.round,
            ended: Some(Ended::default()),
        }));
        if turns.len() == before {
            break;
        }
    }
    turns
}
