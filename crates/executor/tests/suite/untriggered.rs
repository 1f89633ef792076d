//! Agents whose trigger was saved before the tables for schedules and event triggers existed.

use crate::support;

use emergent_domain::agent::{AgentDefinition, Visibility};
use emergent_executor::triggers::Triggers;
use emergent_store::{Error, Tx, params};
use emergent_testkit::{TestDb, both_engines, scripted::ScriptedModel};
use support::{Harness, HarnessOptions};

fn triggered(name: &str, trigger: &str) -> AgentDefinition {
    AgentDefinition { trigger: Some(trigger.to_owned()), ..AgentDefinition::new(name) }
}

async fn harness(db: &emergent_store::Db) -> Harness {
    Harness::build(db, HarnessOptions::new(ScriptedModel::new([]))).await
}

/// Restores the state before the third migration: definitions without schedules and event triggers.
async fn forget(db: &TestDb) {
    let forget = |tx: &mut Tx<'_>| {
        tx.execute("DELETE FROM schedules", params![])?;
        tx.execute("DELETE FROM event_triggers", params![])?;
        // Current validation would reject such definitions.
        let name = |tx: &mut Tx<'_>, name: &str, field: &str, value: &str| {
            let sql = match tx.engine() {
                emergent_store::Engine::Sqlite => "UPDATE agent_definition_versions SET definition = json_set(definition, '$.' || $2, $3)
                    WHERE agent_id = (SELECT id FROM agent_definitions WHERE name = $1)",
                emergent_store::Engine::Postgres => "UPDATE agent_definition_versions
                    SET definition = jsonb_set(definition, ARRAY[CAST($2 AS text)], to_jsonb(CAST($3 AS text)))
                    WHERE agent_id = (SELECT id FROM agent_definitions WHERE name = $1)",
            };
            tx.execute(sql, params![name, field, value])
        };
        name(tx, "unreadable", "trigger", "on_full_moon")?;
        name(tx, "inside", "visibility", "internal")?;
        Ok::<_, Error>(())
    };
    db.write(forget).await.unwrap();
}

async fn triggers(harness: &Harness) -> (Triggers, Vec<String>, Vec<String>) {
    let all = harness.executor.list_triggers(harness.project).await.unwrap();
    let schedules = all.schedules.iter().map(|one| format!("{} {}", one.name, one.cron)).collect();
    let events = all.events.iter().map(|one| format!("{} {}", all.agents[&one.agent], one.event)).collect();
    (all, schedules, events)
}

both_engines! {
    async fn a_trigger_of_before_is_taken_up_once_by_servers_that_start_together(db: TestDb) {
        let here = harness(&db).await;
        for (name, trigger) in [("daily", "0 8 * * *"), ("reader", "on_document_ingested"), ("unreadable", "0 9 * * *"), ("inside", "0 9 * * *")] {
            here.agent(triggered(name, trigger)).await;
        }
        let gone = here.agent(triggered("gone", "0 8 * * *")).await;
        here.executor.delete_agent(here.actor(), gone.id).await.unwrap();
        here.agent(AgentDefinition { visibility: Visibility::External, ..AgentDefinition::new("by-hand") }).await;
        forget(&db).await;
        let there = harness(&db.second_connection().await).await;
        let (one, other) = tokio::join!(here.executor.backfill_triggers(), there.executor.backfill_triggers());
        one.unwrap();
        other.unwrap();
        let (first, schedules, events) = triggers(&here).await;
        assert_eq!((schedules, events), (vec!["agent:daily 0 8 * * *".to_owned()], vec!["reader on_document_ingested".to_owned()]));
        assert!(first.schedules[0].next_at.is_some());
        there.executor.backfill_triggers().await.unwrap();
        assert_eq!(triggers(&there).await.0, first, "asked again, it changes nothing");
    }

    async fn what_was_written_before_it_was_taken_up_does_not_fire(db: TestDb) {
        let here = harness(&db).await;
        here.agent(triggered("greeter", "on_entity_created")).await;
        forget(&db).await;
        let note = || emergent_domain::object::NewObject { type_: "Note".into(), ..Default::default() };
        here.executor.graph().create_object(here.actor(), note()).await.unwrap();
        here.executor.backfill_triggers().await.unwrap();
        let after = here.executor.graph().create_object(here.actor(), note()).await.unwrap();
        // Events of one project may become readable one after the other on PostgreSQL, so the test
        // reads until the object has fired.
        let mut fired: Vec<uuid::Uuid> = Vec::new();
        for _ in 0..500 {
            here.executor.read_events(here.project).await.unwrap();
            let rows = db.read(|tx| tx.query("SELECT entity_id FROM trigger_firings", params![], |row| row.get(0))).await;
            fired = rows.unwrap_or_else(|error: Error| panic!("{error}"));
            if !fired.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(fired, [after.id.0]);
    }
}
