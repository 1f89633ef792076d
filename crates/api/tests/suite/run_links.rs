//! A run names the workflow and the task it works for, and the conversation it answers in.

use crate::{chat, common, coordination};

use common::Server;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::json;

both_engines! {
    async fn a_run_of_a_workflow_names_the_workflow_and_its_task(db: TestDb) {
        let server = coordination::server(&db).await;
        let _dispatcher = server.dispatch();
        let client = server.admin();
        let task = json!({ "key": "a", "title": "a", "description": "do a", "assignedAgent": "writer", "blockedBy": [] });
        let workflow = client.start(json!({ "tasks": [task] })).await;
        let ended = client.reaches(&workflow, "completed").await;
        let run = ended["tasks"][0]["runIds"][0].as_str().unwrap();
        let detail = client.get(&format!("/api/admin/runs/{run}")).await.is(200).clone();
        assert_eq!((&detail["workflowId"], &detail["taskId"]), (&json!(workflow), &ended["tasks"][0]["id"]), "{detail:#}");
        assert!(detail.get("conversationId").is_none(), "{detail:#}");
        let listed = client.get("/api/admin/runs?origin=dispatch").await.is(200)[0].clone();
        assert_eq!((&listed["id"], &listed["workflowId"]), (&json!(run), &json!(workflow)));
    }

    async fn a_run_of_a_chat_names_its_conversation_until_that_is_deleted(db: TestDb) {
        let server = Server::with_models(&db, 1_024, ScriptedModel::new([says("Hello."), says("ok")]).models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let agent = client.agent("helper", json!({})).await;
        let frames = chat::ask(&client, json!({ "message": "Hi", "agentDefinitionId": agent })).await;
        let conversation = frames[0].1["conversationId"].clone();
        assert!(conversation.is_string(), "{frames:?}");
        let run = client.get("/api/admin/runs?origin=chat").await.is(200)[0].clone();
        assert_eq!(run["conversationId"], conversation, "{run:#}");
        let path = format!("/api/admin/runs/{}", run["id"].as_str().unwrap());
        let detail = client.get(&path).await.is(200).clone();
        assert_eq!(detail["conversationId"], conversation);
        assert!(detail.get("workflowId").is_none() && detail.get("taskId").is_none(), "{detail:#}");
        client.delete(&format!("/api/chat/conversations/{}", conversation.as_str().unwrap())).await.found();
        assert!(client.get(&path).await.is(200).get("conversationId").is_none(), "a deleted conversation has no page");
        let alone = client.run_to_end(&agent, "go").await;
        assert!(alone.get("conversationId").is_none(), "{alone:#}");
    }
}
