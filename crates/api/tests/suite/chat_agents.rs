//! What an agent brings to its conversations, and what it does not: its prompt, its tools and its errors, and that a
//! conversation keeps the mode with which it began.

use crate::{
    chat::{ask, conversation, last, messages, serve, shown},
    common::Server,
};

use emergent_domain::chat::Speaker;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

const DESCRIPTION: &str = "Knowledge graph assistant that can search, query, and traverse the project's knowledge \
    graph to answer questions.";
const PROMPT: &str = "You are a knowledge graph assistant for this project. Use the available tools to answer \
    questions about the knowledge graph -- its entities, relationships, schema, and structure. Always use tools to \
    look up real data rather than guessing. When presenting results, cite the entities and relationships you found. \
    If a search returns no results, say so clearly rather than fabricating an answer.";

both_engines! {
    async fn a_tool_call_that_fails_is_shown_with_its_error_and_the_answer_goes_on(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        model.add("helper", [calls("entities_delete", json!({ "id": "Note/nothing" })), says("There is none.")]);
        let agent = client.agent("helper", json!({ "tools": ["entities_delete"] })).await;
        let frames = ask(&client, json!({ "message": "delete it", "agentDefinitionId": agent })).await;
        let shown = shown(&frames);
        let calls: Vec<&Value> = shown.iter().filter(|frame| frame["type"] == "mcp_tool").collect();
        assert_eq!((calls.len(), &calls[0]["status"], &calls[1]["status"]), (2, &json!("started"), &json!("error")));
        assert_eq!((&calls[1]["tool"], &calls[1]["toolCallId"]), (&json!("entities_delete"), &calls[0]["toolCallId"]));
        assert!(calls[1]["error"].as_str().is_some_and(|error| !error.is_empty()), "{calls:?}");
        assert_eq!(calls[1].get("result"), None);
        assert_eq!((&last(&frames)["status"], &last(&frames)["message"]["content"]), (&json!("completed"), &json!("There is none.")));
    }

    async fn an_answer_uses_the_prompt_and_the_tools_that_its_agent_has_at_that_time(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Yes."));
        let (_server, client, _runner) = serve(&db, &model).await;
        let definition = json!({ "systemPrompt": "Be brief.", "tools": ["entities_query", "project_info"] });
        let agent = client.agent("helper", definition).await;
        let frames = ask(&client, json!({ "message": "one", "agentDefinitionId": agent })).await;
        let asked = model.requests().pop().unwrap();
        assert!(asked.system.contains("Be brief."), "{}", asked.system);
        let mut tools = asked.tools.clone();
        tools.sort_unstable();
        assert_eq!(tools, ["entities_query", "project_info"], "no other tools");
        let change = json!({ "systemPrompt": "Be kind.", "tools": [] });
        client.patch(&format!("/api/admin/agents/{agent}"), change).await.is(200);
        ask(&client, json!({ "message": "two", "conversationId": conversation(&frames) })).await;
        let asked = model.requests().pop().unwrap();
        assert!(asked.system.contains("Be kind.") && asked.tools.is_empty(), "{asked:?}");
    }

    async fn what_was_said_before_is_remembered_without_the_calls_that_led_to_it(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        client.object("Person", "ada", json!({ "name": "Ada" })).await;
        let look = says("I look. ").and(calls("entities_query", json!({ "type": "Person" })));
        model.add("helper", [look, says("Only Ada."), says("She is a person.")]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        let frames = ask(&client, json!({ "message": "who?", "agentDefinitionId": agent })).await;
        ask(&client, json!({ "message": "what is she?", "conversationId": conversation(&frames) })).await;
        let turns = model.requests().pop().unwrap().turns;
        let said: Vec<(Speaker, String)> = turns.iter().map(|turn| (turn.speaker, turn.text())).collect();
        let expected = [(Speaker::User, "who?"), (Speaker::Assistant, "Only Ada."), (Speaker::User, "what is she?")];
        assert_eq!(said, expected.map(|(speaker, text)| (speaker, text.to_owned())));
    }

    async fn a_conversation_without_an_agent_stays_without_one_and_searches_for_each_message(db: TestDb) {
        let model = ScriptedModel::new([says("A river."), says("A bridge over it.")]);
        let models = model.models().with_model(ScriptedModel::MODEL.parse().unwrap());
        let server = Server::with_models(&db, 1_024, models).await;
        let (_runner, client) = (server.drive(), server.admin());
        client.object("Note", "spree", json!({ "text": "The Spree is a river in Berlin." })).await;
        client.object("Note", "oberbaum", json!({ "text": "The Oberbaum is a bridge." })).await;
        let first = ask(&client, json!({ "message": "Spree" })).await;
        let id = conversation(&first);
        assert_eq!(client.get("/api/admin/agents").await.is(200), &json!([]), "no agent is made for it");
        let agent = client.agent("helper", json!({})).await;
        let second = ask(&client, json!({ "message": "Oberbaum", "conversationId": id, "agentDefinitionId": agent })).await;
        let keys = |meta: &Value| -> Vec<Value> {
            meta["passages"].as_array().unwrap().iter().map(|one| one["key"].clone()).collect()
        };
        assert_eq!((keys(&first[0].1), keys(&second[0].1)), (vec![json!("spree")], vec![json!("oberbaum")]));
        let asked = model.requests().pop().unwrap();
        assert_eq!((asked.agent.as_str(), asked.tools.len(), asked.turns.len()), ("chat-retrieval", 0, 3));
        assert_eq!(asked.turns[1].text(), "A river.");
        let shown = client.get(&format!("/api/chat/conversations/{id}")).await.is(200).clone();
        assert_eq!((&shown["agentDefinitionId"], &shown["messageCount"]), (&Value::Null, &json!(4)));
    }

    async fn a_message_to_a_deleted_agent_is_refused_and_what_was_said_stays(db: TestDb) {
        let model = ScriptedModel::new([says("Yes.")]);
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let frames = ask(&client, json!({ "message": "hello", "agentDefinitionId": agent })).await;
        client.delete(&format!("/api/admin/agents/{agent}")).await.is(200);
        let id = conversation(&frames);
        let refused = client.post("/api/chat/stream", json!({ "message": "again", "conversationId": id })).await;
        assert!(refused.status.is_client_error(), "{}", refused.text);
        assert_eq!(messages(&client, &id).await.len(), 2);
        assert_eq!(client.get(&format!("/api/chat/conversations/{id}")).await.is(200)["status"], "idle");
    }

    async fn the_default_agent_has_the_described_prompt_to_the_letter_and_only_for_the_asking(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        assert_eq!(client.get("/api/admin/agents").await.is(200), &json!([]), "a new project has none");
        let path = format!("/api/admin/projects/{}/install-default-agents", server.default_project);
        client.post(&path, json!({})).await.is(200);
        let agents = client.get("/api/admin/agents").await.is(200).as_array().unwrap().clone();
        let agent = agents.iter().find(|agent| agent["name"] == "graph-query-agent").unwrap();
        let agent = client.get(&format!("/api/admin/agents/{}", agent["id"].as_str().unwrap())).await.is(200).clone();
        assert_eq!((&agent["description"], &agent["systemPrompt"]), (&json!(DESCRIPTION), &json!(PROMPT)));
    }

    async fn the_default_agent_is_the_one_that_is_described(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let path = format!("/api/admin/projects/{}/install-default-agents", server.default_project);
        client.post(&path, json!({})).await.is(200);
        client.post(&path, json!({})).await.is(200);
        let agents = client.get("/api/admin/agents").await.is(200).as_array().unwrap().clone();
        let found: Vec<&Value> = agents.iter().filter(|agent| agent["name"] == "graph-query-agent").collect();
        assert_eq!(found.len(), 1);
        let agent = client.get(&format!("/api/admin/agents/{}", found[0]["id"].as_str().unwrap())).await.is(200).clone();
        assert_eq!((&agent["model"]["name"], &agent["model"]["temperature"]), (&json!("gemini-2.0-flash"), &json!(0.1)));
        assert_eq!((&agent["maxSteps"], &agent["isDefault"]), (&json!(15), &json!(true)));
        assert_eq!((&agent["visibility"], &agent["flowType"]), (&json!("project"), &json!("single")));
        let tools = [
            "hybrid_search", "query_entities", "search_entities", "semantic_search", "find_similar", "get_entity_edges",
            "traverse_graph", "list_entity_types", "schema_version", "list_relationships",
        ];
        assert_eq!(agent["tools"], json!(tools));
        let prompt = agent["systemPrompt"].as_str().unwrap();
        assert!(prompt.starts_with("You are a knowledge graph assistant for this project."), "{prompt}");
        let empty = server.project("empty").await;
        assert_eq!(client.in_project(empty).get("/api/admin/agents").await.is(200), &json!([]), "only that project has it");
    }
}
