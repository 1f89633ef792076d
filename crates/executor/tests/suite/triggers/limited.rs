//! Event triggers with `max_concurrent`: their runs follow one another in the order of the events, on any number of
//! servers, and what is held back is neither lost nor started twice.

use emergent_domain::{
    ids::{AgentId, FiringId, ProjectId},
    run::RunStatus,
    time::Timestamp,
    trigger::{EventKind, Firing as FiringRow, FiringCause},
};
use emergent_executor::triggers::HeldBack;
use emergent_store::triggers::{firings as firing_rows, unfinished::UnfinishedRuns};
use emergent_testkit::{
    both_engines,
    scripted::{calls, fails, hangs, says},
};

use crate::triggers::{
    capacity::read_events,
    chains::Firing,
    support::{
        server::Server,
        tools::{EXTERNAL, Probe},
        with_tools,
    },
    *,
};

fn at_most(runs: i64) -> Value {
    json!({ "types": ["Note"], "max_concurrent": runs })
}

async fn limited(harness: &Harness, name: &str, runs: i64) -> Agent {
    triggered_agent(harness, name, "on_entity_created", at_most(runs)).await
}

async fn notes(harness: &Harness, count: usize) -> Vec<ObjectId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(create(harness, "Note", json!({ "n": n })).await.id);
    }
    ids
}

/// A due event whose type the trigger of [`limited`] does not accept.
fn unwanted(project: ProjectId, agent: AgentId, seq: i64, at: Timestamp) -> FiringRow {
    FiringRow {
        id: FiringId::new(),
        project,
        agent,
        fired: FiringCause::Event {
            event: EventKind::EntityCreated,
            entity: Uuid::now_v7(),
            entity_type: "Person".into(),
            version: 1,
            at: Some(FeedPosition { txid: 0, seq }),
        },
        cause: None,
        cause_depth: 0,
        status: FiringStatus::Pending,
        reason: None,
        run: None,
        workflow: None,
        trigger_name: None,
        due_at: at,
        created_at: at,
        settled_at: None,
    }
}

/// Fires events on both servers at once, several times.
async fn fire(two: &TwoServers) {
    let project = two.here.project;
    for _ in 0..3 {
        let (here, there) = tokio::join!(
            two.here.executor.fire_events(project, 50),
            two.there.executor.fire_events(project, 50)
        );
        here.unwrap();
        there.unwrap();
    }
}

/// The objects that the runs are about, in the order in which the runs were started.
async fn told(harness: &Harness) -> Vec<Value> {
    let mut told = Vec::new();
    for run in runs(harness).await {
        told.push(context(harness, &run).await["object"]["id"].clone());
    }
    told
}

fn as_json(ids: &[ObjectId]) -> Vec<Value> {
    ids.iter().map(|id| json!(id)).collect()
}

async fn ended(harness: &Harness) -> usize {
    runs(harness).await.iter().filter(|run| run.status.is_terminal()).count()
}

async fn held_back(harness: &Harness, agent: &Agent) -> Option<HeldBack> {
    harness.executor.list_triggers(harness.project).await.unwrap().held_back.get(&agent.id).copied()
}

