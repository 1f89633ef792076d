//! Documents: extraction, chunking, deduplication by content, and deletion.

use crate::support;

use emergent_domain::{
    cursor::Page,
    document::{Document, NewDocument},
    ids::DocumentId,
};
use emergent_graph::{Error, Graph};
use emergent_store::{Engine, params};
use emergent_testkit::{both_engines, fixed_clock};
use futures_util::future::join_all;
use serde_json::{Map, json};
use support::*;

fn document(title: &str, content: &[u8]) -> NewDocument {
    NewDocument {
        title: title.to_owned(),
        content: content.to_vec(),
        mime_type: None,
        source_url: None,
        metadata: Map::new(),
    }
}

async fn number(graph: &Graph, sql: &'static str) -> i64 {
    graph.db().read(move |tx| tx.query_opt(sql, params![], |row| row.get(0))).await.unwrap().unwrap()
}

/// Returns how many chunks contain a word.
async fn found(graph: &Graph, word: &'static str) -> i64 {
    let sql = match graph.db().engine() {
        Engine::Sqlite => "SELECT count(*) FROM document_chunks_fts WHERE document_chunks_fts MATCH $1",
        Engine::Postgres => {
            "SELECT count(*) FROM document_chunks_fts WHERE tsv @@ plainto_tsquery('english', $1)"
        }
    };
    graph.db().read(move |tx| tx.query_opt(sql, params![word], |row| row.get(0))).await.unwrap().unwrap()
}

/// A long document: forty sections of a few sentences each.
fn guide() -> String {
    (0..40)
        .map(|n| {
            format!(
                "# Section {n}\n\nThe kettle number {n} sings. {}\n\n",
                "Water boils at a hundred degrees. ".repeat(30)
            )
        })
        .collect()
}

