//! How many triggers a project has, and how large they are.

use emergent_domain::{
    ids::{AgentId, ProjectId, ScheduleId},
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart, Schedule, ScheduleConfig},
    workflow_template::WorkflowTemplate,
};
use emergent_store::{
    Db, Error, Tx, schedules,
    triggers::{
        self,
        totals::{TriggerTotals, totals},
    },
};
use emergent_testkit::both_engines;

use crate::unreadable::now;

async fn count(db: &Db, project: ProjectId) -> TriggerTotals {
    let counted: Result<TriggerTotals, Error> = db.read(move |tx| totals(tx, project)).await;
    counted.unwrap()
}

fn event(project: ProjectId, input: &str, dispatch: Option<WorkflowTemplate>) -> EventTrigger {
    EventTrigger {
        agent: AgentId::new(),
        dispatch,
        name: None,
        product: None,
        project,
        event: EventKind::EntityCreated,
        config: EventConfig { input: Some(input.to_owned()), ..EventConfig::default() },
        since: FeedStart::default(),
    }
}

fn schedule(project: ProjectId, name: &str) -> Schedule {
    Schedule {
        id: ScheduleId::new(),
        project,
        agent: AgentId::new(),
        dispatch: None,
        product: None,
        name: name.to_owned(),
        cron: "0 8 * * *".to_owned(),
        config: ScheduleConfig::default(),
        next_at: None,
        waiting_since: None,
        paused_at: None,
        error: None,
        last_at: None,
        last_run: None,
        last_workflow: None,
        created_at: now(),
        updated_at: now(),
    }
}

both_engines! {
    async fn triggers_of_all_kinds_are_counted(db: TestDb) {
        let (project, other) = (ProjectId::new(), ProjectId::new());
        assert_eq!(count(&db, project).await, TriggerTotals { count: 0, bytes: 0 });
        let template = WorkflowTemplate { description: Some("w".repeat(2_000)), ..WorkflowTemplate::default() };
        let rows = [event(project, &"i".repeat(1_000), None), event(project, "i", Some(template)), event(other, "i", None)];
        let times = [schedule(project, "one"), schedule(other, "one")];
        let write = move |tx: &mut Tx<'_>| {
            rows.iter().try_for_each(|row| triggers::upsert(tx, row))?;
            times.iter().try_for_each(|row| schedules::insert(tx, row))
        };
        let written: Result<(), Error> = db.write(write).await;
        written.unwrap();
        let all = count(&db, project).await;
        assert_eq!(all.count, 3);
        assert!((3_000..4_000).contains(&all.bytes), "{all:?}");
        assert_eq!(count(&db, other).await.count, 2);
    }
}
