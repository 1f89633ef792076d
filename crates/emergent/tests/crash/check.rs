//! What has to hold after every restart, asked over HTTP.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rand::seq::{IndexedRandom, IteratorRandom};
use serde_json::{Value, json};

use crate::{
    common::{Api, eventually},
    model::{State, Thing, View, name},
    writer::{Writer, list, text},
};

/// Compares a client's world with the server's, and settles what was in doubt.
pub async fn check(writer: &mut Writer, api: &Api) {
    let seen = see(writer, api).await;
    settle(writer, &seen);
    full_text(writer, api).await;
    links(writer, api).await;
    edges(writer, api).await;
    history(writer, api).await;
}

/// Everything of this client that the server shows.
async fn see(writer: &mut Writer, api: &Api) -> View {
    let mut living = BTreeMap::new();
    for object in api.all(&format!("/api/graph/objects?type={}", writer.type_())).await {
        let key = text(&object["key"]);
        writer.ids.insert(key.clone(), text(&object["id"]));
        let version = object["version"].as_i64().expect("a version");
        let twice = living.insert(key.clone(), (version, state(&object)));
        assert_eq!(twice, None, "two living objects with the key `{key}`");
    }
    let keys: BTreeMap<_, _> = writer.ids.iter().map(|(key, id)| (id.clone(), key.clone())).collect();
    let mut edges = BTreeSet::new();
    for edge in api.all(&format!("/api/graph/relationships?type={}", writer.edge_type())).await {
        let end = |side: &str| {
            let id = text(&edge[side]);
            let key = keys.get(&id).unwrap_or_else(|| panic!("an edge on an unknown object: {edge}"));
            assert!(living.contains_key(key), "a living edge on the dead `{key}`: {edge}");
            key.clone()
        };
        let ends = (end("fromId"), end("toId"));
        writer.edge_ids.insert(ends.clone(), text(&edge["id"]));
        assert!(edges.insert(ends), "an edge that is there twice: {edge}");
    }
    View { living, edges }
}

fn state(object: &Value) -> State {
    let properties = &object["properties"];
    State { value: properties["value"].as_i64().expect("a value"), word: text(&properties["word"]) }
}

/// The world is what was acknowledged; the request without an answer happened whole or not at all.
fn settle(writer: &mut Writer, seen: &View) {
    let promised = writer.model.view();
    if *seen == promised {
        // What leaves no trace here, such as an edge that is there already, changes nothing at all.
        writer.in_doubt = None;
        return;
    }
    let Some(op) = writer.in_doubt.take() else {
        panic!("acknowledged:\n{promised:#?}\nfound:\n{seen:#?}\nnothing was in doubt");
    };
    let mut after = writer.model.clone();
    after.apply(&op);
    assert_eq!(
        *seen,
        after.view(),
        "neither without nor with the whole of {op:?}; without it:\n{promised:#?}"
    );
    writer.model = after;
}

/// Each living object is found by its word; words of the dead and of old versions find nothing;
/// and a word that all of them have finds as many as live.
async fn full_text(writer: &mut Writer, api: &Api) {
    let type_ = writer.type_();
    let search = async |query: &str| {
        let body = json!({ "query": query, "mode": "text", "types": [type_], "limit": 100 });
        let found = api.post("/api/graph/search", &body).await.data();
        list(&found["hits"]).iter().map(|hit| text(&hit["object"]["key"])).collect::<Vec<_>>()
    };
    let living = writer.model.view().living;
    let about = search(&format!("client{}", writer.model.client)).await;
    let found: BTreeSet<_> = about.iter().cloned().collect();
    assert_eq!(found.len(), about.len(), "an object that is found twice");
    if living.len() < 100 {
        assert_eq!(found, living.keys().cloned().collect(), "full text and objects disagree");
    }
    for (key, (_, state)) in living.iter().choose_multiple(&mut writer.dice, 4) {
        assert_eq!(search(&state.word).await, [key.as_str()], "`{}` is the word of `{key}`", state.word);
    }
    let now: BTreeSet<_> = living.values().map(|(_, state)| &state.word).collect();
    let past = writer.model.things.values().flat_map(|thing| thing.versions.iter().flatten());
    let past: Vec<_> = past.map(|state| &state.word).filter(|word| !now.contains(word)).collect();
    for word in past.choose_multiple(&mut writer.dice, 3) {
        assert_eq!(search(word).await, [] as [&str; 0], "`{word}` is gone");
    }
}

