//! The discussion of a task: what was said is read from its runs, the engine says who is next, and
//! both go into the graph as they happen.

mod advance;
mod write;

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{AgentId, ObjectId, ProjectId, RunId},
    object::Object,
    run::RunStatus,
    task::Task,
    workflow::Deliverable,
};
use emergent_rules::workflow::{
    discussion::{
        DiscussionKind, DiscussionOutcome, DiscussionSettings, DiscussionTurn, NewTurn, Participant,
        PersonDecision, TurnResult, Vote,
    },
    question::truncate,
    select,
    snapshot::DiscussionProgress,
};
use emergent_store::{Tx, runs, workflows};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Result,
    apply::WorkflowWrite,
    loaded_workflow::{self, LoadedWorkflow},
};

pub(crate) use advance::advance_all;
pub(crate) use write::write_discussion;

/// The property that tells the review a task wants from what agents have discussed.
const REQUIRED_PROPERTY: &str = "required";

/// Turns that could not be started, by discussion and place, and why.
pub(crate) type FailedTurns = HashMap<(ObjectId, i64), String>;

/// One who could not be asked in its turn. That is kept with the discussion: whoever goes on with it
/// must not ask at a place that others have gone on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AbsentParticipant {
    // The stored names are older than the fields' names.
    #[serde(rename = "place")]
    index: i64,
    agent: String,
    #[serde(rename = "why")]
    reason: String,
}

impl AbsentParticipant {
    fn turn(&self) -> DiscussionTurn {
        let (agent, ended) = (self.agent.clone(), Some(TurnResult::default()));
        DiscussionTurn { index: self.index, agent, phase: String::new(), round: 0, result: ended }
    }
}

/// A discussion as it stands.
#[derive(Debug, Clone)]
pub(crate) struct TaskDiscussion {
    pub id: ObjectId,
    /// The first run of the attempt it is about.
    pub attempt: Option<RunId>,
    status: String,
    settings: DiscussionSettings,
    turns: Vec<DiscussionTurn>,
    /// The run of each turn, by place.
    runs: Vec<(i64, RunId, RunStatus)>,
    /// The places whose turns are in the graph.
    recorded: HashSet<i64>,
    /// Those who could not be asked.
    absent: Vec<AbsentParticipant>,
    /// It is the review that its task wants, and no discussion that an agent started.
    required: bool,
    person_decision: Option<PersonDecision>,
    /// What it came to, once it has.
    pub outcome: String,
}

impl TaskDiscussion {
    /// Reads a `Discussion`; `None` for one that is not the dispatcher's.
    pub fn load(
        tx: &mut Tx<'_>,
        project: ProjectId,
        object: &Object,
    ) -> Result<Option<Self>, emergent_store::Error> {
        let map = object.properties.to_map();
        let kept = map
            .get("settings")
            .and_then(|kept| serde_json::from_value::<DiscussionSettings>(kept.clone()).ok());
        let Some(settings) = kept else { return Ok(None) };
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_run: Option<RunId> = text("run_id").parse().ok();
        let attempt = match of_run {
            Some(run) => loaded_workflow::first_run_of_attempt(tx, project, run)?,
            None => None,
        };
        let mut found = Vec::new();
        // In a review loop the attempt itself is the first word.
        if settings.kind == DiscussionKind::ReviewLoop
            && let Some(run) = of_run
        {
            found.extend(runs::get(tx, project, run)?.map(|run| (0, run)));
        }
        found.extend(workflows::list_turns(tx, object.id)?.into_iter().map(|run| (run.child_index, run)));
        let mut turns = Vec::with_capacity(found.len());
        let mut of_place = Vec::with_capacity(found.len());
        for (place, run) in found {
            let ended = match run.status.is_terminal() {
                true => Some(TurnResult {
                    ok: matches!(run.status, RunStatus::Completed | RunStatus::Paused),
                    text: run.summary.clone().unwrap_or_default(),
                    vote: match run.workflow_link.deliverable {
                        Some(Deliverable::Vote) => runs::submission(tx, run.id)?
                            .and_then(|given| serde_json::from_value::<Vote>(given).ok()),
                        _ => None,
                    },
                }),
                false => None,
            };
            of_place.push((place, run.id, run.status));
            turns.push(DiscussionTurn {
                index: place,
                agent: run.agent_name,
                phase: String::new(),
                round: 0,
                result: ended,
            });
        }
        let absent: Vec<AbsentParticipant> =
            map.get("absent").and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default();
        turns.extend(absent.iter().map(AbsentParticipant::turn));
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
            recorded: places.iter().filter_map(Value::as_i64).collect(),
            absent,
            required: map.get(REQUIRED_PROPERTY).and_then(Value::as_bool).unwrap_or_default(),
            person_decision: decided,
            outcome: decision
                .and_then(|one| one.get("text"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        }))
    }

    /// What a review begins with holds what the discussions before it came to.
    pub fn include_earlier_outcomes(&mut self, before: &[TaskDiscussion]) {
        let first = self.turns.iter_mut().find(|turn| turn.index == 0);
        if let Some(ended) = first.and_then(|turn| turn.result.as_mut()).filter(|_| self.required) {
            append_decisions(before, &mut ended.text);
        }
    }

    pub fn progress(&self) -> DiscussionProgress {
        match self.status.as_str() {
            "active" => DiscussionProgress::Open,
            "escalated" if self.person_decision.is_some() => DiscussionProgress::Open,
            "escalated" => DiscussionProgress::Escalated,
            _ => DiscussionProgress::Resolved,
        }
    }

    pub fn open_turns(&self) -> impl Iterator<Item = RunId> {
        let open = self.runs.iter().filter(|(_, _, status)| !status.is_terminal());
        open.map(|(_, run, _)| *run).filter(|_| self.progress() == DiscussionProgress::Open)
    }

    pub fn topic(&self) -> &str {
        &self.settings.topic
    }

    pub fn kind(&self) -> &'static str {
        self.settings.kind.as_str()
    }

    /// What those who build on it are told: who said what, and what came of it.
    pub fn transcript(&self) -> String {
        let said = |turn: &DiscussionTurn| {
            let text = &turn.result.as_ref().filter(|ended| !ended.text.is_empty())?.text;
            Some(format!("{}: {}", turn.agent, truncate(text, 500)))
        };
        let turns: Vec<String> = self.turns.iter().filter_map(said).collect();
        format!("{}\nDecided: {}", turns.join("\n"), self.outcome)
    }
}

