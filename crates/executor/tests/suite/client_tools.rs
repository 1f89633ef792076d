//! Tools of callers: the run waits for their results, survives a crash meanwhile, and does nothing twice.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    agent::{Agent, AgentDefinition, FlowConfig, FlowType, Visibility},
    approval::{ApprovalKind, ApprovalStatus, Choice, NewDecision},
    author::Author,
    client_tool::{ClientResult, ClientTool},
    cursor::Page,
    ids::{RunId, TokenId, ToolCallId},
    run::{Run, RunStatus, ToolCallStatus},
    run_event::RunEventBody,
};
use emergent_executor::{Error, StartOptions, approvals::ApprovalFilter};
use emergent_graph::Actor;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    server::Server,
    tools::{EXTERNAL, Probe},
    until, with_tools,
};

fn weather() -> ClientTool {
    ClientTool {
        name: "get_weather".to_owned(),
        description: "Tells the weather of a city.".to_owned(),
        input_schema: (&json!({ "type": "object", "properties": { "city": { "type": "string" } } })).into(),
    }
}

fn asks_weather(city: &str) -> ScriptedReply {
    calls("get_weather", json!({ "city": city }))
}

fn external(definition: AgentDefinition) -> AgentDefinition {
    AgentDefinition { visibility: Visibility::External, ..definition }
}

fn with_weather() -> StartOptions {
    StartOptions { input: "Go.".into(), client_tools: vec![weather()], ..StartOptions::default() }
}

async fn invoke(harness: &Harness, agent: &Agent) -> Run {
    harness.executor.invoke(harness.actor(), agent.id, with_weather()).await.unwrap()
}

/// Waits until the run waits for its caller, and returns the calls.
async fn client_calls(harness: &Harness, run: RunId) -> Vec<(ToolCallId, String)> {
    until("the run waits", async || {
        let run = harness.executor.get_run(harness.project, run).await.unwrap();
        assert!(!run.status.is_terminal(), "{run:?}");
        run.status == RunStatus::Waiting
    })
    .await;
    let waits = harness.executor.get_run(harness.project, run).await.unwrap();
    assert_eq!((waits.owner, waits.waiting_for), (None, Some(ApprovalKind::ClientTool)));
    let mut pending = pending_of(harness, Some(ApprovalKind::ClientTool)).await;
    pending.retain(|(_, _, of)| *of == run);
    pending.into_iter().map(|(call, input, _)| (call, input["city"].as_str().unwrap().to_owned())).collect()
}

async fn pending_of(harness: &Harness, kind: Option<ApprovalKind>) -> Vec<(ToolCallId, Value, RunId)> {
    let filter = ApprovalFilter { status: Some(ApprovalStatus::Pending), kind, run: None };
    let page = Page { limit: 100, after: None };
    let mut items = harness.executor.list_approvals(harness.project, filter, page).await.unwrap().items;
    items.reverse();
    items.into_iter().map(|request| (request.call, request.input, request.run)).collect()
}

fn result(call: ToolCallId, text: &str) -> ClientResult {
    ClientResult { call, output: json!(text), is_error: false }
}

