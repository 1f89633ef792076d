//! Large documents are written and removed in many transactions, and nobody sees a part of one.

use std::time::Duration;

use crate::support;

use emergent_domain::{
    cursor::Page,
    document::{Document, NewDocument},
    query::SearchMode,
};
use emergent_graph::{Error, Graph};
use emergent_store::{Tx, documents, params};
use emergent_testkit::{both_engines, fixed_clock};
use futures_util::future::join_all;
use serde_json::Map;
use support::*;

/// A text of a few hundred chunks. Each contains the word `kettle`, and the marker.
fn long_text(marker: &str) -> String {
    (0..1_500)
        .map(|n| format!("The {marker} kettle number {n} sings. {}\n\n", "Water boils. ".repeat(40)))
        .collect()
}

fn document(title: &str, text: &str) -> NewDocument {
    NewDocument {
        title: title.to_owned(),
        content: text.as_bytes().to_vec(),
        mime_type: Some("text/plain".to_owned()),
        source_url: None,
        metadata: Map::new(),
    }
}

async fn number(graph: &Graph, sql: &'static str) -> i64 {
    graph.db().read(move |tx| tx.query_opt(sql, params![], |row| row.get(0))).await.unwrap().unwrap()
}

/// How many chunks a search for the word finds.
async fn found(harness: &Harness, word: &str) -> usize {
    let result =
        harness.graph.search_chunks(harness.project(), word, SearchMode::Text, 50, None, None).await.unwrap();
    result.hits.len()
}

async fn execute(graph: &Graph, sql: &'static str) {
    graph.db().write(move |tx: &mut Tx<'_>| tx.execute(sql, params![])).await.unwrap();
}

both_engines! {
    async fn a_large_document_is_complete_when_it_appears(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let commits = graph.db().commits();
        let (made, new) = graph.create_document(harness.actor, document("tea", &long_text("red"))).await.unwrap();
        assert!(new && made.chunk_count > 300, "{}", made.chunk_count);
        assert!(graph.db().commits() - commits > 10, "it is written in several transactions");
        assert_eq!(graph.get_document(project, made.id).await.unwrap(), made);
        let chunks = all_pages(async |page| graph.document_chunks(project, made.id, page).await).await;
        assert_eq!(chunks.len() as i64, made.chunk_count);
        assert!(chunks.iter().enumerate().all(|(at, chunk)| chunk.index == at as i64));
        assert_eq!(found(&harness, "kettle").await, 50);
        assert_eq!(harness.change_kinds().await, ["document_ingested"]);
        assert_eq!(number(graph, "SELECT count(*) FROM documents WHERE purge_after IS NOT NULL").await, 0);
    }

    async fn the_same_large_content_at_once_makes_one_document(db: TestDb) {
        let harness = Harness::new(&db).await;
        let second = Graph::new(db.second_connection().await, fixed_clock(), None);
        let text = long_text("blue");
        let made: Vec<(Document, bool)> = join_all((0..4).map(|n| {
            let graph = if n % 2 == 0 { harness.graph.clone() } else { second.clone() };
            let (new, actor) = (document("tea", &text), harness.actor);
            async move { graph.create_document(actor, new).await.unwrap() }
        }))
        .await;
        assert_eq!(made.iter().filter(|(_, new)| *new).count(), 1);
        assert!(made.iter().all(|(document, _)| document.id == made[0].0.id));
        let graph = &harness.graph;
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 1);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks").await, made[0].0.chunk_count);
        assert_eq!(harness.change_kinds().await, ["document_ingested"]);
    }

    async fn what_a_stopped_server_left_is_hidden_and_then_removed(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        graph.create_document(harness.actor, document("tea", &long_text("green"))).await.unwrap();
        graph.create_document(harness.actor, document("note", "The kettle stays.")).await.unwrap();
        // As if the server had stopped before the last transaction.
        execute(graph, "UPDATE documents SET deleted_at = created_at, purge_after = created_at WHERE title = 'tea'").await;
        assert_eq!(found(&harness, "kettle").await, 1, "only the note is found");
        assert_eq!(graph.list_documents(harness.project(), Page::first(5)).await.unwrap().items.len(), 1);
        graph.prune().await.unwrap();
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 1);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks").await, 1);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks_fts").await, 1);
        let (_, new) = graph.create_document(harness.actor, document("tea", &long_text("green"))).await.unwrap();
        assert!(new, "the same content can be uploaded again");
    }

    async fn a_document_that_is_being_ingested_is_left_alone(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        graph.create_document(harness.actor, document("tea", &long_text("white"))).await.unwrap();
        let until = graph.clock().now() + Duration::from_secs(60);
        let hide = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE documents SET deleted_at = created_at, purge_after = $1", params![until])
        };
        graph.db().write(hide).await.unwrap();
        graph.prune().await.unwrap();
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 1);
        graph.clock().advance(Duration::from_secs(61));
        graph.prune().await.unwrap();
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 0);
    }

    async fn a_document_that_is_being_removed_cannot_become_visible(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (made, _) = graph.create_document(harness.actor, document("tea", &long_text("oolong"))).await.unwrap();
        let (id, now) = (made.id, graph.clock().now());
        let hide = move |tx: &mut Tx<'_>| {
            let until = now + Duration::from_secs(60);
            tx.execute("UPDATE documents SET deleted_at = created_at, purge_after = $1", params![until])?;
            Ok::<_, emergent_store::Error>((
                documents::begin_purge(tx, id, Some(now))?,
                documents::begin_purge(tx, id, Some(until))?,
                documents::keep_hidden(tx, id, until)?,
                documents::publish(tx, id, now)?,
            ))
        };
        // Its ingestion is not overdue at first; once its removal has started, it cannot be undone.
        assert_eq!(graph.db().write(hide).await.unwrap(), (false, true, false, false));
        graph.prune().await.unwrap();
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 0);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks").await, 0);
    }

    async fn a_large_document_is_deleted_at_once_and_its_chunks_leave_the_indexes(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let (made, _) = graph.create_document(harness.actor, document("tea", &long_text("black"))).await.unwrap();
        graph.clock().advance(Duration::from_secs(1));
        graph.delete_document(harness.actor, made.id).await.unwrap();
        assert!(matches!(graph.get_document(project, made.id).await, Err(Error::NotFound { .. })));
        assert_eq!(found(&harness, "kettle").await, 0);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks_fts").await, 0);
        assert_eq!(number(graph, "SELECT count(*) FROM document_chunks").await, made.chunk_count, "numbers are not used again");
        assert_eq!(number(graph, "SELECT count(*) FROM documents WHERE purge_after IS NOT NULL").await, 0);
    }

    async fn other_writers_go_on_while_a_large_document_is_written(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = harness.graph.clone();
        let (actor, text) = (harness.actor, long_text("yellow").repeat(4));
        let ingesting = tokio::spawn(async move { graph.create_document(actor, document("tea", &text)).await });
        let mut longest = Duration::ZERO;
        let mut writes = 0;
        while !ingesting.is_finished() {
            let started = std::time::Instant::now();
            harness.object(new("Note", "", serde_json::json!({ "n": writes }))).await;
            longest = longest.max(started.elapsed());
            writes += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(ingesting.await.unwrap().unwrap().1);
        assert!(writes > 3 && longest < Duration::from_secs(2), "{writes} writes, the longest took {longest:?}");
    }
}
