//! The input of the tool `discussions_start`.

use emergent_domain::coordination::DiscussionPhase;
use emergent_rules::workflow::discussion::{DiscussionKind, EntryType, Participant};
use emergent_tools::builtin::input::{OneOf, Words};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::caller::TaskRef;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({
    "topic": "Should tags be rows or a JSON list?",
    "participants": ["design-agent", "reviewer-agent"],
    "options": ["rows", "list"],
}))]
pub(super) struct StartInput {
    /// Question to decide.
    #[schemars(length(min = 1, max = 2_000))]
    pub topic: String,
    /// Default: consensus (all argue, then vote).
    #[schemars(with = "Option<OneOf<KindNames>>")]
    pub kind: Option<DiscussionKind>,
    /// Names of agents, each once, or objects.
    #[schemars(length(min = 2, max = 20))]
    pub participants: Vec<ParticipantInput>,
    /// What all should know first.
    #[schemars(length(min = 1, max = 50_000))]
    pub context: Option<String>,
    /// What to vote for; default: found by the participants.
    #[serde(default)]
    #[schemars(length(max = 50), inner(length(min = 1, max = 500)))]
    pub options: Vec<String>,
    /// What a decision is measured by.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(min = 1, max = 500)))]
    pub criteria: Vec<String>,
    /// Most rounds.
    #[schemars(range(min = 1, max = 10))]
    pub rounds: Option<i64>,
    /// Share of the votes that an option needs; default: 0.7.
    pub threshold: Option<f64>,
    /// How many participants must be left; default: half.
    #[schemars(range(min = 1, max = 20))]
    pub quorum: Option<i64>,
    /// For a collaboration; default: review, synthesis, decision.
    #[serde(default)]
    #[schemars(length(max = 10))]
    pub phases: Vec<PhaseInput>,
    /// Key or id of the task; default: your own.
    pub task: Option<TaskRef>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PhaseInput {
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// Who is asked; default: all.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(min = 1, max = 128)))]
    agents: Vec<String>,
    /// Default: 1.
    #[schemars(range(min = 1, max = 10))]
    max_rounds: Option<i64>,
    /// What its entries are; default: argument.
    #[schemars(with = "Option<OneOf<EntryNames>>")]
    output: Option<EntryType>,
}

impl PhaseInput {
    pub fn into_phase(self) -> DiscussionPhase {
        let PhaseInput { name, agents, max_rounds, output } = self;
        let output = output.map(|output| output.as_str().to_owned());
        DiscussionPhase { name, agents, max_rounds, output }
    }
}

/// Names the types of entries for the schema.
struct EntryNames;

impl Words for EntryNames {
    fn words() -> Vec<&'static str> {
        EntryType::ALL.iter().map(|type_| type_.as_str()).collect()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ParticipantInput {
    Named(#[schemars(length(min = 1, max = 128))] String),
    Detailed(ParticipantDetails),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParticipantDetails {
    #[schemars(length(min = 1, max = 128))]
    agent: String,
    /// Such as judge, proposer, for, against.
    #[schemars(length(min = 1, max = 64))]
    role: Option<String>,
    /// Weight of its vote.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0))]
    weight: f64,
}

impl ParticipantInput {
    pub fn into_participant(self) -> Participant {
        match self {
            ParticipantInput::Named(name) => Participant::new(name),
            ParticipantInput::Detailed(ParticipantDetails { agent, role, weight }) => {
                Participant { agent, weight, role }
            }
        }
    }
}

fn default_weight() -> f64 {
    1.0
}

/// Names the kinds for the schema: `DiscussionKind` and `Words` belong to other crates.
struct KindNames;

impl Words for KindNames {
    fn words() -> Vec<&'static str> {
        DiscussionKind::ALL.iter().map(|kind| kind.as_str()).collect()
    }
}
