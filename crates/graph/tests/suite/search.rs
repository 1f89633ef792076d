//! Search by text, by vector and by both.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_domain::{
    document::NewDocument,
    filter::{Filter, Op},
    fusion::Weights,
    ids::ObjectId,
    query::{EmbeddingUse, ObjectFilter, SearchMode, SearchQuery},
};
use emergent_graph::Graph;
use emergent_llm::{Credentials, EmbedTask, Embedder, EmbedderSpec};
use emergent_store::search::{self, HitLimits, SearchTarget};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, json};

use crate::support;
use support::{Harness, Letters, document, new, problem, project};

pub(crate) fn query(text: &str, mode: SearchMode) -> SearchQuery {
    SearchQuery {
        query: text.to_owned(),
        mode,
        filter: ObjectFilter::default(),
        include_system: false,
        min_similarity: None,
        limit: 10,
        weights: None,
    }
}

pub(crate) fn builtin() -> Arc<dyn Embedder> {
    emergent_llm::embedder(&EmbedderSpec::Builtin, &Credentials::default()).unwrap().unwrap()
}

/// Returns a harness with an embedder.
pub(crate) async fn embedding_world(db: &TestDb, embedder: Arc<dyn Embedder>) -> Harness {
    let graph = Graph::new(db.db.clone(), fixed_clock(), Some(embedder));
    let actor = project(&graph, "test", false).await;
    Harness { graph, actor }
}

/// Embeds all queued rows.
pub(crate) async fn embed_all(harness: &Harness) {
    while harness.graph.embed_batch(harness.project()).await.unwrap() > 0 {}
}

/// Returns the keys of the hits, in order.
pub(crate) async fn keys(harness: &Harness, query: SearchQuery) -> String {
    let found = harness.graph.search(harness.project(), query).await.unwrap();
    found.hits.iter().map(|hit| hit.item.key.clone().unwrap()).collect::<Vec<_>>().join(" ")
}

pub(crate) async fn check(harness: &Harness, text: &str, expected: &str) {
    assert_eq!(keys(harness, query(text, SearchMode::Text)).await, expected, "{text}");
}

pub(crate) async fn write(harness: &Harness, key: &str, text: &str) -> ObjectId {
    harness.object(new("Note", key, json!({ "text": text }))).await
}

