//! Questions that name a date: what is of that time comes first, and nothing else changes.

use std::time::Duration;

use emergent_domain::{
    dates::{DateMatch, DateSource, Period},
    document::NewDocument,
    fusion::Weights,
    object::Object,
    query::{SearchMode, SearchQuery, SearchResult},
    time::Timestamp,
};
use emergent_graph::Graph;
use emergent_testkit::{both_engines, fixed_clock};
use serde_json::{Value, json};

use crate::{
    search::{builtin, embed_all, embedding_world, keys, query},
    support::{Harness, map, new, project},
};

/// The modes in which a date counts.
const MODES: [SearchMode; 4] = [SearchMode::Text, SearchMode::Hybrid, SearchMode::Linked, SearchMode::Auto];

const QUESTION: &str = "What did Ada say about boats in May 2023?";

/// Writes objects with the same text and other properties. Without a date, they are found in this order.
async fn write_equal(harness: &Harness, text: &str, objects: &[(&str, Value)]) {
    for (key, properties) in objects {
        let mut properties = map(properties.clone());
        properties.insert("text".to_owned(), json!(text));
        harness.object(new("Note", key, Value::Object(properties))).await;
    }
}

/// Two messages of different months. They have the same words of the question.
async fn write_messages(harness: &Harness) {
    let messages = [("k1", json!({ "said": "2023-11-20" })), ("k2", json!({ "said": "2023-05-20" }))];
    write_equal(harness, "Ada talked about boats", &messages).await;
}

async fn check_modes(harness: &Harness, question: &str, expected: &str) {
    for mode in MODES {
        assert_eq!(keys(harness, query(question, mode)).await, expected, "{question} {mode:?}");
    }
}

fn may_2023() -> Period {
    let day = |day: &str| Some(format!("{day}T00:00:00Z").parse::<Timestamp>().unwrap());
    Period { from: day("2023-05-01"), to: day("2023-06-01") }
}

