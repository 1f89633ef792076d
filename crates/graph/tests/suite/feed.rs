//! The change feed returns every committed change once and in order, even with concurrent writers.

use crate::support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use emergent_domain::{
    change::{Change, ChangeKind, FeedPosition},
    ids::ObjectId,
    object::ObjectPatch,
};
use emergent_graph::{Error, Graph, objects};
use emergent_testkit::{both_engines, fixed_clock};
use futures_util::{Stream, StreamExt};
use serde_json::json;
use support::*;

/// Returns the next changes of a stream. Fails if they take too long.
async fn take(stream: &mut (impl Stream<Item = Result<Change, Error>> + Unpin), count: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..count {
        let next = tokio::time::timeout(Duration::from_secs(30), stream.next()).await;
        let change = next.unwrap_or_else(|_| panic!("change {} of {count} never came", changes.len() + 1));
        changes.push(change.expect("the feed goes on").expect("the feed can be read"));
    }
    changes
}

both_engines! {
    async fn changes_are_read_from_a_place_on(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let id = harness.object(new("T", "a", json!({}))).await;
        let patch = ObjectPatch { status: Some(Some("done".to_owned())), ..ObjectPatch::default() };
        graph.update_object(harness.actor, id, patch).await.unwrap();
        graph.delete_object(harness.actor, id, None).await.unwrap();

        // On PostgreSQL any open transaction on the server delays the feed, and other tests share
        // the server.
        let mut all = Vec::new();
        for _ in 0..200 {
            all = graph.changes(project, FeedPosition::default(), 100).await.unwrap();
            if all.len() == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seen: Vec<_> = all.iter().map(|change| (change.kind, change.entity, change.version)).collect();
        assert_eq!(seen, [
            (ChangeKind::ObjectCreated, id.0, 1),
            (ChangeKind::ObjectUpdated, id.0, 2),
            (ChangeKind::ObjectDeleted, id.0, 3),
        ]);
        assert!(all.iter().all(|change| change.entity_type == "T" && change.author == harness.actor.author));
        assert_eq!(graph.changes(project, all[0].position, 100).await.unwrap(), all[1..]);
        assert_eq!(graph.changes(project, FeedPosition::default(), 2).await.unwrap(), all[..2]);
        assert!(graph.changes(project, graph.latest_position(project).await.unwrap(), 100).await.unwrap().is_empty());
        // A client sends the position as text.
        let place: FeedPosition = all[1].position.to_string().parse().unwrap();
        assert_eq!(graph.changes(project, place, 100).await.unwrap(), all[2..]);
    }

    async fn a_follower_hears_of_its_own_project_within_a_second(db: TestDb) {
        let harness = Harness::new(&db).await;
        let other = project(&harness.graph, "other", false).await;
        let from = harness.graph.latest_position(harness.project()).await.unwrap();
        let mut stream = Box::pin(harness.graph.follow(harness.project(), from));
        for n in 0..3 {
            harness.graph.create_object(other, new("T", "", json!({}))).await.unwrap();
            let id = harness.object(new("T", "", json!({ "n": n }))).await;
            let started = std::time::Instant::now();
            assert_eq!(take(&mut stream, 1).await[0].entity, id.0);
            assert!(started.elapsed() < Duration::from_secs(1), "it took {:?}", started.elapsed());
        }
    }

    async fn followers_see_everything_once_and_in_order_while_many_write(db: TestDb) {
        const WRITERS: usize = 8;
        const ROUNDS: usize = 15;
        let harness = Harness::new(&db).await;
        let second = Graph::new(db.second_connection().await, fixed_clock(), None);
        let start = FeedPosition::default();
        let mut here = Box::pin(harness.graph.follow(harness.project(), start));
        let mut there = Box::pin(second.follow(harness.project(), start));

        let writers = (0..WRITERS).map(|writer| {
            // Half of the writers use another server.
            let graph = if writer % 2 == 0 { harness.graph.clone() } else { second.clone() };
            let actor = harness.actor;
            tokio::spawn(async move {
                let mut wrote = Vec::new();
                for round in 0..ROUNDS {
                    let (inner, fails) = (graph.clone(), round % 4 == 3);
                    let drafts = Arc::new([0, 1].map(|n| objects::ObjectDraft::new(new("T", "", json!({ "n": n }))).unwrap()));
                    let done: Result<Vec<ObjectId>, Error> = graph
                        .db()
                        .write(move |tx| {
                            let by = inner.write_context(tx, actor)?;
                            let first = objects::create(tx, &by, &drafts[0])?.id;
                            // The transactions overlap, and end in another order than they started.
                            std::thread::sleep(Duration::from_millis((writer as u64 * 7 + round as u64 * 3) % 11));
                            let second = objects::create(tx, &by, &drafts[1])?.id;
                            if fails {
                                return Err(Error::Conflict { message: "taken back".to_owned() });
                            }
                            Ok(vec![first, second])
                        })
                        .await;
                    wrote.extend(done.into_iter().flatten());
                }
                wrote
            })
        });
        let mut wrote = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            wrote.extend(writer.await.unwrap());
        }
        assert_eq!(wrote.len(), WRITERS * 12 * 2);

        let first = take(&mut here, wrote.len()).await;
        let second = take(&mut there, wrote.len()).await;
        assert_eq!(first, second, "one order for all");
        assert!(first.windows(2).all(|two| two[0].position < two[1].position));
        let mut times: BTreeMap<_, usize> = BTreeMap::new();
        first.iter().for_each(|change| *times.entry(ObjectId(change.entity)).or_default() += 1);
        wrote.sort();
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), wrote, "all that was committed, and nothing else");
        assert!(times.values().all(|times| *times == 1));
        // The changes of one transaction are adjacent.
        let pairs: Vec<_> = first.chunks(2).map(|two| two[0].position.txid == two[1].position.txid).collect();
        assert!(pairs.into_iter().all(|together| together));
        // A later reader with small pages receives the same changes.
        let mut again = Vec::new();
        while let Some(page) = Some(harness.graph.changes(
            harness.project(),
            again.last().map_or(start, |change: &Change| change.position),
            7,
        ).await.unwrap()).filter(|page| !page.is_empty()) {
            again.extend(page);
        }
        assert_eq!(again, first);
    }
}