both_engines! {
    async fn words_phrases_prefixes_and_exclusions_are_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k1", "the red apples of the orchard").await;
        write(&harness, "k2", "a red house with apples").await;
        write(&harness, "k3", "plumbing and plum trees, rotten").await;
        check(&harness, "apple", "k1 k2").await;
        check(&harness, "\"red apples\"", "k1").await;
        check(&harness, "plumb*", "k3").await;
        check(&harness, "red -house", "k1").await;
        check(&harness, "orchards", "k1").await;
        check(&harness, "-red", "").await;
        check(&harness, "nothing of the sort", "").await;
    }

    async fn what_has_all_the_words_comes_before_what_has_some(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k1", "apple apple apple apple pie crust").await;
        write(&harness, "k2", "an apple lies beside a pear").await;
        write(&harness, "k3", "pear pear pear").await;
        let found = keys(&harness, query("apple pear", SearchMode::Text)).await;
        assert!(found.starts_with("k2 "), "{found}");
        assert_eq!(found.split(' ').count(), 3);
    }

    async fn a_short_text_is_not_better_for_being_short(db: TestDb) {
        let harness = Harness::new(&db).await;
        let filler = "it says a good deal about other things as well, ".repeat(3);
        write(&harness, "short", "graph").await;
        write(&harness, "long", &format!("A graph has nodes. {filler} Each graph is stored. The graph grows.")).await;
        for n in 0..20 {
            write(&harness, &format!("other{n}"), &filler).await;
        }
        check(&harness, "graph", "long short").await;
        // An object with the word in its name ranks first.
        harness.object(new("Note", "named", json!({ "title": "Graph", "text": filler }))).await;
        let found = keys(&harness, query("graph", SearchMode::Text)).await;
        assert!(found.starts_with("named "), "{found}");
    }

    async fn asking_for_fewer_gives_the_beginning_of_the_same_list(db: TestDb) {
        // SQLite skips rows that cannot be among the best. This checks that it does not skip too
        // many.
        let harness = Harness::new(&db).await;
        let mut dice = StdRng::seed_from_u64(3);
        let objects = (0..300).map(|n| {
            let words = ["graph", "node", "edge", "of", "paper", "stone", "water"];
            let text: Vec<&str> = (0..dice.random_range(1..300)).map(|_| *words.choose(&mut dice).unwrap()).collect();
            new("Note", &format!("k{n}"), json!({ "text": text.join(" ") }))
        });
        harness.graph.bulk_create_objects(harness.actor, objects.collect(), true).await.unwrap();
        let project = harness.project();
        for text in ["graph", "graph node", "\"node edge\"", "stone -water", "pap*"] {
            let list = async |most: usize| {
                let query = emergent_domain::text_query::TextQuery::parse(text);
                let among = SearchTarget::Objects(ObjectFilter::default());
                let wanted = HitLimits { max: most, enough: most };
                let read = move |tx: &mut emergent_store::Tx<'_>| search::search_text(tx, project, &among, &query, wanted);
                harness.graph.db().read(read).await.unwrap()
            };
            let all = list(1_000).await;
            for most in [1, 5, 50] {
                let some = list(most).await;
                assert_eq!(some, all[..most.min(all.len())], "{text}");
            }
        }
    }

    async fn names_from_the_world_of_programs_are_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k1", "runs on node.js and has_session, see https://example.org/a/b or mail me@example.org").await;
        write(&harness, "k2", "libssl3 and C++").await;
        for text in ["node.js", "node", "has_session", "session", "example.org", "me@example.org"] {
            check(&harness, text, "k1").await;
        }
        check(&harness, "libssl3", "k2").await;
        check(&harness, "libssl*", "k2").await;
    }

    async fn accents_do_not_matter(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k1", "a café in Zürich").await;
        for text in ["cafe", "café", "zurich", "Zürich", "CAFÉ"] {
            check(&harness, text, "k1").await;
        }
    }

    async fn filters_hold_inside_both_channels(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        for n in 0..300 {
            let type_ = if n % 100 == 0 { "Rare" } else { "Common" };
            let mut object = new(type_, &format!("k{n}"), json!({ "text": "same text about graphs", "n": n }));
            object.labels = if n == 200 { vec!["gold".to_owned()] } else { Vec::new() };
            harness.object(object).await;
        }
        embed_all(&harness).await;
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid] {
            let search = async |filter: ObjectFilter, limit: usize| {
                let query = SearchQuery { filter, limit, ..query("text about graphs", mode) };
                harness.graph.search(harness.project(), query).await.unwrap().hits.len()
            };
            let types = |type_: &str| ObjectFilter { types: vec![type_.to_owned()], ..Default::default() };
            assert_eq!(search(types("Rare"), 10).await, 3, "{mode:?}");
            assert_eq!(search(types("Common"), 100).await, 100, "{mode:?}");
            let gold = ObjectFilter { labels: vec!["gold".to_owned()], ..Default::default() };
            assert_eq!(search(gold, 10).await, 1, "{mode:?}");
            let above = Filter { path: "n".to_owned(), op: Op::Gte, value: Some(json!(280)) };
            let above = ObjectFilter { filters: vec![above], ..Default::default() };
            assert_eq!(search(above, 10).await, 10, "{mode:?}");
        }
    }

    async fn what_matches_a_filter_is_found_behind_many_that_are_nearer(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let mut objects: Vec<_> =
            (0..900).map(|n| new("Common", &format!("k{n}"), json!({ "text": "graphs of notes" }))).collect();
        let near = ["graphs of notes and songs", "graphs of notes by day", "some graphs of notes"];
        let rare = near.iter().copied().chain(["penguins"]).enumerate();
        objects.extend(rare.map(|(n, text)| new("Rare", &format!("rare{n}"), json!({ "text": text }))));
        for made in harness.graph.bulk_create_objects(harness.actor, objects, true).await.unwrap() {
            made.unwrap();
        }
        embed_all(&harness).await;
        let rare = ObjectFilter { types: vec!["Rare".to_owned()], ..Default::default() };
        let found = async |min_similarity: Option<f64>| {
            let query = SearchQuery { filter: rare.clone(), min_similarity, ..query("graphs of notes", SearchMode::Vector) };
            let mut keys: Vec<String> = keys(&harness, query).await.split(' ').map(str::to_owned).collect();
            keys.sort();
            keys.join(" ")
        };
        assert_eq!(found(None).await, "rare0 rare1 rare2");
        assert_eq!(found(Some(-1.0)).await, "rare0 rare1 rare2 rare3");
    }

    async fn a_project_never_sees_another(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let other = project(&harness.graph, "other", false).await;
        harness.graph.create_object(other, new("Note", "theirs", json!({ "text": "graphs" }))).await.unwrap();
        write(&harness, "ours", "graphs").await;
        embed_all(&harness).await;
        while harness.graph.embed_batch(other.project).await.unwrap() > 0 {}
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid] {
            assert_eq!(keys(&harness, query("graphs", mode)).await, "ours");
        }
    }

    async fn what_another_project_writes_changes_neither_order_nor_scores(db: TestDb) {
        let harness = Harness::new(&db).await;
        for number in 0..6 {
            write(&harness, &format!("b{number}"), "a bridge over the river").await;
        }
        write(&harness, "x", "a harbour with a lighthouse").await;
        write(&harness, "y", "the river and its harbour").await;
        let scores = async || {
            let found = harness.graph.search(harness.project(), query("river harbour lighthouse", SearchMode::Text)).await.unwrap();
            found.hits.iter().map(|hit| (hit.item.key.clone().unwrap(), hit.score)).collect::<Vec<_>>()
        };
        let before = scores().await;
        assert_eq!(before[0].0, "x");
        let other = Harness { graph: harness.graph.clone(), actor: project(&harness.graph, "other", false).await };
        for number in 0..60 {
            write(&other, &format!("o{number}"), "a lighthouse at the harbour").await;
        }
        assert_eq!(scores().await, before);
    }

    async fn vectors_follow_every_change(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let first = write(&harness, "first", "penguins on frozen coasts").await;
        write(&harness, "second", "invoices are paid on delivery").await;
        embed_all(&harness).await;
        let all = |text: &str| SearchQuery { min_similarity: Some(-1.0), ..query(text, SearchMode::Vector) };
        let near = async |text: &str| keys(&harness, all(text)).await;
        assert_eq!(near("penguin").await, "first second");
        // The vectors are cached by now, and later writes must reach the cache.
        write(&harness, "third", "penguins, more penguins").await;
        assert_eq!(near("penguins").await.split(' ').count(), 2, "not before it is embedded");
        embed_all(&harness).await;
        assert_eq!(near("penguins").await, "third first second");
        harness.graph.delete_object(harness.actor, first, None).await.unwrap();
        assert_eq!(near("penguins").await, "third second");
        harness.graph.restore_object(harness.actor, first).await.unwrap();
        embed_all(&harness).await;
        assert_eq!(near("penguins").await, "third first second");
        // Another server that loads everything from the start agrees.
        let fresh = Graph::new(db.second_connection().await, fixed_clock(), Some(builtin()));
        let found = fresh.search(harness.project(), all("penguins")).await.unwrap();
        assert_eq!(found.hits.len(), 3);
    }

    async fn an_object_is_found_by_its_old_vector_until_the_new_one_is_there(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let id = write(&harness, "k", "penguins on frozen coasts").await;
        embed_all(&harness).await;
        let patch = emergent_domain::object::ObjectPatch {
            properties: Some(support::map(json!({ "text": "invoices are paid on delivery" }))),
            ..Default::default()
        };
        harness.graph.update_object(harness.actor, id, patch).await.unwrap();
        let score = async || {
            let found = harness.graph.search(harness.project(), query("penguins coasts", SearchMode::Vector)).await.unwrap();
            found.hits.first().map_or(0.0, |hit| hit.vector.unwrap().score)
        };
        let before = score().await;
        embed_all(&harness).await;
        let after = score().await;
        assert!(before > 0.4 && after < 0.2, "{before} {after}");
    }

    async fn both_channels_are_joined_by_rank_and_say_where_a_hit_was(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write(&harness, "both", "tagging patterns for photographs").await;
        write(&harness, "vector", "taggings and photographers").await;
        write(&harness, "neither", "invoices are paid on delivery").await;
        embed_all(&harness).await;
        let by_rank = || SearchQuery { weights: Some(Weights::default()), ..query("tagging patterns", SearchMode::Hybrid) };
        let found = harness.graph.search(harness.project(), by_rank()).await.unwrap();
        assert_eq!(found.embedding, Some(EmbeddingUse::Used));
        let best = &found.hits[0];
        assert_eq!(best.item.key.as_deref(), Some("both"));
        assert_eq!((best.text.unwrap().rank, best.vector.unwrap().rank), (1, 1));
        assert!((best.score - 2.0 / 61.0).abs() < 1e-12);
        let again = harness.graph.search(harness.project(), by_rank()).await.unwrap();
        assert_eq!(found, again);
    }

    async fn a_search_for_nonsense_finds_nothing(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        for (key, text) in [
            ("penguins", "penguins on frozen coasts"),
            ("invoices", "invoices are paid within thirty days of delivery"),
            ("tagging", "tagging patterns for photographs"),
            ("engine", "notes on the Analytical Engine"),
        ] {
            write(&harness, key, text).await;
        }
        embed_all(&harness).await;
        for nonsense in ["xqzvw blorp", "flibbertigibbet snozzcumber", "zzyzx", "kshzt prwq ghnf"] {
            for mode in [SearchMode::Hybrid, SearchMode::Vector, SearchMode::Text] {
                assert_eq!(keys(&harness, query(nonsense, mode)).await, "", "{nonsense} {mode:?}");
            }
        }
        assert_eq!(keys(&harness, query("penguin coast", SearchMode::Vector)).await, "penguins");
        let everything = SearchQuery { min_similarity: Some(-1.0), ..query("zzyzx", SearchMode::Vector) };
        assert_eq!(harness.graph.search(harness.project(), everything).await.unwrap().hits.len(), 4);
        let refused = SearchQuery { min_similarity: Some(2.0), ..query("zzyzx", SearchMode::Vector) };
        assert!(problem(harness.graph.search(harness.project(), refused).await).starts_with("minSimilarity"));
        harness.graph.set_min_similarity(0.9);
        assert_eq!(keys(&harness, query("penguin coast", SearchMode::Vector)).await, "", "the configured value");
    }

    async fn bookkeeping_is_found_only_by_a_search_that_asks_for_it(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write(&harness, "note", "penguins on frozen coasts").await;
        for type_ in ["SpecTask", "Session", "SessionMessage", "Discussion", "DiscussionEntry"] {
            let properties = json!({ "title": "penguins", "name": "penguins", "content": "penguins" });
            harness.object(new(type_, &type_.to_lowercase(), properties)).await;
        }
        embed_all(&harness).await;
        for mode in [SearchMode::Hybrid, SearchMode::Vector, SearchMode::Text] {
            assert_eq!(keys(&harness, query("penguins", mode)).await, "note", "{mode:?}");
            let all = SearchQuery { include_system: true, ..query("penguins", mode) };
            assert_eq!(keys(&harness, all).await.split(' ').count(), 6, "{mode:?}");
            let filter = ObjectFilter { types: vec!["Session".to_owned()], ..Default::default() };
            let named = SearchQuery { filter, ..query("penguins", mode) };
            assert_eq!(keys(&harness, named).await, "session", "{mode:?}");
        }
    }

    async fn a_search_by_text_only_says_nothing_about_embeddings(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k", "graphs").await;
        let found = harness.graph.search(harness.project(), query("graphs", SearchMode::Text)).await.unwrap();
        assert_eq!((found.hits.len(), found.embedding), (1, None));
    }

    async fn without_an_answer_from_the_embedder_the_text_answers_alone(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k", "graphs").await;
        let failing = Graph::new(db.db.clone(), fixed_clock(), Some(Arc::new(Failing)));
        for graph in [&harness.graph, &failing] {
            let found = graph.search(harness.project(), query("graphs", SearchMode::Hybrid)).await.unwrap();
            assert_eq!((found.hits.len(), found.embedding), (1, Some(EmbeddingUse::Unavailable)));
            let found = graph.search(harness.project(), query("graphs", SearchMode::Vector)).await.unwrap();
            assert_eq!((found.hits.len(), found.embedding), (0, Some(EmbeddingUse::Unavailable)));
        }
    }

    async fn a_query_of_nothing_is_refused(db: TestDb) {
        let harness = Harness::new(&db).await;
        for (text, limit, field) in [("", 10, "query"), (" \n", 10, "query"), ("a", 0, "limit"), ("a", 1_001, "limit")] {
            let query = SearchQuery { limit, ..query(text, SearchMode::Hybrid) };
            let found = problem(harness.graph.search(harness.project(), query).await);
            assert!(found.starts_with(field), "{found}");
        }
    }

    async fn no_text_at_all_is_a_syntax_error(db: TestDb) {
        let harness = Harness::new(&db).await;
        write(&harness, "k", "the apple and the pear").await;
        let mut dice = StdRng::seed_from_u64(7);
        let parts = [
            "\"", "''", "\\", "-", "*", "(", ")", ":", ":*", "^", "&", "|", "!", "<->", " AND ", " OR ", "NOT ", "NEAR(",
            "{", "}", "+", "\0", "\u{1b}", "\u{301}", "\u{200d}", " ", "the", "a", "node.js", "é", "検索", "😀", "½",
            "apple", "%", "$1", ";", "--",
        ];
        for _ in 0..300 {
            let mut text: String = (0..dice.random_range(1..12)).map(|_| *parts.choose(&mut dice).unwrap()).collect();
            text.push('x');
            let found = harness.graph.search(harness.project(), query(&text, SearchMode::Text)).await;
            assert!(found.is_ok(), "{text:?}: {:?}", found.err());
        }
    }

    async fn similar_objects_are_found_without_the_object_itself(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let first = write(&harness, "first", "penguins on frozen coasts").await;
        write(&harness, "second", "penguins on a coast").await;
        write(&harness, "third", "invoices are paid on delivery").await;
        embed_all(&harness).await;
        let similar = async |id| {
            let found = harness.graph.similar(harness.project(), id, ObjectFilter::default(), 2, None).await.unwrap();
            found.hits.iter().map(|hit| hit.item.key.clone().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(similar(first).await, "second", "an object without anything in common is not similar");
        let new = write(&harness, "new", "frozen coasts").await;
        assert_eq!(similar(new).await, "first", "also before it has its vector");
        let missing = harness.graph.similar(harness.project(), ObjectId::new(), ObjectFilter::default(), 2, None).await;
        assert!(matches!(missing, Err(emergent_graph::Error::NotFound { .. })));
    }

    async fn chunks_are_found_in_all_documents_or_in_one(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let document = async |title: &str, text: &str| {
            let new = NewDocument {
                title: title.to_owned(),
                content: text.as_bytes().to_vec(),
                mime_type: Some("text/plain".to_owned()),
                source_url: None,
                metadata: Map::new(),
            };
            harness.graph.create_document(harness.actor, new).await.unwrap().0.id
        };
        let first = document("Birds", "Penguins breed on frozen coasts.").await;
        let second = document("More birds", "Penguins swim under the ice.").await;
        embed_all(&harness).await;
        let search = async |mode, document| {
            let found = harness.graph.search_chunks(harness.project(), "penguins", mode, 10, document, None).await.unwrap();
            let mut found: Vec<_> = found.hits.iter().map(|hit| hit.item.document).collect();
            found.sort();
            found
        };
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid] {
            assert_eq!(search(mode, None).await, [first, second], "{mode:?}");
            assert_eq!(search(mode, Some(second)).await, [second], "{mode:?}");
        }
        harness.graph.delete_document(harness.actor, first).await.unwrap();
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid] {
            assert_eq!(search(mode, None).await, [second], "{mode:?}");
        }
    }

    async fn searches_for_passages_and_similar_objects_take_a_floor(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let (graph, project) = (&harness.graph, harness.project());
        document(&harness, "Birds", "Penguins breed on frozen coasts.").await;
        let first = write(&harness, "first", "penguins on frozen coasts").await;
        write(&harness, "other", "invoices are paid on delivery").await;
        embed_all(&harness).await;
        let passages = async |min| {
            let found = graph.search_chunks(project, "penguins", SearchMode::Vector, 10, None, min).await;
            found.map(|found| found.hits.len())
        };
        assert_eq!(passages(None).await.unwrap(), 1);
        assert_eq!(passages(Some(0.99)).await.unwrap(), 0);
        assert!(problem(passages(Some(1.5)).await).starts_with("minSimilarity"));
        let similar = async |min| {
            let found = graph.similar(project, first, ObjectFilter::default(), 5, min).await;
            found.map(|found| found.hits.len())
        };
        assert_eq!(similar(None).await.unwrap(), 0);
        assert_eq!(similar(Some(-1.0)).await.unwrap(), 1, "it drops nothing");
        assert!(problem(similar(Some(-2.0)).await).starts_with("minSimilarity"));
        assert_eq!(graph.min_passage_similarity(), 0.16, "measured");
        graph.set_min_similarity(0.4);
        assert_eq!(graph.min_passage_similarity(), 0.2, "half of what is configured for objects");
        graph.set_min_passage_similarity(0.98);
        assert_eq!(passages(None).await.unwrap(), 0, "the configured value");
    }

    async fn only_vectors_of_the_same_model_are_compared(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write(&harness, "k", "penguins on frozen coasts").await;
        embed_all(&harness).await;
        let other = Graph::new(db.db.clone(), fixed_clock(), Some(Arc::new(Letters { dims: 26, vector: by_letters })));
        let search = async |mode| other.search(harness.project(), query("penguins", mode)).await.unwrap();
        assert_eq!(search(SearchMode::Vector).await.hits.len(), 0);
        assert_eq!(search(SearchMode::Hybrid).await.hits.len(), 1, "the text channel goes on");
        assert_eq!(other.enqueue_missing_in_project(harness.project()).await.unwrap(), 1);
        while other.embed_batch(harness.project()).await.unwrap() > 0 {}
        assert_eq!(search(SearchMode::Vector).await.hits.len(), 1);
        assert_eq!(keys(&harness, query("penguins", SearchMode::Vector)).await, "", "the old vector was replaced");
        assert_eq!(other.enqueue_missing_in_project(harness.project()).await.unwrap(), 0);
    }
}

struct Failing;

#[async_trait]
impl Embedder for Failing {
    fn model(&self) -> &str {
        "test/failing"
    }
    fn dims(&self) -> Option<usize> {
        None
    }
    fn max_batch(&self) -> usize {
        8
    }
    async fn embed(&self, _: &[String], _: EmbedTask) -> Result<Vec<Vec<f32>>, emergent_llm::Error> {
        Err(emergent_llm::Error::Config("not today".to_owned()))
    }
}

/// Counts each letter of a text.
fn by_letters(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; 26];
    for byte in text.to_ascii_lowercase().bytes().filter(u8::is_ascii_lowercase) {
        vector[usize::from(byte - b'a')] += 1.0;
    }
    vector
}
