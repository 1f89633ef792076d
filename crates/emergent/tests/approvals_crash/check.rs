//! What has to be true after all kills.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::Path,
};

use serde_json::Value;

use crate::{agents::Agents, common::Api, deciders::Ledger};

/// What came of all requests.
#[derive(Debug, Default)]
pub struct Outcome {
    approved: usize,
    denied: usize,
    effects: usize,
    /// Approved calls whose record says that they were made, without an effect.
    lost: usize,
    /// Calls with more than one effect.
    twice: usize,
    /// Calls that took effect although they were denied.
    denied_effects: usize,
    /// Calls of the external program that were interrupted, and whose record says that their outcome is unknown.
    unknown: usize,
    /// How often one of two people who decided at the same time was told that the other one was first.
    contests: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { approved, denied, effects, lost, twice, denied_effects, unknown, contests } = self;
        write!(
            out,
            "{approved} approved, {denied} denied, effects {effects}, lost {lost}, twice {twice}, denied but made \
             {denied_effects}, interrupted with an unknown outcome {unknown}, two deciders at once {contests}"
        )
    }
}

impl Outcome {
    pub fn assert_exactly_once(&self) {
        assert_eq!((self.lost, self.twice, self.denied_effects), (0, 0, 0), "{self}");
        assert!(self.approved > 0 && self.denied > 0 && self.contests > 0, "everything occurs: {self}");
        assert!(self.effects <= self.approved && self.effects + self.unknown >= self.approved, "{self}");
    }

    /// Adds a request that was decided, with the number of its effects and what its record says.
    fn add(&mut self, is_approved: bool, effects: usize, record: &Recorded, about: &Value) {
        self.effects += effects;
        self.twice += usize::from(effects > 1);
        if is_approved {
            self.approved += 1;
            match record {
                Recorded::Made => self.lost += usize::from(effects == 0),
                Recorded::Unknown => self.unknown += 1,
                Recorded::Failed => panic!("an approved call failed: {about}"),
            }
        } else {
            self.denied += 1;
            self.denied_effects += usize::from(effects > 0);
            assert!(matches!(record, Recorded::Failed), "the record says that it was made: {about}");
        }
    }
}

/// What the record of a run says about a call.
enum Recorded {
    Made,
    /// It was interrupted while it was being made.
    Unknown,
    Failed,
}

impl Recorded {
    fn from_call(call: &Value) -> Self {
        match call["status"].as_str() {
            Some("completed") => Self::Made,
            Some("error") if call["output"].to_string().contains("Whether it took effect is not known") => {
                Self::Unknown
            }
            Some("error") => Self::Failed,
            _ => panic!("a call of a run that has ended: {call}"),
        }
    }
}

/// The effects by title: objects of the graph, and lines of the file.
async fn read_effects(api: &Api, file: &Path) -> BTreeMap<String, usize> {
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for object in api.all("/api/graph/objects?type=Effect").await {
        let title = object["properties"]["title"].as_str().expect("a title");
        *effects.entry(title.to_owned()).or_default() += 1;
    }
    let lines = std::fs::read_to_string(file).unwrap_or_default();
    for line in lines.lines() {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    effects
}

pub async fn check(api: &Api, agents: &Agents, ledger: &Ledger, file: &Path) -> Outcome {
    let mut effects = read_effects(api, file).await;
    let decided = api.all("/api/approvals?status=decided").await;
    let mut outcome = Outcome { contests: ledger.contests, ..Outcome::default() };
    let mut found = HashSet::new();
    for item in &decided {
        let id = item["id"].as_str().expect("an id");
        let request = api.get(&format!("/api/approvals/{id}")).await.data();
        let decision = request["decision"]["decision"].as_str().expect("a decision");
        if let Some(told) = ledger.acknowledged.get(id) {
            assert_eq!(told, decision, "what was acknowledged is in the record");
            found.insert(id);
        }
        let title = request["input"]["properties"]["title"].as_str().or(request["input"]["title"].as_str());
        let title = title.unwrap_or_else(|| panic!("a title: {request}"));
        let call = read_call(api, agents, &request).await;
        let record = Recorded::from_call(&call);
        let is_external = request["agentId"] == agents.external;
        assert!(is_external || !matches!(record, Recorded::Unknown), "a write to the graph is known: {call}");
        outcome.add(decision == "approve", effects.remove(title).unwrap_or(0), &record, &call);
    }
    assert_eq!(found.len(), ledger.acknowledged.len(), "no acknowledged decision is lost");
    assert!(effects.is_empty(), "nothing happened that nobody decided: {effects:?}");
    let runs = api.all("/api/admin/runs?status=completed").await.len();
    assert_eq!(runs, decided.len(), "every run that asked has ended");
    outcome
}

/// The record of the call of a request.
async fn read_call(api: &Api, agents: &Agents, request: &Value) -> Value {
    let text = |field: &str| request[field].as_str().expect("an id").to_owned();
    let agent = text("agentId");
    assert!(agent == agents.built_in || agent == agents.external, "{request}");
    let path = format!("/api/admin/agents/{agent}/runs/{}/tool-calls/{}", text("runId"), text("toolCallId"));
    api.get(&path).await.data()
}
