//! Many large triggers: the changes of a project are compared with them in several passes.

use emergent_domain::{
    filter::{Filter, Op},
    ids::AgentId,
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart},
};
use emergent_testkit::both_engines;

use crate::triggers::*;

/// Stores triggers of agents that do not exist: their firings are created, and nothing is started.
async fn store(two: &TwoServers, count: usize, config: EventConfig) {
    let project = two.here.project;
    let row = move || EventTrigger {
        agent: AgentId::new(),
        dispatch: None,
        name: None,
        product: None,
        project,
        event: EventKind::EntityCreated,
        config: config.clone(),
        since: FeedStart::default(),
    };
    let write = move |tx: &mut Tx<'_>| {
        emergent_store::triggers::lock_cursor(tx, project)?;
        (0..count).try_for_each(|_| emergent_store::triggers::upsert(tx, &row()))
    };
    let written: Result<(), Error> = two.here.executor.graph().db().write(write).await;
    written.unwrap();
}

/// Searches a text that is not there, and then one at the end of the property.
fn searching() -> EventConfig {
    let contains = |text: &str| Filter { path: "text".into(), op: Op::Contains, value: Some(json!(text)) };
    EventConfig { conditions: vec![contains("a"), contains("end")], ..EventConfig::default() }
}

/// How many passes each of the servers takes in turn until all changes are read.
async fn passes(two: &TwoServers) -> usize {
    let project = two.here.project;
    let mut passes = 0;
    loop {
        let read = match passes % 3 {
            2 => two.there.executor.read_events(project).await,
            _ => two.here.executor.read_events(project).await,
        };
        if read.unwrap() == 0 {
            return passes;
        }
        passes += 1;
        assert!(passes < 1_000, "it ends");
    }
}

both_engines! {
    async fn a_change_that_many_triggers_receive_fires_each_once(db: TestDb) {
        let two = TwoServers::open(&db).await;
        store(&two, 1_200, EventConfig::default()).await;
        two.create("Note", json!({})).await;
        two.create("Note", json!({})).await;
        assert_eq!(two.here.executor.read_events(two.here.project).await.unwrap(), 1);
        assert_eq!(two.firings().await.len(), 500, "one transaction inserts no more");
        assert!(passes(&two).await > 2);
        assert_eq!(two.firings().await.len(), 2_400);
    }

    async fn a_large_change_is_compared_in_several_passes(db: TestDb) {
        let two = TwoServers::open(&db).await;
        store(&two, 60, searching()).await;
        let long = format!("{}a end", "b".repeat(1_000_000));
        for text in [long.as_str(), "a", "a end"] {
            two.create("Note", json!({ "text": text })).await;
        }
        assert!(passes(&two).await > 3);
        assert_eq!(two.firings().await.len(), 120, "the second one does not match");
        // A server that starts anew begins with the first trigger again.
        two.create("Note", json!({ "text": long })).await;
        assert_eq!(two.here.executor.read_events(two.here.project).await.unwrap(), 1);
        while two.there.executor.read_events(two.here.project).await.unwrap() > 0 {}
        while two.here.executor.read_events(two.here.project).await.unwrap() > 0 {}
        assert_eq!(two.firings().await.len(), 180);
    }

    async fn a_trigger_of_another_event_is_not_read(db: TestDb) {
        let two = TwoServers::open(&db).await;
        store(&two, 1, EventConfig::default()).await;
        let spoil = |event: &'static str| move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE event_triggers SET config = $1, event = $2", &[r#"{"moon": 1}"#.into(), event.into()])
        };
        let db = two.here.executor.graph().db().clone();
        let project = two.here.project;
        let spoiled: Result<u64, Error> = db.write(spoil("on_entity_updated")).await;
        spoiled.unwrap();
        two.create("Note", json!({})).await;
        assert_eq!(two.here.executor.read_events(project).await.unwrap(), 1);
        // A newer version may know this event, so its changes are left to it.
        let newer: Result<u64, Error> = db.write(spoil("on_full_moon")).await;
        newer.unwrap();
        two.create("Note", json!({})).await;
        two.here.executor.read_events(project).await.unwrap_err();
    }
}
