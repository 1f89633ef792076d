//! What came of a discussion.

use emergent_domain::{discussion_options::ACCEPT_PROPOSAL, task::NewTask};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    PersonDecision,
    replay::{Replay, TranscriptEntry},
    settings::EntryType,
    tally::{OptionTally, Tally},
    tasks,
    votes::{APPROVED, SUGGEST_CHANGES, VoteOptions},
};
use crate::workflow::question::truncate;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiscussionOutcome {
    /// An object: `option` where there was a vote, `text`, `reasons`, and `by` when a person decided.
    pub decision: Value,
    /// The share of weight behind it.
    pub consensus_level: f64,
    /// What was decided, in full: the last proposal, the winning option, the judge's words.
    pub text: String,
    /// Who would have decided otherwise, and why.
    pub dissent: Vec<Dissent>,
    /// Every option, the most supported first. Empty where nothing was voted on.
    pub ranked: Vec<RankedOption>,
    /// Work that the decision asks for.
    pub tasks: Vec<NewTask>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dissent {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedOption {
    pub option: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    pub weight: f64,
    pub share: f64,
    pub voters: Vec<String>,
}

impl DiscussionOutcome {
    /// One that was not voted on.
    pub(super) fn from_text(text: String) -> Self {
        let tasks = tasks::requested_tasks([text.as_str()]);
        Self { decision: json!({ "text": text }), text, tasks, ..Self::default() }
    }

    pub(super) fn with_full_consensus(mut self) -> Self {
        self.consensus_level = 1.0;
        self
    }

    /// The leading option of a vote. What its voters wrote may ask for tasks.
    pub(super) fn from_vote(tally: &Tally, options: &VoteOptions) -> Self {
        let mut outcome = Self { consensus_level: tally.consensus_level(), ..Self::default() };
        outcome.ranked = rank_options(tally, Some(options));
        let Some(first) = tally.leading() else { return outcome };
        let said = options.text(&first.option);
        let alone = first.voters.len() == 1 && tally.votes() == 1;
        outcome.text = match said {
            // One who decides alone has said what was decided.
            "" if alone && !first.voters[0].text.trim().is_empty() => first.voters[0].text.clone(),
            "" => first.option.clone(),
            said => format!("{}: {said}", first.option),
        };
        let voters: Vec<Value> =
            first.voters.iter().map(|one| json!({ "agent": one.agent, "reason": one.reason })).collect();
        outcome.decision = json!({ "option": first.option, "text": outcome.text, "reasons": voters });
        outcome.dissent = dissenting_votes(tally, &first.option);
        let texts = first.voters.iter().map(|voter| voter.text.as_str());
        outcome.tasks = tasks::requested_tasks(texts.chain([said]));
        outcome
    }

    /// The whole list counts, and none of it is lost because another was ahead.
    pub(super) fn from_ranking(tally: &Tally, options: &VoteOptions) -> Self {
        let mut outcome = Self::from_vote(tally, options);
        if outcome.text.is_empty()
            && let Some(first) = outcome.ranked.first()
        {
            outcome.text = first.option.clone();
        }
        let names: Vec<&str> = outcome.ranked.iter().map(|one| one.option.as_str()).collect();
        outcome.decision = json!({ "ranked": names, "text": outcome.text });
        outcome
    }

    /// The words of one who decided after a vote: they stand, whatever the vote was for.
    pub(super) fn override_with(&mut self, decision: &TranscriptEntry) {
        self.text.clone_from(&decision.text);
        let option = self.decision.get("option").cloned();
        self.decision = json!({ "text": decision.text, "by": decision.agent });
        if let Some(option) = option {
            self.decision["preferred"] = option;
        }
        self.tasks = tasks::requested_tasks([decision.text.as_str()]);
    }

    /// What the vote was about, when the options only say yes or no.
    pub(super) fn set_text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        for task in tasks::requested_tasks([text.as_str()]) {
            if !self.tasks.iter().any(|one| one.key == task.key) {
                self.tasks.push(task);
            }
        }
        self.decision["proposal"] = json!(text);
        self.text = text;
    }

    /// Keeps the last word of each who argued in a phase.
    pub(super) fn add_dissent(&mut self, walk: &Replay, phase: &str) {
        for entry in walk.entries.iter().rev().filter(|entry| entry.phase == phase) {
            if !self.dissent.iter().any(|one| one.agent == entry.agent) {
                self.dissent.push(Dissent {
                    agent: entry.agent.clone(),
                    option: None,
                    reason: truncate(&entry.text, 2_000),
                });
            }
        }
    }

    /// What there is to go by when a person has to decide.
    pub(super) fn partial(walk: &Replay) -> Self {
        let mut outcome = Self { text: walk.last_proposal(), ..Self::default() };
        if let Some(tally) = &walk.tally {
            // Of a review, the approvals count: those who want changes do not agree with the proposal.
            let approvals = tally.ranks.iter().find(|rank| rank.option == APPROVED);
            outcome.consensus_level =
                approvals.map_or_else(|| tally.consensus_level(), |rank| tally.share(rank.weight));
            outcome.ranked = rank_options(tally, None);
            let leading = approvals.or_else(|| tally.leading()).map(|rank| rank.option.as_str());
            // With nobody ahead everybody's reasons are on the table.
            outcome.dissent = dissenting_votes(tally, leading.unwrap_or_default());
        }
        outcome.decision = Value::Object(Map::new());
        outcome
    }

    /// Whether the participants of a review voted for changes.
    pub(super) fn is_rejection(&self) -> bool {
        self.decision.get("option").and_then(Value::as_str) == Some(SUGGEST_CHANGES)
    }

    /// A person has decided: that is the outcome, with what the participants thought of it kept.
    pub(super) fn with_person_decision(self, person: &PersonDecision) -> Self {
        let mut map = match &person.decision {
            Value::Object(map) => map.clone(),
            other => Map::from_iter([("decision".to_owned(), other.clone())]),
        };
        let said =
            ["text", "decision", "option"].iter().find_map(|name| map.get(*name).and_then(Value::as_str));
        // The participants of a review may have voted against the result without a proposal of their own.
        let has_proposal = !self.is_rejection() || self.decision.get("proposal").is_some();
        let accepts = |said: &str| {
            let yes = [ACCEPT_PROPOSAL, APPROVED, "approve", "accept"];
            has_proposal
                && !self.text.is_empty()
                && yes.iter().any(|yes| yes.eq_ignore_ascii_case(said.trim()))
        };
        // What was accepted is handed on, not the word for accepting it.
        let text = match said {
            Some(said) if !accepts(said) => said.to_owned(),
            _ => self.text.clone(),
        };
        let tasks = tasks::parse_tasks(map.get("tasks"));
        map.insert("by".to_owned(), json!("person"));
        if !person.reason.is_empty() {
            map.insert("reason".to_owned(), json!(person.reason));
        }
        Self { decision: Value::Object(map), text, tasks, ..self }
    }
}

fn rank_options(tally: &Tally, options: Option<&VoteOptions>) -> Vec<RankedOption> {
    let one = |rank: &OptionTally| RankedOption {
        option: rank.option.clone(),
        text: options.map(|options| options.text(&rank.option).to_owned()).unwrap_or_default(),
        weight: rank.weight,
        share: tally.share(rank.weight),
        voters: rank.voters.iter().map(|voter| voter.agent.clone()).collect(),
    };
    tally.ranks.iter().map(one).collect()
}

fn dissenting_votes(tally: &Tally, winner: &str) -> Vec<Dissent> {
    let others = tally.ranks.iter().filter(|rank| rank.option != winner);
    let dissents = others.flat_map(|rank| {
        rank.voters.iter().map(|voter| Dissent {
            agent: voter.agent.clone(),
            option: Some(rank.option.clone()),
            reason: if voter.reason.is_empty() { truncate(&voter.text, 2_000) } else { voter.reason.clone() },
        })
    });
    dissents.collect()
}

impl Replay<'_> {
    pub(super) fn last_proposal(&self) -> String {
        let proposals = self.entries.iter().rev().find(|entry| entry.type_ == EntryType::Proposal);
        proposals.map(|entry| entry.text.clone()).unwrap_or_default()
    }
}
