//! AG-UI: `/api/agents/{agentId}/agui`.

use crate::common::{Answer, Client, Server, serve_with};

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_api::AppOptions;
use emergent_domain::token::Scope::{self, AgentsInvoke, ApprovalsDecide};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, hangs_after, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A server with an external agent, and a caller of it.
pub(crate) struct World {
    pub server: Server,
    pub admin: Client,
    pub caller: Client,
    pub model: ScriptedModel,
    pub agent: String,
    _runner: watch::Sender<bool>,
}

impl World {
    pub async fn start(db: &TestDb, scopes: &[Scope], definition: Value) -> Self {
        let model = ScriptedModel::default();
        let (server, admin, caller, runner) = serve_with(db, &model, scopes).await;
        let mut agent = json!({ "visibility": "external" });
        for (field, value) in definition.as_object().unwrap() {
            agent[field] = value.clone();
        }
        let agent = admin.agent("finder", agent).await;
        Self { server, admin, caller, model, agent, _runner: runner }
    }

    pub fn path(&self) -> String {
        format!("/api/agents/{}/agui", self.agent)
    }

    pub async fn send(&self, body: &Value) -> Answer {
        self.caller.post(&self.path(), body.clone()).await
    }

    pub async fn run(&self, body: &Value) -> Vec<Value> {
        events(&self.send(body).await)
    }

    pub async fn runs(&self) -> Vec<Value> {
        self.admin.get("/api/admin/runs").await.is(200).as_array().unwrap().clone()
    }

    pub async fn status_becomes(&self, status: &str) {
        for _ in 0..500 {
            if self.runs().await[0]["status"] == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the run is not {status}: {:?}", self.runs().await);
    }
}

pub(crate) fn input(run: &str, text: &str) -> Value {
    json!({ "threadId": "t1", "runId": run, "state": { "order": 7 }, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "u1", "role": "user", "content": text }] })
}

pub(crate) fn resume(run: &str, entries: Value) -> Value {
    let mut body = input(run, "Go.");
    body["resume"] = entries;
    body
}

pub(crate) fn resolved(id: &str, payload: Value) -> Value {
    json!({ "interruptId": id, "status": "resolved", "payload": payload })
}

/// The events of a stream.
#[track_caller]
pub(crate) fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "text/event-stream");
    let frames = answer.text.lines().filter_map(|line| line.strip_prefix("data: "));
    frames.map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(crate) fn of_type<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == name).collect()
}

pub(crate) fn text(events: &[Value]) -> String {
    of_type(events, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect()
}

#[track_caller]
fn interrupts(events: &[Value]) -> Vec<Value> {
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("interrupt")),
        "{events:?}"
    );
    last["outcome"]["interrupts"].as_array().unwrap().clone()
}