both_engines! {
    async fn two_servers_keep_the_limit_and_the_order_of_the_events(db: TestDb) {
        let two = TwoServers::open(&db).await;
        limited(&two.here, "notes", 2).await;
        let early = two.clock.now();
        two.pass(60);
        let ids = notes(&two.here, 8).await;
        read_events(&two.here, two.here.project, 8).await;
        // The last event as a server would have recorded it whose clock is a minute late.
        let last = *ids.last().unwrap();
        let shift = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE trigger_firings SET due_at = $1 WHERE entity_id = $2", &[early.into(), last.into()])
        };
        let shifted: Result<u64, Error> = two.here.executor.graph().db().write(shift).await;
        assert_eq!(shifted.unwrap(), 1);
        for (started, end) in [(2, "completed"), (4, "failed"), (6, "cancelled"), (8, "paused")] {
            fire(&two).await;
            assert_eq!(two.runs().await.len(), started, "however often both servers try");
            end_runs(&two.here, end).await;
        }
        fire(&two).await;
        assert_eq!(told(&two.here).await, as_json(&ids), "each once, in the order of the feed");
        assert_eq!(outcomes(&two.firings().await), vec!["admitted"; 8]);
    }

    async fn the_end_of_a_slow_run_starts_the_next_one_at_once(db: TestDb) {
        let waits = [400, 20, 200, 20, 20, 20];
        let replies = waits.map(|wait| says("Seen.").with_delay(Duration::from_millis(wait)));
        let harness = Harness::open(&db, ScriptedModel::default().agent("notes", replies)).await;
        limited(&harness, "notes", 1).await;
        let firing = Firing::at(&harness);
        let ids = notes(&harness, waits.len()).await;
        until("all have run", async || ended(&harness).await == waits.len()).await;
        assert_eq!(harness.model.max_open(), 1, "one after the other");
        assert_eq!(told(&harness).await, as_json(&ids));
        let runs = runs(&harness).await;
        let ends: Vec<_> = runs.iter().map(|run| run.completed_at.unwrap()).collect();
        assert!(runs.iter().skip(1).zip(&ends).all(|(run, end)| run.created_at >= *end), "{runs:?}");
        let pauses: Duration = runs.iter().skip(1).zip(&ends).map(|(run, end)| run.created_at.since(*end)).sum();
        assert!(pauses < Duration::from_secs(3), "nobody waits for the next poll: {pauses:?}");
        firing.stop().await;
        harness.close().await;
    }

    async fn without_a_limit_and_by_hand_runs_go_in_parallel(db: TestDb) {
        let two = TwoServers::open(&db).await;
        let agent = limited(&two.here, "notes", 1).await;
        notes(&two.here, 4).await;
        read_events(&two.here, two.here.project, 4).await;
        two.here.start(&agent, "Go.").await;
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 2, "a run that somebody starts takes no place");
        two.set(&agent, at_most(2)).await;
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 3, "a higher limit applies at once");
        two.set(&agent, json!({ "types": ["Note"] })).await;
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 5, "and so does none");
        assert_eq!(outcomes(&two.firings().await), vec!["admitted"; 4]);
    }

    async fn a_run_that_fails_frees_its_place(db: TestDb) {
        let (model, message) = (ScriptedModel::MODEL.to_owned(), "not today".to_owned());
        let refused = fails(emergent_llm::Error::BadRequest { model, status: 400, message });
        let harness = Harness::open(&db, ScriptedModel::default().agent("notes", [refused, says("Seen.")])).await;
        limited(&harness, "notes", 1).await;
        let firing = Firing::at(&harness);
        notes(&harness, 2).await;
        until("both have ended", async || ended(&harness).await == 2).await;
        let statuses: Vec<_> = runs(&harness).await.iter().map(|run| run.status).collect();
        assert_eq!(statuses, [RunStatus::Failed, RunStatus::Completed]);
        firing.stop().await;
        harness.close().await;
    }

    async fn a_run_that_waits_for_a_person_keeps_its_place_until_it_ends(db: TestDb) {
        let model = ScriptedModel::default().agent("careful", [calls("send", json!({ "to": "a" }))]);
        let tool = Probe::new("send", EXTERNAL).build();
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(tool)).await;
        let plain = triggered("careful", "on_entity_created", at_most(1));
        let agent = harness.agent(AgentDefinition {
            trigger: plain.trigger,
            config: plain.config,
            approvals: serde_json::from_value(json!([{ "tools": ["send"], "action": "ask" }])).unwrap(),
            ..with_tools("careful", &["send"])
        }).await;
        let project = harness.project;
        notes(&harness, 3).await;
        read_events(&harness, project, 3).await;
        assert_eq!(held_back(&harness, &agent).await, None, "the place is free");
        assert_eq!(harness.executor.fire_events(project, 50).await.unwrap(), 1);
        until("the run waits", async || runs(&harness).await[0].status == RunStatus::Waiting).await;
        assert_eq!(harness.executor.fire_events(project, 50).await.unwrap(), 0);
        let unfinished = UnfinishedRuns { count: 1, waiting: 1 };
        assert_eq!(held_back(&harness, &agent).await, Some(HeldBack { events: 2, unfinished }));
        assert_eq!(outcomes(&firings(&harness).await), ["admitted", "pending", "pending"]);
        let first = runs(&harness).await[0].id;
        harness.executor.cancel(harness.actor(), first).await.unwrap();
        assert_eq!(harness.executor.fire_events(project, 50).await.unwrap(), 1);
        assert_eq!(outcomes(&firings(&harness).await), ["admitted", "admitted", "pending"]);
        harness.close().await;
    }

    async fn a_run_that_resumes_one_of_the_trigger_takes_its_place(db: TestDb) {
        let two = TwoServers::open(&db).await;
        limited(&two.here, "notes", 1).await;
        notes(&two.here, 3).await;
        read_events(&two.here, two.here.project, 3).await;
        fire(&two).await;
        end_runs(&two.here, "paused").await;
        let first = two.runs().await[0].id;
        let resumed = two.there.executor.resume(two.there.actor(), first, None).await.unwrap();
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 2, "the resumed run counts");
        end_runs(&two.here, "paused").await;
        two.there.executor.resume(two.there.actor(), resumed.id, None).await.unwrap();
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 3, "so does the run that resumes that one");
        end_runs(&two.here, "completed").await;
        fire(&two).await;
        assert_eq!(two.runs().await.len(), 4);
    }

    async fn what_a_killed_server_left_goes_on_in_order(db: TestDb) {
        let model = ScriptedModel::default().agent("notes", [hangs()]);
        let server = Server::open(&db, HarnessOptions::new(model)).await;
        limited(&server.harness, "notes", 1).await;
        let ids = notes(&server.harness, 3).await;
        let project = server.harness.project;
        read_events(&server.harness, project, 3).await;
        assert_eq!(server.harness.executor.fire_events(project, 50).await.unwrap(), 1);
        until("the run asks its model", async || server.harness.model.open() == 1).await;
        server.kill(&db, Duration::ZERO).await;
        let model = ScriptedModel::default().agent("notes", (0..3).map(|_| says("Seen.")));
        let harness = Harness::open(&db, model).await;
        let firing = Firing::at(&harness);
        until("all have run", async || ended(&harness).await == 3).await;
        assert_eq!(told(&harness).await, as_json(&ids));
        assert_eq!(harness.model.max_open(), 1);
        assert_eq!(outcomes(&firings(&harness).await), vec!["admitted"; 3]);
        firing.stop().await;
        harness.close().await;
    }

    async fn a_trigger_that_is_held_back_holds_back_no_other(db: TestDb) {
        // More than one transaction reads.
        const NOTES: usize = 60;
        let two = TwoServers::open(&db).await;
        let slow = limited(&two.here, "slow", 1).await;
        let quick = triggered_agent(&two.here, "quick", "on_entity_created", json!({})).await;
        notes(&two.here, NOTES).await;
        let project = two.here.project;
        read_events(&two.here, project, NOTES).await;
        while two.here.executor.fire_events(project, 50).await.unwrap() > 0 {}
        let runs = two.runs().await;
        let of = |agent: &Agent| runs.iter().filter(|run| run.agent == agent.id).count();
        assert_eq!((of(&slow), of(&quick)), (1, NOTES));
        let events = held_back(&two.here, &slow).await.map(|held_back| held_back.events);
        assert_eq!(events, i64::try_from(NOTES - 1).ok());
    }

    async fn a_limited_trigger_with_free_places_takes_no_turns_that_it_cannot_use(db: TestDb) {
        const NOTES: usize = 60;
        let two = TwoServers::open(&db).await;
        let slow = limited(&two.here, "slow", 2).await;
        notes(&two.here, NOTES).await;
        let project = two.here.project;
        read_events(&two.here, project, NOTES).await;
        two.pass(60);
        let settings = json!({ "types": ["Person"] });
        let quick = triggered_agent(&two.here, "quick", "on_entity_created", settings).await;
        two.create("Person", json!({})).await;
        read_events(&two.here, project, 1).await;
        assert_eq!(two.here.executor.fire_events(project, 50).await.unwrap(), 3, "all that can start");
        let runs = two.runs().await;
        let of = |agent: &Agent| runs.iter().filter(|run| run.agent == agent.id).count();
        assert_eq!((of(&slow), of(&quick)), (2, 1));
    }

    async fn a_long_backlog_of_unwanted_events_of_a_limited_trigger_is_skipped(db: TestDb) {
        const EVENTS: usize = 3_000;
        let two = TwoServers::open(&db).await;
        let slow = limited(&two.here, "slow", 1).await;
        let quick = triggered_agent(&two.here, "quick", "on_entity_created", json!({})).await;
        let (project, agent, early) = (two.here.project, slow.id, two.clock.now());
        // Their places are before those of all changes of the feed.
        for first in (-3_000..0).step_by(300) {
            let rows: Vec<FiringRow> =
                (first..first + 300).map(|seq| unwanted(project, agent, seq, early)).collect();
            let insert = move |tx: &mut Tx<'_>| firing_rows::insert(tx, &rows);
            let inserted: Result<u64, Error> = two.here.executor.graph().db().write(insert).await;
            assert_eq!(inserted.unwrap(), 300);
        }
        two.pass(60);
        notes(&two.here, 1).await;
        read_events(&two.here, project, 1).await;
        while two.here.executor.fire_events(project, 50).await.unwrap() > 0 {}
        let runs = two.runs().await;
        let of = |agent: &Agent| runs.iter().filter(|run| run.agent == agent.id).count();
        assert_eq!((of(&slow), of(&quick)), (1, 1));
        let skipped = outcomes(&two.firings().await).iter().filter(|one| one.starts_with("skipped")).count();
        assert_eq!(skipped, EVENTS);
    }
}
