//! A full run queue: firings wait, none is lost, and no more runs are started than fit, whichever
//! server fires.

use emergent_domain::ids::ProjectId;
use emergent_executor::Error as ExecutorError;
use emergent_testkit::both_engines;

use crate::triggers::*;

fn at_most(max_queued: usize) -> Settings {
    Settings { max_queued, ..Settings::default() }
}

/// Reads the feed until it has shown `count` changes. On PostgreSQL a transaction of any other database of the
/// cluster hides new changes until it ends.
pub(crate) async fn read_events(harness: &Harness, project: ProjectId, count: usize) {
    let mut read = 0;
    for _ in 0..500 {
        read += harness.executor.read_events(project).await.unwrap();
        if read >= count {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the feed shows {read} changes of {count} after five seconds");
}

async fn waiting(two: &TwoServers) -> usize {
    outcomes(&two.firings().await).iter().filter(|one| *one == "pending").count()
}

both_engines! {
    async fn events_fill_the_queue_to_its_limit_and_the_rest_waits_in_order(db: TestDb) {
        let two = TwoServers::with(&db, at_most(3)).await;
        triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        let mut ids = Vec::new();
        for n in 0..8 {
            ids.push(two.create("Note", json!({ "n": n })).await.id);
            read_events(&two.here, two.here.project, 1).await;
            two.pass(1);
        }
        let project = two.here.project;
        for full in [3, 6, 8] {
            two.here.executor.fire_events(project, 50).await.unwrap();
            let (runs, waits) = (two.runs().await.len(), waiting(&two).await);
            assert_eq!((runs, waits), (full, 8 - full));
            if waits > 0 {
                let refused = two.there.executor.fire_events(project, 50).await.unwrap_err();
                assert!(matches!(refused, ExecutorError::Overloaded { limit: "max_queued", .. }), "{refused}");
            }
            assert_eq!(waiting(&two).await, waits, "they are still due");
            end_runs(&two.here, "completed").await;
        }
        let mut told = Vec::new();
        for run in two.runs().await {
            told.push(context(&two.here, &run).await["object"]["id"].clone());
        }
        assert_eq!(told, ids.iter().map(|id| json!(id)).collect::<Vec<_>>(), "the longest due first");
    }

    async fn servers_that_fire_at_once_share_the_room_there_is(db: TestDb) {
        let two = TwoServers::with(&db, at_most(5)).await;
        // With two projects, neither server waits for the other's cursor.
        let other = two.here.executor.graph().create_project("other", false).await.unwrap().id;
        let actor = emergent_graph::Actor { project: other, ..two.here.actor() };
        triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        two.here.executor.create_agent(actor, triggered("theirs", "on_entity_created", json!({}))).await.unwrap();
        for n in 0..10 {
            let properties = json!({ "n": n }).as_object().cloned().unwrap();
            let new = NewObject { type_: "Note".into(), properties, ..NewObject::default() };
            two.here.executor.graph().create_object(actor, new).await.unwrap();
            two.create("Note", json!({ "n": n })).await;
        }
        let project = two.here.project;
        for (harness, project) in [(&two.here, project), (&two.there, other)] {
            read_events(harness, project, 10).await;
        }
        let fired = tokio::join!(two.here.executor.fire_events(project, 50), two.there.executor.fire_events(other, 50));
        let settled: usize = [fired.0, fired.1].into_iter().map(|one| one.unwrap_or(0)).sum();
        assert_eq!(settled, 5);
        let queued: Result<i64, Error> = two.here.executor.graph().db().read(|tx| emergent_store::runs::count_queued(tx, 100)).await;
        assert_eq!(queued.unwrap(), 5);
    }

    async fn a_project_that_has_queued_all_it_may_holds_up_no_other(db: TestDb) {
        // One project may queue six of these eight.
        let two = TwoServers::with(&db, at_most(8)).await;
        let full = two.here.project;
        let other = two.here.executor.graph().create_project("other", false).await.unwrap().id;
        let actor = emergent_graph::Actor { project: other, ..two.here.actor() };
        triggered_agent(&two.here, "notes", "on_entity_created", json!({})).await;
        two.here.executor.create_agent(actor, triggered("theirs", "on_entity_created", json!({}))).await.unwrap();
        let queued = async |project: ProjectId| {
            let count = move |tx: &mut Tx<'_>| emergent_store::runs::count_project_queued(tx, project, 100);
            let counted: Result<i64, Error> = two.here.executor.graph().db().read(count).await;
            counted.unwrap()
        };
        let firing = chains::Firing::at(&two.here);
        for n in 0..10 {
            two.create("Note", json!({ "n": n })).await;
        }
        until("the project has queued all it may", async || queued(full).await == 6).await;
        until("its other events wait", async || waiting(&two).await == 4).await;
        let new = NewObject { type_: "Note".into(), ..NewObject::default() };
        two.here.executor.graph().create_object(actor, new).await.unwrap();
        until("the other project has a run", async || queued(other).await == 1).await;
        assert_eq!((queued(full).await, waiting(&two).await), (6, 4));
        firing.stop().await;
    }

    async fn schedules_wait_for_room_and_are_not_missed_for_it(db: TestDb) {
        let two = TwoServers::with(&db, at_most(2)).await;
        for name in ["a", "b", "c", "d", "e"] {
            triggered_agent(&two.here, name, "0 * * * *", json!({ "missed": "skip" })).await;
        }
        two.pass(3_600);
        two.look_full().await;
        assert_eq!(two.runs().await.len(), 2);
        let listed = two.here.executor.list_triggers(two.here.project).await.unwrap().schedules;
        assert_eq!(listed.iter().filter(|one| one.waiting_since.is_some()).count(), 3);
        two.pass(600);
        two.look_full().await;
        assert_eq!(two.runs().await.len(), 2);
        for runs in [4, 5] {
            end_runs(&two.here, "completed").await;
            two.look_full().await;
            assert_eq!(two.runs().await.len(), runs);
        }
        assert_eq!(outcomes(&two.firings().await), vec!["admitted"; 5]);
        let listed = two.here.executor.list_triggers(two.here.project).await.unwrap().schedules;
        assert!(listed.iter().all(|one| one.waiting_since.is_none()), "{listed:?}");
        assert_eq!(two.look().await, 0, "each once");
    }

    async fn what_waits_is_taken_up_by_itself_once_there_is_room(db: TestDb) {
        let settings = Settings { max_runs: 1, ..at_most(1) };
        let model = ScriptedModel::default().agent("notes", (0..4).map(|_| emergent_testkit::scripted::says("Seen.")));
        let harness = Harness::with(&db, HarnessOptions { settings, ..HarnessOptions::new(model) }).await;
        let firing = chains::Firing::at(&harness);
        triggered_agent(&harness, "notes", "on_entity_created", json!({})).await;
        for n in 0..4 {
            create(&harness, "Note", json!({ "n": n })).await;
        }
        let ended = async || runs(&harness).await.iter().filter(|run| run.status.is_terminal()).count() == 4;
        until("all have run", ended).await;
        assert_eq!(outcomes(&firings(&harness).await), vec!["admitted"; 4]);
        firing.stop().await;
        harness.close().await;
    }
}

impl TwoServers {
    /// Fires the schedules on both servers at once, and accepts that the queue may be full.
    async fn look_full(&self) {
        let looks =
            tokio::join!(self.here.executor.fire_schedules(50), self.there.executor.fire_schedules(50));
        for looked in [looks.0, looks.1] {
            assert!(matches!(looked, Ok(_) | Err(ExecutorError::Overloaded { .. })), "{looked:?}");
        }
    }
}
