//! The event stream of a project: changes of its graph and statuses of its runs and workflows, in one order.

use crate::{common::Server, streams::Frames};

use emergent_domain::token::Scope;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

const FROM_THE_BEGINNING: &str = "/api/events?after=0-0.0-0";

/// What an event says, in a few words.
fn told(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    match event["type"].as_str() {
        Some("graph") => event["change"]["type"].as_str().unwrap().to_owned(),
        Some("run") => format!("{} {}", text("agent"), text("status")),
        _ => format!("{} {}", text("type"), text("status")),
    }
}

/// Reads frames until one says `last`.
async fn read_until(frames: &mut Frames, last: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    loop {
        let (id, event) = frames.next().await.expect("the stream goes on");
        let said = told(&event);
        all.push((id, said.clone()));
        if said == last {
            return all;
        }
    }
}

/// A server on which the agent `writer` has written a note, and the token that may follow everything.
async fn server_with_a_run(db: &TestDb) -> Server {
    let note = json!({ "type": "Note", "key": "n", "properties": { "title": "Found" } });
    let model = ScriptedModel::new([calls("entities_create", note), says("I wrote a note.")]);
    let server = Server::with_models(db, 1_024, model.models()).await;
    let runner = server.drive();
    let client = server.admin();
    let agent = client.agent("writer", json!({ "tools": ["entities_create"] })).await;
    client.run_to_end(&agent, "write a note").await;
    drop(runner);
    server
}

