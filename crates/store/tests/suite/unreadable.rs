//! What this version does not know is an error that names table, column and value; it is never
//! read as another value.

use std::collections::HashMap;

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    change::{ChangeKind, FeedPosition},
    cursor::Page,
    ids::{AgentId, FiringId, ObjectId, ProjectId, ScheduleId, TokenId, WorkflowId},
    json::JsonObject,
    mcp_server::{ConfiguredBy, McpServer, ToolStatus},
    object::Object,
    time::Timestamp,
    trigger::{
        EventConfig, EventKind, EventTrigger, FeedStart, Firing, FiringCause, FiringStatus, Schedule,
        ScheduleConfig,
    },
    workflow::Amount,
};
use emergent_store::{
    Db, Engine, Error, Param, Result, Tx, agents,
    budget::{self, BudgetKind, NewModelCall},
    feed::{self, NewChange},
    jobs::{self, NewJob},
    mcp_servers, mcp_tools,
    mcp_tools::StoredTool,
    objects, packs, params, prompts, schedules, triggers,
    triggers::firings::{self, DueFirings},
};
use emergent_testkit::both_engines;
use serde_json::json;
use uuid::Uuid;

pub fn now() -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000)
}

/// Puts `bad` into a column of every row of a table, reads, and expects the error that names it. The
/// transaction fails, so that the rows are as before.
pub async fn check<T>(
    db: &Db,
    table: &'static str,
    column: &'static str,
    bad: impl Into<Param<'static>>,
    read: impl Fn(&mut Tx<'_>) -> Result<T> + Send + Sync + 'static,
) where
    T: std::fmt::Debug + Send + 'static,
{
    let bad = bad.into();
    let value = match &bad {
        Param::Text(text) => text.to_string(),
        Param::Int(number) => number.to_string(),
        other => panic!("{other:?} is not tried"),
    };
    let outcome = db
        .write(move |tx| {
            tx.execute(&format!("UPDATE {table} SET {column} = $1"), std::slice::from_ref(&bad))?;
            read(tx).map(|read| format!("{table}.{column} was read as {read:?}"))
        })
        .await;
    let error = outcome.expect_err("an unknown value is an error");
    assert!(matches!(error, Error::Unreadable { .. }), "{table}.{column}: {error:?}");
    let message = error.to_string();
    for named in [&format!("table `{table}`"), &format!("column `{column}`"), "newer server"] {
        assert!(message.contains(named), "{message}");
    }
    // PostgreSQL writes JSON with other spaces.
    let shown = message.replace([' ', '"'], "");
    assert!(shown.contains(&format!("holds`{}`", value.replace([' ', '"'], ""))), "{message}");
}

pub fn firing(project: ProjectId, agent: AgentId) -> Firing {
    let fired = FiringCause::Event {
        event: EventKind::EntityCreated,
        entity: Uuid::now_v7(),
        entity_type: "Note".into(),
        version: 1,
        at: Some(FeedPosition { txid: 5, seq: 6 }),
    };
    Firing {
        workflow: None,
        trigger_name: None,
        id: FiringId::new(),
        project,
        agent,
        fired,
        cause: None,
        cause_depth: 0,
        status: FiringStatus::Pending,
        reason: None,
        run: None,
        due_at: now(),
        created_at: now(),
        settled_at: None,
    }
}

both_engines! {
    async fn of_jobs(db: TestDb) {
        let job = db.write(|tx| jobs::enqueue(tx, &NewJob::new("mail", now()))).await.unwrap().unwrap();
        check(&db, "jobs", "status", "resting", move |tx| jobs::get(tx, job)).await;
        check(&db, "jobs", "payload", "[1]", move |tx| jobs::get(tx, job)).await;
    }

    async fn of_the_graph_and_its_feed(db: TestDb) {
        let project = ProjectId::new();
        let object = Object {
            id: ObjectId::new(),
            project,
            type_: "Note".into(),
            key: None,
            status: None,
            labels: vec!["a".into()],
            properties: JsonObject::empty(),
            version: 1,
            created_at: now(),
            updated_at: now(),
            deleted_at: None,
            author: Author::System,
            reason: None,
        };
        let id = object.id;
        db.write(move |tx| {
            let text = emergent_domain::indexed_text::indexed_text("Note", None, &[], &serde_json::Map::new());
            objects::insert_many(tx, 1, &[objects::NewRow { object: &object, text: &text }])?;
            let change = NewChange {
                kind: ChangeKind::ObjectCreated,
                entity: id.0,
                entity_type: "Note",
                version: 1,
                at: now(),
                author: Author::System,
            };
            feed::append(tx, project, &[change])
        })
        .await
        .unwrap();
        check(&db, "graph_objects", "labels", "[1]", move |tx| objects::get(tx, project, id)).await;
        check(&db, "graph_objects", "properties", "[]", move |tx| objects::get(tx, project, id)).await;
        if db.engine() == Engine::Sqlite {
            // PostgreSQL shows a reader only what is committed.
            let read = move |tx: &mut Tx<'_>| feed::read_after(tx, project, FeedPosition::default(), 9);
            check(&db, "graph_events", "kind", "object_dreamt", read).await;
        }
    }

    async fn of_agents_packs_and_prompts(db: TestDb) {
        let project = ProjectId::new();
        let agent = Agent {
            id: AgentId::new(),
            project,
            version: 1,
            definition: AgentDefinition::new("a"),
            created_at: now(),
            updated_at: now(),
            deleted_at: None,
        };
        let id = agent.id;
        db.write(move |tx| {
            agents::insert(tx, &agent, Author::System)?;
            let pack = serde_json::from_value(json!({ "name": "p", "version": "1.0.0" })).expect("a pack");
            packs::insert(tx, Some(project), &pack, now())?;
            let prompt = serde_json::from_value(json!({ "name": "p", "messages": [] })).expect("a prompt");
            prompts::upsert_for_product(tx, project, "product", &prompt)
        })
        .await
        .unwrap();
        let (table, bad) = ("agent_definition_versions", r#"{"name": 7}"#);
        check(&db, table, "definition", bad, move |tx| agents::get(tx, project, id)).await;
        check(&db, table, "definition", bad, move |tx| agents::get_version(tx, id, 1)).await;
        check(&db, "template_packs", "pack", "[]", move |tx| packs::list_all(tx, project)).await;
        check(&db, "product_prompts", "prompt", "[]", move |tx| prompts::list_all(tx, project)).await;
    }

    async fn of_mcp_servers_and_their_tools(db: TestDb) {
        let project = ProjectId::new();
        let spec = json!({ "name": "s", "transport": "stdio", "command": "true", "env": { "KEY": "value" } });
        let server = McpServer {
            configured_by: ConfiguredBy::Project(TokenId::new()),
            ..emergent_testkit::fixtures::mcp_server(project, spec)
        };
        let (id, written) = (server.id, server.clone());
        let tool = StoredTool {
            name: "t".into(),
            tool: "{}".into(),
            digest: "d".into(),
            pinned_digest: "d".into(),
            pinned_tool: "{}".into(),
            status: ToolStatus::Live,
            first_seen: now(),
            changed_at: None,
            accepted_by: None,
            accepted_at: Some(now()),
        };
        let wrote = db.write(move |tx| {
            mcp_servers::insert(tx, &written)?;
            mcp_tools::upsert(tx, id, &tool)
        });
        wrote.await.unwrap();
        assert_eq!(db.read(move |tx| mcp_servers::get(tx, project, id)).await.unwrap(), Some(server));
        let table = "project_mcp_servers";
        check(&db, table, "transport", "pigeon", move |tx| mcp_servers::get(tx, project, id)).await;
        check(&db, table, "pin_policy", "sew", move |tx| mcp_servers::list_all(tx, project)).await;
        check(&db, "mcp_server_tools", "status", "lost", move |tx| mcp_tools::list_for_server(tx, id)).await;
        let secret = db
            .write(move |tx| {
                let bad = Param::from(r#"{"command": ["a-password"]}"#);
                tx.execute("UPDATE project_mcp_servers SET config = $1", &[bad])?;
                mcp_servers::get(tx, project, id)
            })
            .await
            .unwrap_err()
            .to_string();
        assert!(secret.contains("column `config`") && !secret.contains("password"), "{secret}");
    }

    async fn of_triggers_and_firings(db: TestDb) {
        let project = ProjectId::new();
        let agent = AgentId::new();
        let trigger = EventTrigger { dispatch: None, name: None, product: None,
            agent,
            project,
            event: EventKind::EntityCreated,
            config: EventConfig::default(),
            since: FeedStart { after: FeedPosition { txid: 3, seq: 4 }, open: vec![1, 2] },
        };
        let firing = firing(project, agent);
        let (written, first) = (trigger.clone(), [firing.clone()]);
        let wrote = db.write(move |tx| {
            tx.execute(
                "INSERT INTO projects (no, id, name, strict, packs_revision, created_at, updated_at)
                 VALUES (1, $1, 'p', $2, 0, $3, $3)",
                params![project, false, now()],
            )?;
            triggers::upsert(tx, &written)?;
            firings::insert(tx, &first)
        });
        wrote.await.unwrap();
        assert_eq!(db.read(move |tx| triggers::get(tx, agent)).await.unwrap(), Some(trigger));
        let due = move |tx: &mut Tx<'_>| {
            firings::list_due(tx, project, DueFirings::Without(&[]), &HashMap::new(), now(), 9)
        };
        assert_eq!(db.read(due).await.unwrap(), [firing]);
        let get = move |tx: &mut Tx<'_>| triggers::get(tx, agent);
        check(&db, "event_triggers", "event", "on_full_moon", get).await;
        check(&db, "event_triggers", "config", r#"{"moon": true}"#, get).await;
        check(&db, "event_triggers", "since_open", r#"["x"]"#, get).await;
        let list = move |tx: &mut Tx<'_>| firings::list(tx, project, &Default::default(), &Page::first(9));
        check(&db, "trigger_firings", "status", "undecided", list).await;
    }

    async fn of_one_schedule_without_keeping_the_others_from_being_read(db: TestDb) {
        let project = ProjectId::new();
        let schedule = |name: &str| Schedule {
            dispatch: None,
            last_workflow: None,
            id: ScheduleId::new(),
            project,
            agent: AgentId::new(),
            product: Some("product".into()),
            name: name.into(),
            cron: "0 * * * *".into(),
            config: ScheduleConfig::default(),
            next_at: Some(now()),
            waiting_since: None,
            paused_at: None,
            error: None,
            last_at: None,
            last_run: None,
            created_at: now(),
            updated_at: now(),
        };
        let (bad, good) = (schedule("bad"), schedule("good"));
        let (id, readable) = (bad.id, good.clone());
        let wrote = db.write(move |tx| {
            schedules::insert(tx, &bad)?;
            schedules::insert(tx, &good)?;
            let unknown = Param::from(r#"{"moon": true}"#);
            tx.execute("UPDATE schedules SET config = $1 WHERE id = $2", &[unknown, id.into()])
        });
        wrote.await.unwrap();
        let read = db.read(move |tx| schedules::list(tx, project)).await.unwrap();
        let error = read[0].error.as_deref().expect("the error of the unreadable schedule");
        assert!(error.contains("moon"), "{error}");
        assert_eq!(read[1], readable);
    }

    async fn of_model_calls_and_limits(db: TestDb) {
        let (project, workflow) = (ProjectId::new(), WorkflowId::new());
        let call = NewModelCall {
            id: Uuid::now_v7(),
            project,
            workflow: Some(workflow),
            task: None,
            agent: "a".into(),
            run: None,
            budget_runs: Vec::new(),
            at: now(),
        };
        let first = call.clone();
        db.write(move |tx| budget::reserve(tx, &first, &Default::default(), Amount { microusd: 1, tokens: 1 }, true))
            .await
            .unwrap();
        let id = call.id;
        let settle = move |tx: &mut Tx<'_>| budget::settle(tx, id, Amount { microusd: 1, tokens: 1 });
        check(&db, "model_calls", "counted", 64, settle).await;
        let lock = move |tx: &mut Tx<'_>| budget::lock_counters(tx, &call, &[BudgetKind::Workflow]);
        check(&db, "model_calls", "status", "postponed", lock).await;
    }
}
