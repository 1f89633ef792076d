//! The counters of budgets, while other transactions count calls.

use std::{sync::mpsc, time::Duration};

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    time::Timestamp,
    workflow::Amount,
};
use emergent_store::{
    Error, Tx,
    budget::{self, BudgetKind, NewModelCall},
    projects,
};
use emergent_testkit::both_engines;
use uuid::Uuid;

/// How long a transaction that has recorded a call stays open while another one creates the counter.
const OPEN_FOR: Duration = Duration::from_millis(300);

fn call(project: ProjectId, workflow: WorkflowId) -> NewModelCall {
    NewModelCall {
        id: Uuid::now_v7(),
        project,
        workflow: Some(workflow),
        task: None,
        agent: "worker".into(),
        run: None,
        budget_runs: Vec::new(),
        at: Timestamp::now(),
    }
}

both_engines! {
    async fn a_call_that_is_recorded_while_the_counter_of_its_workflow_is_created_is_counted(db: TestDb) {
        let stored: Result<_, Error> = db.write(|tx| projects::insert(tx, "default", false, Timestamp::now())).await;
        let (id, workflow) = (stored.unwrap().expect("a new project").id, WorkflowId::new());
        let spent = Amount { microusd: 5, tokens: 70 };
        let (recorded, is_recorded) = mpsc::channel();
        let record = db.db.clone();
        let recording = tokio::spawn(async move {
            let work = move |tx: &mut Tx<'_>| {
                // The call was under no limit when it was made, so nothing was reserved for it.
                budget::insert_settled(tx, &call(id, workflow), spent, true)?;
                let _ = recorded.send(());
                std::thread::sleep(OPEN_FOR);
                Ok::<_, Error>(())
            };
            record.write(work).await
        });
        tokio::task::spawn_blocking(move || is_recorded.recv().unwrap()).await.unwrap();
        let lock = move |tx: &mut Tx<'_>| budget::lock_counters(tx, &call(id, workflow), &[BudgetKind::Workflow]);
        let counters: Result<_, Error> = db.write(lock).await;
        recording.await.unwrap().unwrap();
        assert_eq!(counters.unwrap().get(BudgetKind::Workflow).spent, spent);
    }
}
