//! As `unreadable`, of runs, their conversation, and workflows.

use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, ToolCall, Usage},
    cursor::Page,
    ids::{AgentId, MessageId, ProjectId, RunId, ToolCallId, WorkflowId},
    run::{MessageRole, Origin, Reason, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
    workflow::{
        Deliverable, Escalation, Workflow, WorkflowLink, WorkflowOrigin, WorkflowSettings, WorkflowStatus,
    },
};
use emergent_store::{
    Engine, Error, Tx, budget,
    runs::{
        self, conversation,
        history::{self, RunFilter},
        record,
        timeline::{self, MessageFilter},
    },
    workflows,
};
use emergent_testkit::both_engines;
use serde_json::json;

use crate::unreadable::{check, now};

pub fn run(project: ProjectId) -> Run {
    Run {
        id: RunId::new(),
        project,
        agent: AgentId::new(),
        agent_version: 1,
        agent_name: "a".into(),
        status: RunStatus::Queued,
        reason: Some(Reason::StepLimit),
        origin: Origin::Trigger,
        parent: Some(RunId::new()),
        parent_call: None,
        child_index: 0,
        depth: 1,
        resumed_from: None,
        schedule: None,
        cause: None,
        cause_depth: 0,
        workflow_link: WorkflowLink { deliverable: Some(Deliverable::ALL[0]), ..WorkflowLink::default() },
        model: ModelConfig { provider: "p".into(), name: "m".into(), temperature: None, max_tokens: None },
        step_count: 0,
        steps_before: 0,
        terms: Default::default(),
        max_steps: None,
        timeout_seconds: 60,
        deadline_base: None,
        owner: None,
        seq: 0,
        summary: None,
        error: None,
        started_by: None,
        created_at: now(),
        started_at: None,
        completed_at: None,
        waiting_for: None,
        output: None,
        waiting_since: None,
    }
}

pub fn workflow(project: ProjectId) -> Workflow {
    let escalation =
        Escalation { reason: "r".into(), task: None, discussion: None, options: Vec::new(), at: now() };
    Workflow {
        id: WorkflowId::new(),
        project,
        description: "d".into(),
        status: WorkflowStatus::Running,
        settings: WorkflowSettings::default(),
        escalation: Some(escalation),
        summary: None,
        planner_run: None,
        plan_attempts: 0,
        owner: None,
        revision: 0,
        event_seq: 0,
        started_by: None,
        started_by_run: None,
        origin: WorkflowOrigin::default(),
        created_at: now(),
        updated_at: now(),
        completed_at: None,
    }
}

fn message(seq: i64, role: MessageRole, content: MessageContent) -> RecordedMessage {
    let usage = Usage { input: 5, output: 4, reasoning: 3, cache_read: 2, cache_write: 1 };
    RecordedMessage {
        id: MessageId::new(),
        seq,
        role,
        step: 0,
        content,
        usage: (role == MessageRole::Assistant).then_some(usage),
        cost: None,
        at: now(),
    }
}