both_engines! {
    async fn a_run_waits_for_its_caller_and_goes_on_with_the_result_once(db: TestDb) {
        let model = ScriptedModel::new([asks_weather("Oslo"), says("It is sunny.")]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(external(agent("guide"))).await;
        let run = invoke(&harness, &agent).await;
        let found = client_calls(&harness, run.id).await;
        let [(call, city)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(city, "Oslo");
        assert_eq!(pending_of(&harness, None).await, [], "no person is asked");
        let executor = &harness.executor;
        assert_eq!(executor.run_of_client_call(harness.project, *call).await.unwrap(), Some(run.id));
        assert_eq!(executor.run_of_client_call(harness.project, ToolCallId::new()).await.unwrap(), None);
        let sent = vec![result(*call, "sunny")];
        let first = executor.answer_client_calls(harness.actor(), run.id, sent).await.unwrap();
        assert!(!first.is_repeated);
        let ended = harness.ended(run.id).await;
        assert_ended(&ended, RunStatus::Completed, None);
        assert_eq!(ended.summary.as_deref(), Some("It is sunny."));
        let again = executor.answer_client_calls(harness.actor(), run.id, vec![result(*call, "rain")]).await.unwrap();
        assert!(again.is_repeated);
        assert_eq!((again.run.status, again.after_seq), (RunStatus::Completed, first.after_seq));
        assert_eq!(executor.seq_after_client_call(harness.project, run.id, *call).await.unwrap(), first.after_seq);
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!((call.status, call.output), (ToolCallStatus::Completed, Some(json!("sunny"))));
        let events = harness.events(run.id).await;
        let kinds: Vec<_> = events.iter().map(|event| event.body.kind()).filter(|kind| *kind != "message").collect();
        assert_eq!(kinds, [
            "run_started", "tool_started", "approval_requested", "run_waiting", "approval_decided",
            "run_continued", "tool_completed", "run_ended",
        ]);
        let wait = events.iter().find(|event| matches!(event.body, RunEventBody::Waiting { .. })).unwrap();
        assert_eq!(wait.seq, Some(first.after_seq));
        assert_eq!(harness.model.requests().len(), 2);
        harness.close().await;
    }

    async fn the_agents_tools_run_before_all_calls_of_the_caller_are_returned_at_once(db: TestDb) {
        let send = Probe::new("send", EXTERNAL).build();
        let turn = asks_weather("Oslo").and(calls("send", json!({ "to": "a" }))).and(asks_weather("Rome"));
        let model = ScriptedModel::new([turn, says("Done.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send.clone())).await;
        let agent = harness.agent(external(with_tools("guide", &["send"]))).await;
        let run = invoke(&harness, &agent).await;
        let found = client_calls(&harness, run.id).await;
        assert_eq!(send.called(), 1, "it does not wait for the caller");
        let [(oslo, _), (rome, _)] = found.as_slice() else { panic!("{found:?}") };
        let executor = &harness.executor;
        let partial = executor.answer_client_calls(harness.actor(), run.id, vec![result(*oslo, "sun")]).await;
        assert!(matches!(&partial, Err(Error::Invalid(why)) if why.problems[0].field == "results"), "{partial:?}");
        let failed = ClientResult { is_error: true, ..result(*rome, "no such city") };
        executor.answer_client_calls(harness.actor(), run.id, vec![result(*oslo, "sun"), failed]).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(send.called(), 1);
        let outputs = harness.answers(run.id).await;
        assert_eq!((&outputs[0], &outputs[2]), (&json!("sun"), &json!({ "error": "no such city" })));
        let seen = harness.model.requests()[1].last_text();
        assert!(seen.contains("sun") && seen.contains("no such city"), "{seen}");
        harness.close().await;
    }

    async fn a_call_that_needs_a_person_comes_before_the_calls_of_the_caller(db: TestDb) {
        let send = Probe::new("send", EXTERNAL).build();
        let turn = asks_weather("Oslo").and(calls("send", json!({ "to": "a" })));
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([turn, says("Done.")])).tool(send.clone())).await;
        let rules = serde_json::from_value(json!([{ "tools": ["send"], "action": "ask" }])).unwrap();
        let careful = AgentDefinition { approvals: rules, ..with_tools("careful", &["send"]) };
        let agent = harness.agent(external(careful)).await;
        let run = invoke(&harness, &agent).await;
        until("a person is asked", async || !pending_of(&harness, None).await.is_empty()).await;
        assert_eq!(pending_of(&harness, Some(ApprovalKind::ClientTool)).await, []);
        let filter = ApprovalFilter { status: Some(ApprovalStatus::Pending), ..ApprovalFilter::default() };
        let page = Page { limit: 10, after: None };
        let request = harness.executor.list_approvals(harness.project, filter, page).await.unwrap().items.remove(0);
        let approve = NewDecision { choice: Choice::Approve, edited_input: None, answer: None, reason: None, digest: None };
        harness.executor.decide_approval(harness.project, request.id, approve, TokenId::new()).await.unwrap();
        until("the caller is asked", async || {
            !pending_of(&harness, Some(ApprovalKind::ClientTool)).await.is_empty()
        })
        .await;
        assert_eq!(send.called(), 1);
        let (call, _) = client_calls(&harness, run.id).await.remove(0);
        let answer = harness.executor.answer_client_calls(harness.actor(), run.id, vec![result(call, "sun")]).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let mut waits = harness.events(run.id).await.into_iter().filter(|event| matches!(event.body, RunEventBody::Waiting { .. }));
        assert_eq!(waits.next_back().unwrap().seq, Some(answer.after_seq));
        harness.close().await;
    }

    async fn a_run_waits_through_a_crash_and_another_server_goes_on(db: TestDb) {
        let plan = |model| HarnessOptions::new(model);
        let server = Server::open(&db, plan(ScriptedModel::new([asks_weather("Oslo")]))).await;
        let agent = server.harness.agent(external(agent("guide"))).await;
        let run = invoke(&server.harness, &agent).await;
        let (call, _) = client_calls(&server.harness, run.id).await.remove(0);
        server.kill(&db, Duration::from_secs(1)).await;
        let second = Harness::with(&db, plan(ScriptedModel::new([says("It is sunny.")]))).await;
        second.executor.answer_client_calls(second.actor(), run.id, vec![result(call, "sun")]).await.unwrap();
        let ended = second.ended(run.id).await;
        assert_eq!((ended.status, ended.summary.as_deref()), (RunStatus::Completed, Some("It is sunny.")));
        second.close().await;
    }

    async fn only_the_caller_or_somebody_who_decides_sends_a_result(db: TestDb) {
        let model = ScriptedModel::new([asks_weather("Oslo"), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(external(agent("guide"))).await;
        let token = |id| Actor { project: harness.project, author: Author::Token { id } };
        let (own, other) = (token(TokenId::new()), token(TokenId::new()));
        let run = harness.executor.invoke(own, agent.id, with_weather()).await.unwrap();
        let (call, _) = client_calls(&harness, run.id).await.remove(0);
        let refused = harness.executor.answer_client_calls(other, run.id, vec![result(call, "rain")]).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
        let filter = ApprovalFilter { kind: Some(ApprovalKind::ClientTool), ..ApprovalFilter::default() };
        let page = Page { limit: 10, after: None };
        let request = harness.executor.list_approvals(harness.project, filter, page).await.unwrap().items.remove(0);
        let decision = |choice, answer| NewDecision { choice, edited_input: None, answer, reason: None, digest: None };
        let approve = decision(Choice::Approve, None);
        let refused = harness.executor.decide_approval(harness.project, request.id, approve, TokenId::new()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let answer = decision(Choice::Answer, Some(json!({ "sky": "clear" })));
        harness.executor.decide_approval(harness.project, request.id, answer, TokenId::new()).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(harness.answers(run.id).await, [json!({ "sky": "clear" })]);
        harness.close().await;
    }

    async fn a_run_whose_caller_sends_nothing_is_cancelled_with_the_reason(db: TestDb) {
        let model = ScriptedModel::new([asks_weather("Oslo").and(asks_weather("Rome"))]);
        let mut options = HarnessOptions::new(model);
        options.settings.client_wait = Duration::from_secs(1);
        let harness = Harness::with(&db, options).await;
        let agent = harness.agent(external(agent("guide"))).await;
        let run = invoke(&harness, &agent).await;
        let (call, _) = client_calls(&harness, run.id).await.remove(0);
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let executor = harness.executor.clone();
        let expiry = tokio::spawn(async move { executor.run_approval_expiry(stopping).await });
        let ended = harness.ended(run.id).await;
        assert_ended(&ended, RunStatus::Cancelled, None);
        let reason = ended.error.unwrap();
        assert!(reason.contains("get_weather") && reason.contains("within 1 seconds"), "{reason}");
        assert_eq!(pending_of(&harness, Some(ApprovalKind::ClientTool)).await, []);
        let late = harness.executor.answer_client_calls(harness.actor(), run.id, vec![result(call, "sun")]).await.unwrap();
        assert!(late.is_repeated);
        assert_eq!(late.run.status, RunStatus::Cancelled);
        stop.send(true).unwrap();
        expiry.await.unwrap();
        harness.close().await;
    }

    async fn tools_of_the_agent_and_flows_are_not_given_to_the_caller(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let searcher = harness.agent(external(with_tools("searcher", &["entities_search"]))).await;
        let named = |name: &str| {
            let tool = ClientTool { name: name.to_owned(), ..weather() };
            StartOptions { client_tools: vec![weather(), tool], ..with_weather() }
        };
        // An alias is a name of the tool as well.
        for (name, field) in [
            ("entities_search", "clientTools[1].name"),
            ("search_entities", "clientTools[1].name"),
            ("get_weather", "clientTools[1].name"),
            ("two words", "clientTools[1].name"),
        ] {
            let refused = harness.executor.invoke(harness.actor(), searcher.id, named(name)).await;
            assert!(matches!(&refused, Err(Error::Invalid(why)) if why.problems[0].field == field), "{name}: {refused:?}");
        }
        harness.agent(agent("part")).await;
        let flow_config = Some(FlowConfig { agents: vec!["part".into()], ..FlowConfig::default() });
        let flow = AgentDefinition { flow_type: FlowType::Sequential, flow_config, ..agent("flow") };
        let flow = harness.agent(external(flow)).await;
        let refused = harness.executor.invoke(harness.actor(), flow.id, with_weather()).await;
        assert!(matches!(&refused, Err(Error::Invalid(why)) if why.problems[0].field == "clientTools"), "{refused:?}");
        harness.close().await;
    }
}