both_engines! {
    async fn a_run_and_what_it_wrote_are_told_in_the_order_in_which_they_happened(db: TestDb) {
        let server = server_with_a_run(&db).await;
        let mut frames = Frames::open(&server.admin(), FROM_THE_BEGINNING, None).await;
        let events = read_until(&mut frames, "writer completed").await;
        let said: Vec<&str> = events.iter().map(|(_, said)| said.as_str()).collect();
        let place = |what: &str| said.iter().position(|one| *one == what).unwrap_or_else(|| panic!("{what} in {said:?}"));
        assert_eq!(said[0], "ready ");
        assert!(place("writer running") < place("object_created"), "{said:?}");
        assert!(place("object_created") < place("writer completed"), "{said:?}");
    }

    async fn a_client_that_reconnects_after_any_event_gets_exactly_the_rest(db: TestDb) {
        let server = server_with_a_run(&db).await;
        let client = server.admin();
        let mut frames = Frames::open(&client, FROM_THE_BEGINNING, None).await;
        let events = read_until(&mut frames, "writer completed").await;
        for cut in 1..events.len() - 1 {
            let mut again = Frames::open(&client, "/api/events", Some(&events[cut].0)).await;
            assert_eq!(again.next().await.unwrap().1["complete"], true);
            let rest = read_until(&mut again, "writer completed").await;
            assert_eq!(rest, events[cut + 1..], "after {cut} events");
        }
    }

    async fn followers_hear_what_happens_from_now_on_and_only_the_types_they_asked_for(db: TestDb) {
        let server = server_with_a_run(&db).await;
        let client = server.admin();
        let mut all = Frames::open(&client, "/api/events", None).await;
        let mut graph = Frames::open(&client, "/api/events?types=graph", None).await;
        let mut runs = Frames::open(&client, "/api/events?types=run,workflow", None).await;
        for frames in [&mut all, &mut graph, &mut runs] {
            assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        }
        // More than a follower's channel holds, so that some read the database again.
        for number in 0..300 {
            client.object("Note", &format!("more-{number}"), json!({})).await;
        }
        let agents = client.get("/api/admin/agents").await.is(200).clone();
        let agent = agents[0]["id"].as_str().unwrap();
        client.post(&format!("/api/admin/agents/{agent}/trigger"), json!({ "input": "again" })).await;
        for frames in [&mut all, &mut graph] {
            for _ in 0..300 {
                assert_eq!(told(&frames.next().await.unwrap().1), "object_created");
            }
        }
        assert_eq!(told(&all.next().await.unwrap().1), "writer queued");
        assert_eq!(told(&runs.next().await.unwrap().1), "writer queued");
    }

    async fn a_request_to_a_person_and_its_decision_are_told(db: TestDb) {
        let model = ScriptedModel::new([calls("ask_user", json!({ "question": "Which one?" })), says("That one.")]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let agent = client.agent("asker", json!({ "tools": ["ask_user"] })).await;
        let decider = server.client(Some(&server.token(&[Scope::ApprovalsDecide], None).await));
        let mut frames = Frames::open(&decider, "/api/events?types=approval&after=0-0.0-0", None).await;
        assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        let run = client.trigger(&agent, "choose").await;
        let (_, asked) = frames.next().await.unwrap();
        assert_eq!((&asked["type"], &asked["status"], &asked["kind"]), (&json!("approval"), &json!("pending"), &json!("question")));
        assert_eq!((&asked["runId"], &asked["agent"]), (&json!(run), &json!("asker")));
        let id = asked["approvalId"].as_str().unwrap();
        decider.post(&format!("/api/approvals/{id}/decide"), json!({ "decision": "answer", "answer": "the left one" })).await.is(200);
        let (position, decided) = frames.next().await.unwrap();
        assert_eq!((&decided["approvalId"], &decided["status"]), (&asked["approvalId"], &json!("decided")));
        assert!(!decided.to_string().contains("left one"), "the answer is read from the request");
        let mut again = Frames::open(&decider, "/api/events?types=approval", Some(&position)).await;
        assert_eq!(again.next().await.unwrap().1["complete"], true, "and nothing is told again");
        let error = client.get("/api/events?types=approval,dreams").await;
        let message = error.refused(400, "invalid").to_string();
        for name in ["dreams", "run", "workflow", "approval", "graph"] {
            assert!(message.contains(name), "{name} in {message}");
        }
    }

    async fn a_request_that_nobody_decides_in_its_time_is_told_as_to_a_webhook(db: TestDb) {
        let model = ScriptedModel::new([calls("entities_delete", json!({ "id": "Note/n" })), says("Done.")]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let (_stop, stopping) = tokio::sync::watch::channel(false);
        let executor = server.executor.clone();
        tokio::spawn(async move { executor.run_approval_expiry(stopping).await });
        let client = server.admin();
        client.object("Note", "n", json!({})).await;
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask", "expiresIn": 1, "onExpiry": "escalate" }]);
        let agent = client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        let mut frames = Frames::open(&client, "/api/events?types=approval&after=0-0.0-0", None).await;
        assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        let run = client.trigger(&agent, "tidy up").await;
        let (_, asked) = frames.next().await.unwrap();
        assert_eq!((&asked["status"], asked.get("overdue")), (&json!("pending"), None));
        let (_, overdue) = frames.next().await.unwrap();
        assert_eq!((&overdue["status"], &overdue["overdue"]), (&json!("pending"), &json!(true)), "{overdue}");
        let id = overdue["approvalId"].as_str().unwrap();
        let item = client.get("/api/approvals?status=pending").await.is(200)[0].clone();
        for (event, listed) in [("approvalId", "id"), ("kind", "kind"), ("title", "title"), ("agent", "agentName"),
            ("toolName", "toolName"), ("runId", "runId"), ("expiresAt", "expiresAt")] {
            assert_eq!(overdue[event], item[listed], "{event}");
        }
        assert_eq!((&asked["title"], &overdue["title"]), (&json!("entities_delete Note/n"), &json!("entities_delete Note/n")));
        assert_eq!((&item["runId"], &item["overdue"]), (&json!(run), &json!(true)));
        client.post(&format!("/api/approvals/{id}/decide"), json!({ "decision": "deny" })).await.is(200);
        assert_eq!(frames.next().await.unwrap().1["status"], "decided");
    }

    async fn each_type_needs_the_scope_of_its_lists(db: TestDb) {
        let server = server_with_a_run(&db).await;
        let reader = server.client(Some(&server.token(&[Scope::GraphRead], None).await));
        let error = reader.get("/api/events?types=graph,run").await;
        assert!(error.refused(403, "missing_scope")["message"].as_str().unwrap().contains("admin:read"));
        let mut frames = Frames::open(&reader, FROM_THE_BEGINNING, None).await;
        assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        assert_eq!(frames.next().await.unwrap().1["type"], "graph", "without types, it is what the token may read");
        let nothing = server.client(Some(&server.token(&[Scope::GraphWrite], None).await));
        nothing.get("/api/events").await.refused(403, "missing_scope");
        let error = server.admin().get("/api/events?types=graph,dreams").await;
        error.refused(400, "invalid");
        assert_eq!(error.field(), "types");
        let error = server.admin().get("/api/events?after=7").await;
        error.refused(400, "invalid");
        assert_eq!(error.field(), "after");
    }
}
