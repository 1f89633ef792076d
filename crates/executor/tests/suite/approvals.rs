//! Runs that wait for people: which calls are held, what decisions do, and that nothing is made twice or too early.

use crate::support;

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    agent::{AgentDefinition, FlowConfig, FlowType},
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, NewDecision},
    cursor::Page,
    ids::{RunId, TokenId},
    run::{Run, RunStatus, ToolCallStatus},
    run_event::RunEventBody,
};
use emergent_executor::{Error, StartOptions, approvals::ApprovalFilter};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    server::Server,
    tools::{EXTERNAL, Probe},
    until, with_tools,
};

fn with_rules(definition: AgentDefinition, rules: Value) -> AgentDefinition {
    AgentDefinition { approvals: serde_json::from_value(rules).unwrap(), ..definition }
}

/// An agent whose calls of the tool `send` have to be approved.
fn careful(name: &str) -> AgentDefinition {
    with_rules(with_tools(name, &["send"]), json!([{ "tools": ["send"], "action": "ask" }]))
}

fn send(to: &str) -> emergent_testkit::scripted::ScriptedReply {
    calls("send", json!({ "to": to }))
}

fn decision(choice: Choice) -> NewDecision {
    NewDecision { choice, edited_input: None, answer: None, reason: None, digest: None }
}

async fn pending(harness: &Harness) -> Vec<Approval> {
    let filter = ApprovalFilter { status: Some(ApprovalStatus::Pending), ..ApprovalFilter::default() };
    let page = Page { limit: 100, after: None };
    let mut items = harness.executor.list_approvals(harness.project, filter, page).await.unwrap().items;
    items.reverse();
    items
}

async fn decide(harness: &Harness, approval: &Approval, new: NewDecision) -> Result<Approval, Error> {
    harness.executor.decide_approval(harness.project, approval.id, new, TokenId::new()).await
}

/// Waits until a run waits for a person.
async fn waiting(harness: &Harness, run: RunId) -> Run {
    until("the run waits", async || {
        let run = harness.executor.get_run(harness.project, run).await.unwrap();
        assert!(!run.status.is_terminal(), "{run:?}");
        run.status == RunStatus::Waiting
    })
    .await;
    harness.executor.get_run(harness.project, run).await.unwrap()
}

/// The names of the recorded events of a run, without messages.
async fn event_names(harness: &Harness, run: RunId) -> Vec<&'static str> {
    let events = harness.events(run).await;
    let is_shown = |body: &RunEventBody| !matches!(body, RunEventBody::Message(_));
    events.iter().map(|event| &event.body).filter(|body| is_shown(body)).map(RunEventBody::kind).collect()
}

