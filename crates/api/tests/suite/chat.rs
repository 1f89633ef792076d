//! Conversations over HTTP: messages are answered by runs, and answers are streamed, followed again and stored once.

use crate::{approvals::next_request, common};

use std::time::Duration;

use axum::{body::Body, http::Method};
use common::{Client, Server};
use emergent_domain::chat::{Speaker, Usage};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ModelRequest, ScriptedModel, calls, fails, hangs, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

/// One frame: its id and its data.
pub type Frame = (String, Value);

/// A stream of frames, read one by one.
pub struct Frames {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Frames {
    /// Opens a stream; panics unless it is one.
    pub async fn open(client: &Client, request: axum::http::Request<Body>) -> Self {
        let response = client.open(request).await;
        assert_eq!(response.status(), 200);
        Self::from_response(response)
    }

    pub fn from_response(response: axum::response::Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (mut id, mut data) = (String::new(), None);
                for line in frame.lines() {
                    if let Some(value) = line.strip_prefix("id: ") {
                        id = value.to_owned();
                    } else if let Some(value) = line.strip_prefix("data: ") {
                        data = Some(serde_json::from_str(value).expect("JSON"));
                    }
                }
                self.text = rest.to_owned();
                if let Some(data) = data {
                    return Some((id, data));
                }
                continue;
            }
            let bytes =
                tokio::time::timeout(Duration::from_secs(30), self.body.next()).await.expect("a frame")?;
            self.text.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("UTF-8"));
        }
    }

    /// Reads up to the end.
    pub async fn all(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

pub fn post(client: &Client, body: &Value) -> axum::http::Request<Body> {
    let request = client.request(Method::POST, "/api/chat/stream").header("content-type", "application/json");
    request.body(Body::from(body.to_string())).expect("a request")
}

/// Sends a message and opens the stream of its answer.
pub async fn send(client: &Client, body: Value) -> Frames {
    Frames::open(client, post(client, &body)).await
}

/// Sends a message and returns all frames of its answer.
pub async fn ask(client: &Client, body: Value) -> Vec<Frame> {
    send(client, body).await.all().await
}

pub fn stream_request(client: &Client, conversation: &str, last: Option<&str>) -> axum::http::Request<Body> {
    let path = format!("/api/chat/conversations/{conversation}/stream");
    let mut request = client.request(Method::GET, &path);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    request.body(Body::empty()).expect("a request")
}

pub async fn follow(client: &Client, conversation: &str, last: Option<&str>) -> Frames {
    Frames::open(client, stream_request(client, conversation, last)).await
}

pub fn kinds(frames: &[Frame]) -> Vec<&str> {
    let mut kinds: Vec<&str> =
        frames.iter().map(|(_, data)| data["type"].as_str().expect("a type")).collect();
    kinds.dedup();
    kinds
}

/// What a reader of the frames shows: pieces of text are joined, step by step.
pub fn shown(frames: &[Frame]) -> Vec<Value> {
    let mut shown: Vec<Value> = Vec::new();
    for (_, frame) in frames {
        if frame["type"] != "token" {
            shown.push(frame.clone());
            continue;
        }
        let text = frame["text"].as_str().expect("a text");
        let known = shown.iter_mut().find(|one| one["type"] == "token" && one["step"] == frame["step"]);
        match known {
            None => shown.push(json!({ "type": "token", "step": frame["step"], "text": text })),
            Some(known) if frame["replace"] == true => known["text"] = json!(text),
            Some(known) => {
                known["text"] = json!(format!("{}{text}", known["text"].as_str().expect("a text")))
            }
        }
    }
    shown
}

pub fn last(frames: &[Frame]) -> &Value {
    &frames.last().expect("frames").1
}

/// The id of the conversation of an answer.
pub fn conversation(frames: &[Frame]) -> String {
    frames[0].1["conversationId"].as_str().expect("an id").to_owned()
}

pub async fn messages(client: &Client, conversation: &str) -> Vec<Value> {
    let path = format!("/api/chat/conversations/{conversation}/messages?limit=100");
    client.get(&path).await.is(200).as_array().expect("a list").clone()
}

/// Starts answering messages that waited, until the answer is dropped.
pub fn answer_queued(server: &Server) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let chat = server.app.chat.clone();
    tokio::spawn(async move { chat.run(stopping).await });
    stop
}

