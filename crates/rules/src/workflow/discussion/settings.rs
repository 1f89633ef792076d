//! What a discussion is about, who takes part, and how it goes.

use emergent_domain::coordination::{DiscussionDefaults, DiscussionPhase};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscussionKind {
    /// One proposes, the others approve or suggest changes.
    ReviewLoop,
    Consensus,
    Debate,
    Brainstorm,
    ProblemSolving,
    /// Phases of its own: review, synthesis, decision unless `phases` says otherwise.
    Collaboration,
}

impl DiscussionKind {
    pub const ALL: &[DiscussionKind] = &[
        DiscussionKind::ReviewLoop,
        DiscussionKind::Consensus,
        DiscussionKind::Debate,
        DiscussionKind::Brainstorm,
        DiscussionKind::ProblemSolving,
        DiscussionKind::Collaboration,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DiscussionKind::ReviewLoop => "review_loop",
            DiscussionKind::Consensus => "consensus",
            DiscussionKind::Debate => "debate",
            DiscussionKind::Brainstorm => "brainstorm",
            DiscussionKind::ProblemSolving => "problem_solving",
            DiscussionKind::Collaboration => "collaboration",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// The fewest participants that can hold it.
    pub(super) fn min_participants(self) -> usize {
        if self == DiscussionKind::Debate { 3 } else { 2 }
    }

    fn default_rounds(self) -> i64 {
        match self {
            DiscussionKind::ReviewLoop => 3,
            DiscussionKind::Debate => 2,
            _ => 1,
        }
    }
}

/// What a `DiscussionEntry` is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryType {
    #[default]
    Argument,
    Proposal,
    Vote,
    /// What has to be known before a decision.
    Question,
    /// The answer to a question.
    Clarification,
    Feedback,
    Decision,
}

impl EntryType {
    pub const ALL: &[EntryType] = &[
        EntryType::Argument,
        EntryType::Proposal,
        EntryType::Vote,
        EntryType::Question,
        EntryType::Clarification,
        EntryType::Feedback,
        EntryType::Decision,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            EntryType::Argument => "argument",
            EntryType::Proposal => "proposal",
            EntryType::Vote => "vote",
            EntryType::Question => "question",
            EntryType::Clarification => "clarification",
            EntryType::Feedback => "feedback",
            EntryType::Decision => "decision",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|type_| type_.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participant {
    pub agent: String,
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// A free word that the agent is told. These mean something here: `proposer`, `judge`, `for`,
    /// `against`, `moderator`, `synthesizer`, `decider`, `reviewer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

impl Participant {
    pub fn new(agent: impl Into<String>) -> Self {
        Self { agent: agent.into(), weight: 1.0, role: None }
    }

    /// What its vote counts. What is no weight counts nothing.
    pub(super) fn vote_weight(&self) -> f64 {
        if self.weight.is_finite() { self.weight.clamp(0.0, 1e6) } else { 0.0 }
    }

    pub(super) fn has_role(&self, role: &str) -> bool {
        self.role.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(role))
    }
}

/// A phase of a collaboration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    /// Who is asked; nobody named is everybody.
    #[serde(default)]
    pub agents: Vec<String>,
    #[serde(default = "default_max_rounds")]
    pub max_rounds: i64,
    #[serde(default)]
    pub output_type: EntryType,
}

impl Phase {
    fn from_settings(phase: &DiscussionPhase) -> Self {
        Self {
            name: phase.name.clone(),
            agents: phase.agents.clone(),
            max_rounds: phase.max_rounds.unwrap_or(default_max_rounds()),
            output_type: phase.output.as_deref().and_then(EntryType::parse).unwrap_or_default(),
        }
    }
}

/// Kept with the discussion: a walk that is taken up again goes by what was set at its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscussionSettings {
    pub kind: DiscussionKind,
    pub topic: String,
    #[serde(default)]
    pub context: String,
    /// In a review loop the first one proposes, unless one has the role `proposer`.
    pub participants: Vec<Participant>,
    /// What can be voted for; none are found by the participants.
    #[serde(default)]
    pub options: Vec<String>,
    /// Of feedback, of argument and vote, or of debate; without it what the kind is used to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<i64>,
    /// The share of weight an option needs.
    #[serde(default = "default_threshold")]
    pub threshold: f64,
    #[serde(default)]
    pub criteria: Vec<String>,
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// How many have to be left; without it half of them, at least two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<usize>,
    /// The quorum that the task or its project sets, if there are fewer participants and so it is lower here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowered_quorum: Option<usize>,
}

fn default_weight() -> f64 {
    1.0
}

fn default_max_rounds() -> i64 {
    1
}

fn default_threshold() -> f64 {
    0.7
}

pub const MAX_PARTICIPANTS: usize = 20;
const MAX_ROUNDS: i64 = 10;
const MAX_PHASES: usize = 10;
const MAX_OPTIONS: usize = 50;

impl DiscussionSettings {
    pub fn new(kind: DiscussionKind, topic: impl Into<String>, agents: &[&str]) -> Self {
        Self {
            kind,
            topic: topic.into(),
            context: String::new(),
            participants: agents.iter().map(|agent| Participant::new(*agent)).collect(),
            options: Vec::new(),
            rounds: None,
            threshold: default_threshold(),
            criteria: Vec::new(),
            phases: Vec::new(),
            quorum: None,
            lowered_quorum: None,
        }
    }

