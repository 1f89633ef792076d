//! Plans the review that a task requires: who takes part, and what kind of discussion it is.

use std::collections::BTreeSet;

use emergent_domain::{agent::Visibility, coordination::DiscussionDefaults, task::Task};

use super::{
    DiscussionKind, DiscussionSettings, Participant,
    votes::{APPROVED, SUGGEST_CHANGES},
};
use crate::workflow::{
    question::truncate,
    select::{self, AgentCard},
    snapshot::Attempt,
};

/// The most characters of a result in the context of its review.
const MAX_RESULT_CHARS: usize = 12_000;
/// What is said of a required review that no other agent can do.
const NO_REVIEWER: &str = "the project has no other agent that can review the result, so a person decides";

/// The review that a task requires after an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedReview {
    pub settings: DiscussionSettings,
    /// What was asked for and cannot hold: reviewers, the kind or the quorum.
    pub note: Option<String>,
}

/// Plans the review of an attempt. `earlier_agents` did the direct blockers of the task. `project` says what the task
/// leaves open. With fewer agents than the kind needs, the review is a review loop. Without any other agent, a person
/// decides about the result.
pub fn plan_review(
    task: &Task,
    attempt: &Attempt,
    agents: &[AgentCard],
    earlier_agents: &[&str],
    project: &DiscussionDefaults,
) -> PlannedReview {
    let defaults = task.discussion.or(project);
    let reviewers = choose_reviewers(task, &attempt.agent, agents, earlier_agents, &defaults);
    plan_review_by(task, &attempt.agent, &attempt.summary, reviewers, defaults)
}

/// Says what of the required review of a task could not be held as asked if `agent` did the task; `None` if everything
/// can. Who the reviewers are does not matter for this, only how many there are, so they are not compared.
pub fn review_note(
    task: &Task,
    agent: &str,
    agents: &[AgentCard],
    project: &DiscussionDefaults,
) -> Option<String> {
    let defaults = task.discussion.or(project);
    let named = named_reviewers(task, agent, agents, &defaults);
    let reviewers = add_reviewers(agent, agents, named, min_reviewers(&defaults), |_| None);
    plan_review_by(task, agent, "", reviewers, defaults).note
}

fn plan_review_by(
    task: &Task,
    agent: &str,
    result: &str,
    reviewers: Vec<String>,
    defaults: DiscussionDefaults,
) -> PlannedReview {
    let has_reviewers = !reviewers.is_empty();
    let mut participants = vec![Participant { role: Some("proposer".into()), ..Participant::new(agent) }];
    participants.extend(reviewers.into_iter().map(Participant::new));
    let topic = if task.title.is_empty() { task.key.clone() } else { task.title.clone() };
    let settings = DiscussionSettings {
        context: task.description.clone(),
        participants,
        ..DiscussionSettings::new(DiscussionKind::ReviewLoop, topic, &[])
    };
    let mut configured = settings.clone().with_defaults(&defaults);
    let problems = configured.problems();
    if configured.kind == DiscussionKind::ReviewLoop || !problems.is_empty() {
        let kind_note = (configured.kind != DiscussionKind::ReviewLoop).then(|| {
            let reason = problems.first().map(String::as_str).unwrap_or_default();
            format!("the review is a review_loop instead of a {}: {reason}", configured.kind.as_str())
        });
        let review_loop = DiscussionDefaults { kind: None, phases: Vec::new(), ..defaults };
        let settings = settings.with_defaults(&review_loop);
        let notes: Vec<String> = kind_note.into_iter().chain(settings.quorum_note()).collect();
        let note = match has_reviewers {
            true => (!notes.is_empty()).then(|| notes.join("; ")),
            false => Some(NO_REVIEWER.to_owned()),
        };
        return PlannedReview { settings, note };
    }
    // In a review loop the result is the first turn. The others are told it.
    let result = truncate(result, MAX_RESULT_CHARS);
    configured.context =
        format!("{}\n\nTHE RESULT TO REVIEW:\n{result}", configured.context).trim().to_owned();
    if matches!(
        configured.kind,
        DiscussionKind::Consensus | DiscussionKind::Debate | DiscussionKind::Collaboration
    ) {
        configured.options = vec![APPROVED.to_owned(), SUGGEST_CHANGES.to_owned()];
    }
    PlannedReview { note: configured.quorum_note(), settings: configured }
}

