//! Tools of clients of AG-UI: the stream ends with the calls, and the results go on with the same run.

use crate::agui::{World, events, input, interrupt_id, of_type, resolved, resume, text, types};

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_domain::token::Scope::{AgentsInvoke, ApprovalsDecide};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedReply, calls, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};

fn weather_tool() -> Value {
    json!({ "name": "get_weather", "description": "Tells the weather.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } } } })
}

fn asks(city: &str) -> ScriptedReply {
    calls("get_weather", json!({ "city": city }))
}

/// A request that offers a tool.
fn offer(run: &str) -> Value {
    let mut body = input(run, "How is the weather?");
    body["tools"] = json!([weather_tool()]);
    body
}

/// The request after a stream that ended with calls: it has the calls and a result for each.
fn with_results(run: &str, before: &Value, calls: &[Value], results: &[&str]) -> Value {
    let mut body = before.clone();
    body["runId"] = json!(run);
    let messages = body["messages"].as_array_mut().unwrap();
    let made: Vec<Value> = calls
        .iter()
        .map(|id| json!({ "id": id, "type": "function", "function": { "name": "get_weather", "arguments": "{}" } }))
        .collect();
    messages.push(json!({ "id": format!("{run}:a"), "role": "assistant", "toolCalls": made }));
    for (id, result) in calls.iter().zip(results) {
        let message_id = format!("{run}:{}", messages.len());
        messages.push(json!({ "id": message_id, "role": "tool", "toolCallId": id, "content": result }));
    }
    body
}

/// The calls with which a stream ends.
#[track_caller]
fn pending(events: &[Value]) -> Vec<Value> {
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("success")),
        "{events:?}"
    );
    assert!(last.get("result").is_none(), "the run has not ended: {events:?}");
    let answered: Vec<&Value> =
        of_type(events, "TOOL_CALL_RESULT").iter().map(|event| &event["toolCallId"]).collect();
    let started = of_type(events, "TOOL_CALL_START");
    let pending = started.iter().map(|event| &event["toolCallId"]).filter(|id| !answered.contains(id));
    let pending: Vec<Value> = pending.cloned().collect();
    assert!(!pending.is_empty(), "{events:?}");
    pending
}

#[track_caller]
fn succeeds_with(events: &[Value], expected: &str) {
    let last = events.last().unwrap();
    assert_eq!(last["result"]["text"], expected, "{events:?}");
    assert_eq!(
        (text(events).as_str(), &last["outcome"]),
        (expected, &json!({ "type": "success" })),
        "{events:?}"
    );
    assert!(
        of_type(events, "TOOL_CALL_START").is_empty() && of_type(events, "TOOL_CALL_RESULT").is_empty(),
        "{events:?}"
    );
    assert!(of_type(events, "CUSTOM").is_empty(), "{events:?}");
}

/// A text may come in other parts when it is followed again.
#[track_caller]
fn is_the_same(again: &[Value], before: &[Value]) {
    assert_eq!((text(again), again.last()), (text(before), before.last()));
    assert_eq!(of_type(again, "TOOL_CALL_ARGS"), of_type(before, "TOOL_CALL_ARGS"));
}

