use emergent_coordination::DiscussionDetail;
use emergent_domain::{object::Object as GraphObject, run::Run, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::run::RunStatusView;

/// A discussion, with what was said in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Discussion)]
pub(crate) struct DiscussionView {
    id: Uuid,
    topic: String,
    /// Such as `review_loop`, `consensus`, `debate`, `brainstorm`, `problem_solving`.
    kind: String,
    /// `active`, `resolved` or `escalated`.
    status: String,
    /// The task it was started for.
    task_id: Option<String>,
    participants: Vec<String>,
    /// The share of weight behind the decision, 0 to 1.
    consensus_level: Option<f64>,
    #[schema(value_type = Option<Object>)]
    final_decision: Option<Value>,
    /// Why a person has to decide, and between what.
    #[schema(value_type = Option<Object>)]
    escalation: Option<Value>,
    /// What a person decided, and why.
    #[schema(value_type = Option<Object>)]
    decided_by_person: Option<Value>,
    /// In the order they were said.
    entries: Vec<EntryView>,
    /// The turns, in the order they were asked for.
    runs: Vec<TurnView>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DiscussionEntry)]
pub(crate) struct EntryView {
    id: Uuid,
    agent: String,
    /// Such as `proposal`, `argument`, `feedback`, `vote`, `decision`.
    entry_type: String,
    phase: Option<String>,
    round: Option<i64>,
    content: String,
    /// What a vote is for.
    option: Option<String>,
    confidence: Option<f64>,
    reason: Option<String>,
    run_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DiscussionTurn)]
pub(crate) struct TurnView {
    run_id: Uuid,
    agent: String,
    #[schema(value_type = RunStatusView)]
    status: emergent_domain::run::RunStatus,
}

impl From<DiscussionDetail> for DiscussionView {
    fn from(shown: DiscussionDetail) -> Self {
        let object = shown.discussion;
        let map = object.properties.to_map();
        let some = |name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
        let people = map.get("participating_agents").and_then(Value::as_array);
        Self {
            id: object.id.0,
            topic: text(&map, "topic").unwrap_or_default(),
            kind: text(&map, "discussion_type").unwrap_or_default(),
            status: text(&map, "status").unwrap_or_default(),
            task_id: text(&map, "task_id"),
            participants: people.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            consensus_level: map.get("consensus_level").and_then(Value::as_f64),
            final_decision: some("final_decision"),
            escalation: some("escalation"),
            decided_by_person: some("decided_by_person"),
            entries: shown.entries.iter().map(Into::into).collect(),
            runs: shown.runs.into_iter().map(Into::into).collect(),
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }
}

impl From<&GraphObject> for EntryView {
    fn from(object: &GraphObject) -> Self {
        let map = object.properties.to_map();
        Self {
            id: object.id.0,
            agent: text(&map, "agent_name").unwrap_or_default(),
            entry_type: text(&map, "entry_type").unwrap_or_default(),
            phase: text(&map, "phase"),
            round: map.get("round").and_then(Value::as_i64),
            content: text(&map, "content").unwrap_or_default(),
            option: text(&map, "option"),
            confidence: map.get("confidence").and_then(Value::as_f64),
            reason: text(&map, "reason"),
            run_id: text(&map, "run_id"),
            at: object.created_at,
        }
    }
}

impl From<Run> for TurnView {
    fn from(run: Run) -> Self {
        Self { run_id: run.id.0, agent: run.agent_name, status: run.status }
    }
}

fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// How a person settles an escalated discussion.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DecideDiscussion {
    /// In words, or an object with `text` or `option`.
    #[schema(value_type = Object, example = "Go with the first proposal")]
    pub decision: Value,
    #[schema(min_length = 1)]
    pub reason: Option<String>,
}