both_engines! {
    async fn what_is_of_the_time_that_the_question_names_comes_first(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_messages(&harness).await;
        check_modes(&harness, QUESTION, "k2 k1").await;
        check_modes(&harness, "What did Ada say about boats on 2023-05-20?", "k2 k1").await;
        check_modes(&harness, "What did Ada say about boats in November 2023?", "k1 k2").await;
        check_modes(&harness, "What did Ada say about boats between March and June 2023?", "k2 k1").await;
        // All of it is of that year, so nothing is raised above the rest.
        check_modes(&harness, "What did Ada say about boats in 2023?", "k1 k2").await;
        check_modes(&harness, "What did Ada say about boats after 2021 and before June 2023?", "k2 k1").await;
    }

    async fn what_was_valid_at_the_time_comes_first(db: TestDb) {
        let harness = Harness::new(&db).await;
        let objects = [
            ("k1", json!({ "validFrom": "2020-01-01", "validTo": "2022-01-01" })),
            ("k2", json!({ "validFrom": "2022-01-01", "validTo": "2024-01-01" })),
        ];
        write_equal(&harness, "leader of the team", &objects).await;
        check_modes(&harness, "who led the team", "k1 k2").await;
        check_modes(&harness, "who led the team on 7 May 2023", "k2 k1").await;
        check_modes(&harness, "who led the team on 7 May 2021", "k1 k2").await;
        check_modes(&harness, "who led the team after 2022", "k2 k1").await;
    }

    async fn the_time_of_the_writing_counts_if_nothing_else_is_known(db: TestDb) {
        let clock = fixed_clock();
        let graph = Graph::new(db.db.clone(), clock.clone(), None);
        let actor = project(&graph, "test", false).await;
        let harness = Harness { graph, actor };
        write_equal(&harness, "a note about boats", &[("k1", json!({ "said": "at noon" }))]).await;
        clock.advance(Duration::from_secs(40 * 24 * 3600));
        let objects = [("k2", json!({ "said": "2020-11-20" })), ("k3", json!({ "said": "at noon" }))];
        write_equal(&harness, "a note about boats", &objects).await;
        for mode in MODES {
            let found = harness.graph.search(harness.project(), query("boats in March 2026", mode)).await.unwrap();
            assert_eq!(found.hits[0].item.key.as_deref(), Some("k3"), "{mode:?}");
            let date = found.hits[0].date.as_ref().unwrap();
            assert_eq!((date.property.as_str(), date.source), ("createdAt", DateSource::Creation));
            assert!(found.hits[1..].iter().all(|hit| hit.date.is_none()), "{mode:?}");
        }
        let found = keys(&harness, query("boats in January 2026", SearchMode::Text)).await;
        assert!(found.starts_with("k1 "), "{found}");
    }

    async fn the_time_of_the_writing_does_not_count_if_it_is_right_for_all(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_equal(&harness, "a note about boats", &[("k1", json!({})), ("k2", json!({}))]).await;
        for mode in MODES {
            let found = harness.graph.search(harness.project(), query("boats since 2020", mode)).await.unwrap();
            assert_eq!(found.hits.len(), 2, "{mode:?}");
            assert!(found.hits.iter().all(|hit| hit.date.is_none()), "{mode:?}");
        }
    }

    async fn what_all_hits_have_in_common_changes_nothing_but_is_said(db: TestDb) {
        // The first hit has words of the question, the second one only a vector.
        let harness = embedding_world(&db, builtin()).await;
        harness.object(new("Note", "words", json!({ "text": "Ada talked about boats", "said": "2023-05-20" }))).await;
        harness.object(new("Note", "vector", json!({ "text": "boathouse boating", "said": "2023-05-20" }))).await;
        embed_all(&harness).await;
        for mode in [SearchMode::Hybrid, SearchMode::Linked] {
            let search = |question: &str| SearchQuery { min_similarity: Some(0.01), ..query(question, mode) };
            let dated = harness.graph.search(harness.project(), search("boats in May 2023")).await.unwrap();
            let plain = harness.graph.search(harness.project(), search("boats in May")).await.unwrap();
            let order = |found: &SearchResult<Object>| -> Vec<Option<String>> {
                found.hits.iter().map(|hit| hit.item.key.clone()).collect()
            };
            assert_eq!(order(&dated), order(&plain), "{mode:?}");
            assert!(dated.hits[0].score <= 1.0 + 1e-9 || mode == SearchMode::Linked, "{mode:?}: nothing is raised");
            assert!(dated.hits.iter().all(|hit| hit.date.as_ref().is_some_and(|date| date.property == "said")));
        }
    }

    async fn a_creation_counts_less_than_a_date_of_its_own(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_equal(&harness, "a note about boats", &[("k1", json!({})), ("k2", json!({ "said": "2023-05-20" }))]).await;
        // Both are of the time, but by other sources.
        check_modes(&harness, "boats since 2020", "k2 k1").await;
    }

    async fn a_validity_may_be_a_number_and_hides_other_dates(db: TestDb) {
        let harness = Harness::new(&db).await;
        let objects = [
            ("k1", json!({ "validFrom": 2019, "validTo": 2020, "downloaded": "2023-05-20" })),
            ("k2", json!({ "validFrom": "2022", "size": 2020, "code": "2020" })),
            ("k3", json!({ "validFrom": 2022.5, "validTo": 20220 })),
        ];
        write_equal(&harness, "leader of the team", &objects).await;
        for mode in MODES {
            let dates = async |question: &str| {
                let found = harness.graph.search(harness.project(), query(question, mode)).await.unwrap();
                let mut dated: Vec<_> = found.hits.iter().filter_map(|hit| {
                    Some(format!("{} {}", hit.item.key.as_deref()?, hit.date.as_ref()?.property))
                }).collect();
                dated.sort();
                dated
            };
            assert_eq!(dates("who led the team in 2020").await, ["k1 validFrom"], "{mode:?}");
            assert_eq!(dates("who led the team in 2023").await, ["k2 validFrom"], "{mode:?}");
        }
    }

    async fn a_row_with_many_dates_takes_none_of_those_of_others(db: TestDb) {
        let harness = Harness::new(&db).await;
        let many = (0..2400).map(|n| (format!("a{n:04}"), json!("2023-05-20")));
        let codes = (0..2000).map(|n| (format!("a{n:04}"), json!(format!("{:04} Main Street", 1000 + n))));
        let with = |dates: Vec<(String, Value)>, more: Value| {
            let mut properties = map(more);
            properties.extend(dates);
            Value::Object(properties)
        };
        let objects = [
            ("k1", with(many.collect(), json!({ "validFrom": "2020", "validTo": "2021" }))),
            ("k2", with(codes.collect(), json!({ "said": "2023-05-20" }))),
            ("k3", json!({ "said": "2023-05-20" })),
        ];
        write_equal(&harness, "a note about boats", &objects).await;
        for mode in MODES {
            let found = harness.graph.search(harness.project(), query("boats in May 2023", mode)).await.unwrap();
            let date = |key: &str| {
                let hit = found.hits.iter().find(|hit| hit.item.key.as_deref() == Some(key)).unwrap();
                hit.date.as_ref().map(|date| date.property.clone())
            };
            assert_eq!(date("k1"), None, "{mode:?}: the validity is read before other dates");
            assert_eq!((date("k2"), date("k3")), (Some("said".to_owned()), Some("said".to_owned())), "{mode:?}");
        }
    }

    async fn the_dates_of_very_large_objects_are_not_read(db: TestDb) {
        let harness = Harness::new(&db).await;
        // PostgreSQL compresses what repeats, and measures what is left.
        let noise = |bytes: u64| -> String {
            let mut state = 7_u64;
            let letters = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
            });
            letters.filter(|letter| !['"', '\\'].contains(letter)).take(usize::try_from(bytes).unwrap()).collect()
        };
        // Only the beginning of a long object is found by its words, so what is long comes last.
        let objects = [
            ("large", json!({ "said": "2023-05-20", "trailer": noise(200 << 10) })),
            ("small", json!({ "said": "2023-05-20", "trailer": noise(20 << 10) })),
            ("new", json!({})),
        ];
        write_equal(&harness, "a note about boats", &objects).await;
        for question in ["boats in May 2023", "boats since May 2023"] {
            let found = harness.graph.search(harness.project(), query(question, SearchMode::Text)).await.unwrap();
            let date = |key: &str| found.hits.iter().find(|hit| hit.item.key.as_deref() == Some(key)).unwrap().date.clone();
            assert_eq!(date("large"), None, "{question}");
            assert_eq!(date("small").map(|date| date.property).as_deref(), Some("said"), "{question}");
        }
    }

    async fn a_hit_says_which_date_raised_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_messages(&harness).await;
        for mode in MODES {
            let found = harness.graph.search(harness.project(), query(QUESTION, mode)).await.unwrap();
            let dates: Vec<_> = found.hits.iter().map(|hit| hit.date.clone()).collect();
            let said = DateMatch { property: "said".to_owned(), period: may_2023(), source: DateSource::Property };
            assert_eq!(dates, [Some(said), None], "{mode:?}");
            assert!(found.hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{mode:?}");
        }
    }

    async fn a_question_without_a_date_is_answered_as_before(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_messages(&harness).await;
        for question in ["What did Ada say about boats?", "What did Ada say about boats yesterday, in room 2023?"] {
            check_modes(&harness, question, "k1 k2").await;
            let found = harness.graph.search(harness.project(), query(question, SearchMode::Text)).await.unwrap();
            assert!(found.hits.iter().all(|hit| hit.date.is_none()), "{question}");
            assert_eq!(found.hits[0].score, 1.0 / 61.0, "the score of a single channel is that of its first rank");
        }
    }

    async fn a_date_finds_nothing_by_itself(db: TestDb) {
        let harness = Harness::new(&db).await;
        write_messages(&harness).await;
        write_equal(&harness, "penguins", &[("k3", json!({ "validFrom": "2022-01-01" }))]).await;
        check_modes(&harness, QUESTION, "k2 k1").await;
    }

    async fn a_date_does_not_count_with_weights_or_by_vectors_alone(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        write_messages(&harness).await;
        embed_all(&harness).await;
        let weighted = SearchQuery { weights: Some(Weights::default()), ..query(QUESTION, SearchMode::Hybrid) };
        let by_vector = SearchQuery { min_similarity: Some(0.01), ..query(QUESTION, SearchMode::Vector) };
        for search in [weighted, by_vector] {
            let found = harness.graph.search(harness.project(), search).await.unwrap();
            assert!(!found.hits.is_empty());
            assert!(found.hits.iter().all(|hit| hit.date.is_none()));
        }
        // In the mode `text`, weights have no effect.
        let text = SearchQuery { weights: Some(Weights::default()), ..query(QUESTION, SearchMode::Text) };
        assert_eq!(keys(&harness, text).await, "k2 k1");
    }

    async fn a_date_raises_a_hit_above_the_limit(db: TestDb) {
        let harness = Harness::new(&db).await;
        for n in 0..30 {
            let (key, said) = (format!("k{n}"), if n == 29 { "2023-05-20" } else { "2023-11-20" });
            write_equal(&harness, "Ada talked about boats", &[(key.as_str(), json!({ "said": said }))]).await;
        }
        for mode in MODES {
            assert_eq!(keys(&harness, SearchQuery { limit: 1, ..query(QUESTION, mode) }).await, "k29", "{mode:?}");
        }
    }

    async fn the_built_in_vectors_do_not_change_the_order_of_dated_text_hits(db: TestDb) {
        let harness = embedding_world(&db, builtin()).await;
        for n in 0..40 {
            let said = format!("2023-{:02}-20", n % 12 + 1);
            let text = format!("Ada talked about boats {}", "and about more of it ".repeat(n % 7));
            harness.object(new("Note", &format!("k{n}"), json!({ "text": text, "said": said }))).await;
        }
        harness.object(new("Note", "apart", json!({ "text": "boathouse boating", "said": "2023-05-20" }))).await;
        embed_all(&harness).await;
        let all = |mode| SearchQuery { limit: 20, min_similarity: Some(0.01), ..query(QUESTION, mode) };
        let (text, hybrid) = (keys(&harness, all(SearchMode::Text)).await, keys(&harness, all(SearchMode::Hybrid)).await);
        assert_eq!(text, hybrid);
    }

    async fn passages_have_the_dates_of_their_documents(db: TestDb) {
        let harness = Harness::new(&db).await;
        for (title, said) in [("one", "2023-11-20"), ("two", "2023-05-20")] {
            let document = NewDocument {
                title: title.to_owned(),
                content: format!("Boats were built in harbour {title}.").into_bytes(),
                mime_type: Some("text/plain".to_owned()),
                source_url: None,
                metadata: map(json!({ "said": said })),
            };
            harness.graph.create_document(harness.actor, document).await.unwrap();
        }
        let first = async |question: &str, mode| {
            let found = harness.graph.search_chunks(harness.project(), question, mode, 10, None, None).await.unwrap();
            assert_eq!(found.hits.len(), 2, "{question} {mode:?}");
            let best = &found.hits[0];
            (best.item.text.clone(), best.date.as_ref().map(|date| date.property.clone()))
        };
        for mode in MODES {
            let (text, date) = first("Which boats were built in May 2023?", mode).await;
            assert_eq!((text.as_str(), date.as_deref()), ("Boats were built in harbour two.", Some("said")), "{mode:?}");
            let (text, date) = first("Which boats were built in November 2023?", mode).await;
            assert_eq!((text.as_str(), date.as_deref()), ("Boats were built in harbour one.", Some("said")), "{mode:?}");
            assert_eq!(first("Which boats were built?", mode).await.1, None, "{mode:?}");
        }
    }
}
