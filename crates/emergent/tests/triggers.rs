//! `emergent trigger`, on a data folder and on its server.

mod common;

use std::time::Duration;

use common::{Home, command_output, eventually, failed};
use emergent_store::{Db, DbConfig, Tx, params};
use serde_json::{Value, json};

fn define(home: &Home, name: &str, trigger: &str, settings: Value) {
    let definition = json!({
        "name": name, "trigger": trigger, "config": { "trigger": settings },
        "model": { "provider": "rehearsal", "name": "echo" },
    });
    std::fs::write(home.folder().join("agent.json"), definition.to_string()).expect("a file");
    command_output(home.run(&["agent", "create", "agent.json"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_are_listed_and_what_became_of_them() {
    let home = Home::sqlite();
    command_output(home.run(&["project", "create", "other"]));
    assert!(command_output(home.run(&["trigger", "list"])).contains("Nothing is triggered"));
    define(&home, "digest", "0 8 * * MON-FRI", json!({ "time_zone": "Europe/Berlin" }));
    define(&home, "greeter", "on_entity_created", json!({ "types": ["Person"] }));
    let listed = command_output(home.run(&["trigger", "list"]));
    for part in
        ["agent:digest", "0 8 * * MON-FRI", "Europe/Berlin", "greeter", "on_entity_created", "type Person"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }

    let server = home.start().await;
    server.api.post("/api/graph/objects", &json!({ "type": "Person", "properties": {} })).await.data();
    server.api.post("/api/graph/objects", &json!({ "type": "Place", "properties": {} })).await.data();
    let firings = || {
        let told = command_output(
            home.run(&["trigger", "firings", "--agent", "greeter", "--status", "admitted", "--json"]),
        );
        serde_json::from_str::<Vec<Value>>(&told).expect("JSON")
    };
    eventually("the greeter was started", Duration::from_secs(20), async || !firings().is_empty()).await;
    let fired = firings();
    assert_eq!((fired.len(), &fired[0]["entityType"]), (1, &json!("Person")), "{fired:?}");
    let table = command_output(home.run(&["trigger", "firings"]));
    assert!(table.contains("on_entity_created Person") && table.contains("admitted"), "{table}");
    let run = fired[0]["runId"].as_str().expect("a run");
    assert!(command_output(home.run(&["run", "show", run])).contains("greeter"));
}

#[test]
fn a_schedule_is_paused_and_resumed() {
    let home = Home::sqlite();
    define(&home, "digest", "0 8 * * MON-FRI", json!({}));
    define(&home, "greeter", "on_entity_created", json!({}));
    let paused = command_output(home.run(&["trigger", "pause", "digest"]));
    assert!(paused.contains("agent:digest is paused") && paused.contains("trigger resume"), "{paused}");
    let listed = command_output(home.run(&["trigger", "list"]));
    assert!(listed.contains("  paused"), "{listed}");
    let resumed = command_output(home.run(&["trigger", "resume", "agent:digest"]));
    assert!(resumed.contains("is active, its next time is 20"), "{resumed}");
    assert!(!command_output(home.run(&["trigger", "list"])).contains("paused"));
    let misspelt = failed(&home.run(&["trigger", "pause", "digst"]));
    assert!(misspelt.contains("did you mean `digest`?"), "{misspelt}");
    let of_event = failed(&home.run(&["trigger", "pause", "greeter"]));
    assert!(
        of_event.contains("only schedules can be paused") && !of_event.contains("`enabled`"),
        "{of_event}"
    );
    assert!(of_event.contains("`emergent agent edit greeter`"), "{of_event}");
}

#[test]
fn a_paused_schedule_that_is_saved_says_that_it_stays_paused() {
    let home = Home::sqlite();
    let apply = || {
        let output = home.run(&["agent", "apply", "agent.json"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    define(&home, "digest", "0 8 * * MON-FRI", json!({}));
    let (_, told) = apply();
    assert!(!told.contains("paused"), "{told}");
    command_output(home.run(&["trigger", "pause", "digest"]));
    let (is_applied, told) = apply();
    assert!(is_applied && told.contains("schedule agent:digest stays paused"), "{told}");
    assert!(told.contains("`emergent trigger resume agent:digest` resumes it"), "{told}");

    let weekly = json!({
        "trigger": "0 9 * * MON",
        "dispatch": { "tasks": [{ "key": "report", "title": "Write the report", "assignedAgent": "digest" }] },
    });
    std::fs::write(home.folder().join("weekly.json"), weekly.to_string()).expect("a file");
    let save = || home.run(&["trigger", "save", "weekly", "weekly.json"]);
    let saved = save();
    assert!(saved.status.success(), "{saved:?}");
    assert!(!String::from_utf8_lossy(&saved.stderr).contains("paused"), "{saved:?}");
    command_output(home.run(&["trigger", "pause", "weekly"]));
    let told = String::from_utf8_lossy(&save().stderr).into_owned();
    assert!(told.contains("schedule weekly stays paused"), "{told}");
}

/// As it was written before there were tables of triggers: with definitions alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_that_nothing_fires_is_taken_up_by_the_next_start() {
    let home = Home::sqlite();
    define(&home, "digest", "0 8 * * *", json!({}));
    define(&home, "greeter", "on_entity_created", json!({}));
    let db =
        Db::open(DbConfig::Sqlite { path: home.data().join("emergent.db") }).await.expect("its database");
    let forget = |tx: &mut Tx<'_>| {
        tx.execute("DELETE FROM schedules", params![])?;
        tx.execute("DELETE FROM event_triggers", params![])
    };
    let forgotten: emergent_store::Result<u64> = db.write(forget).await;
    assert_eq!(forgotten.expect("a statement"), 1);
    drop(db);
    let server = home.start().await;
    let found = server.api.get("/api/admin/triggers").await.data();
    assert_eq!(found["schedules"][0]["name"], "agent:digest", "{found}");
    assert_eq!(found["events"][0]["event"], "on_entity_created", "{found}");
}