both_engines! {
    async fn a_document_is_read_cut_and_indexed(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let given = NewDocument {
            source_url: Some("https://example.org/guide.md".to_owned()),
            metadata: map(json!({ "lang": "en", "pages": 3 })),
            mime_type: Some("text/markdown".to_owned()),
            ..document("Almanac of tea", guide().as_bytes())
        };
        let (made, new) = graph.create_document(harness.actor, given.clone()).await.unwrap();
        assert!(new);
        assert_eq!((made.title.as_str(), made.mime_type.as_str()), ("Almanac of tea", "text/markdown"));
        assert_eq!((&made.source_url, made.metadata.to_map()), (&given.source_url, given.metadata));
        assert_eq!(graph.get_document(project, made.id).await.unwrap(), made);
        let text = graph.document_text(project, made.id).await.unwrap();
        assert_eq!(text.len() as i64, made.text_bytes);
        assert!(text.starts_with("Section 0\n\nThe kettle number 0 sings."));

        let chunks = all_pages(async |page| graph.document_chunks(project, made.id, page).await).await;
        assert_eq!(chunks.len() as i64, made.chunk_count);
        assert!(chunks.len() > 10, "{}", chunks.len());
        for (at, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk.index, at as i64, "in the order of the text");
            assert_eq!(chunk.text, text[chunk.start as usize..chunk.end as usize]);
            assert!(chunk.heading.as_deref().is_some_and(|heading| heading.starts_with("Section")));
        }
        assert!(found(graph, "kettle").await > 0);
        assert_eq!(found(graph, "almanac").await, made.chunk_count, "each is found by the title, too");
        assert_eq!(harness.change_kinds().await, ["document_ingested"]);
    }

    async fn the_same_content_again_is_the_same_document(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (first, _) = graph.create_document(harness.actor, document("one", b"Tea is ready.")).await.unwrap();
        let (again, new) = graph.create_document(harness.actor, document("two", b"Tea is ready.")).await.unwrap();
        assert_eq!((again, new), (first.clone(), false));
        let elsewhere = project(graph, "elsewhere", false).await;
        let (other, new) = graph.create_document(elsewhere, document("one", b"Tea is ready.")).await.unwrap();
        assert!(new && other.id != first.id, "another project's documents are its own");
        assert_eq!(harness.change_kinds().await, ["document_ingested"]);
    }

    async fn many_that_bring_the_same_content_at_once_make_one(db: TestDb) {
        let harness = Harness::new(&db).await;
        let second = Graph::new(db.second_connection().await, fixed_clock(), None);
        let text = guide();
        let made: Vec<(Document, bool)> = join_all((0..16).map(|n| {
            let graph = if n % 2 == 0 { harness.graph.clone() } else { second.clone() };
            let new = document("guide.md", text.as_bytes());
            let actor = harness.actor;
            async move { graph.create_document(actor, new).await.unwrap() }
        }))
        .await;
        assert_eq!(made.iter().filter(|(_, new)| *new).count(), 1);
        assert!(made.iter().all(|(document, _)| document.id == made[0].0.id));
        assert_eq!(number(&harness.graph, "SELECT count(*) FROM documents").await, 1);
        assert_eq!(number(&harness.graph, "SELECT count(*) FROM document_chunks").await, made[0].0.chunk_count);
        assert_eq!(number(&harness.graph, "SELECT count(*) FROM document_chunks_fts").await, made[0].0.chunk_count);
    }

    async fn a_deleted_document_is_out_of_sight_and_can_come_again(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let (made, _) = graph.create_document(harness.actor, document("guide.md", guide().as_bytes())).await.unwrap();
        let (kept, _) = graph.create_document(harness.actor, document("note", b"The kettle stays.")).await.unwrap();
        assert_eq!(graph.delete_document(harness.actor, made.id).await.unwrap().id, made.id);
        for gone in [
            graph.get_document(project, made.id).await.err(),
            graph.document_text(project, made.id).await.err(),
            graph.document_chunks(project, made.id, Page::first(1)).await.err(),
            graph.delete_document(harness.actor, made.id).await.err(),
        ] {
            assert!(matches!(gone, Some(Error::NotFound { what: "document", .. })), "{gone:?}");
        }
        assert_eq!(found(graph, "kettle").await, 1);
        let listed = graph.list_documents(project, Page::first(10)).await.unwrap();
        assert_eq!(listed.items, [kept]);
        let (again, new) = graph.create_document(harness.actor, document("guide.md", guide().as_bytes())).await.unwrap();
        assert!(new && again.id != made.id);
        assert!(found(graph, "kettle").await > 1);
        assert_eq!(
            harness.change_kinds().await,
            ["document_ingested", "document_ingested", "document_deleted", "document_ingested"]
        );
    }

    async fn documents_are_listed_newest_first_page_by_page(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let mut made = Vec::new();
        for n in 0..5 {
            if n % 2 == 0 {
                graph.clock().advance(std::time::Duration::from_secs(1));
            }
            let new = document("note", format!("Note number {n}.").as_bytes());
            made.push(graph.create_document(harness.actor, new).await.unwrap().0);
        }
        made.sort_by_key(|document| std::cmp::Reverse((document.created_at, document.id)));
        let listed = all_pages(async |page| graph.list_documents(harness.project(), page).await).await;
        assert_eq!(listed, made);
    }

    async fn what_cannot_be_read_is_told_by_field_and_leaves_nothing(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let refused = async |new: NewDocument| problem(graph.create_document(harness.actor, new).await);
        let typed = |mime: &str, content: &[u8]| NewDocument {
            mime_type: Some(mime.to_owned()),
            ..document("a file", content)
        };
        assert!(refused(typed("image/png", b"x")).await.starts_with("mimeType: `image/png` is not a supported document type"));
        assert!(refused(document("report.docx", b"PK\x03\x04\0\0")).await.starts_with("mimeType: "));
        assert!(refused(typed("application/pdf", b"not a PDF")).await.starts_with("content: could not read the PDF"));
        assert!(refused(typed("text/plain", b"ab\0cd")).await.starts_with("content: the document is not text"));
        assert!(refused(document("", b"x")).await.starts_with("title: "));
        assert!(refused(document("a\0b", b"x")).await.starts_with("title: "));
        let metadata = map(json!({ "a": "\0" }));
        assert!(refused(NewDocument { metadata, ..document("t", b"x") }).await.starts_with("metadata.a: "));
        let source_url = Some("x".repeat(5_000));
        assert!(refused(NewDocument { source_url, ..document("t", b"x") }).await.starts_with("sourceUrl: "));
        assert_eq!(number(graph, "SELECT count(*) FROM documents").await, 0);
        assert!(harness.change_kinds().await.is_empty());
    }

    async fn html_and_empty_documents_are_documents(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project) = (&harness.graph, harness.project());
        let html = b"<!doctype html><h1>Tea</h1><p>Steep <b>three</b> minutes.<script>alert(1)</script>";
        let (page, _) = graph.create_document(harness.actor, document("page", html)).await.unwrap();
        assert_eq!(page.mime_type, "text/html");
        let text = graph.document_text(project, page.id).await.unwrap();
        assert!(text.contains("Steep three minutes.") && !text.contains("alert"), "{text}");
        let (empty, _) = graph.create_document(harness.actor, document("empty", b"")).await.unwrap();
        assert_eq!((empty.chunk_count, empty.text_bytes), (0, 0));
        assert!(graph.document_chunks(project, empty.id, Page::first(5)).await.unwrap().items.is_empty());
        let other = DocumentId::new();
        assert!(matches!(graph.get_document(project, other).await, Err(Error::NotFound { .. })));
    }
}
