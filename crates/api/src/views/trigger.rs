//! Triggers as they stand, and their firings.

use std::collections::HashMap;

use emergent_domain::{
    filter::Filter,
    ids::AgentId,
    time::Timestamp,
    trigger::{CoalesceBy, EventKind, EventTrigger, FiringCause, FiringStatus, MissedPolicy, Schedule},
};
use emergent_executor::triggers::{ListedFiring, Triggers};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// What starts a project's agents without anybody asking.
#[derive(Serialize, ToSchema)]
#[schema(as = Triggers)]
pub(crate) struct TriggersView {
    /// Agents' own cron triggers first, then products' jobs, by name.
    schedules: Vec<ScheduleView>,
    /// The agents that wait for something to happen to the graph.
    events: Vec<EventTriggerView>,
}

impl From<Triggers> for TriggersView {
    fn from(triggers: Triggers) -> Self {
        let names = &triggers.agents;
        Self {
            schedules: triggers.schedules.into_iter().map(|one| ScheduleView::new(one, names)).collect(),
            events: triggers.events.into_iter().map(|one| EventTriggerView::new(one, names)).collect(),
        }
    }
}

fn name_of(agent: AgentId, names: &HashMap<AgentId, String>) -> String {
    names.get(&agent).cloned().unwrap_or_default()
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub(crate) struct ScheduleView {
    id: Uuid,
    agent_id: Uuid,
    agent_name: String,
    /// The product whose job it is; null for an agent's own trigger.
    product: Option<String>,
    /// The job's name; `agent:<name>` for an agent's own trigger.
    name: String,
    cron: String,
    time_zone: String,
    /// What becomes of times that passed while no server ran.
    #[schema(value_type = MissedView)]
    missed: MissedPolicy,
    /// What the agent is told; a sentence about the schedule when not said.
    input: Option<String>,
    context: Option<Value>,
    max_steps: Option<i64>,
    timeout_seconds: Option<i64>,
    /// Null: never again, or set aside for what `error` says.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
    /// Its time came then, and it waits because too many runs do.
    #[schema(value_type = Option<String>, format = DateTime)]
    waiting_since: Option<Timestamp>,
    /// Why it was set aside: it fires nothing until it is saved again.
    error: Option<String>,
    /// The time of its last run.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_at: Option<Timestamp>,
    last_run_id: Option<Uuid>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl ScheduleView {
    fn new(schedule: Schedule, names: &HashMap<AgentId, String>) -> Self {
        let config = schedule.config;
        Self {
            id: schedule.id.0,
            agent_id: schedule.agent.0,
            agent_name: name_of(schedule.agent, names),
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
            error: schedule.error,
            last_at: schedule.last_at,
            last_run_id: schedule.last_run.map(Into::into),
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
        }
    }
}

#[derive(ToSchema)]
#[schema(as = Missed, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum MissedView {
    Once,
    Skip,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EventTrigger)]
pub(crate) struct EventTriggerView {
    agent_id: Uuid,
    agent_name: String,
    #[schema(value_type = EventKindView)]
    event: EventKind,
    /// Any of these types; all when empty. Of a document, MIME types.
    types: Vec<String>,
    /// All of these labels.
    labels: Vec<String>,
    /// All of these hold for the properties; of a document, for its metadata.
    #[schema(value_type = Vec<Object>)]
    conditions: Vec<Filter>,
    /// What the agent is told; a sentence about the event when not said.
    input: Option<String>,
    /// How often agents may set one another off before it no longer fires.
    max_depth: i64,
    /// How long it waits for more of the same.
    coalesce_seconds: u64,
    #[schema(value_type = CoalesceByView)]
    coalesce_by: CoalesceBy,
}

impl EventTriggerView {
    fn new(trigger: EventTrigger, names: &HashMap<AgentId, String>) -> Self {
        let config = trigger.config;
        Self {
            agent_id: trigger.agent.0,
            agent_name: name_of(trigger.agent, names),
            event: trigger.event,
            max_depth: config.max_depth(),
            coalesce_seconds: config.window(trigger.event).as_secs(),
            coalesce_by: config.coalesce_by(),
            types: config.types,
            labels: config.labels,
            conditions: config.conditions,
            input: config.input,
        }
    }
}

#[derive(ToSchema)]
#[schema(as = EventKind, rename_all = "snake_case")]
#[allow(dead_code, clippy::enum_variant_names, reason = "describes the domain's type")]
pub(crate) enum EventKindView {
    OnDocumentIngested,
    OnEntityCreated,
    OnEntityUpdated,
    OnRelationshipCreated,
}

#[derive(ToSchema)]
#[schema(as = CoalesceBy, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum CoalesceByView {
    Object,
    Agent,
}

#[derive(ToSchema)]
#[schema(as = FiringStatus, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum FiringStatusView {
    Pending,
    Admitted,
    Refused,
    Skipped,
}

/// One time a trigger's moment came.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Firing)]
pub(crate) struct FiringView {
    id: Uuid,
    agent_id: Uuid,
    agent_name: String,
    #[schema(value_type = FiringStatusView)]
    status: FiringStatus,
    /// Of a skipped one the rule, such as `still_running`; of a refused one the error.
    reason: Option<String>,
    /// The run it started; several firings may share one.
    run_id: Option<Uuid>,
    /// Of a schedule; null for an event.
    schedule_id: Option<Uuid>,
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    /// Of an event; null for a schedule.
    #[schema(value_type = Option<EventKindView>)]
    event: Option<EventKind>,
    /// The object, relationship or document the event tells of.
    entity_id: Option<Uuid>,
    entity_type: Option<String>,
    entity_version: Option<i64>,
    /// The run that wrote what the event tells of.
    caused_by_run: Option<Uuid>,
    /// How many runs set one another off before.
    depth: i64,
    /// Not before this moment.
    #[schema(value_type = String, format = DateTime)]
    due_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    settled_at: Option<Timestamp>,
}

impl From<ListedFiring> for FiringView {
    fn from(listed: ListedFiring) -> Self {
        let firing = listed.firing;
        let mut view = Self {
            id: firing.id.0,
            agent_id: firing.agent.0,
            agent_name: listed.agent_name,
            status: firing.status,
            reason: firing.reason,
            run_id: firing.run.map(Into::into),
            schedule_id: None,
            scheduled_at: None,
            event: None,
            entity_id: None,
            entity_type: None,
            entity_version: None,
            caused_by_run: firing.cause.map(Into::into),
            depth: firing.cause_depth,
            due_at: firing.due_at,
            created_at: firing.created_at,
            settled_at: firing.settled_at,
        };
        match firing.fired {
            FiringCause::Schedule { schedule, at } => {
                (view.schedule_id, view.scheduled_at) = (Some(schedule.0), Some(at));
            }
            FiringCause::Event { event, entity, entity_type, version, at: _ } => {
                view.event = Some(event);
                view.entity_id = Some(entity);
                view.entity_type = Some(entity_type);
                view.entity_version = Some(version);
            }
        }
        view
    }
}
