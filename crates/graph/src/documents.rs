//! Documents: read and cut into chunks outside the transaction, written with everything that
//! follows from them inside one.

use emergent_documents::{ChunkOptions, Mime, chunk, extract};
use emergent_domain::{
    change::ChangeKind,
    cursor::{Page, ResultPage},
    document::{Chunk, Document, NewDocument},
    ids::{ChunkId, DocumentId, ProjectId},
    indexed_text::IndexedText,
    invalid::Invalid,
    json::JsonObject,
    object::{check_properties, check_text},
    time::Timestamp,
};
use emergent_store::{
    Tx, documents,
    embedding_queue::{self, RowKind},
    events::{self, NewChange},
    row_numbers::{self, NumberedTable},
    search::{
        embeddings,
        write::{self, Entry, SearchIndex},
    },
};
use sha2::{Digest, Sha256};

use crate::{Actor, Error, Graph, WriteContext, error::Result};

mod limits {
    pub const TITLE: usize = 1_024;
    pub const URL: usize = 4_096;
}

/// A document that was read, ready to be written.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    document: Document,
    text: String,
    chunks: Vec<Chunk>,
}

impl Graph {
    /// Reads a document and makes it findable. The same content again is the document that is
    /// there already, and `false`.
    pub async fn create_document(&self, actor: Actor, new: NewDocument) -> Result<(Document, bool)> {
        check(&new)?;
        let known = hash(&new);
        let known = self.db().read(move |tx| documents::find_by_hash(tx, actor.project, &known)).await?;
        if let Some(document) = known {
            return Ok((document, false));
        }
        let prepared = self.prepare_document(actor.project, new).await?;
        self.write(actor, move |tx, writer| create(tx, writer, &prepared)).await
    }

    /// Reads and cuts a document, for [`create`] in a transaction of the caller's own.
    pub async fn prepare_document(&self, project: ProjectId, new: NewDocument) -> Result<PreparedDocument> {
        check(&new)?;
        let now = self.clock().now();
        let prepared = tokio::task::spawn_blocking(move || {
            let hash = hash(&new);
            prepare(project, new, hash, now)
        });
        let crashed = |_| Invalid::new("content", "could not be read: the reader crashed on it");
        Ok(prepared.await.map_err(crashed)??)
    }

    pub async fn get_document(&self, project: ProjectId, id: DocumentId) -> Result<Document> {
        let document = self.db().read(move |tx| documents::get(tx, project, id)).await?;
        document.ok_or_else(|| Error::not_found("document", id))
    }

    /// The text that was read from it; the offsets of its chunks point into it.
    pub async fn document_text(&self, project: ProjectId, id: DocumentId) -> Result<String> {
        let text = self.db().read(move |tx| documents::get_text(tx, project, id)).await?;
        text.ok_or_else(|| Error::not_found("document", id))
    }

    /// Newest first.
    pub async fn list_documents(&self, project: ProjectId, page: Page) -> Result<ResultPage<Document>> {
        Ok(self.db().read(move |tx| documents::list(tx, project, page)).await?)
    }

    /// In the order of the text.
    pub async fn document_chunks(
        &self,
        project: ProjectId,
        id: DocumentId,
        page: Page,
    ) -> Result<ResultPage<Chunk>> {
        self.db()
            .snapshot(move |tx| {
                documents::get(tx, project, id)?.ok_or_else(|| Error::not_found("document", id))?;
                Ok(documents::list_chunks(tx, id, page)?)
            })
            .await
    }

    /// Takes a document and its chunks out of sight; the same content can then come again.
    pub async fn delete_document(&self, actor: Actor, id: DocumentId) -> Result<Document> {
        self.write(actor, move |tx, writer| delete(tx, writer, id)).await
    }
}

