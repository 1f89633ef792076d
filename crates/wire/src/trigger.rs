//! Schedules and event triggers, and their firings.

use emergent_domain::{
    filter::Filter,
    time::Timestamp,
    trigger::{CoalesceBy, EventKind, EventTrigger, FiringStatus, MissedPolicy, Schedule},
    workflow_template::WorkflowTemplate,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{dispatch::Dispatch, schema};

/// What starts a project's agents without anybody asking.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Triggers)]
pub struct TriggersView {
    /// Agents' own cron triggers first, then products' jobs, by name.
    pub schedules: Vec<ScheduleView>,
    /// The agents that wait for something to happen to the graph.
    pub events: Vec<EventTriggerView>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub struct ScheduleView {
    pub id: Uuid,
    /// The agent that it starts; null when it starts a workflow.
    pub agent_id: Option<Uuid>,
    /// Empty when it starts a workflow.
    pub agent_name: String,
    /// The workflow that it starts instead of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// The product whose job it is; null for an agent's own trigger.
    pub product: Option<String>,
    /// The job's name; `agent:<name>` for an agent's own trigger.
    pub name: String,
    pub cron: String,
    pub time_zone: String,
    /// What becomes of times that passed while no server ran.
    #[schema(value_type = schema::Missed)]
    pub missed: MissedPolicy,
    /// What the agent is told; a sentence about the schedule when not said.
    pub input: Option<String>,
    pub context: Option<Value>,
    pub max_steps: Option<i64>,
    pub timeout_seconds: Option<i64>,
    /// Null: never again, paused, or set aside for what `error` says.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_at: Option<Timestamp>,
    /// Its time came then, and it waits because too many runs do.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub waiting_since: Option<Timestamp>,
    /// False while it is paused: it fires nothing until somebody resumes it.
    #[serde(default = "is_enabled")]
    #[schema(required = true)]
    pub enabled: bool,
    /// Since when it is paused.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub paused_at: Option<Timestamp>,
    /// Why it was set aside: it fires nothing until it is saved again.
    pub error: Option<String>,
    /// The time of its last run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_at: Option<Timestamp>,
    pub last_run_id: Option<Uuid>,
    /// The last workflow that it started.
    #[serde(default)]
    pub last_workflow_id: Option<Uuid>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// True in the answer to somebody who may not read agents: only what identifies the schedule is there, and whether it
    /// is enabled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub withheld: bool,
}

/// Schedules of a server that cannot pause them are enabled.
fn is_enabled() -> bool {
    true
}

impl ScheduleView {
    pub fn new(schedule: Schedule, agent_name: String) -> Self {
        let config = schedule.config;
        Self {
            id: schedule.id.0,
            agent_id: schedule.dispatch.is_none().then_some(schedule.agent.0),
            agent_name,
            dispatch: schedule.dispatch.map(template_view),
            product: schedule.product,
            name: schedule.name,
            cron: schedule.cron,
            time_zone: config.time_zone,
            missed: config.missed,
            input: config.input,
            context: config.context,
            max_steps: config.max_steps,
            timeout_seconds: config.timeout_seconds,
            next_at: schedule.next_at,
            waiting_since: schedule.waiting_since,
            enabled: schedule.paused_at.is_none(),
            paused_at: schedule.paused_at,
            error: schedule.error,
            last_at: schedule.last_at,
            last_run_id: schedule.last_run.map(Into::into),
            last_workflow_id: schedule.last_workflow.map(Into::into),
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
            withheld: false,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EventTrigger)]
pub struct EventTriggerView {
    /// The agent that it starts; null when it starts a workflow.
    pub agent_id: Option<Uuid>,
    /// Empty when it starts a workflow.
    pub agent_name: String,
    /// The name of a trigger that starts a workflow.
    #[serde(default)]
    pub name: Option<String>,
    /// The product whose job it is; null for the trigger of an agent or a person.
    #[serde(default)]
    pub product: Option<String>,
    /// The workflow that it starts instead of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    #[schema(value_type = schema::EventKind)]
    pub event: EventKind,
    /// Any of these types; all when empty. Of a document, MIME types.
    pub types: Vec<String>,
    /// All of these labels.
    pub labels: Vec<String>,
    /// All of these hold for the properties; of a document, for its metadata.
    #[schema(value_type = Vec<Object>)]
    pub conditions: Vec<Filter>,
    /// What the agent is told; a sentence about the event when not said.
    pub input: Option<String>,
    /// How often agents may set one another off before it no longer fires.
    pub max_depth: i64,
    /// How long it waits for more of the same.
    pub coalesce_seconds: u64,
    #[schema(value_type = schema::CoalesceBy)]
    pub coalesce_by: CoalesceBy,
    /// While this many of its runs are unfinished, its events wait; null for no limit.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub max_concurrent: Option<i64>,
    /// Why its events wait; null when none waits for a run to end.
    #[serde(default)]
    pub held_back: Option<HeldBackView>,
}

/// Events that wait because as many runs of their trigger are unfinished as `maxConcurrent` allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HeldBack)]
pub struct HeldBackView {
    /// How many events wait.
    pub events: i64,
    /// The runs of the trigger that are queued, running or waiting.
    pub unfinished_runs: i64,
    /// Those of them that wait for a person.
    pub waiting_runs: i64,
}

impl EventTriggerView {
    pub fn new(trigger: EventTrigger, agent_name: String) -> Self {
        let config = trigger.config;
        Self {
            agent_id: trigger.dispatch.is_none().then_some(trigger.agent.0),
            agent_name,
            name: trigger.name,
            product: trigger.product.filter(|product| !product.is_empty()),
            dispatch: trigger.dispatch.map(template_view),
            event: trigger.event,
            max_depth: config.max_depth(),
            coalesce_seconds: config.window(trigger.event).as_secs(),
            coalesce_by: config.coalesce_by(),
            max_concurrent: config.max_concurrent,
            held_back: None,
            types: config.types,
            labels: config.labels,
            conditions: config.conditions,
            input: config.input,
        }
    }
}

/// One time a trigger's moment came.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Firing)]
pub struct FiringView {
    pub id: Uuid,
    /// Null for a trigger that starts a workflow.
    pub agent_id: Option<Uuid>,
    pub agent_name: String,
    /// The name of a trigger that starts a workflow.
    #[serde(default)]
    pub trigger_name: Option<String>,
    #[schema(value_type = schema::FiringStatus)]
    pub status: FiringStatus,
    /// Of a skipped one the rule, such as `still_running`; of a refused one the error.
    pub reason: Option<String>,
    /// The run it started; several firings may share one.
    pub run_id: Option<Uuid>,
    /// The workflow it started; several firings may share one.
    #[serde(default)]
    pub workflow_id: Option<Uuid>,
    /// Of a schedule; null for an event.
    pub schedule_id: Option<Uuid>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub scheduled_at: Option<Timestamp>,
    /// Of an event; null for a schedule.
    #[schema(value_type = Option<schema::EventKind>)]
    pub event: Option<EventKind>,
    /// The object, relationship or document the event tells of.
    pub entity_id: Option<Uuid>,
    pub entity_type: Option<String>,
    pub entity_version: Option<i64>,
    /// The run that wrote what the event tells of.
    pub caused_by_run: Option<Uuid>,
    /// How many runs set one another off before.
    pub depth: i64,
    /// Not before this moment.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub settled_at: Option<Timestamp>,
}

/// A trigger that starts a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutTrigger {
    /// A cron expression, or an event such as `on_document_ingested`.
    #[schema(min_length = 1, max_length = 200, example = "0 9 * * MON")]
    pub trigger: String,
    /// The workflow: `description` or `tasks`, with the settings of a dispatch.
    pub dispatch: Dispatch,
    /// The settings of the schedule or of the event, as in `config.trigger` of an agent.
    #[serde(default)]
    pub config: Map<String, Value>,
}

/// What to change of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateTrigger {
    /// False pauses the schedule, true resumes it. Times that pass while it is paused are not fired later.
    pub enabled: bool,
}

/// The name of a trigger that starts a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerName {
    pub name: String,
}

/// A template as the request that would start the same workflow.
fn template_view(template: WorkflowTemplate) -> Dispatch {
    Dispatch {
        description: template.description,
        tasks: template.tasks.map(|tasks| tasks.into_iter().map(Into::into).collect()),
        max_concurrent: template.max_concurrent,
        budget_usd: template.budget_usd,
        budget_tokens: template.budget_tokens,
        selector: template.selector,
        evaluate: template.evaluate,
        threading: template.threading,
        on_failure: template.on_failure,
        planner: template.planner,
        model: template.model.map(Into::into),
        ..Dispatch::default()
    }
}