pub async fn serve(db: &TestDb, model: &ScriptedModel) -> (Server, Client, watch::Sender<bool>) {
    let server = Server::with_models(db, 1_024, model.models()).await;
    let (runner, client) = (server.drive(), server.admin());
    (server, client, runner)
}

both_engines! {
    async fn an_answer_is_streamed_and_stored_once_with_its_run(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        client.object("Person", "ada", json!({ "name": "Ada Lovelace" })).await;
        model.add("helper", [
            says("Let me look. ").and(calls("entities_query", json!({ "type": "Person" }))),
            says("Ada Lovelace is the only person."),
        ]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        let frames = ask(&client, json!({ "message": "Who is here?\nPlease.", "agentDefinitionId": agent })).await;
        assert_eq!(kinds(&frames), ["meta", "token", "mcp_tool", "token", "done"]);
        let (meta, done) = (&frames[0].1, last(&frames));
        assert_eq!((&meta["queued"], &meta["passages"], &meta["title"]), (&json!(false), &json!([]), &json!("Who is here? Please.")));
        let shown = shown(&frames);
        assert_eq!((&shown[1]["text"], &shown[4]["text"]), (&json!("Let me look. "), &json!("Ada Lovelace is the only person.")));
        assert_eq!((&shown[2]["status"], &shown[3]["status"]), (&json!("started"), &json!("completed")));
        assert_eq!((&shown[2]["tool"], &shown[2]["input"]["type"]), (&json!("entities_query"), &json!("Person")));
        assert!(shown[3]["result"].is_object(), "{shown:?}");

        let stored = messages(&client, &conversation(&frames)).await;
        assert_eq!(stored.len(), 2);
        let (question, answer) = (&stored[0], &stored[1]);
        assert_eq!((&question["role"], &question["status"], &question["content"]), (&json!("user"), &json!("answered"), &json!("Who is here?\nPlease.")));
        assert_eq!((&answer["role"], &answer["status"]), (&json!("assistant"), &json!("completed")));
        assert_eq!(answer["content"], "Ada Lovelace is the only person.");
        assert_eq!((&answer["id"], &answer["parentId"]), (&meta["answerId"], &meta["messageId"]));
        assert_eq!(answer["retrievalContext"], json!({ "agentRunId": meta["runId"] }));
        assert_eq!((&answer["citations"][0]["key"], &answer["citations"][0]["kind"]), (&json!("ada"), &json!("object")));
        // The list counts the tool calls, which the stream has shown one by one.
        let mut streamed = done["message"].clone();
        streamed["toolCallCount"] = json!(1);
        assert_eq!(&streamed, answer);
        let run = client.ended(meta["runId"].as_str().unwrap()).await;
        assert_eq!((&run["origin"], &run["status"]), (&json!("chat"), &json!("completed")));

        let shown = client.get(&format!("/api/chat/conversations/{}", conversation(&frames))).await.is(200).clone();
        assert_eq!((&shown["status"], &shown["agentName"], &shown["messageCount"]), (&json!("idle"), &json!("helper"), &json!(2)));
        assert_eq!((&shown["usage"]["inputTokens"], &shown["usage"]["outputTokens"]), (&json!(200), &json!(20)));
    }

    async fn what_an_answer_has_deleted_is_not_among_its_sources(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        for key in ["ada", "charles"] {
            client.post("/api/graph/objects", json!({ "type": "Person", "key": key })).await.is(201);
        }
        model.add("helper", [
            calls("entities_query", json!({ "type": "Person" })),
            calls("entities_delete", json!({ "id": "Person/charles" })),
            says("charles is gone, and ada is left."),
        ]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query", "entities_delete"] })).await;
        let frames = ask(&client, json!({ "message": "Forget charles.", "agentDefinitionId": agent })).await;
        client.get("/api/graph/objects/Person%2Fcharles").await.refused(404, "not_found");
        let cited: Vec<&Value> =
            last(&frames)["message"]["citations"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
        assert_eq!(cited, ["ada"], "nobody could open the other one");
    }

    async fn an_agent_remembers_the_last_ten_turns_of_its_conversation(db: TestDb) {
        let answer = |asked: &ModelRequest| {
            says(format!("answer to {}", asked.last_text())).with_usage(Usage { input: 1, ..Usage::default() })
        };
        let model = ScriptedModel::always(answer);
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let first = ask(&client, json!({ "message": "question 0", "agentDefinitionId": agent })).await;
        let id = conversation(&first);
        for number in 1..12 {
            let body = json!({ "message": format!("question {number}"), "conversationId": id, "agentDefinitionId": NOBODY });
            let frames = ask(&client, body).await;
            assert_eq!(last(&frames)["message"]["content"], format!("answer to question {number}"), "its agent stays");
        }
        let asked = model.requests().pop().unwrap();
        let texts: Vec<String> = asked.turns.iter().map(|turn| turn.text()).collect();
        assert_eq!(asked.turns.len(), 21, "ten questions with their answers, and the new one: {texts:?}");
        assert_eq!((texts[0].as_str(), texts[1].as_str()), ("question 1", "answer to question 1"));
        assert_eq!(asked.turns[1].speaker, Speaker::Assistant);
        assert_eq!(texts[20], "question 11");
        let all = messages(&client, &id).await;
        assert_eq!(all.len(), 24);
        let run = all[23]["runId"].as_str().unwrap();
        let events = client.get(&format!("/api/admin/agents/{agent}/runs/{run}/messages?limit=100")).await.is(200).clone();
        assert_eq!(events.as_array().unwrap().len(), 23, "what the model saw is in the record: system, 20, the question and the answer");
    }

    async fn a_conversation_without_an_agent_is_answered_from_passages(db: TestDb) {
        let model = ScriptedModel::new([says("Ada [1]."), says("I do not know."), says("The engine [1].")]);
        let models = model.models().with_model(ScriptedModel::MODEL.parse().unwrap());
        let server = Server::with_models(&db, 1_024, models).await;
        let (_runner, client) = (server.drive(), server.admin());
        let ada = client.object("Person", "ada", json!({ "name": "Ada Lovelace", "field": "analytical engine" })).await;
        let document = json!({ "title": "Notes", "content": "The analytical engine weaves patterns.", "mimeType": "text/plain" });
        client.post("/api/documents", document).await.is(201);
        client.agent("default", json!({ "isDefault": true })).await;
        let frames = ask(&client, json!({ "message": "Who worked on the analytical engine?" })).await;
        let passages = frames[0].1["passages"].as_array().unwrap().clone();
        let mut found: Vec<&str> = passages.iter().map(|passage| passage["kind"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, ["chunk", "object"], "{passages:?}");
        let chunk = passages.iter().find(|passage| passage["kind"] == "chunk").unwrap();
        assert_eq!(chunk["title"], "Notes", "a passage without a heading is called by its document");
        let asked = model.requests()[0].clone();
        assert_eq!((asked.agent.as_str(), asked.tools.len()), ("chat-retrieval", 0), "the default agent is not assumed");
        assert!(asked.last_text().contains("[1] ") && asked.last_text().contains("weaves patterns"), "{}", asked.last_text());
        let answer = &last(&frames)["message"];
        assert_eq!((&answer["content"], &answer["status"]), (&json!("Ada [1]."), &json!("completed")));
        let cited: Vec<&Value> = answer["citations"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert!(cited.len() == 2 && cited.contains(&&json!(ada)), "{cited:?}");
        assert_eq!(answer["retrievalContext"]["passages"], json!(passages));
        // Its definition is nobody's to start or change.
        let agents = client.get("/api/admin/agents?include_internal=true").await.is(200).clone();
        assert_eq!(agents.as_array().unwrap().len(), 1);
        let frames = ask(&client, json!({ "message": "???" })).await;
        assert_eq!((&frames[0].1["passages"], &last(&frames)["status"]), (&json!([]), &json!("completed")));
        // A message is no query: its dash excludes nothing.
        let frames = ask(&client, json!({ "message": "What -weaves?" })).await;
        let passages = frames[0].1["passages"].as_array().unwrap();
        assert!(passages.iter().any(|passage| passage["title"] == "Notes"), "{passages:?}");
    }

    async fn everything_is_checked_before_the_stream_starts_and_nothing_is_stored(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let internal = client.agent("inner", json!({ "visibility": "internal" })).await;
        let path = "/api/chat/stream";
        for (body, field) in [
            (json!({}), "message"),
            (json!({ "message": "  " }), "message"),
            (json!({ "message": "a\u{0}b", "agentDefinitionId": agent }), "message"),
            (json!({ "message": "x".repeat(65_537), "agentDefinitionId": agent }), "message"),
            (json!({ "message": "x", "agentDefinitionId": "helper" }), "agentDefinitionId"),
            (json!({ "message": "x", "conversationId": "1" }), "conversationId"),
            (json!({ "message": "x", "agentDefinitionId": agent, "parentId": NOBODY }), "parentId"),
            (json!({ "message": "x", "agent": agent }), "agent"),
        ] {
            let answer = client.post(path, body).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field);
        }
        client.post(path, json!({ "message": "x", "agentDefinitionId": NOBODY })).await.refused(404, "not_found");
        client.post(path, json!({ "message": "x", "conversationId": NOBODY })).await.refused(404, "not_found");
        client.post(path, json!({ "message": "x", "agentDefinitionId": internal })).await.refused(403, "forbidden");
        let no_model = client.post(path, json!({ "message": "x" })).await;
        assert!(no_model.status.is_client_error(), "no model: {}", no_model.text);
        assert_eq!(client.get("/api/chat/conversations").await.is(200), &json!([]));
        assert_eq!(client.get("/api/admin/runs").await.is(200), &json!([]));
    }

    async fn a_second_message_is_refused_or_waits_for_its_turn(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let _worker = answer_queued(&server);
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [says("One.").with_delay(Duration::from_millis(300)), says("Two."), says("Three.")]);
        let mut first = send(&client, json!({ "message": "first", "agentDefinitionId": agent })).await;
        let (_, meta) = first.next().await.unwrap();
        let id = meta["conversationId"].as_str().unwrap().to_owned();
        let busy = client.post("/api/chat/stream", json!({ "message": "no", "conversationId": id })).await;
        assert!(busy.refused(409, "conflict")["message"].as_str().unwrap().contains("queue"));
        let mut second = send(&client, json!({ "message": "second", "conversationId": id, "queue": true })).await;
        let (position, queued) = second.next().await.unwrap();
        assert_eq!((&queued["queued"], queued.get("runId")), (&json!(true), None));
        let third = send(&client, json!({ "message": "third", "conversationId": id, "queue": true })).await;
        // The reader of the second message comes back while it waits.
        drop(second);
        let second = follow(&client, &id, Some(&position)).await;
        let (first, second, third) = tokio::join!(first.all(), second.all(), third.all());
        assert_eq!(last(&first)["message"]["content"], "One.");
        assert_eq!(kinds(&second), ["meta", "token", "done"]);
        assert_eq!(second[0].1["queued"], false);
        assert_eq!((&last(&second)["message"]["content"], &last(&third)["message"]["content"]), (&json!("Two."), &json!("Three.")));
        assert_eq!(kinds(&third), ["meta", "token", "done"]);
        let texts: Vec<String> = messages(&client, &id).await.iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect();
        assert_eq!(texts, ["first", "One.", "second", "Two.", "third", "Three."], "each answer follows its question");
        let asked = model.requests().pop().unwrap();
        let heard: Vec<String> = asked.turns.iter().map(|turn| turn.text()).collect();
        assert_eq!(heard, ["first", "One.", "second", "Two.", "third"], "each goes on after the one before");
    }

    async fn editing_a_message_makes_a_branch_and_overwrites_nothing(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", ["a1", "a2", "b1", "c1"].map(says));
        let first = ask(&client, json!({ "message": "q1", "agentDefinitionId": agent })).await;
        let id = conversation(&first);
        let second = ask(&client, json!({ "message": "q2", "conversationId": id })).await;
        // After an answer, and in place of a message.
        let after = ask(&client, json!({ "message": "q3", "conversationId": id, "parentId": first[0].1["answerId"] })).await;
        let heard = |asked: &ModelRequest| -> Vec<String> { asked.turns.iter().map(|turn| turn.text()).collect() };
        assert_eq!(heard(&model.requests()[2]), ["q1", "a1", "q3"]);
        ask(&client, json!({ "message": "q4", "conversationId": id, "parentId": first[0].1["messageId"] })).await;
        assert_eq!(heard(&model.requests()[3]), ["q4"]);
        let branch = |message: &Value| format!("/api/chat/conversations/{id}/messages?branch={}", message.as_str().unwrap());
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts(client.get(&branch(&after[0].1["answerId"])).await.is(200)), ["q1", "a1", "q3", "b1"]);
        assert_eq!(texts(client.get(&branch(&second[0].1["answerId"])).await.is(200)), ["q1", "a1", "q2", "a2"]);
        assert_eq!(messages(&client, &id).await.len(), 8);
        let unknown = client.post("/api/chat/stream", json!({ "message": "x", "conversationId": id, "parentId": NOBODY })).await;
        unknown.refused(400, "invalid");
        assert_eq!(unknown.field(), "parentId");
    }

    async fn two_readers_see_the_same_and_one_that_comes_back_loses_and_repeats_nothing(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        client.object("Person", "ada", json!({ "name": "Ada" })).await;
        model.add("helper", [
            says("Grüße, ich suche jetzt. ").and(calls("entities_query", json!({ "type": "Person" }))),
            says("Noch einmal. ").and(calls("no_such_tool", json!({}))),
            says("Es gibt eine Person, und sie heißt Ada.").with_delay(Duration::from_millis(50)),
        ]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        let mut sent = send(&client, json!({ "message": "wer?", "agentDefinitionId": agent })).await;
        let first = sent.next().await.unwrap();
        let id = first.1["conversationId"].as_str().unwrap().to_owned();
        let other = follow(&client, &id, None).await;
        let (rest, other) = tokio::join!(sent.all(), other.all());
        let all: Vec<Frame> = std::iter::once(first).chain(rest).collect();
        assert_eq!(shown(&all), shown(&other));
        assert!(all.iter().all(|(position, _)| !position.is_empty()), "every frame has a position");
        assert!(all.iter().any(|(_, frame)| frame["type"] == "mcp_tool" && frame["status"] == "error"));
        // Cut after every frame: what came before and what comes then is the whole.
        for frames in [&all, &other] {
            for cut in 1..frames.len() {
                let position = &frames[cut - 1].0;
                let after = follow(&client, &id, Some(position)).await.all().await;
                let whole: Vec<Frame> = frames[..cut].iter().cloned().chain(after).collect();
                assert_eq!(shown(&whole), shown(&all), "cut after {cut}: {position}");
                assert_eq!(whole.iter().filter(|(_, frame)| frame["replace"] == true).count(), 0);
            }
        }
        let end = client.open(stream_request(&client, &id, Some(&all.last().unwrap().0))).await;
        assert_eq!(end.status(), 204, "a reader that has all does not come back");
        for wrong in ["x", "1", &NOBODY.replace('-', ""), &format!("{}.1", NOBODY.replace('-', ""))] {
            let answer = client.send(stream_request(&client, &id, Some(wrong))).await;
            assert_eq!(answer.refused(400, "invalid")["details"][0]["field"], "Last-Event-ID", "{wrong}");
        }
    }

    async fn a_closed_connection_changes_nothing(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [says("All of it.").with_delay(Duration::from_millis(100))]);
        let mut sent = send(&client, json!({ "message": "go", "agentDefinitionId": agent })).await;
        let (position, meta) = sent.next().await.unwrap();
        drop(sent);
        let id = meta["conversationId"].as_str().unwrap();
        let frames = follow(&client, id, Some(&position)).await.all().await;
        assert_eq!(kinds(&frames), ["token", "done"]);
        assert_eq!(last(&frames)["message"]["content"], "All of it.");
        assert_eq!(messages(&client, id).await.len(), 2);
    }

    async fn a_stopped_answer_keeps_its_text_and_a_failed_one_says_why(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        model.add("helper", [says("So far. ").and(calls("entities_query", json!({ "type": "None" }))), hangs()]);
        let mut sent = send(&client, json!({ "message": "go", "agentDefinitionId": agent })).await;
        let id = sent.next().await.unwrap().1["conversationId"].as_str().unwrap().to_owned();
        while sent.next().await.unwrap().1["status"] != "completed" {}
        let stop = format!("/api/chat/conversations/{id}/stop");
        assert_eq!(client.post(&stop, json!({})).await.is(200)["status"], "idle");
        let frames = sent.all().await;
        assert_eq!((kinds(&frames), &last(&frames)["status"]), (vec!["done"], &json!("stopped")));
        assert_eq!(last(&frames)["message"]["content"], "So far. ");
        client.post(&stop, json!({})).await.refused(409, "conflict");
        let run = client.ended(last(&frames)["message"]["runId"].as_str().unwrap()).await;
        assert_eq!((&run["status"], &run["summary"]["text"]), (&json!("cancelled"), &json!("So far. ")));

        model.add("helper", [fails(emergent_llm::Error::BadRequest { model: "m".into(), status: 400, message: "no".into() })]);
        let frames = ask(&client, json!({ "message": "again", "conversationId": id })).await;
        assert_eq!(kinds(&frames), ["meta", "error", "done"]);
        assert_eq!(frames[1].1["error"]["code"], "provider");
        let failed = &last(&frames)["message"];
        assert_eq!((&failed["status"], &failed["reason"]), (&json!("failed"), &json!("provider")));
        assert!(failed["error"].as_str().is_some_and(|error| error.contains("no")), "{failed}");
        let done = follow(&client, &id, Some(&frames[1].0)).await.all().await;
        assert_eq!(kinds(&done), ["done"], "the error is not repeated");
        model.add("helper", [says("Fine.")]);
        ask(&client, json!({ "message": "third", "conversationId": id })).await;
        let heard: Vec<String> = model.requests().pop().unwrap().turns.iter().map(|turn| turn.text()).collect();
        assert_eq!(heard, ["go", "So far. ", "again", "(no answer: failed)", "third"]);
        assert_eq!(messages(&client, &id).await.len(), 6, "one answer to each message");
    }

    async fn an_answer_waits_for_an_approval_and_goes_on(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let object = client.object("Note", "n", json!({})).await;
        model.add("cleaner", [calls("entities_delete", json!({ "id": object })), says("Deleted.")]);
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        let agent = client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        let mut sent = send(&client, json!({ "message": "clean up", "agentDefinitionId": agent })).await;
        let mut frames = vec![sent.next().await.unwrap()];
        while frames.last().unwrap().1["approvalId"].is_null() {
            frames.push(sent.next().await.unwrap());
        }
        let request = next_request(&client).await;
        assert_eq!(frames.last().unwrap().1["approvalId"], request);
        let id = conversation(&frames);
        assert_eq!(client.get(&format!("/api/chat/conversations/{id}")).await.is(200)["status"], "answering");
        client.post(&format!("/api/approvals/{request}/decide"), json!({ "decision": "approve" })).await.is(200);
        let rest = sent.all().await;
        assert_eq!(last(&rest)["message"]["content"], "Deleted.");
        assert!(rest.iter().any(|(_, frame)| frame["type"] == "mcp_tool" && frame["status"] == "completed"));
        let again = follow(&client, &id, Some(&frames.last().unwrap().0)).await.all().await;
        assert_eq!(shown(&again), shown(&rest));
    }

    async fn a_message_that_waited_and_cannot_be_answered_says_why(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [hangs()]);
        let sent = send(&client, json!({ "message": "one", "agentDefinitionId": agent })).await;
        let id = client.get("/api/chat/conversations").await.is(200)[0]["id"].as_str().unwrap().to_owned();
        let waits = send(&client, json!({ "message": "two", "conversationId": id, "queue": true })).await;
        client.delete(&format!("/api/admin/agents/{agent}")).await.is(200);
        client.post(&format!("/api/chat/conversations/{id}/stop"), json!({})).await.is(200);
        sent.all().await;
        // The job that starts it was written with the end of the first answer, and no worker runs yet.
        let busy = client.post("/api/chat/stream", json!({ "message": "three", "conversationId": id })).await;
        busy.refused(409, "conflict");
        let _worker = answer_queued(&server);
        let frames = waits.all().await;
        assert_eq!(kinds(&frames), ["meta", "error", "done"]);
        let answer = &last(&frames)["message"];
        assert_eq!((&answer["status"], answer.get("runId")), (&json!("failed"), None));
        assert!(answer["error"].as_str().unwrap().contains("was deleted"), "{answer}");
        let done = follow(&client, &id, Some(&frames[1].0)).await.all().await;
        assert_eq!(kinds(&done), ["done"]);
        assert_eq!(client.open(stream_request(&client, &id, Some(&frames[2].0))).await.status(), 204);
        assert_eq!(messages(&client, &id).await.len(), 4);
    }
}

pub const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