/// Writes a document with its chunks, their text index, their places in the embedding queue, and
/// the event. `false` when the project has the content already.
pub fn create(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    prepared: &PreparedDocument,
) -> Result<(Document, bool)> {
    let project = writer.project.id;
    let PreparedDocument { document, text, chunks } = prepared;
    while !documents::insert(tx, document, text, writer.author)? {
        if let Some(there) = documents::find_by_hash(tx, project, &document.content_hash)? {
            return Ok((there, false));
        }
        // It was deleted between the two statements: now there is room for this one.
    }
    let numbers = row_numbers::allocate(tx, NumberedTable::Chunks, writer.project.no, chunks.len())?;
    documents::insert_chunks(tx, project, &numbers, chunks)?;
    let texts: Vec<IndexedText> = chunks.iter().map(|chunk| chunk_text(document, chunk)).collect();
    let entries: Vec<Entry<'_>> =
        numbers.iter().zip(&texts).map(|(no, text)| Entry { no: *no, text }).collect();
    write::insert(tx, SearchIndex::Chunks, project, &entries)?;
    if writer.embed {
        let queued: Vec<(i64, i64)> = numbers.iter().map(|no| (*no, 1)).collect();
        embedding_queue::enqueue(tx, RowKind::Chunk, project, &queued, writer.now)?;
    }
    record(tx, writer, document, ChangeKind::DocumentIngested, 1)?;
    Ok((document.clone(), true))
}

pub fn delete(tx: &mut Tx<'_>, writer: &WriteContext, id: DocumentId) -> Result<Document> {
    let project = writer.project.id;
    let document =
        documents::delete(tx, project, id, writer.now)?.ok_or_else(|| Error::not_found("document", id))?;
    let numbers = documents::chunk_numbers(tx, id)?;
    for no in &numbers {
        write::remove(tx, SearchIndex::Chunks, *no)?;
        embedding_queue::remove(tx, RowKind::Chunk, *no)?;
    }
    embeddings::remove(tx, SearchIndex::Chunks, project, &numbers)?;
    record(tx, writer, &document, ChangeKind::DocumentDeleted, 2)?;
    Ok(document)
}

fn record(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    document: &Document,
    kind: ChangeKind,
    version: i64,
) -> Result<()> {
    let event = NewChange {
        kind,
        entity: document.id.0,
        entity_type: &document.mime_type,
        version,
        at: writer.now,
        author: writer.author,
    };
    Ok(events::append(tx, writer.project.id, &[event])?)
}

fn hash(new: &NewDocument) -> String {
    format!("{:x}", Sha256::digest(&new.content))
}

fn check(new: &NewDocument) -> Result<(), Invalid> {
    check_text("title", Some(&new.title), limits::TITLE)?;
    check_text("sourceUrl", new.source_url.as_deref(), limits::URL)?;
    check_properties(&new.metadata).map_err(|mut invalid| {
        for problem in &mut invalid.problems {
            problem.field = problem.field.replacen("properties", "metadata", 1);
        }
        invalid
    })
}

/// Reads and cuts; slow for a large document.
fn prepare(
    project: ProjectId,
    new: NewDocument,
    hash: String,
    now: Timestamp,
) -> Result<PreparedDocument, Invalid> {
    let mime = match &new.mime_type {
        Some(given) => given.parse::<Mime>(),
        None => Mime::sniff(&new.title, &new.content),
    };
    let mime = mime.map_err(|error| Invalid::new("mimeType", error.to_string()))?;
    let read = extract(mime, &new.content).map_err(|error| Invalid::new("content", error.to_string()))?;
    let id = DocumentId::new();
    let chunks: Vec<Chunk> = chunk(&read, &ChunkOptions::default())
        .into_iter()
        .map(|part| Chunk {
            id: ChunkId::new(),
            document: id,
            index: part.index as i64,
            start: part.start as i64,
            end: part.end as i64,
            tokens: part.tokens as i64,
            heading: part.heading,
            text: read.text[part.start..part.end].to_owned(),
            created_at: now,
        })
        .collect();
    let document = Document {
        id,
        project,
        title: new.title,
        mime_type: mime.essence().to_owned(),
        source_url: new.source_url,
        metadata: JsonObject::from_map(&new.metadata),
        content_hash: hash,
        text_bytes: read.text.len() as i64,
        chunk_count: chunks.len() as i64,
        created_at: now,
    };
    Ok(PreparedDocument { document, text: read.text, chunks })
}

/// A chunk is also found by what it is part of.
fn chunk_text(document: &Document, chunk: &Chunk) -> IndexedText {
    let name = match &chunk.heading {
        Some(heading) => format!("{}\n{heading}", document.title),
        None => document.title.clone(),
    };
    IndexedText { name, body: chunk.text.clone() }
}
