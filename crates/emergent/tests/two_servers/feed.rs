//! The change feed of one server tells what both of them do: every change, each once.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{CLIENTS, Pair, common::Api, make, number};

/// An entity and one of its versions.
type Told = (String, i64);

/// Follows the feed from its beginning until it has told `expected` changes, and then a while
/// longer. With `hang_up_after`, leaves after so many frames and comes back with the last id.
async fn follow(api: Api, expected: usize, hang_up_after: Option<usize>) -> Vec<Told> {
    let (mut told, mut last) = (Vec::new(), None::<String>);
    loop {
        let mut request = api.request(Method::GET, "/api/graph/changes?after=0-0");
        if let Some(last) = &last {
            request = request.header("last-event-id", last);
        }
        let mut parts = request.send().await.expect("a stream").bytes_stream();
        let (mut text, mut frames) = (String::new(), 0);
        loop {
            // What should not come has this long to come.
            let patience = Duration::from_millis(if told.len() < expected { 15_000 } else { 700 });
            let Ok(Some(part)) = tokio::time::timeout(patience, parts.next()).await else { return told };
            text.push_str(std::str::from_utf8(&part.expect("the stream goes on")).expect("whole characters"));
            while let Some((frame, rest)) = text.split_once("\n\n") {
                let frame = frame.to_owned();
                text = rest.to_owned();
                let field =
                    |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let Some(data) = field("data:") else { continue };
                last = field("id:").map(str::to_owned).or(last);
                let change: Value = serde_json::from_str(data).expect("JSON");
                if let Some(entity) = change["entityId"].as_str() {
                    told.push((entity.to_owned(), number(&change["version"])));
                    frames += 1;
                }
                if hang_up_after == Some(frames) {
                    break;
                }
            }
            if hang_up_after == Some(frames) && told.len() < expected {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_tells_every_change_of_both_servers_once() {
    // Each client: one object in three versions and a tombstone; another in two, with an edge.
    const EACH: usize = 7;
    let pair = Pair::start().await;
    let readers = [
        tokio::spawn(follow(pair.api(1), CLIENTS * EACH, None)),
        tokio::spawn(follow(pair.api(0), CLIENTS * EACH, Some(37))),
    ];

    let made = pair
        .everyone(|client, api| async move {
            let gone = make(&api, "Gone", &format!("gone-{client}")).await;
            let kept = make(&api, "Kept", &format!("kept-{client}")).await;
            for count in 1..=2 {
                let body = json!({ "properties": { "count": count } });
                api.patch(&format!("/api/graph/objects/{gone}"), &body).await.data();
            }
            // A refusal and a change that changes nothing are no changes.
            let again = json!({ "type": "Kept", "key": format!("kept-{client}"), "properties": {} });
            assert_eq!(api.post("/api/graph/objects", &again).await.status, 409);
            api.put("/api/graph/objects/upsert", &again).await.data();
            let edge = json!({ "type": "self", "fromId": kept, "toId": kept });
            let edge = api.post("/api/graph/relationships", &edge).await.data();
            api.delete(&format!("/api/graph/objects/{gone}")).await.data();
            let body = json!({ "properties": { "count": 1 } });
            api.patch(&format!("/api/graph/objects/{kept}"), &body).await.data();
            [(gone, 4), (kept, 2), (edge["id"].as_str().expect("an id").to_owned(), 1)]
        })
        .await;

    let expected: BTreeMap<_, _> = made.into_iter().flatten().collect();
    for reader in readers {
        let told = reader.await.expect("a reader that is content");
        let mut versions = BTreeMap::<String, Vec<i64>>::new();
        for (entity, version) in told {
            versions.entry(entity).or_default().push(version);
        }
        assert_eq!(versions.len(), expected.len());
        for (entity, versions) in versions {
            let newest = *expected.get(&entity).unwrap_or_else(|| panic!("nobody made `{entity}`"));
            // In order, too: a version never comes before the one it follows.
            assert_eq!(versions, (1..=newest).collect::<Vec<_>>(), "what the feed told of `{entity}`");
        }
    }
}