#[track_caller]
pub(crate) fn interrupt_id(events: &[Value]) -> String {
    interrupts(events)[0]["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_error(events: &[Value], code: &str) {
    assert_eq!(types(events), ["RUN_STARTED", "RUN_ERROR"], "{events:?}");
    assert_eq!(events[1]["code"], code, "{events:?}");
}

fn project_info() -> Value {
    json!({ "tools": ["project_info"], "approvals": [{ "tools": ["project_info"], "action": "ask" }] })
}

both_engines! {
    async fn a_run_is_streamed_with_its_text_its_tools_and_its_result(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({ "tools": ["project_info"] })).await;
        world.model.add("finder", [says("Let me look.").and(calls("project_info", json!({}))), says("One project.")]);
        let events = world.run(&input("r1", "Count.")).await;
        let expected = [
            "RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
            "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED", "STEP_STARTED",
            "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "STATE_DELTA", "RUN_FINISHED",
        ];
        let mut found = types(&events);
        found.dedup();
        assert_eq!(found, expected);
        assert_eq!(events[0], json!({ "type": "RUN_STARTED", "threadId": "t1", "runId": "r1" }));
        assert_eq!(events[1]["snapshot"]["order"], 7, "the state of the client is repeated");
        let run = &world.runs().await[0];
        assert_eq!(events[1]["snapshot"]["emergent"]["runId"], run["id"]);
        assert_eq!(text(&events), "Let me look.One project.");
        let last = events.last().unwrap();
        assert_eq!((&last["outcome"]["type"], &last["result"]["text"]), (&json!("success"), &json!("One project.")));
        assert_eq!(last["usage"][0]["totalTokens"], 220);
        assert_eq!(run["origin"], "invoke");
    }

    async fn earlier_messages_context_and_state_reach_the_agent(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({ "systemPrompt": "You find." })).await;
        world.model.add("finder", [says("Because.")]);
        let mut body = input("r1", "");
        body["messages"] = json!([
            { "id": "1", "role": "system", "content": "Be brief." },
            { "id": "2", "role": "user", "content": "Which colour?" },
            { "id": "3", "role": "assistant", "content": "Blue." },
            { "id": "4", "role": "user", "content": "Why?" },
        ]);
        body["context"] = json!([{ "description": "Page", "value": "Orders" }]);
        world.run(&body).await;
        let request = &world.model.requests_of("finder")[0];
        let turns: Vec<String> = request.turns.iter().map(|turn| turn.text()).collect();
        assert_eq!((&turns[0], &turns[1]), (&"Which colour?".to_owned(), &"Blue.".to_owned()));
        let asked = &turns[2];
        assert!(asked.starts_with("Why?") && asked.contains("Be brief.") && asked.contains("Orders") && asked.contains("order"), "{turns:?}");
        assert_eq!(request.system, "You find.");
    }

    async fn the_same_run_of_a_thread_is_followed_again_and_never_started_twice(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [says("Once."), says("Twice."), says("Thrice.")]);
        let body = input("r1", "Go.");
        let (first, at_once) = tokio::join!(world.run(&body), world.run(&body));
        assert_eq!((text(&first), text(&at_once)), ("Once.".to_owned(), "Once.".to_owned()));
        let again = world.run(&body).await;
        assert_eq!((text(&again), again.last()), ("Once.".to_owned(), first.last()));
        assert_eq!(world.runs().await.len(), 1);
        // Another thread and another token have runs of their own.
        let mut other = body.clone();
        other["threadId"] = json!("t2");
        assert_eq!(text(&world.run(&other).await), "Twice.");
        let token = world.server.token(&[AgentsInvoke], Some(world.server.default_project)).await;
        let stranger = world.server.client(Some(&token)).post(&world.path(), body).await;
        assert_eq!(text(&events(&stranger)), "Thrice.");
    }

    async fn a_run_goes_on_when_its_client_disconnects(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [hangs_after("One")]);
        let body = input("r1", "Go.");
        let request = world.caller.request(Method::POST, &world.path()).header(header::CONTENT_TYPE, "application/json");
        let opened = world.caller.open(request.body(Body::from(body.to_string())).unwrap()).await;
        let mut frames = opened.into_body().into_data_stream();
        while let Some(Ok(part)) = frames.next().await {
            if String::from_utf8_lossy(&part).contains("TEXT_MESSAGE_CONTENT") {
                break;
            }
        }
        drop(frames);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(world.runs().await[0]["status"], "running");
        let run = world.runs().await[0]["id"].as_str().unwrap().to_owned();
        world.admin.post(&format!("/api/admin/agents/{}/runs/{run}/cancel", world.agent), json!({})).await.is(200);
        let again = world.run(&body).await;
        assert_eq!(again.last().unwrap()["code"], "cancelled", "{again:?}");
    }

    async fn an_approval_interrupts_and_is_decided_by_the_resume(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke, ApprovalsDecide], project_info()).await;
        world.model.add("finder", [says("Let me look.").and(calls("project_info", json!({}))), says("One project.")]);
        let first = world.run(&input("r1", "Go.")).await;
        let interrupt = &interrupts(&first)[0];
        let call = &of_type(&first, "TOOL_CALL_START")[0]["toolCallId"];
        assert_eq!((&interrupt["reason"], &interrupt["toolCallId"]), (&json!("tool_call"), call));
        let snapshot = of_type(&first, "MESSAGES_SNAPSHOT")[0]["messages"].as_array().unwrap().clone();
        assert_eq!((&snapshot[0]["id"], &snapshot[1]["toolCalls"][0]["id"], snapshot.len()), (&json!("u1"), call, 2));
        assert!(of_type(&first, "TOOL_CALL_RESULT").is_empty());

        let id = interrupt["id"].as_str().unwrap();
        let decide = resume("r2", json!([resolved(id, json!({ "approved": true }))]));
        let second = world.run(&decide).await;
        assert!(of_type(&second, "TOOL_CALL_START").is_empty(), "{second:?}");
        let result = of_type(&second, "TOOL_CALL_RESULT")[0];
        assert_eq!(&result["toolCallId"], call);
        assert!(result["content"].as_str().unwrap().contains("default"), "{result}");
        assert_eq!((text(&second).as_str(), &second.last().unwrap()["outcome"]["type"]), ("One project.", &json!("success")));

        // Each part is followed again as it was, and a resume decides nothing twice.
        let again = world.run(&input("r1", "Go.")).await;
        assert_eq!((text(&again), interrupt_id(&again)), ("Let me look.".to_owned(), id.to_owned()));
        assert_eq!(world.run(&decide).await.last(), second.last());
        let other_name = world.run(&resume("r3", json!([resolved(id, json!({ "approved": true }))]))).await;
        assert_eq!(text(&other_name), "One project.");
        assert_eq!(world.runs().await.len(), 1);
        let decided = world.admin.get("/api/approvals?status=decided").await;
        assert_eq!(decided.is(200).as_array().unwrap().len(), 1);
    }

    async fn a_denied_call_and_edited_arguments_reach_the_run(db: TestDb) {
        let definition = json!({ "tools": ["entities_query"], "approvals": [{ "tools": ["entities_query"], "action": "ask" }] });
        let world = World::start(&db, &[AgentsInvoke, ApprovalsDecide], definition).await;
        let query = || calls("entities_query", json!({ "type": "Person" }));
        world.model.add("finder", [query(), query(), says("Done.")]);
        let id = interrupt_id(&world.run(&input("r1", "Go.")).await);
        let denied = resolved(&id, json!({ "approved": false, "reason": "not now" }));
        let second = world.run(&resume("r2", json!([denied]))).await;
        let told = of_type(&second, "TOOL_CALL_RESULT")[0]["content"].as_str().unwrap();
        assert!(told.contains("not now"), "{told}");
        let id = interrupt_id(&second);
        // A wrong input decides nothing.
        let wrong = resolved(&id, json!({ "approved": true, "editedArgs": { "limit": "many" } }));
        is_error(&world.run(&resume("r3", json!([wrong]))).await, "invalid_payload");
        let edited = resolved(&id, json!({ "approved": true, "editedArgs": { "type": "City" } }));
        assert_eq!(text(&world.run(&resume("r3", json!([edited]))).await), "Done.");
        let run = world.runs().await[0]["id"].as_str().unwrap().to_owned();
        let calls = world.admin.get(&format!("/api/admin/agents/{}/runs/{run}/tool-calls", world.agent)).await;
        let inputs: Vec<&Value> = calls.is(200).as_array().unwrap().iter().map(|call| &call["input"]["type"]).collect();
        assert!(inputs.contains(&&json!("City")), "{inputs:?}");
    }

    async fn a_question_is_answered_by_the_caller_that_started_the_run(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({ "tools": ["ask_user"] })).await;
        let question = calls("ask_user", json!({ "question": "Which?", "options": ["this", "that"] }));
        world.model.add("finder", [question, says("That one.")]);
        let first = world.run(&input("r1", "Choose.")).await;
        let interrupt = &interrupts(&first)[0];
        assert_eq!((&interrupt["reason"], &interrupt["message"]), (&json!("input_required"), &json!("Which?")));
        assert_eq!(interrupt["responseSchema"], json!({ "type": "string", "enum": ["this", "that"] }));
        let id = interrupt["id"].as_str().unwrap();

        // A thread that waits accepts only responses, and only to what was asked.
        is_error(&world.run(&input("r2", "Something else.")).await, "interrupts_open");
        is_error(&world.run(&resume("r2", json!([resolved(id, json!("neither"))]))).await, "invalid_payload");
        is_error(&world.run(&resume("r2", json!([resolved("nothing", json!("this"))]))).await, "unknown_interrupt");
        let mut elsewhere = resume("r2", json!([resolved(id, json!("that"))]));
        elsewhere["threadId"] = json!("t2");
        is_error(&world.run(&elsewhere).await, "unknown_interrupt");
        let token = world.server.token(&[AgentsInvoke], Some(world.server.default_project)).await;
        let stranger = world.server.client(Some(&token)).post(&world.path(), resume("r2", json!([resolved(id, json!("that"))]))).await;
        is_error(&events(&stranger), "unknown_interrupt");
        assert_eq!(world.runs().await[0]["status"], "waiting");

        let second = world.run(&resume("r2", json!([resolved(id, json!("that"))]))).await;
        assert!(of_type(&second, "TOOL_CALL_RESULT")[0]["content"].as_str().unwrap().contains("that"), "{second:?}");
        assert_eq!((text(&second).as_str(), world.runs().await.len()), ("That one.", 1));
        // The thread goes on.
        world.model.add("finder", [says("Hello.")]);
        assert_eq!(text(&world.run(&input("r3", "Hi.")).await), "Hello.");
    }

    async fn approving_a_call_needs_the_right_of_the_inbox(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], project_info()).await;
        world.model.add("finder", [calls("project_info", json!({})), says("Done.")]);
        let id = interrupt_id(&world.run(&input("r1", "Go.")).await);
        let approve = resume("r2", json!([resolved(&id, json!({ "approved": true }))]));
        let refused = world.send(&approve).await;
        assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "approvals:decide");
        assert_eq!(world.runs().await[0]["status"], "waiting");
        // Somebody decides in the inbox; the first decision counts, and the thread goes on.
        world.admin.post(&format!("/api/approvals/{id}/decide"), json!({ "decision": "approve" })).await.is(200);
        world.status_becomes("completed").await;
        assert_eq!(text(&world.run(&approve).await), "Done.");
    }

    async fn a_resume_responds_to_all_open_interrupts(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke, ApprovalsDecide], json!({ "tools": ["ask_user"] })).await;
        let question = |text: &str| calls("ask_user", json!({ "question": text }));
        world.model.add("finder", [question("One?").and(question("Two?")), says("Done.")]);
        let asked = interrupts(&world.run(&input("r1", "Go.")).await);
        let ids: Vec<&str> = asked.iter().map(|interrupt| interrupt["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 2);
        is_error(&world.run(&resume("r2", json!([resolved(ids[0], json!("1"))]))).await, "interrupts_open");
        let both = json!([resolved(ids[0], json!("1")), { "interruptId": ids[1], "status": "cancelled" }]);
        let second = world.run(&resume("r2", both)).await;
        assert_eq!((of_type(&second, "TOOL_CALL_RESULT").len(), text(&second).as_str()), (2, "Done."));
    }

    async fn a_run_that_fails_is_an_error_with_its_reason(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        let events = world.run(&input("r1", "Go.")).await;
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("provider")));
        assert!(last["message"].as_str().unwrap().contains("no more lines"), "{last}");
    }

    async fn what_is_refused_names_the_field_and_starts_nothing(db: TestDb) {
        let options = AppOptions { invoke_rate: 1, ..AppOptions::default() };
        let server = Server::with_options(&db, ScriptedModel::always(|_| says("Here.")).models(), options).await;
        let _runner = server.drive();
        let admin = server.admin();
        let agent = admin.agent("finder", json!({ "visibility": "external" })).await;
        let path = format!("/api/agents/{agent}/agui");
        for (field, value) in [
            ("threadId", json!("")),
            ("messages", json!([])),
            ("messages", json!([{ "role": "assistant", "content": "Hi." }])),
            ("tools", json!(vec![json!({ "name": "f", "description": "", "parameters": {} }); 129])),
        ] {
            let mut body = input("r1", "Go.");
            body[field] = value;
            let refused = admin.post(&path, body).await;
            assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], field);
        }
        assert!(admin.get("/api/admin/runs").await.is(200).as_array().unwrap().is_empty());
        // Following a run again is not counted; starting one is.
        for run in ["r1", "r1"] {
            assert_eq!(text(&events(&admin.post(&path, input(run, "Go.")).await)), "Here.");
        }
        admin.post(&path, input("r2", "Go.")).await.refused(429, "rate_limited");
    }
}
