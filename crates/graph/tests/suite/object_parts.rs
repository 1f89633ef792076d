//! Several vectors for a long object, if the model reads only the beginning of a text.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_domain::{
    object::ObjectPatch,
    query::{ObjectFilter, SearchMode, SearchQuery},
};
use emergent_llm::{EmbedTask, Embedder, Error};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::json;

use crate::{
    search::{embed_all, embedding_world, keys, query},
    support::{Harness, map, new},
};

/// How many bytes of a text the model reads.
const READ: usize = 40;

/// A model that only knows whether the beginning of a text has the word `kettle`, or the similar word `teapot`.
struct Beginnings;

#[async_trait]
impl Embedder for Beginnings {
    fn model(&self) -> &str {
        "test/beginnings"
    }

    fn dims(&self) -> Option<usize> {
        Some(2)
    }

    fn max_text_bytes(&self) -> Option<usize> {
        Some(READ)
    }

    fn max_batch(&self) -> usize {
        4
    }

    async fn embed(&self, texts: &[String], _: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        let vector = |text: &String| {
            let read = &text[..text.floor_char_boundary(READ)];
            match (read.contains("kettle"), read.contains("teapot")) {
                (true, _) => vec![1.0, 0.0],
                (false, true) => vec![0.8, 0.6],
                (false, false) => vec![0.0, 1.0],
            }
        };
        Ok(texts.iter().map(vector).collect())
    }
}

async fn count_parts(harness: &Harness) -> usize {
    let read =
        |tx: &mut Tx<'_>| tx.query("SELECT no FROM object_part_embeddings", &[], |row| row.get::<i64>(0));
    harness.graph.db().read(read).await.unwrap().len()
}

both_engines! {
    async fn a_long_object_is_found_by_any_of_its_parts(db: TestDb) {
        let harness = embedding_world(&db, Arc::new(Beginnings)).await;
        let text = format!("{}and the kettle", "water ".repeat(20));
        let long = harness.object(new("Note", "long", json!({ "text": text }))).await;
        harness.object(new("Note", "short", json!({ "text": "kettle" }))).await;
        harness.object(new("Note", "other", json!({ "text": "water" }))).await;
        harness.object(new("Recipe", "recipe", json!({ "text": text }))).await;
        embed_all(&harness).await;
        assert!(count_parts(&harness).await >= 4, "two long objects");
        let near = || query("kettle", SearchMode::Vector);
        let mut found: Vec<String> = keys(&harness, near()).await.split(' ').map(str::to_owned).collect();
        found.sort();
        assert_eq!(found, ["long", "recipe", "short"], "each once");
        let recipes = ObjectFilter { types: vec!["Recipe".to_owned()], ..ObjectFilter::default() };
        assert_eq!(keys(&harness, SearchQuery { filter: recipes, limit: 1, ..near() }).await, "recipe");

        // A text that is no longer long has one vector, and a deleted object has none.
        let patch = ObjectPatch { properties: Some(map(json!({ "text": "water" }))), ..Default::default() };
        harness.graph.update_object(harness.actor, long, patch).await.unwrap();
        embed_all(&harness).await;
        let recipe = harness.graph.search(harness.project(), query("recipe", SearchMode::Text)).await.unwrap();
        harness.graph.delete_object(harness.actor, recipe.hits[0].item.id, None).await.unwrap();
        assert_eq!(count_parts(&harness).await, 0);
        assert_eq!(keys(&harness, near()).await, "short");
    }

    async fn objects_are_alike_only_by_their_beginnings(db: TestDb) {
        let harness = embedding_world(&db, Arc::new(Beginnings)).await;
        let text = format!("{}and the kettle", "water ".repeat(20));
        harness.object(new("Note", "long", json!({ "text": text }))).await;
        embed_all(&harness).await;
        // A part of the long note has the same vector as the new one, but they are not the same thing.
        let found = harness.graph.find_matches(harness.project(), vec![new("Note", "", json!({ "text": "kettle" }))]).await;
        assert_eq!(found.unwrap()[0].matched, None);
        let short = harness.object(new("Note", "short", json!({ "text": "kettle" }))).await;
        let same = harness.object(new("Note", "same", json!({ "text": "kettle too" }))).await;
        embed_all(&harness).await;
        let similar = harness.graph.similar(harness.project(), short, ObjectFilter::default(), 10, None).await.unwrap();
        assert_eq!(similar.hits.iter().map(|hit| hit.item.id).collect::<Vec<_>>(), [same]);
    }

    async fn many_near_parts_of_few_objects_do_not_hide_the_others(db: TestDb) {
        let harness = embedding_world(&db, Arc::new(Beginnings)).await;
        for n in 0..3 {
            harness.object(new("Note", &format!("kettle{n}"), json!({ "text": "kettle ".repeat(120) }))).await;
        }
        for n in 0..4 {
            let text = format!("{}and a teapot", "water ".repeat(20));
            harness.object(new("Note", &format!("teapot{n}"), json!({ "text": text }))).await;
        }
        embed_all(&harness).await;
        // A search for so many objects compares about forty parts first, and the nearest 48 are of three objects.
        let found = keys(&harness, SearchQuery { limit: 5, ..query("kettle", SearchMode::Vector) }).await;
        let count = |word: &str| found.split(' ').filter(|key| key.starts_with(word)).count();
        assert_eq!((count("kettle"), count("teapot")), (3, 2), "{found}");
        let notes = ObjectFilter { types: vec!["Note".to_owned()], ..ObjectFilter::default() };
        let filtered = SearchQuery { limit: 5, filter: notes, ..query("kettle", SearchMode::Vector) };
        assert_eq!(keys(&harness, filtered).await.split(' ').count(), 5);
    }
}