both_engines! {
    async fn the_results_of_a_clients_tool_go_on_with_the_same_run(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({ "tools": ["project_info"] })).await;
        let mixed = says("Let me see.").and(asks("Oslo")).and(calls("project_info", json!({}))).and(asks("Rome"));
        world.model.add("finder", [mixed, asks("Bern"), says("Sunny.")]);
        let first = world.run(&offer("r1")).await;
        let expected = [
            "RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
            "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "TOOL_CALL_START", "TOOL_CALL_ARGS",
            "TOOL_CALL_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "STEP_FINISHED", "STATE_DELTA", "RUN_FINISHED",
        ];
        let mut found = types(&first);
        found.dedup();
        assert_eq!(found, expected);
        let names: Vec<&Value> = of_type(&first, "TOOL_CALL_START").iter().map(|event| &event["toolCallName"]).collect();
        assert_eq!(names, ["project_info", "get_weather", "get_weather"], "the agent's own tools run first");
        let inputs: Vec<&Value> = of_type(&first, "TOOL_CALL_ARGS").iter().map(|event| &event["delta"]).collect();
        assert_eq!(inputs[1..], [r#"{"city":"Oslo"}"#, r#"{"city":"Rome"}"#]);
        let calls = pending(&first);
        assert_eq!(calls.len(), 2);
        let state = &of_type(&first, "STATE_DELTA")[0]["delta"][0]["value"];
        assert_eq!((&state["status"], &state["waitingFor"]), (&json!("waiting"), &json!("client_tool")));
        assert_eq!(world.model.requests_of("finder")[0].tools, ["project_info", "get_weather"]);
        let run = world.runs().await.remove(0);
        assert_eq!((&run["status"], &run["waitingFor"]), (&json!("waiting"), &json!("client_tool")));
        assert_eq!(world.admin.get("/api/approvals?status=pending").await.is(200), &json!([]), "no person is asked");

        // Another call follows, and its result ends the run.
        let answered = with_results("r2", &offer("r1"), &calls, &["sun", "rain"]);
        let second = world.run(&answered).await;
        assert!(of_type(&second, "TOOL_CALL_RESULT").is_empty() && of_type(&second, "CUSTOM").is_empty(), "{second:?}");
        let seen = world.model.requests_of("finder")[1].last_text();
        assert!(seen.contains("sun") && seen.contains("rain"), "{seen}");
        let bern = pending(&second);
        let last = with_results("r3", &answered, &bern, &["snow"]);
        let third = world.run(&last).await;
        succeeds_with(&third, "Sunny.");
        assert!(world.model.requests_of("finder")[2].last_text().contains("snow"));

        // Each part is followed again as it was, and the same results change nothing, also of an earlier wait.
        is_the_same(&world.run(&offer("r1")).await, &first);
        is_the_same(&world.run(&answered).await, &second);
        is_the_same(&world.run(&last).await, &third);
        let mut renamed = last.clone();
        renamed["runId"] = json!("r4");
        succeeds_with(&world.run(&renamed).await, "Sunny.");
        let mut earlier = answered.clone();
        earlier["runId"] = json!("r5");
        assert_eq!(text(&world.run(&earlier).await), "Sunny.", "the run went on in the meantime");
        assert_eq!((world.runs().await.len(), world.model.requests_of("finder").len()), (1, 3));
    }

    async fn an_approval_comes_before_the_calls_to_the_client(db: TestDb) {
        let definition = json!({ "tools": ["project_info"], "approvals": [{ "tools": ["project_info"], "action": "ask" }] });
        let world = World::start(&db, &[AgentsInvoke, ApprovalsDecide], definition).await;
        world.model.add("finder", [asks("Oslo").and(calls("project_info", json!({}))), says("Sunny.")]);
        let first = world.run(&offer("r1")).await;
        let id = interrupt_id(&first);
        let started: Vec<&Value> = of_type(&first, "TOOL_CALL_START").iter().map(|event| &event["toolCallName"]).collect();
        assert_eq!(started, ["project_info"], "nobody waits for the other call yet");
        let second = world.run(&resume("r2", json!([resolved(&id, json!({ "approved": true }))]))).await;
        let calls = pending(&second);
        let result = of_type(&second, "TOOL_CALL_RESULT");
        assert_eq!((calls.len(), result.len()), (1, 1), "{second:?}");
        let third = world.run(&with_results("r3", &offer("r1"), &calls, &["sun"])).await;
        succeeds_with(&third, "Sunny.");
        is_the_same(&world.run(&offer("r1")).await, &first);
        assert_eq!(world.runs().await.len(), 1);
    }

    async fn a_call_that_failed_at_the_client_is_an_error_for_the_model(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [asks("Oslo"), says("I do not know.")]);
        let calls = pending(&world.run(&offer("r1")).await);
        let mut body = with_results("r2", &offer("r1"), &calls, &[""]);
        body["messages"][2]["error"] = json!("there is no network");
        succeeds_with(&world.run(&body).await, "I do not know.");
        assert!(world.model.requests_of("finder")[1].last_text().contains("there is no network"));
    }

    async fn results_are_accepted_from_a_client_that_missed_the_end_of_the_stream(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [asks("Oslo"), says("Sunny.")]);
        let request = world.caller.request(Method::POST, &world.path()).header(header::CONTENT_TYPE, "application/json");
        let opened = world.caller.open(request.body(Body::from(offer("r1").to_string())).unwrap()).await;
        let mut frames = opened.into_body().into_data_stream();
        let _ = frames.next().await;
        drop(frames);
        world.status_becomes("waiting").await;
        let listed = world.admin.get("/api/approvals?status=pending&kind=client_tool").await;
        let path = format!("/api/approvals/{}", listed.is(200)[0]["id"].as_str().unwrap());
        let call = world.admin.get(&path).await.is(200)["toolCallId"].clone();
        succeeds_with(&world.run(&with_results("r2", &offer("r1"), std::slice::from_ref(&call), &["sun"])).await, "Sunny.");
        assert_eq!(pending(&world.run(&offer("r1")).await), [call], "the first part ended where the second began");
    }

    async fn a_message_of_the_user_in_the_place_of_results_starts_another_run(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [asks("Oslo"), says("Hello."), says("Sunny.")]);
        let calls = pending(&world.run(&offer("r1")).await);
        assert_eq!(text(&world.run(&input("r2", "Hi.")).await), "Hello.");
        assert_eq!(world.runs().await.len(), 2);
        succeeds_with(&world.run(&with_results("r3", &offer("r1"), &calls, &["sun"])).await, "Sunny.");
    }

    async fn wrong_tools_are_refused_by_name_and_start_nothing(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({ "tools": ["project_info"] })).await;
        let tool = |name: &str, parameters: Value| json!({ "name": name, "description": "", "parameters": parameters });
        let large = json!({ "type": "object", "description": "d".repeat(33 << 10) });
        let half = json!({ "type": "object", "description": "d".repeat(30 << 10) });
        let many: Vec<Value> = (0..129).map(|number| tool(&format!("t{number}"), json!({}))).collect();
        let heavy: Vec<Value> = (0..5).map(|number| tool(&format!("t{number}"), half.clone())).collect();
        for (tools, field) in [
            (json!([tool("mine", json!({})), tool("project_info", json!({}))]), "tools[1].name"),
            (json!([tool("a b", json!({}))]), "tools[0].name"),
            (json!([tool("mine", json!({})), tool("mine", json!({}))]), "tools[1].name"),
            (json!([tool("mine", large)]), "tools[0].parameters"),
            (json!([tool("mine", json!({ "type": "array" }))]), "tools[0].parameters"),
            (json!(many), "tools"),
            (json!(heavy), "tools"),
        ] {
            let mut body = offer("r1");
            body["tools"] = tools;
            let refused = world.send(&body).await;
            assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], field);
        }
        let flow = json!({ "visibility": "external", "flowType": "sequential", "flowConfig": { "agents": ["finder"] } });
        let flow = world.admin.agent("flow", flow).await;
        let refused = world.caller.post(&format!("/api/agents/{flow}/agui"), offer("r1")).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "tools");
        assert!(world.runs().await.is_empty());
        // The id of a refused request is free.
        world.model.add("finder", [says("Here.")]);
        assert_eq!(text(&world.run(&offer("r1")).await), "Here.");
    }

    async fn wrong_results_are_refused_by_name_and_the_run_still_waits(db: TestDb) {
        let world = World::start(&db, &[AgentsInvoke], json!({})).await;
        world.model.add("finder", [asks("Oslo").and(asks("Rome")), asks("Bern"), says("Sunny.")]);
        let calls = pending(&world.run(&offer("r1")).await);
        let mut other_thread = offer("o1");
        other_thread["threadId"] = json!("t2");
        let foreign = pending(&world.run(&other_thread).await).remove(0);
        let unknown = json!("01990000-0000-7000-8000-000000000001");
        let long = "x".repeat(257 << 10);
        let [oslo, rome] = [calls[0].clone(), calls[1].clone()];
        for (ids, results, field) in [
            (vec![unknown.clone()], vec!["sun"], "messages[2].toolCallId"),
            (vec![json!("toolu_1")], vec!["sun"], "messages[2].toolCallId"),
            (vec![foreign.clone()], vec!["sun"], "messages[2].toolCallId"),
            (vec![oslo.clone(), rome.clone(), unknown], vec!["sun", "rain", "snow"], "messages[4].toolCallId"),
            (vec![oslo.clone(), rome.clone(), foreign], vec!["sun", "rain", "snow"], "messages[4].toolCallId"),
            (vec![oslo.clone(), rome.clone(), oslo.clone()], vec!["sun", "rain", "snow"], "messages[4].toolCallId"),
            (vec![oslo.clone()], vec!["sun"], "messages"),
            (vec![oslo, rome], vec!["sun", &long], "messages[3].content"),
        ] {
            let refused = world.send(&with_results("r2", &offer("r1"), &ids, &results)).await;
            assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], field, "{}", refused.text);
        }
        let token = world.server.token(&[AgentsInvoke], Some(world.server.default_project)).await;
        let answered = with_results("r2", &offer("r1"), &calls, &["sun", "rain"]);
        world.server.client(Some(&token)).post(&world.path(), answered.clone()).await.refused(403, "forbidden");
        assert!(world.runs().await.iter().all(|run| run["status"] == "waiting"));
        assert_eq!(world.model.requests_of("finder").len(), 2, "no run went on");
        succeeds_with(&events(&world.send(&answered).await), "Sunny.");
    }
}
