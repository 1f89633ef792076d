//! The order of the hits: fusion, lengths, names and filters.

use std::sync::Arc;

use emergent_domain::{
    filter::{Filter, Op},
    query::{ObjectFilter, SearchMode, SearchQuery},
};
use emergent_llm::Embedder;
use emergent_store::{
    Tx,
    search::{self, SearchTarget},
};
use emergent_testkit::both_engines;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use crate::{
    search::{builtin, check, embed_all, embedding_world, keys, query, write},
    support::{Harness, Letters, new},
};

/// An embedder with the default weight: texts with many of the letter g are similar.
fn letters() -> Letters {
    let vector = |text: &str| vec![text.matches('g').count() as f32, 1.0];
    Letters { dims: 2, vector }
}

both_engines! {
    async fn without_weights_the_channels_are_joined_by_their_scores(db: TestDb) {
        let harness = embedding_world(&db, Arc::new(letters())).await;
        write(&harness, "both", "tagging patterns for photographs").await;
        write(&harness, "vector", "taggings and photographers").await;
        embed_all(&harness).await;
        let found = harness.graph.search(harness.project(), query("tagging patterns", SearchMode::Hybrid)).await.unwrap();
        let best = &found.hits[0];
        assert_eq!(best.item.key.as_deref(), Some("both"));
        let weight = letters().fusion_weight().unwrap();
        assert!((best.score - (1.0 + weight)).abs() < 1e-12, "{}", best.score);
        assert!(found.hits[1..].iter().all(|hit| hit.score < best.score));
    }

    async fn the_built_in_vectors_only_add_what_the_words_did_not_find(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        for n in 0..12 {
            write(&harness, &format!("k{n}"), &format!("a pattern library, {}", "with more of it, ".repeat(n))).await;
        }
        write(&harness, "parts", "patter patterned patternless patternings").await;
        write(&harness, "apart", "penguins on frozen coasts").await;
        embed_all(&harness).await;
        for question in ["library patterns", "pattern", "more pattern"] {
            let all = |mode| SearchQuery { limit: 20, min_similarity: Some(0.01), ..query(question, mode) };
            let (text, hybrid) = (keys(&harness, all(SearchMode::Text)).await, keys(&harness, all(SearchMode::Hybrid)).await);
            assert!(hybrid.starts_with(&text), "{question}: {text}; {hybrid}");
        }
        let found = keys(&harness, query("patternin", SearchMode::Hybrid)).await;
        assert!(found.contains("parts"), "{found}");
    }

    async fn a_long_text_does_not_win_by_repeating_a_word(db: TestDb) {
        let harness = Harness::new(&db).await;
        let filler: String = (0..600).map(|n| format!("matter{n} ")).collect();
        write(&harness, "long", &format!("deadline budget deadline {filler} The budget of the deadline.")).await;
        write(&harness, "short", "The budget has to be decided before the deadline of the project.").await;
        for n in 0..20 {
            write(&harness, &format!("other{n}"), "nothing to see in this one").await;
        }
        check(&harness, "budget deadline", "short long").await;
    }

    async fn a_possessive_finds_the_name(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k1", "Ada wrote the first program").await;
        write(&harness, "k2", "Ada's program").await;
        let found = keys(&harness, query("Ada's", SearchMode::Text)).await;
        assert_eq!(found.split(' ').count(), 2, "{found}");
    }

    async fn a_name_that_is_everywhere_does_not_decide_what_is_similar(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        for n in 0..40 {
            write(&harness, &format!("k{n}"), &format!("Caroline: message number {n}")).await;
        }
        write(&harness, "hobby", "pottery and painting are the favourite hobby of a friend").await;
        embed_all(&harness).await;
        let found = harness.graph.search(harness.project(), query("Caroline hobby", SearchMode::Vector)).await.unwrap();
        let keys: Vec<_> = found.hits.iter().map(|hit| hit.item.key.clone().unwrap()).collect();
        assert_eq!(keys, ["hobby"]);
        let found = harness.graph.search(harness.project(), query("Caroline number", SearchMode::Text)).await.unwrap();
        assert_eq!(found.hits.len(), 10, "the text search keeps the name");
    }

    async fn names_are_common_among_the_newest_texts_with_a_vector(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let write_many = async |count: usize, text: &str| {
            let objects: Vec<_> = (0..count).map(|_| new("Note", "", json!({ "text": text }))).collect();
            for batch in objects.chunks(100) {
                harness.graph.bulk_create_objects(harness.actor, batch.to_vec(), true).await.unwrap();
            }
        };
        let is_common = async || {
            let project = harness.project();
            let read = move |tx: &mut Tx<'_>| {
                let target = SearchTarget::Objects(ObjectFilter::default());
                search::are_common_names(tx, project, &target, &["Caroline".to_owned(), "Ada".to_owned()])
            };
            harness.graph.db().read(read).await.unwrap()
        };
        assert_eq!(is_common().await, [false, false]);
        write_many(100, "Caroline: a message").await;
        embed_all(&harness).await;
        assert_eq!(is_common().await, [true, false]);
        write_many(600, "a message of somebody else").await;
        assert_eq!(is_common().await, [true, false], "the new texts have no vectors yet");
        embed_all(&harness).await;
        assert_eq!(is_common().await, [false, false], "the name is only in older texts");
    }

    async fn an_exclusion_does_not_change_the_order_of_the_rest(db: TestDb) {
        let harness = Harness::new(&db).await;
        for (key, text) in [("k1", "pear"), ("k2", "apple apple apple apple"), ("k3", "a plum and many other things"), ("k4", "pear pear pear plum")] {
            write(&harness, key, text).await;
        }
        write(&harness, "k5", "a rotten apple and a pear").await;
        let scores = async |text: &str| {
            let found = harness.graph.search(harness.project(), query(text, SearchMode::Text)).await.unwrap();
            let hits = found.hits.into_iter().filter(|hit| hit.item.key.as_deref() != Some("k5"));
            hits.map(|hit| (hit.item.key.unwrap(), hit.text.unwrap().score)).collect::<Vec<_>>()
        };
        let all = scores("apple pear plum").await;
        assert_eq!(all.len(), 4);
        assert_eq!(scores("apple pear plum -rotten").await, all);
        assert_eq!(scores("apple pear plum -rotten -\"of the sort\"").await, all);
    }

    async fn a_filter_leaves_the_order_of_the_rows_that_match(db: TestDb) {
        // More rows of the common type than a search with a filter ranks first.
        let harness = Harness::new(&db).await;
        let mut dice = StdRng::seed_from_u64(5);
        let objects = (0..1_000).map(|n| {
            let type_ = if n % 400 == 0 { "Rare" } else { "Common" };
            let words = ["graph", "node", "edge", "stone"];
            let text: Vec<&str> = (0..dice.random_range(1..40)).map(|_| *words.choose(&mut dice).unwrap()).collect();
            new(type_, &format!("k{n}"), json!({ "text": text.join(" "), "n": n }))
        });
        let objects: Vec<_> = objects.collect();
        for batch in objects.chunks(100) {
            harness.graph.bulk_create_objects(harness.actor, batch.to_vec(), true).await.unwrap();
        }
        let all = SearchQuery { limit: 1_000, ..query("graph", SearchMode::Text) };
        let all = harness.graph.search(harness.project(), all).await.unwrap().hits;
        let types = |type_: &str| ObjectFilter { types: vec![type_.to_owned()], ..Default::default() };
        let odd = Filter { path: "n".to_owned(), op: Op::Lt, value: Some(json!(30)) };
        let few = ObjectFilter { filters: vec![odd], ..Default::default() };
        for (filter, limit) in [(types("Common"), 10), (types("Rare"), 3), (types("Rare"), 10), (few, 10)] {
            let search = SearchQuery { filter: filter.clone(), limit, ..query("graph", SearchMode::Text) };
            let found = harness.graph.search(harness.project(), search).await.unwrap().hits;
            let matches = |object: &emergent_domain::object::Object| match filter.types.first() {
                Some(type_) => object.type_ == *type_,
                None => object.properties.to_map()["n"].as_i64().unwrap() < 30,
            };
            let expected: Vec<_> = all.iter().filter(|hit| matches(&hit.item)).map(|hit| hit.item.id).take(found.len()).collect();
            assert!(!found.is_empty());
            assert_eq!(found.iter().map(|hit| hit.item.id).collect::<Vec<_>>(), expected, "{filter:?} {limit}");
        }
    }
}