/// How many agents can take part in the discussion of a task at most: the agent that does it, and those that the task
/// and the phases name. `None` if they name nobody, so that the others are chosen when the discussion begins.
pub fn max_participants(
    assigned_agent: Option<&str>,
    collaborators: &[String],
    defaults: &DiscussionDefaults,
) -> Option<usize> {
    let named: BTreeSet<&str> = collaborators
        .iter()
        .chain(defaults.agents())
        .map(String::as_str)
        .filter(|name| Some(*name) != assigned_agent)
        .collect();
    let kind =
        defaults.effective_kind().and_then(DiscussionKind::parse).unwrap_or(DiscussionKind::ReviewLoop);
    (!named.is_empty()).then(|| (named.len() + 1).max(kind.min_participants()))
}

/// The collaborators that the task names, and the agents of the phases. Else an agent that did a direct blocker,
/// because it knows what the result builds on. Else the agent that fits the task best after its own. If these are
/// fewer than the kind needs, those that fit next are added, and then others.
fn choose_reviewers(
    task: &Task,
    agent: &str,
    agents: &[AgentCard],
    earlier_agents: &[&str],
    defaults: &DiscussionDefaults,
) -> Vec<String> {
    let mut reviewers = named_reviewers(task, agent, agents, defaults);
    let is_other =
        |name: &&&str| **name != agent && agents.iter().any(|card| card.name == **name && card.is_selectable);
    if reviewers.is_empty()
        && let Some(earlier) = earlier_agents.iter().find(is_other)
    {
        reviewers.push((*earlier).to_owned());
    }
    let unassigned = Task { assigned_agent: None, ..task.clone() };
    let best = |left: &[&AgentCard]| {
        let left: Vec<AgentCard> = left.iter().copied().cloned().collect();
        select::select_by_rules(&unassigned, &left).agent
    };
    add_reviewers(agent, agents, reviewers, min_reviewers(defaults), best)
}

/// The collaborators that the task names and the agents of the phases, as far as there are such agents.
fn named_reviewers(
    task: &Task,
    agent: &str,
    agents: &[AgentCard],
    defaults: &DiscussionDefaults,
) -> Vec<String> {
    let is_available = |name: &str| agents.iter().any(|card| card.name == name) && name != agent;
    let mut reviewers: Vec<String> = Vec::new();
    for name in task.collaborators.iter().chain(defaults.agents()).filter(|name| is_available(name)) {
        if !reviewers.contains(name) {
            reviewers.push(name.clone());
        }
    }
    reviewers
}

/// Adds reviewers until there are `fewest`, as far as the project has agents that may be chosen: the one that `best`
/// finds, or else the first by name, of those that are meant to be seen first.
fn add_reviewers(
    agent: &str,
    agents: &[AgentCard],
    mut reviewers: Vec<String>,
    fewest: usize,
    best: impl Fn(&[&AgentCard]) -> Option<String>,
) -> Vec<String> {
    while reviewers.len() < fewest {
        let is_left =
            |card: &&AgentCard| card.is_selectable && card.name != agent && !reviewers.contains(&card.name);
        let left: Vec<&AgentCard> = agents.iter().filter(is_left).collect();
        // A review that the task requires is not left out because nothing in the task points to one agent.
        let any = || left.iter().min_by_key(|card| (card.visibility == Visibility::Internal, &card.name));
        match best(&left).or_else(|| any().map(|card| card.name.clone())) {
            Some(next) => reviewers.push(next),
            None => break,
        }
    }
    reviewers
}

/// How many agents the kind needs besides the one whose result is reviewed.
fn min_reviewers(defaults: &DiscussionDefaults) -> usize {
    let kind = defaults.effective_kind().and_then(DiscussionKind::parse);
    kind.unwrap_or(DiscussionKind::ReviewLoop).min_participants() - 1
}

#[cfg(test)]
pub(super) mod tests;
