//! Triggers over HTTP: validation, listing, and the cause of a run.

use crate::common;

use std::time::Duration;

use common::Server;
use emergent_domain::token::Scope;
use emergent_llm::Models;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use tokio::sync::watch;

const AGENTS: &str = "/api/admin/agents";
const TRIGGERS: &str = "/api/admin/triggers";
const FIRINGS: &str = "/api/admin/triggers/firings";

fn fires(server: &Server) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let executor = server.executor.clone();
    tokio::spawn(async move { executor.run_triggers(stopping).await });
    stop
}

both_engines! {
    async fn a_trigger_is_checked_when_its_agent_is_saved(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let refused = async |trigger: &str, settings: Value, field: &str, told: &str| {
            let body = json!({ "name": "wrong", "trigger": trigger, "config": { "trigger": settings } });
            let answer = client.post(AGENTS, body).await;
            let details = answer.refused(400, "invalid")["details"].clone();
            assert_eq!(details[0]["field"], field, "{details}");
            assert!(details[0]["reason"].as_str().unwrap().contains(told), "{details}");
        };
        refused("on_entity_create", json!(null), "trigger", "did you mean `on_entity_created`?").await;
        refused("0 25 * * *", json!(null), "trigger", "the hour `25` must be 0 to 23").await;
        refused("0 8 * * *", json!({ "time_zone": "Europe/Belin" }), "config.trigger.time_zone", "did you mean `Europe/Berlin`?").await;
        refused("on_entity_created", json!({ "typs": [] }), "config.trigger", "unknown field `typs`").await;
        refused("on_entity_created", json!({ "max_concurrent": 0 }), "config.trigger.max_concurrent", "from 1 to 100").await;
        refused("on_entity_created", json!({ "max_concurrent": "one" }), "config.trigger", "`max_concurrent` must be").await;
        refused("0 8 * * *", json!({ "max_concurrent": 1 }), "config.trigger.max_concurrent", "is only for events").await;
        let listed = client.get(TRIGGERS).await.is(200).clone();
        assert_eq!(listed, json!({ "schedules": [], "events": [] }), "nothing was written");
    }

    async fn a_trigger_that_starts_a_workflow_is_saved_by_name_and_fires(db: TestDb) {
        let server = Server::start(&db).await;
        let (_stop, _dispatch) = (fires(&server), server.dispatch());
        let client = server.admin();
        client.agent("greeter", json!({ "model": { "provider": "rehearsal", "name": "echo" } })).await;
        let path = format!("{TRIGGERS}/greet");
        let body = |dispatch: Value| json!({ "trigger": "on_entity_created", "config": { "types": ["Person"] }, "dispatch": dispatch });
        let tasks = json!({ "tasks": [{ "key": "greet", "title": "Greet", "assignedAgent": "greeter" }], "maxConcurrent": 2 });
        for (wrong, field) in [
            (body(json!({})), "dispatch.description"),
            (body(json!({ "description": "d", "dryRun": true })), "dispatch.dryRun"),
            (body(json!({ "tasks": [{ "key": "a", "title": "A", "assignedAgent": "nobody" }] })), "dispatch.tasks[0].assignedAgent"),
            (json!({ "trigger": "on_nothing", "dispatch": tasks }), "trigger"),
            (json!({ "trigger": "on_entity_created", "config": { "max_concurrent": 1 }, "dispatch": tasks }), "config.max_concurrent"),
            (json!({ "trigger": "0 8 * * *", "config": { "max_concurrent": 1 }, "dispatch": tasks }), "config.max_concurrent"),
        ] {
            let refused = client.put(&path, wrong.clone()).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field, "{wrong}: {}", refused.text);
        }
        // A trigger works on when the token that saved it is gone, so starting agents is not enough.
        let caller = server.client(Some(&server.token(&[Scope::AgentsRead, Scope::AgentsInvoke], None).await));
        caller.put(&path, body(tasks.clone())).await.refused(403, "missing_scope");
        caller.delete(&path).await.refused(403, "missing_scope");
        // A trigger starts agents, so writing them is not enough either. Whoever has both scopes needs no other.
        let writer = server.client(Some(&server.token(&[Scope::AgentsWrite], None).await));
        let refused = writer.put(&path, body(tasks.clone())).await;
        assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "agents:invoke", "{}", refused.text);
        let unknown = json!({ "tasks": [{ "key": "a", "title": "A", "assignedAgent": "nobody" }] });
        let refused = writer.put(&path, body(unknown)).await;
        assert!(!refused.refused(403, "missing_scope").to_string().contains("greeter"), "it names no agents: {}", refused.text);
        assert_eq!(client.get(TRIGGERS).await.is(200)["events"], json!([]), "nothing was written");
        let both = server.client(Some(&server.token(&[Scope::AgentsWrite, Scope::AgentsInvoke], None).await));
        both.put(&path, body(tasks.clone())).await.is(200);
        writer.put(&path, body(tasks.clone())).await.refused(403, "missing_scope");
        writer.delete(&path).await.is(200);
        client.put(&path, body(tasks)).await.is(200);
        let listed = client.get(TRIGGERS).await.is(200)["events"][0].clone();
        assert_eq!((&listed["name"], &listed["agentId"], &listed["dispatch"]["maxConcurrent"]), (&json!("greet"), &Value::Null, &json!(2)));
        client.object("Person", "ada", json!({})).await;
        let mut started = Value::Null;
        for _ in 0..500 {
            started = client.get("/api/coordination/workflows").await.is(200)[0].clone();
            if started["origin"]["name"] == "greet" { break; }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((&started["origin"]["event"], &started["origin"]["entityType"]), (&json!("on_entity_created"), &json!("Person")));
        let firing = client.get(FIRINGS).await.is(200)[0].clone();
        assert_eq!((&firing["workflowId"], &firing["triggerName"]), (&started["id"], &json!("greet")));
        client.delete(&path).await.is(200);
        client.delete(&path).await.refused(404, "not_found");
    }

    async fn a_schedule_is_paused_and_resumed(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("digest", json!({ "trigger": "0 8 * * MON-FRI" })).await;
        let path = format!("{TRIGGERS}/digest");
        let paused = client.patch(&path, json!({ "enabled": false })).await.is(200).clone();
        assert_eq!((&paused["name"], &paused["agentName"]), (&json!("agent:digest"), &json!("digest")));
        assert_eq!((&paused["enabled"], &paused["nextAt"]), (&json!(false), &Value::Null));
        assert!(paused["pausedAt"].is_string(), "{paused}");
        let listed = client.get(TRIGGERS).await.is(200)["schedules"][0].clone();
        assert_eq!(listed, paused);
        let resumed = client.patch(&path, json!({ "enabled": true })).await.is(200).clone();
        assert_eq!((&resumed["enabled"], &resumed["pausedAt"]), (&json!(true), &Value::Null));
        assert!(resumed["nextAt"].is_string(), "{resumed}");
        let log = client.get("/api/admin/audit?action=trigger").await.is(200).clone();
        let actions: Vec<_> = log.as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
        assert_eq!(actions, ["trigger.resume", "trigger.pause"]);
        let missing = client.patch(&format!("{TRIGGERS}/nothing"), json!({ "enabled": false })).await;
        missing.refused(404, "not_found");
        client.patch(&path, json!({})).await.refused(400, "invalid");
        let caller = server.client(Some(&server.token(&[Scope::AgentsRead, Scope::AgentsInvoke], None).await));
        caller.patch(&path, json!({ "enabled": false })).await.refused(403, "missing_scope");
        // Whoever may not start an agent may pause its schedule, and no more.
        let writer = server.client(Some(&server.token(&[Scope::AgentsWrite], None).await));
        let told = writer.patch(&path, json!({ "enabled": false })).await;
        assert_eq!((&told.is(200)["enabled"], &told.body["data"]["withheld"]), (&json!(false), &json!(true)));
        let refused = writer.patch(&path, json!({ "enabled": true })).await;
        assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "agents:invoke");
        assert_eq!(client.get(TRIGGERS).await.is(200)["schedules"][0]["enabled"], false);
    }

    async fn whoever_may_not_read_agents_is_told_no_name_of_one(db: TestDb) {
        let server = Server::start(&db).await;
        server.admin().agent("kestrel-agent", json!({})).await;
        let task = |agent: &str| json!({ "key": "a", "title": "a", "assignedAgent": agent });
        let job = json!({ "trigger": "0 9 * * *", "dispatch": { "tasks": [task("kestrel-agen")] } });
        let path = format!("{TRIGGERS}/nightly");
        let write = [Scope::AgentsWrite, Scope::AgentsInvoke];
        let writer = server.client(Some(&server.token(&write, Some(server.default_project)).await));
        let refused = writer.put(&path, job.clone()).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "dispatch.tasks[0].assignedAgent");
        assert!(!refused.text.contains("kestrel-agent"), "{}", refused.text);
        let reader = [&write[..], &[Scope::AgentsRead]].concat();
        let reader = server.client(Some(&server.token(&reader, Some(server.default_project)).await));
        let refused = reader.put(&path, job).await;
        assert!(refused.text.contains("did you mean `kestrel-agent`?"), "{}", refused.text);
    }

    async fn whoever_may_not_read_agents_learns_no_schedule_from_pausing_it(db: TestDb) {
        let server = Server::start(&db).await;
        let settings = json!({ "input": "kestrel-prices", "time_zone": "Asia/Tokyo" });
        server.admin().agent("kestrel-agent", json!({ "trigger": "17 8 * * *", "config": { "trigger": settings } })).await;
        server.admin().agent("waiting", json!({ "trigger": "on_entity_created" })).await;
        let task = json!({ "key": "a", "title": "kestrel-title", "assignedAgent": "kestrel-agent" });
        let job = json!({ "trigger": "17 9 * * *", "dispatch": { "tasks": [task] } });
        server.admin().put(&format!("{TRIGGERS}/nightly"), job).await.is(200);
        let client = async |scopes: &[Scope]| server.client(Some(&server.token(scopes, Some(server.default_project)).await));
        let writer = client(&[Scope::AgentsWrite, Scope::AgentsInvoke]).await;
        let reader = client(&[Scope::AgentsWrite, Scope::AgentsInvoke, Scope::AgentsRead]).await;
        for (name, enabled) in [("nightly", false), ("nightly", false), ("nightly", true), ("kestrel-agent", false)] {
            let path = format!("{TRIGGERS}/{name}");
            let told = writer.patch(&path, json!({ "enabled": enabled })).await;
            assert_eq!((&told.is(200)["enabled"], &told.body["data"]["withheld"]), (&json!(enabled), &json!(true)));
            for secret in ["kestrel-prices", "kestrel-title", "17 ", "Tokyo"] {
                assert!(!told.text.contains(secret), "{secret}: {}", told.text);
            }
            let whole = reader.patch(&path, json!({ "enabled": enabled })).await;
            assert!(whole.is(200)["cron"].as_str().unwrap().starts_with("17 "), "{}", whole.text);
        }
        for name in ["kestrel-agen", "waiting", "zzz"] {
            let path = format!("{TRIGGERS}/{name}");
            let refused = writer.patch(&path, json!({ "enabled": false })).await;
            refused.refused(404, "not_found");
            assert!(!refused.text.contains("kestrel-agent") && !refused.text.contains("on_entity"), "{}", refused.text);
        }
        let refused = reader.patch(&format!("{TRIGGERS}/kestrel-agen"), json!({ "enabled": false })).await;
        assert!(refused.text.contains("did you mean `kestrel-agent`?"), "{}", refused.text);
        reader.patch(&format!("{TRIGGERS}/waiting"), json!({ "enabled": false })).await.refused(400, "invalid");
    }

    async fn a_name_of_two_schedules_pauses_neither(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("digest", json!({ "trigger": "0 8 * * *" })).await;
        let task = json!({ "key": "a", "title": "a", "assignedAgent": "digest" });
        let job = json!({ "trigger": "0 9 * * *", "dispatch": { "tasks": [task] } });
        client.put(&format!("{TRIGGERS}/digest"), job).await.is(200);
        let path = format!("{TRIGGERS}/digest");
        let refused = client.patch(&path, json!({ "enabled": false })).await.refused(409, "conflict").clone();
        let listed = client.get(TRIGGERS).await.is(200)["schedules"].clone();
        for schedule in listed.as_array().unwrap() {
            assert_eq!(schedule["enabled"], true, "{schedule}");
            assert!(refused["message"].as_str().unwrap().contains(schedule["id"].as_str().unwrap()), "{refused}");
        }
        let id = listed[0]["id"].as_str().unwrap();
        client.patch(&format!("{TRIGGERS}/{id}"), json!({ "enabled": false })).await.is(200);
    }

    async fn triggers_are_listed_with_what_they_wait_for(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let settings = json!({ "time_zone": "Europe/Berlin", "input": "Write the digest." });
        let digest = client.agent("digest", json!({ "trigger": "0 8 * * MON-FRI", "config": { "trigger": settings } })).await;
        let settings = json!({ "types": ["Task"], "conditions": [{ "path": "priority", "op": "gte", "value": 5 }] });
        client.agent("urgent", json!({ "trigger": "on_entity_updated", "config": { "trigger": settings } })).await;
        let listed = client.get(TRIGGERS).await.is(200).clone();
        let schedule = &listed["schedules"][0];
        assert_eq!((&schedule["agentId"], &schedule["agentName"], &schedule["cron"]), (&json!(digest), &json!("digest"), &json!("0 8 * * MON-FRI")));
        assert_eq!((&schedule["timeZone"], &schedule["missed"], &schedule["lastRunId"]), (&json!("Europe/Berlin"), &json!("once"), &Value::Null));
        assert!(schedule["nextAt"].is_string() && schedule["product"].is_null(), "{schedule}");
        let event = &listed["events"][0];
        assert_eq!((&event["event"], &event["types"], &event["maxDepth"], &event["coalesceSeconds"]), (&json!("on_entity_updated"), &json!(["Task"]), &json!(3), &json!(5)));
        assert_eq!(event["conditions"][0]["op"], "gte");

        let other = server.project("other").await;
        assert_eq!(client.in_project(other).get(TRIGGERS).await.is(200), &json!({ "schedules": [], "events": [] }));
        let reader = server.client(Some(&server.token(&[Scope::AgentsRead], None).await));
        reader.get(TRIGGERS).await.is(200);
        reader.get(FIRINGS).await.refused(403, "missing_scope");
        client.delete(&format!("{AGENTS}/{digest}")).await.is(200);
        assert_eq!(client.get(TRIGGERS).await.is(200)["schedules"], json!([]));
    }

    async fn a_trigger_says_why_its_events_wait(db: TestDb) {
        let server = Server::start(&db).await;
        let (_stop, client) = (fires(&server), server.admin());
        let settings = json!({ "trigger": { "types": ["Note"], "max_concurrent": 1 } });
        let echo = json!({ "provider": "rehearsal", "name": "echo" });
        client.agent("notes", json!({ "trigger": "on_entity_created", "config": settings, "model": echo })).await;
        let trigger = async || client.get(TRIGGERS).await.is(200)["events"][0].clone();
        let before = trigger().await;
        assert_eq!((&before["maxConcurrent"], &before["heldBack"]), (&json!(1), &Value::Null));
        // Nobody drives the first run, so the other two events wait for its end.
        for key in ["a", "b", "c"] {
            client.object("Note", key, json!({})).await;
        }
        let expected = json!({ "events": 2, "unfinishedRuns": 1, "waitingRuns": 0 });
        let mut held_back = Value::Null;
        for _ in 0..500 {
            held_back = trigger().await["heldBack"].clone();
            if held_back == expected { break; }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(held_back, expected);
        let waiting = client.get(&format!("{FIRINGS}?status=pending")).await.is(200).clone();
        assert_eq!(waiting.as_array().map(Vec::len), Some(2), "{waiting}");
        let runs = client.get("/api/admin/runs?status=queued").await.is(200).clone();
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
    }

    async fn a_firing_names_its_run_and_the_run_what_caused_it(db: TestDb) {
        let server = Server::with_models(&db, 64, Models::default()).await;
        let (_runs, _triggers) = (server.drive(), fires(&server));
        let client = server.admin();
        let echo = json!({ "provider": "rehearsal", "name": "echo" });
        let agent = client.agent("notes", json!({ "trigger": "on_entity_created", "model": echo })).await;
        let made = client.post("/api/graph/objects", json!({ "type": "Note", "properties": { "text": "hello" } })).await.is(201).clone();
        let mut firings = json!([]);
        for _ in 0..1_000 {
            firings = client.get(&format!("{FIRINGS}?agentId={agent}&status=admitted")).await.is(200).clone();
            if firings.as_array().unwrap().len() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let firing = &firings[0];
        assert_eq!((&firing["event"], &firing["entityId"], &firing["entityVersion"]), (&json!("on_entity_created"), &made["id"], &json!(1)));
        assert_eq!((&firing["agentName"], &firing["depth"], &firing["scheduleId"]), (&json!("notes"), &json!(0), &Value::Null));
        let run = client.get(&format!("{AGENTS}/{agent}/runs/{}", firing["runId"].as_str().unwrap())).await.is(200).clone();
        assert_eq!((&run["origin"], &run["scheduleId"], &run["causedByRun"]), (&json!("event"), &Value::Null, &Value::Null));

        assert_eq!(client.get(&format!("{FIRINGS}?status=pending")).await.is(200), &json!([]));
        let wrong = client.get(&format!("{FIRINGS}?status=fired")).await;
        assert_eq!(wrong.refused(400, "invalid")["details"][0]["field"], "status");
        client.get(&format!("{FIRINGS}?agent=x")).await.refused(400, "invalid");
    }
}
