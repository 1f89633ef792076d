//! The life of a task: contexts, questions, approvals, pauses, lists and cancellation.

use super::{
    PATH, both_engines, calls, external, failed, message, message_to, request, result, rpc, runs, says,
    serve, state,
};
use crate::approvals::next_request;

use axum::http::Method;
use emergent_testkit::scripted::{ScriptedModel, hangs};
use serde_json::{Value, json};

both_engines! {
    async fn a_context_goes_on_with_a_new_task(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Three."), says("Because of the weather.")]);
        let first = result(&rpc(&caller, "SendMessage", message("m1", "How many?")).await)["task"].clone();
        let next = message_to("m2", "Why?", &Value::Null, &first["contextId"]);
        let second = result(&rpc(&caller, "SendMessage", next).await)["task"].clone();
        assert_eq!(second["contextId"], first["contextId"]);
        assert_ne!(second["id"], first["id"]);
        let request = model.requests_of("finder").pop().unwrap();
        let turns: Vec<String> = request.turns.iter().map(|turn| format!("{turn:?}")).collect();
        assert!(turns[0].contains("How many?") && turns[1].contains("Three.") && turns[2].contains("Why?"), "{turns:?}");
        // A message to a task that has ended, and one with a context of another task, are refused.
        failed(&rpc(&caller, "SendMessage", message_to("m3", "More.", &first["id"], &Value::Null)).await, -32004);
        let mismatch = message_to("m4", "More.", &first["id"], &second["id"]);
        failed(&rpc(&caller, "SendMessage", mismatch).await, -32602);
        // The list of the context has both, the newest first.
        let listed = rpc(&caller, "ListTasks", json!({ "contextId": first["contextId"] })).await;
        let ids: Vec<_> = result(&listed)["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
        assert_eq!(ids, [&second["id"], &first["id"]]);
    }

    async fn a_question_is_answered_by_a_message(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [calls("ask_user", json!({ "question": "Which city?" })), says("Rain in Lyon.")]);
        let asked = result(&rpc(&caller, "SendMessage", message("m1", "Weather?")).await)["task"].clone();
        assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED", "{asked}");
        assert_eq!(asked["status"]["message"]["parts"][0]["text"], "Which city?");
        // The question is the newest message, with the same id whenever it is read.
        let newest = rpc(&caller, "GetTask", json!({ "id": asked["id"], "historyLength": 1 })).await;
        let newest = result(&newest)["history"].clone();
        assert_eq!((newest.as_array().unwrap().len(), &newest[0]["parts"][0]["text"]), (1, &json!("Which city?")), "{newest}");
        assert_eq!(newest[0]["messageId"], asked["status"]["message"]["messageId"]);
        let listed = rpc(&caller, "ListTasks", json!({ "historyLength": 1 })).await;
        assert_eq!(result(&listed)["tasks"][0]["history"], newest);
        let answer = message_to("m2", "Lyon", &asked["id"], &asked["contextId"]);
        let answered = result(&rpc(&caller, "SendMessage", answer).await)["task"].clone();
        let said: Vec<_> = answered["history"].as_array().unwrap().iter().map(|one| one["parts"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(said, ["Weather?", "Which city?", "Lyon", "Rain in Lyon."]);
        assert_eq!(answered["history"][1], newest[0]);
        let again = rpc(&caller, "GetTask", json!({ "id": asked["id"] })).await;
        assert_eq!(result(&again)["history"], answered["history"]);
        assert_eq!((&answered["id"], state(&answered)), (&asked["id"], "TASK_STATE_COMPLETED"), "{answered}");
        assert_eq!(answered["artifacts"][0]["parts"][0]["text"], "Rain in Lyon.");
    }

    async fn open_questions_are_asked_one_at_a_time_with_what_they_accept(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"] });
        let first = calls("ask_user", json!({ "question": "Which city?", "options": ["Lyon", "Oslo"] }));
        let second = calls("ask_user", json!({ "question": "How many?", "responseSchema": schema }));
        model.add("finder", [first.and(second), says("Booked.")]);
        let asked = result(&rpc(&caller, "SendMessage", message("m1", "Book.")).await)["task"].clone();
        let parts = |task: &Value| task["status"]["message"]["parts"].clone();
        let data = |value: Value| json!({ "data": value, "mediaType": "application/json" });
        assert_eq!(parts(&asked), json!([{ "text": "Which city?" }, data(json!({ "options": ["Lyon", "Oslo"] }))]));
        let wrong = rpc(&caller, "SendMessage", message_to("m2", "Rome", &asked["id"], &Value::Null)).await;
        failed(&wrong, -32602);
        assert!(wrong.text.contains("message.parts") && !wrong.text.contains("`answer`"), "{}", wrong.text);
        let lyon = message_to("m3", "Lyon", &asked["id"], &Value::Null);
        let next = result(&rpc(&caller, "SendMessage", lyon).await)["task"].clone();
        assert_eq!(parts(&next), json!([{ "text": "How many?" }, data(json!({ "responseSchema": schema }))]), "{next}");
        let mut count = message_to("m4", "", &asked["id"], &Value::Null);
        count["message"]["parts"] = json!([{ "data": { "count": 2 } }]);
        let ended = result(&rpc(&caller, "SendMessage", count).await)["task"].clone();
        assert_eq!(state(&ended), "TASK_STATE_COMPLETED", "{ended}");
    }

    async fn an_approval_is_not_given_by_the_caller(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        let approvals = json!([{ "tools": ["project_info"], "action": "ask" }]);
        external(&admin, json!({ "tools": ["project_info"], "approvals": approvals })).await;
        model.add("finder", [calls("project_info", json!({})), says("One project.")]);
        let waiting = result(&rpc(&caller, "SendMessage", message("m1", "Look.")).await)["task"].clone();
        assert_eq!(state(&waiting), "TASK_STATE_AUTH_REQUIRED", "{waiting}");
        assert!(!waiting.to_string().contains("project_info"), "{waiting}");
        failed(&rpc(&caller, "SendMessage", message_to("m2", "Approved.", &waiting["id"], &Value::Null)).await, -32004);
        let pending = next_request(&admin).await;
        admin.post(&format!("/api/approvals/{pending}/decide"), json!({ "decision": "approve" })).await.is(200);
        admin.ended(waiting["id"].as_str().unwrap()).await;
        let ended = rpc(&caller, "GetTask", json!({ "id": waiting["id"] })).await;
        assert_eq!(state(result(&ended)), "TASK_STATE_COMPLETED", "{}", ended.text);
    }

    async fn a_paused_task_goes_on_with_a_message(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
        model.add("finder", [calls("project_info", json!({})), says("Half."), says("All of it.")]);
        let paused = result(&rpc(&caller, "SendMessage", message("m1", "Do it all.")).await)["task"].clone();
        assert_eq!(state(&paused), "TASK_STATE_INPUT_REQUIRED", "{paused}");
        assert_eq!(paused["artifacts"][0]["parts"][0]["text"], "Half.");
        failed(&rpc(&caller, "CancelTask", json!({ "id": paused["id"] })).await, -32002);
        let resumed = message_to("m2", "And now the rest.", &paused["id"], &Value::Null);
        let ended = result(&rpc(&caller, "SendMessage", resumed).await)["task"].clone();
        assert_eq!((&ended["id"], state(&ended)), (&paused["id"], "TASK_STATE_COMPLETED"), "{ended}");
        assert_eq!(ended["artifacts"][0]["parts"][0]["text"], "All of it.");
        let said: Vec<&str> = ended["history"].as_array().unwrap().iter()
            .filter(|one| one["role"] == "ROLE_USER").map(|one| one["parts"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(said, ["Do it all.", "And now the rest."]);
        // Two runs are one task.
        assert_eq!(runs(&admin).await.len(), 2);
        let listed = rpc(&caller, "ListTasks", json!({})).await;
        assert_eq!((&result(&listed)["totalSize"], &result(&listed)["tasks"][0]["id"]), (&json!(1), &paused["id"]));
        // Its context goes on from the end of the chain.
        model.add("finder", [says("Later.")]);
        let next = message_to("m3", "And?", &Value::Null, &paused["contextId"]);
        let next = rpc(&caller, "SendMessage", next).await;
        assert_eq!(state(&result(&next)["task"]), "TASK_STATE_COMPLETED", "{}", next.text);
        let turns = format!("{:?}", model.requests_of("finder").pop().unwrap().turns);
        assert!(turns.contains("All of it."), "{turns}");
    }

    async fn a_list_is_paged_by_the_time_of_the_status(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("One."), says("Two."), says("Three."), hangs()]);
        let mut ids = Vec::new();
        for number in 0..3 {
            let sent = rpc(&caller, "SendMessage", message(&format!("m{number}"), "Go.")).await;
            ids.insert(0, result(&sent)["task"]["id"].clone());
        }
        let mut at_once = message("m9", "Wait.");
        at_once["configuration"] = json!({ "returnImmediately": true });
        let working = result(&rpc(&caller, "SendMessage", at_once).await)["task"].clone();
        assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&working)), "{working}");
        ids.insert(0, working["id"].clone());
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let page = rpc(&caller, "ListTasks", json!({ "pageSize": 3, "pageToken": token })).await;
            let page = result(&page).clone();
            assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(4), &json!(3)), "{page}");
            assert!(page["tasks"].as_array().unwrap().iter().all(|task| task.get("artifacts").is_none()), "{page}");
            seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
            token = page["nextPageToken"].as_str().expect("always there").to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, ids);
        // By state, with artifacts, over the other binding.
        let path = format!("{PATH}/v1/tasks?status=TASK_STATE_COMPLETED&includeArtifacts=true&historyLength=1");
        let completed = request(&caller, Method::GET, &path, None).await;
        assert_eq!(completed.body["totalSize"], 3, "{}", completed.text);
        assert_eq!(completed.body["tasks"][0]["artifacts"][0]["parts"][0]["text"], "Three.");
        assert_eq!(completed.body["tasks"][0]["history"].as_array().unwrap().len(), 1);
        let none = rpc(&caller, "ListTasks", json!({ "statusTimestampAfter": "2999-01-01T00:00:00Z" })).await;
        assert_eq!(result(&none)["totalSize"], 0);
        // The one in progress is cancelled, once.
        let cancelled = rpc(&caller, "CancelTask", json!({ "id": working["id"] })).await;
        assert_eq!(state(result(&cancelled)), "TASK_STATE_CANCELED", "{}", cancelled.text);
        failed(&rpc(&caller, "CancelTask", json!({ "id": working["id"] })).await, -32002);
        let path = format!("{PATH}/v1/tasks/{}:cancel", working["id"].as_str().unwrap());
        let again = request(&caller, Method::POST, &path, None).await;
        assert_eq!((again.status.as_u16(), &again.body["error"]["details"][0]["reason"]), (400, &json!("TASK_NOT_CANCELABLE")));
    }

    async fn a_list_by_state_has_the_tasks_that_are_shown_with_this_state(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({ "tools": ["ask_user"] })).await;
        model.add("finder", [calls("get_weather", json!({})), calls("ask_user", json!({ "question": "Which?" })), says("Done.")]);
        // A client of the same agent over another protocol waits with a tool of its own.
        let tool = json!({ "type": "function", "function": { "name": "get_weather", "parameters": { "type": "object" } } });
        let question = json!({ "model": "finder", "messages": [{ "role": "user", "content": "Weather?" }], "tools": [tool] });
        let answer = caller.post("/v1/chat/completions", question).await;
        assert_eq!(answer.body["choices"][0]["finish_reason"], "tool_calls", "{}", answer.text);
        for id in ["m1", "m2"] {
            result(&rpc(&caller, "SendMessage", message(id, "Go.")).await);
        }
        let all = rpc(&caller, "ListTasks", json!({})).await;
        let all = result(&all)["tasks"].as_array().unwrap().clone();
        assert_eq!(all.len(), 3);
        for (wanted, count) in [("TASK_STATE_INPUT_REQUIRED", 2), ("TASK_STATE_COMPLETED", 1), ("TASK_STATE_FAILED", 0)] {
            let listed = rpc(&caller, "ListTasks", json!({ "status": wanted })).await;
            let mut ids: Vec<_> = result(&listed)["tasks"].as_array().unwrap().iter().map(|task| task["id"].to_string()).collect();
            let shown = all.iter().filter(|task| state(task) == wanted);
            let mut shown: Vec<_> = shown.map(|task| task["id"].to_string()).collect();
            ids.sort();
            shown.sort();
            assert_eq!((&ids, ids.len()), (&shown, count), "{wanted}");
        }
    }
}
