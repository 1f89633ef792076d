//! What an agent answers with: artifacts that it adds, values, and messages in place of tasks.

use super::{PATH, both_engines, calls, external, message, request, result, rpc, runs, says, serve, state};

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_testkit::scripted::ScriptedModel;
use serde_json::{Value, json};

/// The first part of each artifact.
fn parts(task: &Value) -> Vec<Value> {
    task["artifacts"].as_array().unwrap().iter().map(|artifact| artifact["parts"][0].clone()).collect()
}

both_engines! {
    async fn an_agent_adds_files_and_values_to_its_result(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["artifacts_add"] })).await;
        let file = json!({ "name": "output.txt", "text": "Hi" });
        let link = json!({ "name": "output.txt", "mediaType": "text/plain", "url": "https://example.com/output.txt" });
        let wrong = json!({ "name": "a", "url": "file:///etc/passwd" });
        model.add("finder", [
            calls("artifacts_add", file).and(calls("artifacts_add", link)),
            calls("artifacts_add", wrong),
            calls("artifacts_add", json!({ "name": "n.json", "data": { "n": 1 } })),
            says("Three things."),
        ]);
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Work.")).await)["task"].clone();
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
        let expected = [
            json!({ "raw": "SGk=", "filename": "output.txt", "mediaType": "text/plain" }),
            json!({ "url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain" }),
            json!({ "data": { "n": 1 }, "filename": "n.json", "mediaType": "application/json" }),
            json!({ "text": "Three things." }),
        ];
        assert_eq!(parts(&task), expected);
        // The model read why the other one was refused.
        let read = format!("{:?}", model.requests_of("finder")[2].turns);
        assert!(read.contains("`url` must begin with"), "{read}");
        let got = rpc(&caller, "GetTask", json!({ "id": task["id"] })).await;
        assert_eq!(result(&got)["artifacts"], task["artifacts"]);
        let listed = rpc(&caller, "ListTasks", json!({ "includeArtifacts": true })).await;
        assert_eq!(result(&listed)["tasks"][0]["artifacts"], task["artifacts"]);
    }

    async fn artifacts_have_limits_and_an_agent_has_the_tool_by_name_only(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["artifacts_add"] })).await;
        let add = |n: usize| calls("artifacts_add", json!({ "name": format!("{n}"), "text": "x" }));
        model.add("finder", (0..21).map(add).chain([says("Done.")]));
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Work.")).await)["task"].clone();
        assert_eq!(parts(&task).len(), 21, "{task}");
        let read = format!("{:?}", model.requests_of("finder").last().unwrap().turns);
        assert!(read.contains("20 artifacts, which is the limit"), "{read}");
        let all = json!({ "visibility": "external", "tools": ["*"] });
        admin.agent("all", all).await;
        let detail = format!("{:?}", admin.get("/api/admin/tools").await.is(200));
        assert!(detail.contains("artifacts_add"), "{detail}");
        model.add("all", [says("Hello.")]);
        let sent = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message("m2", "Hi.") });
        request(&caller, Method::POST, "/a2a/default/all", Some(&sent)).await;
        let offered = model.requests_of("all")[0].tools.clone();
        assert!(!offered.iter().any(|tool| tool == "artifacts_add") && offered.len() > 5, "{offered:?}");
    }

    async fn parallel_calls_of_one_step_keep_to_the_limits_of_artifacts(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["artifacts_add"] })).await;
        let add = |n: usize, text: &str| calls("artifacts_add", json!({ "name": format!("{n}"), "text": text }));
        let small = (1..30).fold(add(0, "x"), |step, n| step.and(add(n, "x")));
        let large_text = "x".repeat(200 << 10);
        let large = (1..8).fold(add(0, &large_text), |step, n| step.and(add(n, &large_text)));
        model.add("finder", [small, says("Done."), large, says("Done.")]);
        for (id, expected) in [("m1", 20), ("m2", 3)] {
            let task = result(&rpc(&caller, "SendMessage", message(id, "Work.")).await)["task"].clone();
            assert_eq!(parts(&task).len(), expected + 1, "its answer is the last one");
        }
    }

    async fn a_page_of_tasks_with_large_artifacts_ends_early(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["artifacts_add"] })).await;
        let text = "x".repeat(150 << 10);
        let add = |name: &str| calls("artifacts_add", json!({ "name": name, "text": text }));
        const TASKS: usize = 40;
        for n in 0..TASKS {
            model.add("finder", [add("a").and(add("b")), says("Done.")]);
            result(&rpc(&caller, "SendMessage", message(&format!("m{n}"), "Work.")).await);
        }
        let all = json!({ "pageSize": 100 });
        assert_eq!(result(&rpc(&caller, "ListTasks", all).await)["tasks"].as_array().unwrap().len(), TASKS);
        let (mut seen, mut token, mut pages) = (Vec::new(), json!(""), 0);
        while pages == 0 || token != "" {
            let query = json!({ "pageSize": 100, "includeArtifacts": true, "pageToken": token });
            let page = rpc(&caller, "ListTasks", query).await;
            // The content is base64 there.
            assert!(page.text.len() < 14 << 20, "{} bytes", page.text.len());
            let page = result(&page);
            assert_eq!(page["totalSize"], TASKS);
            seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| {
                assert_eq!(parts(task).len(), 3);
                task["id"].as_str().unwrap().to_owned()
            }));
            (token, pages) = (page["nextPageToken"].clone(), pages + 1);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), TASKS);
        assert!((2..TASKS).contains(&pages), "{pages} pages");
    }

    async fn an_agent_with_an_output_schema_answers_with_a_value(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "outputSchema": { "type": "object", "required": ["n"] } })).await;
        model.add("finder", [says("{ \"n\": 1 }")]);
        let task = result(&rpc(&caller, "SendMessage", message("m1", "Count.")).await)["task"].clone();
        let expected = json!([{ "data": { "n": 1 }, "mediaType": "application/json" }]);
        assert_eq!(task["artifacts"][0]["parts"], expected);
    }

    async fn an_agent_that_answers_with_messages_returns_one_when_it_has_completed(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let acp = json!({ "displayName": "The finder", "answerAs": "message" });
        let agent = external(&admin, json!({ "acp": acp, "tools": ["ask_user", "artifacts_add"] })).await;
        let saved = admin.get(&format!("/api/admin/agents/{agent}")).await.is(200).clone();
        assert_eq!(saved["acp"]["answerAs"], "message", "{saved}");
        model.add("finder", [says("Hello."), says("Again.")]);
        let sent = rpc(&caller, "SendMessage", message("m1", "Hi.")).await;
        let said = &result(&sent)["message"];
        assert_eq!((&said["role"], &said["parts"]), (&json!("ROLE_AGENT"), &json!([{ "text": "Hello." }])), "{}", sent.text);
        assert!(said["messageId"].is_string() && said.get("taskId").is_none(), "{said}");
        // The same message again is the same answer, and its context goes on.
        assert_eq!(&result(&rpc(&caller, "SendMessage", message("m1", "Hi.")).await)["message"], said);
        let mut next = message("m2", "And?");
        next["message"]["contextId"] = said["contextId"].clone();
        let path = format!("{PATH}/v1/message:send");
        let sent = request(&caller, Method::POST, &path, Some(&next)).await;
        assert_eq!(sent.body["message"]["contextId"], said["contextId"], "{}", sent.text);
        // What is not only an answer is a task: a question, a file, a failure, and what is not waited for.
        model.add("finder", [calls("ask_user", json!({ "question": "Which?" }))]);
        let asked = result(&rpc(&caller, "SendMessage", message("m3", "Choose.")).await)["task"].clone();
        assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED", "{asked}");
        model.add("finder", [calls("artifacts_add", json!({ "name": "a", "text": "b" })), says("Here.")]);
        let filed = result(&rpc(&caller, "SendMessage", message("m4", "File.")).await)["task"].clone();
        assert_eq!(parts(&filed).len(), 2, "{filed}");
        model.add("finder", [says("Later.")]);
        let mut unawaited = message("m5", "Go.");
        unawaited["configuration"] = json!({ "returnImmediately": true });
        assert!(result(&rpc(&caller, "SendMessage", unawaited).await)["task"].is_object());
        assert_eq!(runs(&admin).await.len(), 5);
    }

    async fn a_response_has_the_media_type_that_the_client_knows(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        let send = async |path: &str, name: header::HeaderName, value: &str| {
            let path = format!("{PATH}/v1/{path}");
            let request = caller.request(Method::GET, &path).header("a2a-version", "1.0").header(name, value);
            caller.send(request.body(Body::empty()).unwrap()).await
        };
        let (own, json) = ("application/a2a+json", "application/json");
        for (path, status) in [("tasks", 200), ("tasks/made-up", 404), ("nowhere", 404)] {
            for (name, value, expected) in [
                (header::ACCEPT, "application/json;q=0.5, Application/A2A+JSON", own),
                (header::CONTENT_TYPE, "application/a2a+json; charset=utf-8", own),
                (header::ACCEPT, "*/*", json),
                (header::ACCEPT, "application/json", json),
            ] {
                let answer = send(path, name, value).await;
                assert_eq!((answer.status.as_u16(), &answer.headers[header::CONTENT_TYPE]), (status, &expected.parse().unwrap()), "{path} {value}");
            }
        }
        // A body of another type is refused by both bindings, before it is read.
        for path in [PATH.to_owned(), format!("{PATH}/v1/message:send")] {
            let request = caller.request(Method::POST, &path).header("a2a-version", "1.0");
            let request = request.header(header::CONTENT_TYPE, "text/plain").body(Body::from("{")).unwrap();
            let answer = caller.send(request).await;
            assert_eq!(answer.status, 415, "{}", answer.text);
            assert!(answer.text.contains("CONTENT_TYPE_NOT_SUPPORTED"), "{}", answer.text);
        }
        assert!(runs(&admin).await.is_empty());
    }
}