both_engines! {
    async fn a_held_call_is_made_once_and_only_after_it_was_approved(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::new([send("a"), says("Sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let agent = harness.agent(careful("careful")).await;
        let run = harness.start(&agent, "Go.").await;
        let waits = waiting(&harness, run.id).await;
        assert_eq!((waits.owner, waits.waiting_for), (None, Some(ApprovalKind::Approval)));
        until("the slot is free", async || harness.executor.driven_count() == 0).await;
        let requests = pending(&harness).await;
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].run, requests[0].tool.as_str()), (run.id, "send"));
        assert_eq!(requests[0].input, json!({ "to": "a" }));
        assert_eq!(send_tool.called(), 0, "nobody approved it");
        let other_call = NewDecision { digest: Some("other".into()), ..decision(Choice::Approve) };
        assert!(matches!(decide(&harness, &requests[0], other_call).await, Err(Error::Conflict(_))));
        let decided = decide(&harness, &requests[0], decision(Choice::Approve)).await.unwrap();
        assert_eq!(decided.status, ApprovalStatus::Decided);
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.waiting_for, run.waiting_since), (None, None));
        assert_eq!(send_tool.called(), 1);
        assert_eq!(event_names(&harness, run.id).await, [
            "run_started", "tool_started", "approval_requested", "run_waiting", "approval_decided",
            "run_continued", "tool_completed", "run_ended",
        ]);
        harness.close().await;
    }

    async fn a_denied_call_is_never_made_and_the_model_reads_why(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::new([send("a"), says("Not sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let agent = harness.agent(careful("careful")).await;
        let run = harness.start(&agent, "Go.").await;
        waiting(&harness, run.id).await;
        let request = pending(&harness).await.remove(0);
        let denied = NewDecision { reason: Some("ask the boss first".into()), ..decision(Choice::Deny) };
        decide(&harness, &request, denied).await.unwrap();
        let Err(Error::Decided(first)) = decide(&harness, &request, decision(Choice::Approve)).await else {
            panic!("the first decision counts")
        };
        assert_eq!(first.decision.unwrap().choice, Choice::Deny);
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(send_tool.called(), 0);
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!(call.status, ToolCallStatus::Error);
        assert!(call.is_denied());
        let told = call.output.unwrap()["error"].as_str().unwrap().to_owned();
        assert!(told.contains("denied") && told.contains("ask the boss first"), "{told}");
        harness.close().await;
    }

    async fn an_edited_input_replaces_the_input_if_the_schema_accepts_it(db: TestDb) {
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } },
            "required": ["to"], "additionalProperties": false });
        let send_tool = Probe::new("send", EXTERNAL).schema(schema).build();
        let model = ScriptedModel::new([send("a"), says("Sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let agent = harness.agent(careful("careful")).await;
        let run = harness.start(&agent, "Go.").await;
        waiting(&harness, run.id).await;
        let request = pending(&harness).await.remove(0);
        let edited = |input| NewDecision { edited_input: Some(input), ..decision(Choice::Approve) };
        for wrong in [json!({ "to": 1 }), json!({ "to": "b", "cc": "c" }), json!([])] {
            match decide(&harness, &request, edited(wrong)).await {
                Err(Error::Invalid(invalid)) => assert_eq!(invalid.problems[0].field, "editedInput"),
                other => panic!("{other:?}"),
            }
        }
        decide(&harness, &request, edited(json!({ "to": "b" }))).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!(call.output, Some(json!({ "got": { "to": "b" } })));
        assert_eq!(call.input, json!({ "to": "b" }), "the record has what was done");
        let stored = harness.executor.get_approval(harness.project, request.id).await.unwrap();
        assert_eq!(stored.input, json!({ "to": "a" }), "the request has what was asked for");
        harness.close().await;
    }

    async fn no_call_of_a_step_is_made_before_all_held_ones_are_decided(db: TestDb) {
        let log = Arc::default();
        let send_tool = Probe::new("send", EXTERNAL).logging(&log).build();
        let note_tool = Probe::new("note", EXTERNAL).logging(&log).build();
        let model = ScriptedModel::new([
            calls("note", json!({})).and(send("a")).and(send("b")).and(send("forbidden")),
            says("Done."),
        ]);
        let plan = HarnessOptions::new(model).tool(send_tool.clone()).tool(note_tool.clone());
        let harness = Harness::with(&db, plan).await;
        let deny = json!({ "path": "to", "op": "eq", "value": "forbidden" });
        let rules = json!([
            { "tools": ["send"], "when": [deny], "action": "deny" }, { "tools": ["send"], "action": "ask" },
        ]);
        let agent = harness.agent(with_rules(with_tools("careful", &["send", "note"]), rules)).await;
        let run = harness.start(&agent, "Go.").await;
        waiting(&harness, run.id).await;
        let requests = pending(&harness).await;
        assert_eq!(requests.len(), 2, "a rule denied the third");
        decide(&harness, &requests[0], decision(Choice::Approve)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(waiting(&harness, run.id).await.status, RunStatus::Waiting);
        assert_eq!((note_tool.called(), send_tool.called()), (0, 0));
        decide(&harness, &requests[1], decision(Choice::Deny)).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let calls = harness.calls(run.id).await;
        let statuses: Vec<ToolCallStatus> = calls.iter().map(|call| call.status).collect();
        use ToolCallStatus::{Completed, Error as Failed};
        assert_eq!(statuses, [Completed, Completed, Failed, Failed]);
        let denied: Vec<bool> = calls.iter().map(|call| call.is_denied()).collect();
        assert_eq!(denied, [false, false, true, true], "by a person, and by a rule");
        assert_eq!((note_tool.called(), send_tool.called()), (1, 1));
        harness.close().await;
    }

    async fn only_external_tools_that_are_marked_as_destructive_ask_without_a_rule(db: TestDb) {
        let wipe = Probe::new("wipe", EXTERNAL).server("disk").marked_destructive().build();
        let read = Probe::new("read", EXTERNAL).server("disk").build();
        let both = || calls("read", json!({})).and(calls("wipe", json!({})));
        let model = ScriptedModel::default()
            .agent("default", [both(), says("Done.")])
            .agent("trusting", [both(), says("Done.")]);
        let plan = HarnessOptions::new(model).tool(wipe.clone()).tool(read.clone());
        let harness = Harness::with(&db, plan).await;
        let tools = ["disk.read", "disk.wipe"];
        let rule = json!([{ "tools": ["disk.wipe"], "action": "allow" }]);
        let trusting = harness.agent(with_rules(with_tools("trusting", &tools), rule)).await;
        assert_ended(&harness.run(&trusting, "Go.").await, RunStatus::Completed, None);
        assert_eq!((wipe.called(), read.called()), (1, 1));
        let default = harness.agent(with_tools("default", &tools)).await;
        let run = harness.start(&default, "Go.").await;
        waiting(&harness, run.id).await;
        assert_eq!(pending(&harness).await[0].tool, "wipe");
        assert_eq!((wipe.called(), read.called()), (1, 1));
        harness.close().await;
    }

    async fn the_answer_to_a_question_is_the_result_of_its_call(db: TestDb) {
        let ask = json!({ "question": "Which colour?", "options": ["red", "blue"] });
        let model = ScriptedModel::new([calls("ask_user", ask), says("Blue it is.")]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(with_tools("asker", &["ask_user"])).await;
        let run = harness.start(&agent, "Go.").await;
        assert_eq!(waiting(&harness, run.id).await.waiting_for, Some(ApprovalKind::Question));
        let request = pending(&harness).await.remove(0);
        assert_eq!(request.question.as_ref().unwrap().text, "Which colour?");
        let answer = |answer: &str| NewDecision { answer: Some(json!(answer)), ..decision(Choice::Answer) };
        for wrong in [answer("green"), decision(Choice::Approve), decision(Choice::Answer)] {
            assert!(matches!(decide(&harness, &request, wrong).await, Err(Error::Invalid(_))));
        }
        decide(&harness, &request, answer("blue")).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(harness.answers(run.id).await, [json!({ "answer": "blue" })]);
        harness.close().await;
    }

    async fn a_pattern_does_not_let_an_agent_ask_people(db: TestDb) {
        let ask = calls("ask_user", json!({ "question": "May I?" }));
        let model = ScriptedModel::new([ask, says("Nobody to ask.")]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(with_tools("any", &["*"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(harness.answers(run.id).await[0]["error"].as_str().unwrap().contains("tool not found"));
        harness.close().await;
    }

    async fn of_two_deciders_one_decides(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let harness = Harness::with(
            &db,
            HarnessOptions::new(ScriptedModel::always(|request| {
                if request.turns.len() == 1 { send("a") } else { says("Done.") }
            }))
            .tool(send_tool.clone()),
        )
        .await;
        let agent = harness.agent(careful("careful")).await;
        let mut approved = 0;
        for _ in 0..10 {
            let run = harness.start(&agent, "Go.").await;
            waiting(&harness, run.id).await;
            let request = pending(&harness).await.remove(0);
            let (one, two) = tokio::join!(
                decide(&harness, &request, decision(Choice::Approve)),
                decide(&harness, &request, decision(Choice::Deny)),
            );
            let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
            let choice = winner.unwrap().decision.unwrap().choice;
            match loser {
                Err(Error::Decided(first)) => assert_eq!(first.decision.unwrap().choice, choice),
                other => panic!("{other:?}"),
            }
            approved += usize::from(choice == Choice::Approve);
            harness.ended(run.id).await;
        }
        assert_eq!(send_tool.called(), approved);
        harness.close().await;
    }

    async fn a_parent_waits_with_its_children_and_starts_none_twice(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let tasks = json!({ "tasks": [
            { "agent_name": "careful", "task": "One." }, { "agent_name": "careful", "task": "Two." },
        ] });
        let model = ScriptedModel::always(move |request| match (request.agent == "parent", request.turns.len()) {
            (true, 1) => calls("spawn_agents", tasks.clone()),
            (false, 1) => send("a"),
            _ => says("Done."),
        });
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        harness.agent(careful("careful")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        assert_eq!(waiting(&harness, run.id).await.waiting_for, Some(ApprovalKind::Approval));
        let requests = pending(&harness).await;
        assert_eq!(requests.len(), 2);
        until("no slot is used", async || harness.executor.driven_count() == 0).await;
        decide(&harness, &requests[0], decision(Choice::Approve)).await.unwrap();
        harness.ended(requests[0].run).await;
        waiting(&harness, run.id).await;
        decide(&harness, &requests[1], decision(Choice::Approve)).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let children = harness.children(run.id).await;
        assert_eq!(children.len(), 2);
        assert!(children.iter().all(|child| child.status == RunStatus::Completed));
        assert_eq!(send_tool.called(), 2);
        harness.close().await;
    }

    async fn a_parent_tells_what_was_decided_about_the_calls_of_its_children(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let tasks = json!({ "tasks": [
            { "agent_name": "careful", "task": "One." }, { "agent_name": "careful", "task": "Two." },
            { "agent_name": "careful", "task": "Three." },
        ] });
        let model = ScriptedModel::always(move |request| match (request.agent == "parent", request.turns.len()) {
            (true, 1) => calls("spawn_agents", tasks.clone()),
            (false, 1) => send("a"),
            // The others are decided while the parent waits for this one, and does not wait for a person.
            (false, _) => says("Done.").with_delay(Duration::from_millis(700)),
            _ => says("Done."),
        });
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        harness.agent(careful("careful")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        waiting(&harness, run.id).await;
        let requests = pending(&harness).await;
        assert_eq!(requests.len(), 3);
        decide(&harness, &requests[0], decision(Choice::Approve)).await.unwrap();
        until("the parent goes on", async || {
            harness.executor.get_run(harness.project, run.id).await.unwrap().status == RunStatus::Running
        }).await;
        let denied = NewDecision { reason: Some("not this one".into()), ..decision(Choice::Deny) };
        decide(&harness, &requests[1], denied).await.unwrap();
        harness.executor.cancel(harness.actor(), requests[2].run).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let told: Vec<_> = harness.events(run.id).await.into_iter().filter_map(|event| match event.body {
            RunEventBody::ApprovalDecided { approval, call, status, decision, reason, child, .. } => {
                Some((approval, call, child, (status, decision, reason)))
            }
            _ => None,
        }).collect();
        let expected = [
            (ApprovalStatus::Decided, Choice::Approve, None),
            (ApprovalStatus::Decided, Choice::Deny, Some("not this one".to_owned())),
            (ApprovalStatus::Withdrawn, Choice::Deny, None),
        ];
        assert_eq!(told.len(), 3, "each is told once: {told:?}");
        for (request, outcome) in requests.iter().zip(expected) {
            let about = told.iter().find(|(approval, ..)| *approval == request.id).unwrap();
            assert_eq!((about.1, about.2, &about.3), (request.call, Some(request.run), &outcome));
        }
        harness.close().await;
    }

    async fn a_flow_waits_with_its_part(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::default()
            .agent("careful", [send("a"), says("Sent.")])
            .agent("last", [says("All done.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        harness.agent(careful("careful")).await;
        harness.agent(agent("last")).await;
        let flow_config = Some(FlowConfig { agents: vec!["careful".into(), "last".into()], ..FlowConfig::default() });
        let flow = AgentDefinition { flow_type: FlowType::Sequential, flow_config, ..agent("flow") };
        let flow = harness.agent(flow).await;
        let run = harness.start(&flow, "Go.").await;
        waiting(&harness, run.id).await;
        decide(&harness, &pending(&harness).await[0], decision(Choice::Approve)).await.unwrap();
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), send_tool.called()), (Some("All done."), 1));
        harness.close().await;
    }

    async fn cancelling_a_waiting_run_withdraws_its_requests(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::new([send("a"), says("Sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let agent = harness.agent(careful("careful")).await;
        let run = harness.start(&agent, "Go.").await;
        waiting(&harness, run.id).await;
        let request = pending(&harness).await.remove(0);
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Cancelled, None);
        let Err(Error::Decided(withdrawn)) = decide(&harness, &request, decision(Choice::Approve)).await else {
            panic!("the run has ended")
        };
        assert_eq!(withdrawn.status, ApprovalStatus::Withdrawn);
        assert_eq!(send_tool.called(), 0);
        harness.close().await;
    }

    async fn a_request_that_nobody_decides_is_denied_or_marked_as_overdue(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::default()
            .agent("denied", [send("a"), says("Not sent.")])
            .agent("escalated", [send("a"), says("Sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let rule = |on_expiry| json!([{ "tools": ["send"], "action": "ask", "expires_in": 1, "on_expiry": on_expiry }]);
        let denied = harness.agent(with_rules(careful("denied"), rule("deny"))).await;
        let escalated = harness.agent(with_rules(careful("escalated"), rule("escalate"))).await;
        let (denied, escalated) = (harness.start(&denied, "Go.").await, harness.start(&escalated, "Go.").await);
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let executor = harness.executor.clone();
        let expiry = tokio::spawn(async move { executor.run_approval_expiry(stopping).await });
        assert_ended(&harness.ended(denied.id).await, RunStatus::Completed, None);
        let told = harness.answers(denied.id).await.remove(0);
        assert!(told["error"].as_str().unwrap().contains("in time"), "{told}");
        assert_eq!(told["denied"], true);
        until("it is overdue", async || pending(&harness).await.iter().any(|request| request.is_overdue)).await;
        let overdue = pending(&harness).await.remove(0);
        assert_eq!(overdue.run, escalated.id);
        decide(&harness, &overdue, decision(Choice::Approve)).await.unwrap();
        assert_ended(&harness.ended(escalated.id).await, RunStatus::Completed, None);
        assert_eq!(send_tool.called(), 1);
        stop.send(true).unwrap();
        expiry.await.unwrap();
        harness.close().await;
    }

    async fn the_time_in_which_a_run_waits_does_not_count(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let model = ScriptedModel::new([send("a"), says("Sent.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(send_tool.clone())).await;
        let agent = harness.agent(careful("careful")).await;
        let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() };
        let run = harness.executor.trigger(harness.actor(), agent.id, start).await.unwrap();
        waiting(&harness, run.id).await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        decide(&harness, &pending(&harness).await[0], decision(Choice::Approve)).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(send_tool.called(), 1);
        harness.close().await;
    }

    async fn a_run_waits_through_a_crash_and_another_server_makes_the_call(db: TestDb) {
        let send_tool = Probe::new("send", EXTERNAL).build();
        let plan = |model| HarnessOptions::new(model).tool(send_tool.clone());
        let server = Server::open(&db, plan(ScriptedModel::new([send("a")]))).await;
        let agent = server.harness.agent(careful("careful")).await;
        let run = server.harness.start(&agent, "Go.").await;
        waiting(&server.harness, run.id).await;
        server.kill(&db, Duration::from_secs(1)).await;
        let second = Harness::with(&db, plan(ScriptedModel::new([says("Sent.")]))).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(waiting(&second, run.id).await.status, RunStatus::Waiting);
        decide(&second, &pending(&second).await[0], decision(Choice::Approve)).await.unwrap();
        assert_ended(&second.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(send_tool.called(), 1);
        second.close().await;
    }

    async fn an_approved_call_is_not_made_with_a_tool_that_changed_since(db: TestDb) {
        let [before, after] = ["v1", "v2"].map(|digest| Probe::new("send", EXTERNAL).definition(digest).build());
        let plan = HarnessOptions::new(ScriptedModel::new([send("a")])).tool(before);
        let first = Harness::with(&db, plan).await;
        let agent = first.agent(careful("careful")).await;
        let run = first.start(&agent, "Go.").await;
        waiting(&first, run.id).await;
        first.close().await;
        let plan = HarnessOptions::new(ScriptedModel::new([says("It changed.")])).tool(after.clone());
        let second = Harness::with(&db, plan).await;
        decide(&second, &pending(&second).await[0], decision(Choice::Approve)).await.unwrap();
        assert_ended(&second.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(after.called(), 0);
        let told = second.answers(run.id).await.remove(0);
        assert!(told["error"].as_str().unwrap().contains("not the one any more"), "{told}");
        second.close().await;
    }
}