    /// Takes over what a task and its project set. The kind stays as it is if they set none. A quorum that they
    /// set in general is no more than there are participants.
    pub fn with_defaults(mut self, defaults: &DiscussionDefaults) -> Self {
        self.kind = defaults.effective_kind().and_then(DiscussionKind::parse).unwrap_or(self.kind);
        self.rounds = defaults.rounds;
        self.threshold = defaults.threshold.unwrap_or(self.threshold);
        self.phases = defaults.phases.iter().map(Phase::from_settings).collect();
        if self.kind != DiscussionKind::Collaboration {
            self.phases.clear();
        }
        let participants = self.all_participants().len();
        self.quorum = defaults.quorum.map(|quorum| quorum.min(participants));
        self.lowered_quorum = defaults.quorum.filter(|quorum| *quorum > participants);
        self
    }

    /// Says that the quorum is lower than the task or its project sets; `None` if it is not.
    pub fn quorum_note(&self) -> Option<String> {
        let (lowered, quorum) = (self.lowered_quorum?, self.quorum?);
        Some(format!(
            "the quorum of {lowered} is lowered to {quorum}, because only {quorum} agents take part"
        ))
    }

    /// What stands against a discussion like this, said to whoever wants to start it. The engine
    /// itself makes the best of anything.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let everybody = self.all_participants();
        let least = self.kind.min_participants();
        if self.topic.trim().is_empty() {
            problems.push("`topic` is empty".to_owned());
        }
        if everybody.len() < least {
            problems.push(format!("a {} needs at least {least} participants", self.kind.as_str()));
        }
        if everybody.len() > MAX_PARTICIPANTS {
            problems.push(format!("a discussion has at most {MAX_PARTICIPANTS} participants"));
        }
        for (at, one) in self.participants.iter().enumerate() {
            if self.participants[..at].iter().any(|other| other.agent == one.agent) {
                problems.push(format!("`{}` takes part twice", one.agent));
            }
            if !one.weight.is_finite() || one.weight < 0.0 || one.weight > 1e6 {
                problems.push(format!("the weight of `{}` must be a number from 0 to 1000000", one.agent));
            }
        }
        if self.options.len() == 1 || self.options.len() > MAX_OPTIONS {
            problems.push(format!("`options` must be 2 to {MAX_OPTIONS}, or none"));
        }
        if self.rounds.is_some_and(|rounds| !(1..=MAX_ROUNDS).contains(&rounds)) {
            problems.push(format!("`rounds` must be 1 to {MAX_ROUNDS}"));
        }
        if !(self.threshold > 0.0 && self.threshold <= 1.0) {
            problems.push("`threshold` must be above 0 and at most 1".to_owned());
        }
        if self.phases.len() > MAX_PHASES {
            problems.push(format!("a collaboration has at most {MAX_PHASES} phases"));
        }
        if !self.phases.is_empty() && self.kind != DiscussionKind::Collaboration {
            problems.push("`phases` are only for a collaboration".to_owned());
        }
        if self.quorum.is_some_and(|quorum| quorum == 0 || quorum > everybody.len()) {
            problems.push("`quorum` must be 1 to the number of participants".to_owned());
        }
        problems
    }

    /// The participants, and those that only a phase names.
    pub(super) fn all_participants(&self) -> Vec<Participant> {
        let mut all = self.participants.clone();
        let phases = if self.kind == DiscussionKind::Collaboration { &self.phases[..] } else { &[] };
        for agent in phases.iter().flat_map(|phase| &phase.agents) {
            if !all.iter().any(|one| one.agent == *agent) {
                all.push(Participant::new(agent.clone()));
            }
        }
        all
    }

    pub(super) fn rounds(&self) -> i64 {
        self.rounds.unwrap_or(self.kind.default_rounds()).clamp(1, MAX_ROUNDS)
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        if !self.phases.is_empty() {
            return self.phases.iter().take(MAX_PHASES).cloned().collect();
        }
        let everybody = self.all_participants();
        let named = |role: &str, otherwise: Option<&Participant>| -> Vec<String> {
            let own: Vec<_> =
                everybody.iter().filter(|one| one.has_role(role)).map(|one| one.agent.clone()).collect();
            if own.is_empty() { otherwise.map(|one| one.agent.clone()).into_iter().collect() } else { own }
        };
        let phase =
            |name: &str, agents, output_type| Phase { name: name.into(), agents, max_rounds: 1, output_type };
        vec![
            phase("review", named("reviewer", None), EntryType::Argument),
            phase("synthesis", named("synthesizer", everybody.first()), EntryType::Proposal),
            phase("decision", named("decider", everybody.last()), EntryType::Vote),
        ]
    }

    pub(super) fn max_rounds(phase: &Phase) -> i64 {
        phase.max_rounds.clamp(1, MAX_ROUNDS)
    }

    /// How many of so many have to be there.
    pub(super) fn quorum_for(&self, seats: usize) -> usize {
        match self.quorum {
            Some(quorum) => quorum.clamp(1, seats.max(1)),
            None if seats < 2 => 1,
            None => seats.div_ceil(2).max(2),
        }
    }
}
