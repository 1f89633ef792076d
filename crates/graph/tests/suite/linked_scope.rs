//! What a linked search reads and what it returns: filters, exclusions, titles of documents and long texts.

use std::sync::Arc;

use emergent_domain::{
    fusion::Weights,
    ids::ObjectId,
    query::{HitLink, ObjectFilter, SearchMode, SearchQuery},
    text_query::TextQuery,
};
use emergent_store::{
    Tx,
    search::{self, SearchTarget, links::FindableRows},
};
use emergent_testkit::both_engines;
use serde_json::json;

use crate::{
    search::{builtin, embed_all, embedding_world, keys, query, write},
    support::{Harness, Letters, document, new, project},
};

const QUESTION: &str = "Where was the founder of Tabulating Machines born?";

async fn company(harness: &Harness) -> ObjectId {
    let text = "The company was started by Herman Hollerith.";
    harness.object(new("Company", "company", json!({ "name": "Tabulating Machines", "text": text }))).await
}

fn of_type(type_: &str) -> ObjectFilter {
    ObjectFilter { types: vec![type_.to_owned()], ..ObjectFilter::default() }
}

both_engines! {
    async fn a_filter_applies_to_what_is_returned_and_not_to_what_leads_there(db: TestDb) {
        let harness = Harness::new(&db).await;
        let company = company(&harness).await;
        harness.object(new("Person", "person", json!({ "name": "Herman Hollerith", "text": "from Buffalo" }))).await;
        harness.object(new("Place", "place", json!({ "name": "Buffalo", "text": "the town of Herman Hollerith" }))).await;
        let other = project(&harness.graph, "other", false).await;
        let theirs = new("Person", "theirs", json!({ "name": "Herman Hollerith", "text": "born in another project" }));
        harness.graph.create_object(other, theirs).await.unwrap();
        let persons = |mode| SearchQuery { filter: of_type("Person"), ..query(QUESTION, mode) };
        for mode in [SearchMode::Text, SearchMode::Hybrid] {
            assert_eq!(keys(&harness, persons(mode)).await, "", "{mode:?}: no person has a word of the question");
        }
        for mode in [SearchMode::Linked, SearchMode::Auto] {
            let found = harness.graph.search(harness.project(), persons(mode)).await.unwrap();
            let links: Vec<_> = found.hits.iter().map(|hit| (hit.item.key.as_deref(), hit.link.clone())).collect();
            let link = HitLink { from: company.0, name: "herman hollerith".to_owned() };
            assert_eq!(links, [(Some("person"), Some(link))], "{mode:?}");
            // A question without a name is a hybrid search, with a filter as well.
            let plain = SearchQuery { filter: of_type("Person"), ..query("where was a founder born", SearchMode::Auto) };
            assert_eq!(keys(&harness, plain).await, "");
        }
        // What the server keeps for itself leads nowhere, unless it is asked for.
        harness.graph.delete_object(harness.actor, company, None).await.unwrap();
        let session = json!({ "name": "Tabulating Machines", "content": "It was started by Herman Hollerith." });
        harness.object(new("Session", "session", session)).await;
        assert_eq!(keys(&harness, persons(SearchMode::Linked)).await, "");
        assert_eq!(keys(&harness, SearchQuery { include_system: true, ..persons(SearchMode::Linked) }).await, "person");
    }

    async fn a_common_name_of_what_matches_does_not_hide_one_that_the_filter_leaves_out(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        let company = company(&harness).await;
        harness.object(new("Person", "person", json!({ "name": "Herman Hollerith", "text": "from Buffalo" }))).await;
        let graces = (0..30).map(|n| new("Person", &format!("k{n}"), json!({ "name": "Grace", "text": "she is here" })));
        harness.graph.bulk_create_objects(harness.actor, graces.collect(), true).await.unwrap();
        embed_all(&harness).await;
        let question = "What did Grace say about the founder of Tabulating Machines?";
        let persons = SearchQuery { filter: of_type("Person"), limit: 50, ..query(question, SearchMode::Auto) };
        let found = harness.graph.search(harness.project(), persons).await.unwrap();
        let person = found.hits.iter().find(|hit| hit.item.key.as_deref() == Some("person"));
        let link = HitLink { from: company.0, name: "herman hollerith".to_owned() };
        assert_eq!(person.and_then(|hit| hit.link.clone()), Some(link));
    }

    async fn a_filter_does_not_change_the_order_of_a_linked_search(db: TestDb) {
        let harness = Harness::new(&db).await;
        company(&harness).await;
        let best = json!({ "name": "Founder of Tabulating Machines", "text": "born, founder, Tabulating Machines" });
        harness.object(new("Other", "best", best)).await;
        for n in 0..12 {
            let type_ = if n % 3 == 0 { "Other" } else { "Person" };
            let name = if n % 4 == 0 { "Herman Hollerith".to_owned() } else { format!("Somebody {n}") };
            let text = format!("{} born {}", "a founder was ".repeat(n), "somewhere else ".repeat(12 - n));
            harness.object(new(type_, &format!("k{n}"), json!({ "name": name, "text": text }))).await;
        }
        let search = async |filter: ObjectFilter| {
            let linked = SearchQuery { filter, limit: 50, ..query(QUESTION, SearchMode::Linked) };
            harness.graph.search(harness.project(), linked).await.unwrap().hits
        };
        let (all, persons) = (search(ObjectFilter::default()).await, search(of_type("Person")).await);
        let expected: Vec<_> = all.iter().filter(|hit| hit.item.type_ == "Person").map(|hit| (hit.item.id, hit.link.clone())).collect();
        assert!(expected.len() == 8 && expected.iter().any(|(_, link)| link.is_some()), "{expected:?}");
        assert_eq!(persons.iter().map(|hit| (hit.item.id, hit.link.clone())).collect::<Vec<_>>(), expected);
        // The places in the text channel are counted without what the filter leaves out.
        let mut places: Vec<usize> = persons.iter().filter_map(|hit| Some(hit.text?.rank)).collect();
        places.sort_unstable();
        assert_eq!(places, (1..=places.len()).collect::<Vec<_>>());
    }

    async fn a_filter_does_not_change_the_order_of_a_linked_search_with_weights(db: TestDb) {
        // The first letters of a text are its vector, so that both channels have orders of their own.
        let vector = |text: &str| {
            let mut vector = vec![0.1_f32; 26];
            for byte in text.bytes().filter(u8::is_ascii_lowercase) {
                vector[usize::from(byte - b'a')] += 1.0;
            }
            vector
        };
        let harness = embedding_world(&db, Arc::new(Letters { dims: 26, vector })).await;
        let objects = (0..120).map(|n| {
            let type_ = if n % 6 == 0 { "Person" } else { "Other" };
            let words = ["founder ".repeat(1 + n * 37 % 11), "zzz ".repeat(n * 53 % 17), "quiet ".repeat(n * 29 % 13)];
            new(type_, &format!("k{n}"), json!({ "text": words.concat() }))
        });
        harness.graph.bulk_create_objects(harness.actor, objects.collect(), true).await.unwrap();
        embed_all(&harness).await;
        let search = async |filter: ObjectFilter| {
            let (weights, min_similarity) = (Some(Weights::default()), Some(-1.0));
            let linked = SearchQuery { filter, limit: 200, weights, min_similarity, ..query("founder", SearchMode::Linked) };
            harness.graph.search(harness.project(), linked).await.unwrap().hits
        };
        let (all, persons) = (search(ObjectFilter::default()).await, search(of_type("Person")).await);
        let expected: Vec<_> = all.iter().filter(|hit| hit.item.type_ == "Person").map(|hit| &hit.item.key).collect();
        assert_eq!((all.len(), expected.len()), (120, 20));
        assert_eq!(persons.iter().map(|hit| &hit.item.key).collect::<Vec<_>>(), expected);
    }

    async fn passages_of_one_document_are_reached_from_those_of_others(db: TestDb) {
        let harness = Harness::new(&db).await;
        document(&harness, "one", "Tabulating Machines was started by Herman Hollerith.").await;
        let (two, _) = document(&harness, "two", "Herman Hollerith came from Buffalo.").await;
        let (graph, project) = (&harness.graph, harness.project());
        let found = graph.search_chunks(project, "Who started Tabulating Machines", SearchMode::Linked, 10, Some(two), None).await.unwrap();
        let documents: Vec<_> = found.hits.iter().map(|hit| hit.item.document).collect();
        assert_eq!(documents, [two]);
    }

    async fn what_a_question_excludes_is_no_hit_in_any_mode(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write(&harness, "fresh", "penguins on frozen coasts and some more words about them").await;
        // More of them are nearer than a search looks at first.
        let smelly = (0..120).map(|n| new("Note", &format!("k{n}"), json!({ "text": "smelly penguins on coasts" })));
        harness.graph.bulk_create_objects(harness.actor, smelly.collect(), true).await.unwrap();
        embed_all(&harness).await;
        let modes = [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid, SearchMode::Linked, SearchMode::Auto];
        for mode in modes {
            let few = |text: &str| SearchQuery { limit: 3, min_similarity: Some(0.01), ..query(text, mode) };
            let found = async |text: &str| keys(&harness, few(text)).await;
            assert_eq!(found("penguins coasts").await.split(' ').count(), 3, "{mode:?}");
            for excluded in ["-smelly", "-\"smelly penguins\"", "-smel*", "-unknown -smelly"] {
                assert_eq!(found(&format!("penguins coasts {excluded}")).await, "fresh", "{mode:?} {excluded}");
                assert_eq!(found(&format!("{excluded} penguins coasts")).await, "fresh", "{mode:?} {excluded}");
            }
            let nothing = harness.graph.search(harness.project(), query("-smelly", mode)).await.unwrap();
            assert_eq!((nothing.hits.len(), nothing.embedding), (0, None), "{mode:?}");
        }
        // The excluded word is not embedded: the cosine is that of the other words.
        let cosine = async |text: &str| {
            let all = SearchQuery { limit: 200, min_similarity: Some(0.01), ..query(text, SearchMode::Vector) };
            let found = harness.graph.search(harness.project(), all).await.unwrap();
            let fresh = found.hits.iter().find(|hit| hit.item.key.as_deref() == Some("fresh"));
            fresh.and_then(|hit| hit.vector).unwrap().score
        };
        assert_eq!(cosine("penguins coasts -smelly").await, cosine("penguins coasts").await);
    }

    async fn stop_words_exclude_nothing_and_are_nothing_to_search_for_beside_exclusions(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write(&harness, "one", "the penguins on the coasts").await;
        write(&harness, "two", "penguins and their invoices").await;
        embed_all(&harness).await;
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid, SearchMode::Linked, SearchMode::Auto] {
            let all = |text: &str| SearchQuery { min_similarity: Some(-1.0), ..query(text, mode) };
            let found = async |text: &str| keys(&harness, all(text)).await;
            let both = found("penguins").await;
            assert_eq!(both.split(' ').count(), 2, "{mode:?}");
            for excluded in ["-the", "-The", "-\"on the\"", "-the*", "-and -their"] {
                assert_eq!(found(&format!("penguins {excluded}")).await, both, "{mode:?} {excluded}");
            }
            for question in ["-rotten ?", "-rotten the", "\"on the\" -rotten", "the* -rotten", "-the", "-the ?"] {
                assert_eq!(found(question).await, "", "{mode:?} {question}");
            }
        }
    }

    async fn few_rows_are_tested_for_an_excluded_word_that_many_rows_have(db: TestDb) {
        let harness = Harness::new(&db).await;
        let fresh = write(&harness, "fresh", "penguins on frozen coasts").await;
        let first = write(&harness, "first", "smelly penguins").await;
        for batch in 0..3 {
            let smelly = (0..250).map(|n| new("Note", &format!("k{batch}-{n}"), json!({ "text": "smelly penguins" })));
            harness.graph.bulk_create_objects(harness.actor, smelly.collect(), true).await.unwrap();
        }
        let last = write(&harness, "last", "smelly coasts").await;
        let project = harness.project();
        let findable = async |question: &'static str| {
            let read = move |tx: &mut Tx<'_>| {
                let target = SearchTarget::Objects(ObjectFilter::default());
                let rows = FindableRows::new(tx, project, &target, &TextQuery::parse(question))?;
                let mut nos = Vec::new();
                for id in [fresh, first, last] {
                    nos.extend(search::object_no(tx, project, id)?);
                }
                let found = rows.among(tx, &nos)?;
                Ok::<_, emergent_store::Error>(nos.iter().map(|no| found.contains(no)).collect::<Vec<bool>>())
            };
            harness.graph.db().read(read).await.unwrap()
        };
        assert_eq!(findable("coasts -smelly").await, [true, false, false]);
        assert_eq!(findable("coasts -smell*").await, [true, false, false]);
        assert_eq!(findable("fish -\"smelly coasts\"").await, [true, true, false]);
        assert_eq!(findable("fish -unknown -\"frozen coasts\" -\"smelly penguins\"").await, [false, false, true]);
        assert_eq!(findable("fish -unknown").await, [true, true, true]);
    }

    async fn what_a_question_excludes_is_no_passage_in_any_mode(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        document(&harness, "fresh", "penguins on frozen coasts").await;
        document(&harness, "old", "smelly penguins on frozen coasts").await;
        embed_all(&harness).await;
        for mode in [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid, SearchMode::Linked, SearchMode::Auto] {
            let search = harness.graph.search_chunks(harness.project(), "penguins coasts -smelly", mode, 10, None, Some(0.01));
            let texts: Vec<String> = search.await.unwrap().hits.into_iter().map(|hit| hit.item.text).collect();
            assert_eq!(texts, ["penguins on frozen coasts"], "{mode:?}");
        }
    }

    async fn a_passage_without_a_heading_is_called_by_the_title_of_its_document(db: TestDb) {
        let harness = Harness::new(&db).await;
        document(&harness, "Tabulating Machines", "It was started in a barn.").await;
        document(&harness, "Journey", "We saw Tabulating Machines in the harbour.").await;
        document(&harness, "Map", "The way to Tabulating Machines is short.").await;
        let search = async |question: &str, mode| {
            harness.graph.search_chunks(harness.project(), question, mode, 10, None, None).await.unwrap().hits
        };
        let linked = search("Who started it in a barn?", SearchMode::Linked).await;
        let names: Vec<&str> = linked.iter().filter_map(|hit| Some(hit.link.as_ref()?.name.as_str())).collect();
        assert_eq!((linked.len(), names), (3, vec!["tabulating machines"; 2]));
        // The question names the document, so the automatic mode follows the names.
        let question = "Who started Tabulating Machines in a barn?";
        let auto = search(question, SearchMode::Auto).await;
        assert!(auto.iter().any(|hit| hit.link.is_some()), "{auto:?}");
        assert_eq!(auto, search(question, SearchMode::Linked).await);
    }

    async fn names_are_read_in_as_much_of_a_text_as_is_embedded(db: TestDb) {
        let harness = Harness::new(&db).await;
        for (name, kibibytes, is_found) in [("near", 20, true), ("far", 40, false)] {
            let harness = Harness { graph: harness.graph.clone(), actor: project(&harness.graph, name, false).await };
            let text = format!("{} started by Herman Hollerith", "it is said that ".repeat(kibibytes * 64));
            harness.object(new("Company", "company", json!({ "name": "Tabulating Machines", "text": text }))).await;
            harness.object(new("Person", "person", json!({ "name": "Herman Hollerith" }))).await;
            let found = keys(&harness, query("Who is behind Tabulating Machines?", SearchMode::Linked)).await;
            assert_eq!(found, if is_found { "company person" } else { "company" }, "{kibibytes} KiB");
        }
    }
}
