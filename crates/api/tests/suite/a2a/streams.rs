//! Streams of a task.

use super::{
    PATH, both_engines, calls, external, failed, message, message_to, result, rpc, says, serve, state,
};
use crate::{
    common::{Client, Server},
    streams::Frames,
};

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_testkit::scripted::{ScriptedModel, hangs};
use serde_json::{Value, json};

/// Opens a stream of the JSON-RPC binding.
async fn open(client: &Client, method: &str, params: Value) -> Frames {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let request = client.request(Method::POST, PATH).header("a2a-version", "1.0");
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()));
    Frames::from_response(client.open(request.unwrap()).await)
}

/// The next update of a stream of the JSON-RPC binding.
async fn next(frames: &mut Frames) -> Option<Value> {
    let (_, frame) = frames.next().await?;
    assert_eq!((&frame["jsonrpc"], &frame["id"]), (&json!("2.0"), &json!(7)), "{frame}");
    Some(frame["result"].clone())
}

/// The updates until this state, each as its state or as the text of its artifact.
async fn until(frames: &mut Frames, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(update) = next(frames).await {
        let line = match update.get("artifactUpdate") {
            Some(update) => update["artifact"]["parts"][0]["text"].as_str().unwrap().to_owned(),
            None => state(update.get("statusUpdate").unwrap_or(&update["task"])).to_owned(),
        };
        let is_last = line == last;
        seen.push(line);
        if is_last {
            break;
        }
    }
    seen
}

both_engines! {
    async fn a_stream_has_the_task_its_text_and_its_end(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"] })).await;
        model.add("finder", [says("Let me look.").and(calls("project_info", json!({}))), says("One project.")]);
        let mut frames = open(&caller, "SendStreamingMessage", message("m1", "Look.")).await;
        let task = next(&mut frames).await.unwrap()["task"].clone();
        assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&task)), "{task}");
        let (mut artifact, mut states, mut said) = (String::new(), Vec::new(), Vec::new());
        while let Some(update) = next(&mut frames).await {
            if let Some(update) = update.get("artifactUpdate") {
                let text = update["artifact"]["parts"][0]["text"].as_str().unwrap();
                match update["append"] == true {
                    true => artifact.push_str(text),
                    false => artifact = text.to_owned(),
                }
            }
            if let Some(update) = update.get("statusUpdate") {
                assert_eq!(update["taskId"], task["id"]);
                states.push(state(update).to_owned());
                said.extend(update["status"]["message"]["parts"][0]["text"].as_str().map(str::to_owned));
            }
        }
        assert_eq!(artifact, "One project.");
        assert_eq!(said, ["Let me look."]);
        assert_eq!(states.last().map(String::as_str), Some("TASK_STATE_COMPLETED"), "{states:?}");
        // There is nothing to subscribe to any more.
        failed(&rpc(&caller, "SubscribeToTask", json!({ "id": task["id"] })).await, -32004);
        // The same message again is the same task, which has ended.
        let mut again = open(&caller, "SendStreamingMessage", message("m1", "Look.")).await;
        let found = next(&mut again).await.unwrap();
        assert_eq!((&found["task"]["id"], state(&found["task"])), (&task["id"], "TASK_STATE_COMPLETED"));
        assert_eq!(next(&mut again).await, None);
    }

    async fn a_stream_stays_open_while_the_task_needs_an_input(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user", "project_info"], "maxSteps": 2 })).await;
        model.add("finder", [
            calls("ask_user", json!({ "question": "Which?" })),
            calls("project_info", json!({})),
            says("Half."),
            says("All."),
        ]);
        let mut frames = open(&caller, "SendStreamingMessage", message("m1", "Choose.")).await;
        let task = next(&mut frames).await.unwrap()["task"].clone();
        until(&mut frames, "TASK_STATE_INPUT_REQUIRED").await;
        let answer = message_to("m2", "This.", &task["id"], &Value::Null);
        // The run pauses at its limit, and a second follower comes.
        let paused = rpc(&caller, "SendMessage", answer).await;
        assert_eq!(state(&result(&paused)["task"]), "TASK_STATE_INPUT_REQUIRED", "{}", paused.text);
        let seen = until(&mut frames, "TASK_STATE_INPUT_REQUIRED").await;
        assert!(seen.iter().any(|line| line == "Half."), "{seen:?}");
        let mut second = open(&caller, "SubscribeToTask", json!({ "id": task["id"] })).await;
        assert_eq!(until(&mut second, "TASK_STATE_INPUT_REQUIRED").await, ["TASK_STATE_INPUT_REQUIRED"]);
        let resumed = message_to("m3", "Go on.", &task["id"], &Value::Null);
        result(&rpc(&caller, "SendMessage", resumed).await);
        for frames in [&mut frames, &mut second] {
            let seen = until(frames, "TASK_STATE_COMPLETED").await;
            assert!(seen.iter().any(|line| line == "All."), "{seen:?}");
            assert_eq!(next(frames).await, None, "the stream closes at the end");
        }
    }

    async fn a_stream_of_the_http_binding_is_subscribed_to_with_both_methods(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [hangs()]);
        let body = message("m1", "Go.");
        let request = caller.request(Method::POST, &format!("{PATH}/v1/message:stream")).header("a2a-version", "1.0");
        let request = request.header(header::CONTENT_TYPE, "application/a2a+json").body(Body::from(body.to_string()));
        let mut sent = Frames::from_response(caller.open(request.unwrap()).await);
        let task = sent.next().await.unwrap().1["task"].clone();
        let path = format!("{PATH}/v1/tasks/{}:subscribe", task["id"].as_str().unwrap());
        let mut all = vec![sent];
        for method in [Method::GET, Method::POST] {
            let request = caller.request(method, &path).header("a2a-version", "1.0").body(Body::empty()).unwrap();
            let mut frames = Frames::from_response(caller.open(request).await);
            assert_eq!(frames.next().await.unwrap().1["task"]["id"], task["id"]);
            all.push(frames);
        }
        result(&rpc(&caller, "CancelTask", json!({ "id": task["id"] })).await);
        for frames in &mut all {
            let mut last = Value::Null;
            while let Some((_, update)) = frames.next().await {
                last = update;
            }
            assert_eq!(state(&last["statusUpdate"]), "TASK_STATE_CANCELED", "{last}");
        }
    }

    async fn a_client_that_subscribes_after_a_restart_misses_nothing(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [calls("ask_user", json!({ "question": "Which?" })), says("That one.")]);
        let asked = rpc(&caller, "SendMessage", message("m1", "Choose.")).await;
        let task = result(&asked)["task"].clone();
        drop((runner, server));
        // Another server with the same database.
        let restarted = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = restarted.drive();
        let caller = caller.at(&restarted);
        let mut frames = open(&caller, "SubscribeToTask", json!({ "id": task["id"] })).await;
        assert_eq!(until(&mut frames, "TASK_STATE_INPUT_REQUIRED").await, ["TASK_STATE_INPUT_REQUIRED"]);
        let answer = message_to("m2", "This.", &task["id"], &Value::Null);
        result(&rpc(&caller, "SendMessage", answer).await);
        let seen = until(&mut frames, "TASK_STATE_COMPLETED").await;
        assert_eq!(seen.last().map(String::as_str), Some("TASK_STATE_COMPLETED"), "{seen:?}");
        assert!(seen.iter().any(|line| line == "That one."), "{seen:?}");
    }
}
