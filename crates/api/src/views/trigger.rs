//! Converts triggers and their firings for the API.

use emergent_domain::{
    ids::AgentId,
    trigger::{EventTrigger, FiringCause, Schedule},
};
use emergent_executor::triggers::{ListedFiring, Triggers};
pub(crate) use emergent_wire::trigger::*;

use super::IntoView;

impl IntoView<TriggersView> for Triggers {
    fn into_view(self) -> TriggersView {
        let triggers = self;
        let names = triggers.agents;
        let name_of = |agent: &AgentId| names.get(agent).cloned().unwrap_or_default();
        let schedule_view = |schedule: Schedule| {
            let name = name_of(&schedule.agent);
            ScheduleView::new(schedule, name)
        };
        let event_view = |trigger: EventTrigger| {
            let name = name_of(&trigger.agent);
            EventTriggerView::new(trigger, name)
        };
        TriggersView {
            schedules: triggers.schedules.into_iter().map(schedule_view).collect(),
            events: triggers.events.into_iter().map(event_view).collect(),
        }
    }
}

impl IntoView<FiringView> for ListedFiring {
    fn into_view(self) -> FiringView {
        let listed = self;
        let firing = listed.firing;
        let mut view = FiringView {
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
