//! Answers and workflows say that a script stood for a model, to whoever may read them: nobody has to look at their
//! runs. (That of a run itself is in `runs`.)

use crate::{
    chat::{ask, conversation, last, messages, serve},
    common::Server,
};

use emergent_llm::Script;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};

both_engines! {
    async fn each_answer_says_whether_a_script_gave_it(db: TestDb) {
        let model = ScriptedModel::always(|_| says("A model answers."));
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({ "model": { "provider": "rehearsal", "name": "echo" } })).await;
        let rehearsed = ask(&client, json!({ "message": "Hello", "agentDefinitionId": agent })).await;
        let id = conversation(&rehearsed);
        client.patch(&format!("/api/admin/agents/{agent}"), json!({ "model": { "provider": "scripted", "name": "lines" } })).await.is(200);
        let asked = ask(&client, json!({ "message": "Hello again", "conversationId": id })).await;
        assert_eq!(last(&asked)["message"]["content"], "A model answers.");
        assert_eq!((&last(&rehearsed)["message"]["rehearsal"], last(&asked)["message"].get("rehearsal")), (&json!(true), None));

        let yes = json!(true);
        let expected = [None, Some(&yes), None, None];
        let listed = messages(&client, &id).await;
        assert_eq!(listed.iter().map(|message| message.get("rehearsal")).collect::<Vec<_>>(), expected, "{listed:#?}");
        let exported = client.get(&format!("/api/chat/conversations/{id}/export")).await.text;
        let lines: Vec<Value> = exported.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|message| message.get("rehearsal")).collect::<Vec<_>>(), expected, "{exported}");
    }

    async fn a_workflow_says_that_a_script_answered_in_one_of_its_runs(db: TestDb) {
        let models = ScriptedModel::always(|_| says("Done.")).models();
        models.add_script("work", Script::parse("rules:\n  - answer: { text: Done. }\n").expect("a script"));
        let server = Server::with_models(&db, 1_024, models).await;
        let client = server.admin();
        client.agent("writer", json!({})).await;
        client.agent("actor", json!({ "model": { "provider": "rehearsal", "name": "work" } })).await;
        let task = |key: &str, agent: &str| json!({ "key": key, "title": key, "description": format!("do {key}"), "assignedAgent": agent, "maxRetries": 0 });
        let asked = client.start(json!({ "tasks": [task("a", "writer")] })).await;
        let mixed = client.start(json!({ "tasks": [task("b", "writer"), task("c", "actor")] })).await;
        let path = format!("/api/coordination/workflows/{mixed}");
        assert_eq!(client.get(&path).await.is(200).get("rehearsal"), None, "it has no run yet");

        let _dispatcher = server.dispatch();
        let (asked, mixed) = (client.reaches(&asked, "completed").await, client.reaches(&mixed, "completed").await);
        assert_eq!((asked.get("rehearsal"), &mixed["rehearsal"]), (None, &json!(true)), "{mixed:#}");
        let listed = client.get("/api/coordination/workflows").await.is(200).clone();
        for shown in [asked, mixed] {
            let one = listed.as_array().unwrap().iter().find(|one| one["id"] == shown["id"]).expect("a workflow");
            assert_eq!(one.get("rehearsal"), shown.get("rehearsal"), "{one:#}");
        }
    }
}
