//! Linked search: texts that share a name with the best hits.

use std::{collections::BTreeSet, sync::Arc};

use emergent_domain::{
    cursor::Page,
    ids::ObjectId,
    linked::MAX_TEXTS_OF_NAME,
    mentions,
    object::{Object, ObjectPatch},
    query::{ObjectFilter, SearchMode, SearchQuery},
    text_query::TextQuery,
};
use emergent_graph::Graph;
use emergent_llm::Embedder;
use emergent_store::search::{
    self, SearchTarget,
    links::{self, FindableRows},
};
use emergent_testkit::{both_engines, fixed_clock};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use crate::{
    search::{builtin, embed_all, embedding_world, keys, query},
    support::{Harness, Letters, document, map, new, project, run_in},
};

async fn note(harness: &Harness, key: &str, title: &str, text: &str) -> ObjectId {
    harness.object(new("Note", key, json!({ "title": title, "text": text }))).await
}

/// A founder is named by one text and described by another, which has no word of the question but `born`.
async fn bridge(harness: &Harness) -> ObjectId {
    let company =
        note(harness, "company", "Tabulating Machines", "The company was started by Herman Hollerith.").await;
    note(harness, "hollerith", "Herman Hollerith", "He was born in Buffalo and studied mining.").await;
    for n in 0..8 {
        let text = "The founder of this company was born somewhere, as a founder of a company is.";
        note(harness, &format!("other{n}"), &format!("Company {n}"), text).await;
    }
    company
}

const QUESTION: &str = "Where was the founder of Tabulating Machines born?";

/// An embedder whose vectors count beside words.
fn letters() -> Arc<dyn Embedder> {
    let vector = |text: &str| vec![text.matches('m').count() as f32, text.matches('o').count() as f32 + 1.0];
    Arc::new(Letters { dims: 2, vector })
}

async fn embed_all_if_any(harness: &Harness) {
    if harness.graph.embedder().is_some() {
        embed_all(harness).await;
    }
}

fn linked(question: &str) -> SearchQuery {
    query(question, SearchMode::Linked)
}

/// The ids of the objects whose text has a name, as links find them.
async fn linked_by(harness: &Harness, name: &str) -> BTreeSet<ObjectId> {
    let (project, names) = (harness.project(), vec![name.to_owned()]);
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        let target = SearchTarget::Objects(ObjectFilter::default());
        let nos = links::texts_with_names(tx, project, &target, &names, MAX_TEXTS_OF_NAME)?.remove(0);
        let findable = FindableRows::new(tx, project, &target, &TextQuery::default())?;
        assert_eq!(findable.among(tx, &nos)?.len(), nos.len(), "the index has only live objects");
        search::load_objects(tx, project, &nos)
    };
    let objects = harness.graph.db().read(read).await.unwrap();
    objects.into_values().map(|object| object.row.id).collect()
}

/// The same, from the texts of all live objects.
async fn naive_linked_by(harness: &Harness, name: &str) -> BTreeSet<ObjectId> {
    let page = Page::first(200);
    let objects = harness.graph.list_objects(harness.project(), ObjectFilter::default(), page).await.unwrap();
    let has_name = |object: &Object| {
        let properties = object.properties.to_map();
        ["title", "text"].iter().any(|name_of| {
            properties
                .get(*name_of)
                .and_then(|text| text.as_str())
                .is_some_and(|text| mentions::contains(text, name))
        })
    };
    objects.items.iter().filter(|object| has_name(object)).map(|object| object.id).collect()
}