/// What a task hands on once its discussions are resolved: the proposal that was approved; after any
/// other discussion, the decision as well.
pub(crate) fn append_decisions(talking: &[TaskDiscussion], summary: &mut String) {
    let is_review = |one: &TaskDiscussion| one.settings.kind == DiscussionKind::ReviewLoop;
    let required = talking.iter().position(|one| one.required);
    let approved = required.or_else(|| talking.iter().position(is_review));
    if let Some(review) = approved {
        summary.clone_from(&talking[review].outcome);
    }
    for (at, other) in talking.iter().enumerate().filter(|(at, _)| approved != Some(*at)) {
        let decided = format!("\n\nDecided in a discussion of it: {}", other.outcome);
        // The review that the task wants began with what was approved and decided before it.
        let is_in_it = required.is_some_and(|review| at < review)
            && (is_review(other) || summary.contains(decided.trim_start()));
        if !is_in_it {
            summary.push_str(&decided);
        }
    }
}

/// How far the discussions of an attempt are; `None` without any.
pub(crate) fn overall_progress(talking: &[TaskDiscussion]) -> Option<DiscussionProgress> {
    let talk = talking.iter().map(TaskDiscussion::progress).min()?;
    let reviewed = talk == DiscussionProgress::Resolved && talking.iter().any(|one| one.required);
    Some(if reviewed { DiscussionProgress::Reviewed } else { talk })
}

/// What a transaction does about a discussion.
pub(crate) enum DiscussionWrite {
    /// It begins, with the attempt as its first word.
    Open {
        id: ObjectId,
        task: ObjectId,
        run: RunId,
        agent: String,
        said: String,
        settings: Box<DiscussionSettings>,
    },
    Advance {
        id: ObjectId,
        task: ObjectId,
        entered: Vec<i64>,
        absent: Vec<AbsentParticipant>,
        entries: Vec<NewEntry>,
        asks: Vec<StartedTurn>,
        end: Option<DiscussionEnd>,
    },
}

impl DiscussionWrite {
    /// How many runs it starts.
    pub fn run_count(&self) -> usize {
        match self {
            DiscussionWrite::Open { .. } => 0,
            DiscussionWrite::Advance { asks, .. } => asks.len(),
        }
    }
}

pub(crate) struct NewEntry {
    run: RunId,
    sequence: i64,
    ask: NewTurn,
    content: String,
    vote: Option<Vote>,
}

pub(crate) struct StartedTurn {
    ask: NewTurn,
    agent: AgentId,
    run: RunId,
}

pub(crate) enum DiscussionEnd {
    Resolved(Box<DiscussionOutcome>),
    Escalated { reason: String, options: Vec<String>, so_far: Box<DiscussionOutcome> },
}

/// Others look at what an attempt brought; `None` when there are no others.
pub(crate) fn open_review(known: &LoadedWorkflow, id: ObjectId) -> Option<WorkflowWrite> {
    let (task, attempt) = (known.snapshot.get(id)?, known.snapshot.attempts.get(&id)?);
    let others = choose_reviewers(known, task, &attempt.agent);
    if others.is_empty() {
        return None;
    }
    let mut participants =
        vec![Participant { role: Some("proposer".into()), ..Participant::new(&attempt.agent) }];
    participants.extend(others.into_iter().map(Participant::new));
    let settings = DiscussionSettings {
        context: task.description.clone(),
        participants,
        ..DiscussionSettings::new(DiscussionKind::ReviewLoop, review_topic(task), &[])
    };
    let step = DiscussionWrite::Open {
        id: ObjectId::new(),
        task: id,
        run: attempt.run,
        agent: attempt.agent.clone(),
        said: attempt.summary.clone(),
        settings: Box::new(settings),
    };
    Some(WorkflowWrite::AdvanceDiscussion(Box::new(step)))
}

fn review_topic(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

/// Those the task names, else the one who fits it best after its own agent.
fn choose_reviewers(known: &LoadedWorkflow, task: &Task, agent: &str) -> Vec<String> {
    let there =
        |name: &&String| known.agents.iter().any(|one| &one.definition.name == *name) && *name != agent;
    let named: Vec<String> = task.collaborators.iter().filter(there).cloned().collect();
    if !named.is_empty() {
        return named;
    }
    let mut cards = known.agent_cards();
    cards.retain(|card| card.name != agent);
    let open = Task { assigned_agent: None, ..task.clone() };
    select::select_by_rules(&open, &cards).agent.into_iter().collect()
}

#[cfg(test)]
mod tests;