both_engines! {
    async fn of_runs(db: TestDb) {
        let project = ProjectId::new();
        let run = run(project);
        let (id, parent, written) = (run.id, run.parent.unwrap(), run.clone());
        db.write(move |tx| runs::insert(tx, &written)).await.unwrap();
        let get = move |tx: &mut Tx<'_>| runs::get(tx, project, id);
        assert_eq!(db.read(get).await.unwrap(), Some(run));
        let table = "agent_runs";
        check(&db, table, "status", "dreaming", get).await;
        check(&db, table, "reason", "boredom", get).await;
        check(&db, table, "origin", "moon", get).await;
        check(&db, table, "hands", "flowers", get).await;
        check(&db, table, "model_config", r#"{"name": 7}"#, get).await;
        let list =
            move |tx: &mut Tx<'_>| history::list(tx, project, &RunFilter::default(), &Page::first(9));
        check(&db, table, "status", "dreaming", list).await;
        check(&db, table, "status", "dreaming", move |tx| history::list_children(tx, &[parent], 9)).await;
    }

    async fn of_messages_and_calls(db: TestDb) {
        let id = RunId::new();
        let mut answer = message(3, MessageRole::Assistant, MessageContent::Parts(Vec::new()));
        let call = RecordedToolCall {
            id: ToolCallId::new(),
            seq: 4,
            message: answer.id,
            tool: "t".into(),
            step: 0,
            input: json!(7),
            status: ToolCallStatus::Completed,
            output: Some(json!("a\u{0}b")),
            result_seq: Some(5),
            duration_ms: Some(1),
            at: now(),
            effect: None,
        };
        let part = ToolCall {
            id: call.id,
            name: call.tool.clone(),
            input: call.input.clone(),
            provider: Some(json!({ "p": 1 })),
        };
        answer.content = MessageContent::Parts(vec![Part::text("x"), Part::Call(part)]);
        let question = MessageContent::Text { text: "why?".into(), injected: Some(Reason::Timeout) };
        let summary = MessageContent::Summary { text: "so far".into(), upto: 1 };
        let messages = vec![
            message(1, MessageRole::User, question),
            message(2, MessageRole::User, summary),
            answer,
        ];
        let (said, made) = (messages.clone(), [call.clone()]);
        let wrote = db.write(move |tx| {
            record::insert_messages(tx, id, &said)?;
            record::insert_calls(tx, id, &made)?;
            record::insert_event(tx, id, 6, "compacted", &json!({ "summarised": false, "upto": 2 }), now())?;
            record::insert_event(tx, id, 7, "run_started", &json!({ "tools": ["t"] }), now())
        });
        wrote.await.unwrap();
        let load = move |tx: &mut Tx<'_>| conversation::load(tx, id);
        let loaded = db.read(load).await.unwrap();
        assert_eq!(loaded.messages, messages);
        assert_eq!(loaded.calls, [RecordedToolCall { output: Some(json!("a\u{fffd}b")), ..call }]);
        assert_eq!((loaded.pruned_upto, loaded.tools), (2, Some(vec!["t".to_owned()])));

        let items = move |tx: &mut Tx<'_>| timeline::list_items(tx, id, &MessageFilter::default(), 0, 9);
        let table = "agent_run_messages";
        check(&db, table, "role", "oracle", load).await;
        check(&db, table, "role", "oracle", items).await;
        check(&db, table, "input_tokens", -5, load).await;
        check(&db, table, "content", "[1]", load).await;
        for (content, named) in [
            (json!({ "text": 7 }), "holds `7`"),
            (json!({}), "holds `{}`"),
            (json!({ "text": "x", "injected": "moon" }), "moon"),
            (json!({ "text": "x", "upto": "moon" }), "moon"),
            (json!({ "parts": [{ "type": "smell" }] }), "smell"),
            (json!({ "parts": [{ "type": "call", "id": "moon" }] }), "moon"),
        ] {
            let bad = content.to_string();
            let assistant = if content.get("parts").is_some() { "= 'assistant'" } else { "<> 'assistant'" };
            let outcome = db.write(move |tx| {
                let sql = format!("UPDATE agent_run_messages SET content = $1 WHERE role {assistant}");
                tx.execute(&sql, &[emergent_store::json(&bad)])?;
                conversation::load(tx, id)
            });
            let error = outcome.await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { column: "content", .. }), "{content}: {error:?}");
            assert!(error.to_string().contains(named), "{content}: {error}");
        }
        check(&db, "agent_run_tool_calls", "status", "somewhere", load).await;
        check(&db, "agent_run_tool_calls", "status", "somewhere", items).await;
        check(&db, "agent_run_events", "data", r#"{"tools":[1]}"#, load).await;
        check(&db, "agent_run_events", "data", r#"{"summarised":false}"#, load).await;
        if db.engine() == Engine::Sqlite {
            // PostgreSQL stores nothing but JSON in these columns.
            check(&db, "agent_run_messages", "content", "{", load).await;
            check(&db, "agent_run_tool_calls", "input", "{", load).await;
            check(&db, "agent_run_tool_calls", "output", "{", load).await;
            check(&db, "agent_run_events", "data", "{", move |tx| timeline::list_events(tx, id, timeline::SeqRange::after(0), 9)).await;
        }
    }

    async fn of_workflows(db: TestDb) {
        let project = ProjectId::new();
        let workflow = workflow(project);
        let (id, written) = (workflow.id, workflow.clone());
        db.write(move |tx| workflows::insert(tx, &written)).await.unwrap();
        let get = move |tx: &mut Tx<'_>| workflows::get(tx, project, id);
        assert_eq!(db.read(get).await.unwrap(), Some(workflow));
        let table = "workflows";
        check(&db, table, "status", "adrift", get).await;
        check(&db, table, "escalation", r#"{"reason": 7}"#, get).await;
        check(&db, table, "settings", r#"{"moon": true}"#, get).await;
        // Otherwise a workflow with a budget could spend without a limit.
        check(&db, table, "settings", r#"{"moon": true}"#, move |tx| {
            budget::limits_for(tx, project, Some(id), "a", &[])
        })
        .await;
    }
}