both_engines! {
    async fn a_text_that_the_best_hit_names_is_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let company = bridge(&harness).await;
        let plain = keys(&harness, SearchQuery { limit: 3, ..query(QUESTION, SearchMode::Hybrid) }).await;
        assert!(!plain.contains("hollerith"), "{plain}");
        let found = harness.graph.search(harness.project(), SearchQuery { limit: 3, ..linked(QUESTION) }).await.unwrap();
        let hits: Vec<&str> = found.hits.iter().map(|hit| hit.item.key.as_deref().unwrap()).collect();
        assert_eq!(hits[0], "company", "{hits:?}");
        let founder = found.hits.iter().find(|hit| hit.item.key.as_deref() == Some("hollerith")).expect("the founder");
        let link = founder.link.clone().unwrap();
        assert_eq!((link.from, link.name.as_str()), (company.0, "herman hollerith"));
        assert!(found.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
        // The question names the company, so the automatic mode follows its names.
        let auto = keys(&harness, SearchQuery { limit: 3, ..query(QUESTION, SearchMode::Auto) }).await;
        assert_eq!(auto, hits.join(" "));
        let none = harness.graph.search(harness.project(), query("where was a founder born", SearchMode::Auto)).await.unwrap();
        assert!(none.hits.iter().all(|hit| hit.link.is_none()), "a question without names is a hybrid search");
    }

    async fn a_name_that_is_shown_is_in_both_texts(db: TestDb) {
        let harness = Harness::new(&db).await;
        bridge(&harness).await;
        // The index compares words without their endings, so it finds this text by the name `herman hollerith`.
        note(&harness, "family", "Family", "A novel of the Herman Holleriths.").await;
        let found = harness.graph.search(harness.project(), SearchQuery { limit: 20, ..linked(QUESTION) }).await.unwrap();
        let link_of = |key: &str| {
            let hit = found.hits.iter().find(|hit| hit.item.key.as_deref() == Some(key)).expect("it is found");
            hit.link.as_ref().map(|link| link.name.as_str())
        };
        assert_eq!((link_of("hollerith"), link_of("family")), (Some("herman hollerith"), None));
    }

    async fn the_automatic_mode_is_hybrid_unless_the_question_names_a_hit(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        // Messages have no names. Links between them would only change the order of the words.
        for n in 0..30 {
            let text = format!("Caroline said that Flask {n} was slower than the release of Django before it");
            harness.object(new("Message", &format!("m{n}"), json!({ "text": text }))).await;
        }
        let same = async |question: &str| {
            let auto = harness.graph.search(harness.project(), query(question, SearchMode::Auto)).await.unwrap();
            let hybrid = harness.graph.search(harness.project(), query(question, SearchMode::Hybrid)).await.unwrap();
            assert!(!hybrid.hits.is_empty(), "{question}");
            auto.hits == hybrid.hits
        };
        assert!(same("What did Caroline say of Flask 7 and Django?").await);
        // A person who is in every text is no name of one of them.
        harness.object(new("Person", "caroline", json!({ "name": "Caroline", "text": "said what she says of Flask" }))).await;
        embed_all(&harness).await;
        assert!(same("What did Caroline say of Flask?").await);
        harness.object(new("Person", "grace", json!({ "name": "Grace Hopper", "text": "met Django once" }))).await;
        assert!(!same("Whom did Grace Hopper meet?").await);
    }

    async fn a_linked_search_respects_filters_and_other_projects(db: TestDb) {
        let harness = Harness::new(&db).await;
        bridge(&harness).await;
        let other = project(&harness.graph, "other", false).await;
        let theirs = new("Note", "theirs", json!({ "title": "Herman Hollerith", "text": "born in another project" }));
        harness.graph.create_object(other, theirs).await.unwrap();
        harness.object(new("Person", "person", json!({ "name": "Herman Hollerith" }))).await;
        let all = keys(&harness, SearchQuery { limit: 50, ..linked(QUESTION) }).await;
        assert!(all.contains("person") && !all.contains("theirs"), "{all}");
        let notes = ObjectFilter { types: vec!["Note".to_owned()], ..ObjectFilter::default() };
        let notes = keys(&harness, SearchQuery { filter: notes, limit: 50, ..linked(QUESTION) }).await;
        assert!(notes.contains("hollerith") && !notes.contains("person"), "{notes}");
    }

    async fn a_linked_search_finds_nothing_that_the_question_excludes(db: TestDb) {
        let harness = Harness::new(&db).await;
        bridge(&harness).await;
        for mode in [SearchMode::Linked, SearchMode::Auto] {
            let found = async |excluded: &str| {
                let question = format!("Where was the founder of Tabulating Machines located? {excluded}");
                keys(&harness, SearchQuery { limit: 50, ..query(&question, mode) }).await
            };
            assert!(found("").await.contains("hollerith"));
            for excluded in ["-mining", "-\"studied mining\"", "-unknown -mining", "-min*"] {
                let keys = found(excluded).await;
                assert!(keys.contains("company") && !keys.contains("hollerith"), "{excluded}: {keys}");
            }
            assert!(found("-unknown -\"mining studied\"").await.contains("hollerith"));
        }
    }

    async fn the_scores_of_a_linked_search_are_comparable_with_those_of_a_hybrid_one(db: TestDb) {
        for (name, embedder) in [("none", None), ("builtin", Some(builtin())), ("letters", Some(letters()))] {
            let graph = Graph::new(db.db.clone(), fixed_clock(), embedder);
            let actor = project(&graph, name, false).await;
            let harness = Harness { graph, actor };
            bridge(&harness).await;
            embed_all_if_any(&harness).await;
            let search = async |mode| {
                harness.graph.search(harness.project(), query(QUESTION, mode)).await.unwrap().hits
            };
            let (hybrid, linked) = (search(SearchMode::Hybrid).await, search(SearchMode::Linked).await);
            // Chat sorts the hits of two searches, of which one may be linked.
            let (best_hybrid, best_linked) = (hybrid[0].score, linked[0].score);
            assert!((best_linked - best_hybrid).abs() < 1e-5, "{name}: {best_linked} {best_hybrid}");
            assert!(linked.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    }

    async fn the_automatic_mode_looks_for_names_beyond_the_limit(db: TestDb) {
        let harness = Harness::new(&db).await;
        bridge(&harness).await;
        for n in 0..4 {
            note(&harness, &format!("words{n}"), "Tabulating machines, founder", "It is said.").await;
        }
        let search = async |mode| {
            let search = SearchQuery { limit: 3, ..query(QUESTION, mode) };
            harness.graph.search(harness.project(), search).await.unwrap().hits
        };
        let (hybrid, linked) = (search(SearchMode::Hybrid).await, search(SearchMode::Linked).await);
        assert!(hybrid.iter().all(|hit| hit.item.key.as_deref() != Some("company")), "{hybrid:?}");
        assert!(linked.iter().any(|hit| hit.link.is_some()), "{linked:?}");
        assert_eq!(search(SearchMode::Auto).await, linked);
    }

    async fn links_follow_renames_deletes_and_restores(db: TestDb) {
        let harness = Harness::new(&db).await;
        bridge(&harness).await;
        let person = harness.object(new("Person", "person", json!({ "name": "Somebody Else" }))).await;
        let found = async || keys(&harness, SearchQuery { limit: 50, ..linked(QUESTION) }).await.contains("person");
        assert!(!found().await);
        let rename = ObjectPatch { properties: Some(map(json!({ "name": "Herman Hollerith" }))), ..Default::default() };
        harness.graph.update_object(harness.actor, person, rename).await.unwrap();
        assert!(found().await, "renamed");
        harness.graph.delete_object(harness.actor, person, None).await.unwrap();
        assert!(!found().await, "deleted");
        harness.graph.restore_object(harness.actor, person).await.unwrap();
        assert!(found().await, "restored");
    }

    async fn passages_are_linked_too(db: TestDb) {
        let harness = Harness::new(&db).await;
        document(&harness, "one", "Tabulating Machines was started by Herman Hollerith.").await;
        document(&harness, "two", "Herman Hollerith came from Buffalo.").await;
        let (graph, project) = (&harness.graph, harness.project());
        let question = "Who started Tabulating Machines";
        let plain = graph.search_chunks(project, question, SearchMode::Hybrid, 10, None, None).await.unwrap();
        assert_eq!(plain.hits.len(), 1);
        let linked = graph.search_chunks(project, question, SearchMode::Linked, 10, None, None).await.unwrap();
        let texts: Vec<&str> = linked.hits.iter().map(|hit| hit.item.text.as_str()).collect();
        assert_eq!(texts, ["Tabulating Machines was started by Herman Hollerith.", "Herman Hollerith came from Buffalo."]);
    }

    async fn links_are_those_of_a_naive_model_after_any_writes(db: TestDb) {
        let names = ["Ada Lovelace", "Charles Babbage", "Analytical Engine", "London", "Herman Hollerith"];
        let harness = Harness::new(&db).await;
        let other = Harness { graph: harness.graph.clone(), actor: project(&harness.graph, "other", false).await };
        let mut dice = StdRng::seed_from_u64(18);
        let mut ids: Vec<ObjectId> = Vec::new();
        for step in 0..120 {
            let text = |dice: &mut StdRng| {
                let count = dice.random_range(0..3);
                let mentioned: Vec<&str> = (0..count).map(|_| *names.choose(dice).unwrap()).collect();
                format!("It is said that {} was there", mentioned.join(" and "))
            };
            let properties = json!({ "title": *names.choose(&mut dice).unwrap(), "text": text(&mut dice) });
            let some = ids.choose(&mut dice).copied();
            match (dice.random_range(0..10), some) {
                (0..4, _) | (_, None) => ids.push(harness.object(new("Note", &format!("k{step}"), properties)).await),
                (4..6, Some(id)) => {
                    let patch = ObjectPatch { properties: Some(map(properties)), ..Default::default() };
                    let _ = harness.graph.update_object(harness.actor, id, patch).await;
                }
                (6, Some(id)) => drop(harness.graph.delete_object(harness.actor, id, None).await),
                (7, Some(id)) => drop(harness.graph.restore_object(harness.actor, id).await),
                (8, Some(id)) => {
                    let (run, actor) = run_in(&harness);
                    let patch = ObjectPatch { properties: Some(map(properties)), ..Default::default() };
                    let _ = harness.graph.update_object(actor, id, patch).await;
                    let _ = harness.graph.delete_object(actor, id, None).await;
                    harness.graph.revert_run(harness.actor, run).await.unwrap();
                }
                _ => drop(other.object(new("Note", &format!("o{step}"), properties)).await),
            }
            if step % 10 == 9 {
                for name in names.map(str::to_lowercase) {
                    for world in [&harness, &other] {
                        assert_eq!(linked_by(world, &name).await, naive_linked_by(world, &name).await, "{name} after {step}");
                    }
                }
            }
        }
    }
}
