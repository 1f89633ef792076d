//! Contexts that a client names itself.

use super::{both_engines, external, failed, message_to, result, rpc, runs, says, serve, state};
use crate::common::Server;

use emergent_domain::token::Scope;
use emergent_testkit::scripted::{ScriptedModel, hangs};
use serde_json::{Value, json};

/// What a model was asked last, with what was said before.
fn turns(model: &ScriptedModel) -> Vec<String> {
    let request = model.requests_of("finder").pop().unwrap();
    request.turns.iter().map(|turn| format!("{turn:?}")).collect()
}

fn in_context(id: &str, text: &str, context: &str) -> Value {
    message_to(id, text, &Value::Null, &json!(context))
}

both_engines! {
    async fn a_context_that_a_client_names_goes_on_under_that_name(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Three."), says("Because of the weather."), says("Nothing.")]);
        let first = result(&rpc(&caller, "SendMessage", in_context("m1", "How many?", "order 17")).await)["task"].clone();
        assert_eq!((state(&first), &first["contextId"]), ("TASK_STATE_COMPLETED", &json!("order 17")), "{first}");
        assert_eq!(first["history"][0]["contextId"], "order 17");
        let second = result(&rpc(&caller, "SendMessage", in_context("m2", "Why?", "order 17")).await)["task"].clone();
        assert_eq!((&second["contextId"], second["id"] == first["id"]), (&json!("order 17"), false));
        let asked = turns(&model);
        assert!(asked[0].contains("How many?") && asked[1].contains("Three.") && asked[2].contains("Why?"), "{asked:?}");
        // The name is stored with the tasks: it is there whenever they are read, and finds them.
        let got = rpc(&caller, "GetTask", json!({ "id": first["id"] })).await;
        assert_eq!(result(&got)["contextId"], "order 17");
        let listed = rpc(&caller, "ListTasks", json!({ "contextId": "order 17" })).await;
        let ids: Vec<_> = result(&listed)["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
        assert_eq!(ids, [&second["id"], &first["id"]]);
        assert_eq!(result(&rpc(&caller, "ListTasks", json!({ "contextId": "order 18" })).await)["totalSize"], 0);
        // PostgreSQL cannot even look for this one.
        let refused = rpc(&caller, "ListTasks", json!({ "contextId": "\0" })).await;
        assert!(refused.text.contains("has a control character"), "{}", refused.text);
        // A message that is sent again is the same task, and another name is another context.
        let again = result(&rpc(&caller, "SendMessage", in_context("m2", "Why?", "order 17")).await)["task"].clone();
        assert_eq!(again["id"], second["id"]);
        rpc(&caller, "SendMessage", in_context("m3", "And?", "5f0c6bd6-0f5a-4f43-9c1c-8c3bb5f0a001")).await;
        assert!(turns(&model)[0].contains("And?"), "{:?}", turns(&model));
        assert_eq!(runs(&admin).await.len(), 3);
    }

    async fn the_same_name_of_another_caller_or_agent_is_another_context(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [says("Mine."), says("Yours.")]);
        let mine = result(&rpc(&caller, "SendMessage", in_context("m1", "My secret.", "shared")).await)["task"].clone();
        let neighbour = server.client(Some(&server.token(&[Scope::AgentsInvoke], Some(server.default_project)).await));
        assert_eq!(result(&rpc(&neighbour, "ListTasks", json!({ "contextId": "shared" })).await)["totalSize"], 0);
        let theirs = result(&rpc(&neighbour, "SendMessage", in_context("m1", "Go on.", "shared")).await)["task"].clone();
        assert_eq!((&theirs["contextId"], theirs["id"] == mine["id"]), (&json!("shared"), false));
        assert_eq!(turns(&model).len(), 1, "{:?}", turns(&model));
        assert_eq!(result(&rpc(&neighbour, "ListTasks", json!({ "contextId": "shared" })).await)["totalSize"], 1);
        // The name of a context and a task of another context do not go together.
        let mismatch = message_to("m2", "More.", &mine["id"], &json!("other"));
        failed(&rpc(&caller, "SendMessage", mismatch).await, -32602);
        // The id that the conversation has here is not a name of its context.
        let conversation = runs(&admin).await.iter().find(|run| run["id"] == mine["id"]).unwrap()["conversationId"].clone();
        assert!(conversation.is_string(), "{conversation}");
        model.add("finder", [says("New.")]);
        let by_id = result(&rpc(&neighbour, "SendMessage", in_context("m3", "Tell.", conversation.as_str().unwrap())).await)["task"].clone();
        assert_eq!((&by_id["contextId"], turns(&model).len()), (&conversation, 1));
    }

    async fn a_context_takes_one_message_at_a_time_and_says_if_it_was_deleted(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, caller, _runner) = serve(&db, &model).await;
        external(&admin, json!({})).await;
        model.add("finder", [hangs()]);
        let mut first = in_context("m1", "Work.", "busy");
        first["configuration"] = json!({ "returnImmediately": true });
        let task = result(&rpc(&caller, "SendMessage", first).await)["task"].clone();
        failed(&rpc(&caller, "SendMessage", in_context("m2", "More.", "busy")).await, -32004);
        result(&rpc(&caller, "CancelTask", json!({ "id": task["id"] })).await);
        delete_conversations(&server).await;
        let refused = rpc(&caller, "SendMessage", in_context("m3", "Again.", "busy")).await;
        let violation = failed(&refused, -32602)["data"][0]["fieldViolations"][0].clone();
        assert_eq!(violation["field"], "message.contextId");
        assert!(violation["description"].as_str().unwrap().contains("deleted"), "{violation}");
        assert_eq!(runs(&admin).await.len(), 1);
    }
}

/// Deletes all conversations, as an administrator does: a caller from outside has no way to delete its own.
async fn delete_conversations(server: &Server) {
    let admin = server.admin();
    let all = admin.get("/api/chat/conversations").await.is(200).as_array().unwrap().clone();
    assert_eq!(all.len(), 1, "{all:?}");
    for conversation in all {
        let path = format!("/api/chat/conversations/{}", conversation["id"].as_str().unwrap());
        admin.delete(&path).await.is(200);
    }
}