/// A linked search for the word of an object finds the living objects with the same name over that name, and no other:
/// not those that are deleted or have another name by now.
async fn links(writer: &mut Writer, api: &Api) {
    let living = writer.model.view().living;
    for (key, (_, state)) in living.iter().choose_multiple(&mut writer.dice, 2) {
        // No vector is as similar as this, so what is found is found by words or by a link.
        let body = json!({
            "query": state.word, "mode": "linked", "types": [writer.type_()], "limit": 100,
            "minSimilarity": 1.0, "explain": true,
        });
        let found = list(&api.post("/api/graph/search", &body).await.data()["hits"]);
        let keys: BTreeSet<_> = found.iter().map(|hit| text(&hit["object"]["key"])).collect();
        assert_eq!(keys.len(), found.len(), "an object that is found twice");
        let called = name(&state.word);
        let expected = living.iter().filter(|(_, (_, other))| name(&other.word) == called);
        assert_eq!(keys, expected.map(|(key, _)| key.clone()).collect(), "`{called}`, the name of `{key}`");
        for hit in found.iter().filter(|hit| hit["object"]["key"] != json!(key)) {
            let link = json!({ "from": writer.ids[key], "name": called.to_lowercase() });
            assert_eq!(hit["channels"]["link"], link, "the link from `{key}`");
        }
    }
}

/// What an object says about its edges, and a walk over them, agree with the edges.
async fn edges(writer: &mut Writer, api: &Api) {
    let view = writer.model.view();
    for key in view.living.keys().choose_multiple(&mut writer.dice, 3) {
        let id = &writer.ids[key];
        let expected: BTreeSet<_> = view.edges.iter().filter(|(from, to)| from == key || to == key).collect();
        let expected: BTreeSet<_> = expected.into_iter().map(|edge| writer.edge_ids[edge].clone()).collect();
        let path = format!("/api/graph/objects/{id}/edges?direction=both");
        let listed: BTreeSet<_> = api.all(&path).await.iter().map(|edge| text(&edge["id"])).collect();
        assert_eq!(listed, expected, "the edges of `{key}`");
        let body = json!({ "startIds": [id], "maxDepth": 1, "direction": "both" });
        let walked = api.post("/api/graph/traverse", &body).await.data();
        let nodes: BTreeSet<_> = list(&walked["nodes"]).iter().map(|node| text(&node["key"])).collect();
        let near = view.edges.iter().filter(|(from, to)| from == key || to == key);
        let near: BTreeSet<_> =
            near.flat_map(|(from, to)| [from.clone(), to.clone()]).chain([key.clone()]).collect();
        assert_eq!(nodes, near, "the neighbours of `{key}`");
        let walked: BTreeSet<_> = list(&walked["edges"]).iter().map(|edge| text(&edge["id"])).collect();
        assert!(expected.is_subset(&walked), "the walk from `{key}` misses an edge");
    }
}

/// Every version is there once, none is missing, and the newest is the object.
async fn history(writer: &mut Writer, api: &Api) {
    let touched = std::mem::take(&mut writer.touched);
    let old = writer.model.things.keys().choose_multiple(&mut writer.dice, 3).into_iter().cloned();
    let keys: BTreeSet<_> = old.chain(touched).collect();
    for key in keys.iter().filter(|key| writer.model.things.contains_key(*key)) {
        let versions = api.all(&format!("/api/graph/objects/{}/history?", writer.ids[key])).await;
        let numbers: Vec<_> =
            versions.iter().map(|version| version["version"].as_u64().expect("a number")).collect();
        assert_eq!(numbers, (1..=versions.len() as u64).rev().collect::<Vec<_>>(), "the versions of `{key}`");
        let told = versions.iter().rev();
        let told = told.map(|version| version["deletedAt"].is_null().then(|| state(version))).collect();
        assert_eq!(Thing { versions: told }, writer.model.things[key], "the history of `{key}`");
    }
}

/// The embedding queue goes on where it was, and vectors find the living and nobody else.
pub async fn vectors(writer: &Writer, api: &Api) {
    eventually("every text has its vector", Duration::from_secs(20), async || {
        api.get("/api/graph/embeddings").await.data()["pending"] == 0
    })
    .await;
    let living = writer.model.view().living;
    let query = format!("client{}", writer.model.client);
    let body = json!({ "query": query, "mode": "vector", "types": [writer.type_()], "limit": 100 });
    let found = api.post("/api/graph/search", &body).await.data();
    let found: BTreeSet<_> = list(&found["hits"]).iter().map(|hit| text(&hit["object"]["key"])).collect();
    assert_eq!(found, living.into_keys().collect(), "vectors and objects disagree");
}
