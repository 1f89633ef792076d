//! Discussions with their entries and turns, and the decision of a person.

use emergent_domain::{object::Object as GraphObject, run::Run, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{
    ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Type},
    },
};
use uuid::Uuid;

use crate::schema;

/// A discussion, with what was said in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Discussion)]
pub struct DiscussionView {
    pub id: Uuid,
    pub topic: String,
    /// `review_loop`, `consensus`, `debate`, `brainstorm`, `problem_solving` or `collaboration`.
    pub kind: String,
    /// `active`, `resolved`, `escalated` or `abandoned`: its workflow was cancelled before it was decided.
    pub status: String,
    /// The task it was started for.
    pub task_id: Option<String>,
    pub participants: Vec<String>,
    /// The share of weight behind the decision, 0 to 1.
    pub consensus_level: Option<f64>,
    #[schema(value_type = Option<Object>)]
    pub final_decision: Option<Value>,
    /// Why a person has to decide, and between what.
    #[schema(value_type = Option<Object>)]
    pub escalation: Option<Value>,
    /// What a person decided, and why.
    #[schema(value_type = Option<Object>)]
    pub decided_by_person: Option<Value>,
    /// In the order they were said.
    pub entries: Vec<EntryView>,
    /// The turns, in the order they were asked for.
    pub runs: Vec<TurnView>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A discussion in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DiscussionFacts)]
pub struct DiscussionSummaryView {
    pub id: Uuid,
    pub topic: String,
    pub kind: String,
    /// `active`, `resolved`, `escalated` or `abandoned`: its workflow was cancelled before it was decided.
    pub status: String,
    /// The task it was started for.
    pub task_id: Option<String>,
    pub participants: Vec<String>,
    /// The share of weight behind the decision, 0 to 1.
    pub consensus_level: Option<f64>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<GraphObject> for DiscussionSummaryView {
    fn from(object: GraphObject) -> Self {
        let map = object.properties.to_map();
        let names = map.get("participating_agents").and_then(Value::as_array).map(Vec::as_slice);
        Self {
            id: object.id.0,
            topic: text(&map, "topic").unwrap_or_default(),
            kind: text(&map, "discussion_type").unwrap_or_default(),
            status: text(&map, "status").unwrap_or_default(),
            task_id: text(&map, "task_id"),
            participants: names
                .unwrap_or_default()
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            consensus_level: map.get("consensus_level").and_then(Value::as_f64),
            created_at: object.created_at,
            updated_at: object.updated_at,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DiscussionEntry)]
pub struct EntryView {
    pub id: Uuid,
    pub agent: String,
    /// `argument`, `proposal`, `vote`, `question`, `clarification`, `feedback` or `decision`.
    pub entry_type: String,
    pub phase: Option<String>,
    pub round: Option<i64>,
    pub content: String,
    /// What a vote is for.
    pub option: Option<String>,
    pub confidence: Option<f64>,
    pub reason: Option<String>,
    pub run_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DiscussionTurn)]
pub struct TurnView {
    pub run_id: Uuid,
    pub agent: String,
    #[schema(value_type = schema::RunStatus)]
    pub status: emergent_domain::run::RunStatus,
}

impl DiscussionView {
    /// Builds the view from the graph objects of the discussion and its entries, and the runs of its turns.
    pub fn new(discussion: &GraphObject, entries: &[GraphObject], runs: Vec<Run>) -> Self {
        let map = discussion.properties.to_map();
        let non_null = |name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
        let participants = map.get("participating_agents").and_then(Value::as_array).into_iter().flatten();
        Self {
            id: discussion.id.0,
            topic: text(&map, "topic").unwrap_or_default(),
            kind: text(&map, "discussion_type").unwrap_or_default(),
            status: text(&map, "status").unwrap_or_default(),
            task_id: text(&map, "task_id"),
            participants: participants.filter_map(Value::as_str).map(str::to_owned).collect(),
            consensus_level: map.get("consensus_level").and_then(Value::as_f64),
            final_decision: non_null("final_decision"),
            escalation: non_null("escalation"),
            decided_by_person: non_null("decided_by_person"),
            entries: entries.iter().map(Into::into).collect(),
            runs: runs.into_iter().map(Into::into).collect(),
            created_at: discussion.created_at,
            updated_at: discussion.updated_at,
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

/// Returns a property that is a string.
fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// How a person settles an escalated discussion.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideDiscussion {
    /// In words, or an object with `text` or `option`.
    #[schema(schema_with = decision_schema)]
    pub decision: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub reason: Option<String>,
}

/// Returns the schema of a decision: a string, or an object.
fn decision_schema() -> RefOr<Schema> {
    let string = |description: &str| {
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).description(Some(description))
    };
    let object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("text", string("The decision in words."))
        .property("option", string("The option that is chosen."))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
    OneOfBuilder::new()
        .item(string("In words."))
        .item(object)
        .description(Some("In words, or an object with `text` or `option`."))
        .examples([Value::from("Go with the first proposal")])
        .into()
}
