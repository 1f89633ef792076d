//! Converts triggers and their firings for the API.

use emergent_domain::{
    ids::AgentId,
    invalid::Invalid,
    trigger::{EventTrigger, FiringCause, Schedule},
    workflow_template::WorkflowTemplate,
};
use emergent_executor::triggers::{HeldBack, ListedFiring, Triggers, WorkflowTriggerSpec};
use emergent_wire::dispatch::Dispatch;
pub(crate) use emergent_wire::trigger::*;
use serde_json::Value;

use super::IntoView;

impl IntoView<TriggersView> for Triggers {
    fn into_view(self) -> TriggersView {
        let triggers = self;
        let (names, held_back) = (triggers.agents, triggers.held_back);
        let name_of = |agent: &AgentId| names.get(agent).cloned().unwrap_or_default();
        let schedule_view = |schedule: Schedule| {
            let name = name_of(&schedule.agent);
            ScheduleView::new(schedule, name)
        };
        let event_view = |trigger: EventTrigger| {
            let (name, held_back) = (name_of(&trigger.agent), held_back.get(&trigger.agent).copied());
            EventTriggerView {
                held_back: held_back.map(held_back_view),
                ..EventTriggerView::new(trigger, name)
            }
        };
        TriggersView {
            schedules: triggers.schedules.into_iter().map(schedule_view).collect(),
            events: triggers.events.into_iter().map(event_view).collect(),
        }
    }
}

fn held_back_view(held_back: HeldBack) -> HeldBackView {
    let HeldBack { events, unfinished } = held_back;
    HeldBackView { events, unfinished_runs: unfinished.count, waiting_runs: unfinished.waiting }
}

impl IntoView<FiringView> for ListedFiring {
    fn into_view(self) -> FiringView {
        let listed = self;
        let firing = listed.firing;
        let mut view = FiringView {
            id: firing.id.0,
            agent_id: firing.trigger_name.is_none().then_some(firing.agent.0),
            agent_name: listed.agent_name,
            trigger_name: firing.trigger_name,
            status: firing.status,
            reason: firing.reason,
            run_id: firing.run.map(Into::into),
            workflow_id: firing.workflow.map(Into::into),
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

/// Converts a request to save a trigger that starts a workflow.
pub(crate) fn workflow_trigger(name: String, body: PutTrigger) -> Result<WorkflowTriggerSpec, Invalid> {
    let trigger = body.trigger.parse().map_err(|reason: String| Invalid::new("trigger", reason))?;
    let dispatch = template(body.dispatch).map_err(|invalid| invalid.prefixed("dispatch"))?;
    let spec = WorkflowTriggerSpec { name, trigger, config: Value::Object(body.config), dispatch };
    spec.check()?;
    Ok(spec)
}

fn template(body: Dispatch) -> Result<WorkflowTemplate, Invalid> {
    let refused = [
        ("taskIds", body.task_ids.is_some()),
        ("rootTaskId", body.root_task_id.is_some()),
        ("query", body.query.is_some()),
        ("dryRun", body.dry_run),
    ];
    if let Some((field, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(Invalid::new(field, "is not for a trigger: give `description` or `tasks`"));
    }
    Ok(WorkflowTemplate {
        description: body.description,
        tasks: body.tasks.map(|tasks| tasks.into_iter().map(Into::into).collect()),
        max_concurrent: body.max_concurrent,
        budget_usd: body.budget_usd,
        budget_tokens: body.budget_tokens,
        selector: body.selector,
        evaluate: body.evaluate,
        threading: body.threading,
        on_failure: body.on_failure,
        planner: body.planner,
        model: body.model.map(Into::into),
    })
}
