//! Conversations themselves: lists, titles, exports, deletions and their status.

use crate::chat::{Frames, ask, conversation, last, send, serve, stream_request};

use std::time::Duration;

use axum::{body::Body, http::Method};
use emergent_domain::{
    author::Author,
    conversation::{ChatMessage, ChatMessageStatus, ChatRole},
    ids::{ChatMessageId, ConversationId, ProjectId},
    time::Timestamp,
    token::Scope,
};
use emergent_store::{Tx, conversations::messages as messages_rows};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// A message as it is stored.
fn stored_message(project: ProjectId, conversation: ConversationId, number: usize) -> ChatMessage {
    ChatMessage {
        id: ChatMessageId::new(),
        project,
        conversation,
        seq: 0,
        parent: None,
        role: ChatRole::User,
        content: format!("message {number}"),
        status: ChatMessageStatus::Answered,
        reason: None,
        error: None,
        run: None,
        answer: None,
        retrieval_context: None,
        citations: Vec::new(),
        input_tokens: None,
        output_tokens: None,
        cost: None,
        author: Author::System,
        created_at: Timestamp::now(),
    }
}

both_engines! {
    async fn conversations_are_listed_searched_renamed_exported_and_deleted(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let empty = client.post("/api/chat/conversations", json!({ "agentDefinitionId": agent })).await.is(201).clone();
        assert_eq!((&empty["title"], &empty["status"], &empty["agentName"]), (&json!(""), &json!("idle"), &json!("helper")));
        let id = empty["id"].as_str().unwrap().to_owned();
        assert_eq!(client.open(stream_request(&client, &id, None)).await.status(), 204);
        model.add("helper", [says("It is 100% BLUE.")]);
        ask(&client, json!({ "message": "Which colour has the sky?", "conversationId": id })).await;
        let named = client.post("/api/chat/conversations", json!({ "title": "Other things" })).await.is(201)["id"].clone();
        let found = |q: &str| {
            let (client, path) = (client.clone(), format!("/api/chat/conversations?q={q}"));
            async move { client.get(&path).await.is(200).as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>() }
        };
        assert_eq!(found("").await, [named.clone(), json!(id)]);
        assert_eq!(found("100%25+blue").await, [json!(id)]);
        assert_eq!(found("COLOUR").await, [json!(id)]);
        let umlaut = client.post("/api/chat/conversations", json!({ "title": "Über Grüße" })).await.is(201)["id"].clone();
        assert_eq!(found("%C3%BCBER+GR%C3%9C").await, std::slice::from_ref(&umlaut), "letters beyond A to Z too");
        client.delete(&format!("/api/chat/conversations/{}", umlaut.as_str().unwrap())).await.is(200);
        assert_eq!(found("other").await, std::slice::from_ref(&named));
        assert!(found("100_").await.is_empty());
        let page = client.get("/api/chat/conversations?limit=1").await;
        let next = page.headers["x-next-cursor"].to_str().unwrap().to_owned();
        assert_eq!(client.get(&format!("/api/chat/conversations?limit=1&cursor={next}")).await.is(200)[0]["id"], json!(id));
        let path = format!("/api/chat/conversations/{id}");
        assert_eq!(client.get(&path).await.is(200)["title"], "Which colour has the sky?");
        assert_eq!(client.patch(&path, json!({ "title": " Sky " })).await.is(200)["title"], "Sky");
        client.patch(&path, json!({ "title": "" })).await.refused(400, "invalid");
        let lines = client.get(&format!("{path}/export")).await;
        let lines: Vec<Value> = lines.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[0]["title"], &lines[2]["content"]), (3, &json!("Sky"), &json!("It is 100% BLUE.")));
        let text = client.get(&format!("{path}/export?format=markdown")).await.text;
        assert!(text.starts_with("# Sky\n") && text.contains("## User (") && text.contains("It is 100% BLUE."), "{text}");
        client.get(&format!("{path}/messages?limit=1")).await.is(200);
        // Deleting ends the answer, and everything about it is gone.
        model.add("helper", [hangs()]);
        let mut sent = send(&client, json!({ "message": "and now?", "conversationId": id })).await;
        let run = sent.next().await.unwrap().1["runId"].as_str().unwrap().to_owned();
        assert_eq!(client.delete(&path).await.is(200)["status"], "deleted");
        assert_eq!(client.ended(&run).await["status"], "cancelled");
        assert_eq!(last(&sent.all().await)["status"], "stopped");
        for path in [path.clone(), format!("{path}/messages"), format!("{path}/stream"), format!("{path}/export")] {
            client.get(&path).await.refused(404, "not_found");
        }
        client.delete(&path).await.refused(404, "not_found");
        assert_eq!(found("").await, [named]);
        let other = server.project("other").await;
        assert_eq!(client.in_project(other).get("/api/chat/conversations").await.is(200), &json!([]));
    }

    async fn an_export_ends_with_the_token_of_its_reader(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let created = client.post("/api/chat/conversations", json!({ "title": "long" })).await.is(201).clone();
        let id: ConversationId = created["id"].as_str().unwrap().parse().unwrap();
        let project = server.default_project;
        let fill = move |tx: &mut Tx<'_>| {
            for number in 0..1_000 {
                messages_rows::insert(tx, &mut stored_message(project, id, number))?;
            }
            Ok::<_, emergent_store::Error>(())
        };
        server.graph.db().write(fill).await.unwrap();
        let scopes = [Scope::ChatUse].into();
        let (token, secret) = server.graph.create_token("reader", scopes, Some(project), None).await.unwrap();
        let reader = server.client(Some(&secret));
        let request = reader.request(Method::GET, &format!("/api/chat/conversations/{id}/export")).body(Body::empty());
        let mut body = reader.open(request.unwrap()).await.into_body().into_data_stream();
        assert!(body.next().await.unwrap().is_ok(), "the conversation itself");
        client.delete(&format!("/api/tokens/{}", token.id)).await.is(200);
        // The token is checked once a second, so a slow reader does not get to the end.
        let mut ended = false;
        while let Some(part) = body.next().await {
            ended |= part.is_err();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        assert!(ended, "the connection breaks, so that nobody takes the export for complete");
    }

    async fn an_internal_agent_has_no_conversations(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("inside", json!({ "visibility": "internal" })).await;
        let refused = client.post("/api/chat/conversations", json!({ "agentDefinitionId": agent })).await;
        refused.refused(403, "forbidden");
        let message = json!({ "message": "hello", "agentDefinitionId": agent });
        client.post("/api/chat/stream", message).await.refused(403, "forbidden");
        assert_eq!(client.get("/api/chat/conversations").await.is(200), &json!([]));
    }

    async fn a_conversation_is_deleted_by_its_author_or_an_admin_and_the_audit_log_tells_of_it(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, admin, _runner) = serve(&db, &model).await;
        let author = server.client(Some(&server.token(&[Scope::ChatUse], None).await));
        let other = server.client(Some(&server.token(&[Scope::ChatUse, Scope::AdminRead], None).await));
        let create = async |title: &str| {
            let created = author.post("/api/chat/conversations", json!({ "title": title })).await;
            format!("/api/chat/conversations/{}", created.is(201)["id"].as_str().unwrap())
        };
        let (first, second) = (create("first").await, create("second").await);
        let refused = other.delete(&first).await;
        assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "admin:write");
        other.get(&first).await.is(200);
        author.delete(&first).await.is(200);
        admin.delete(&second).await.is(200);
        let log = other.get("/api/admin/audit?action=conversation.delete").await.is(200).clone();
        let told: Vec<_> = log.as_array().unwrap().iter().map(|entry| (&entry["target"]["name"], &entry["token"]["name"])).collect();
        assert_eq!(told, [(&json!("second"), &json!("admin")), (&json!("first"), &json!("test"))]);
        assert!(second.ends_with(log[0]["target"]["id"].as_str().unwrap()));
    }

    async fn the_status_of_a_conversation_is_in_the_stream_of_its_project(db: TestDb) {
        let model = ScriptedModel::new([says("Yes.")]);
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let chatter = server.client(Some(&server.token(&[Scope::ChatUse], None).await));
        let request = chatter.request(Method::GET, "/api/events?types=conversation").body(Body::empty()).unwrap();
        let mut events = Frames::open(&chatter, request).await;
        events.next().await.unwrap();
        let frames = ask(&chatter, json!({ "message": "hello", "agentDefinitionId": agent })).await;
        let mut statuses = Vec::new();
        while statuses.last() != Some(&json!("idle")) || statuses.len() < 3 {
            let (_, event) = events.next().await.unwrap();
            assert_eq!((&event["type"], &event["conversationId"], &event["title"]), (&json!("conversation"), &json!(conversation(&frames)), &json!("hello")));
            statuses.push(event["status"].clone());
        }
        assert_eq!(statuses, [json!("idle"), json!("answering"), json!("idle")]);
    }
}
