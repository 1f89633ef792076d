//! Documents: read and cut into chunks outside the transaction, written with everything that
//! follows from them inside one.

use emergent_documents::{ChunkOptions, Mime, chunk, extract};
use emergent_domain::{
    cursor::{Page, Paged},
    document::{Chunk, Document, NewDocument},
    event::ChangeKind,
    ids::{ChunkId, DocumentId, ProjectId},
    invalid::Invalid,
    json::JsonObject,
    object::{check_properties, check_text},
    time::Timestamp,
    words::IndexedText,
};
use emergent_store::{
    Tx, documents,
    embedding_queue::{self, Kind},
    events::{self, NewEvent},
    numbers::{self, Numbered},
    search::{
        embeddings,
        write::{self, Entry, Index},
    },
};
use sha2::{Digest, Sha256};

use crate::{Actor, Error, Graph, Writer, error::Result};

mod limits {
    pub const TITLE: usize = 1_024;
    pub const URL: usize = 4_096;
}

/// A document that was read, ready to be written.
#[derive(Debug, Clone)]
pub struct Prepared {
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
    pub async fn prepare_document(&self, project: ProjectId, new: NewDocument) -> Result<Prepared> {
        check(&new)?;
        let now = self.clock().now();
        let prepared = tokio::task::spawn_blocking(move || {
            let hash = hash(&new);
            prepare(project, new, hash, now)
        });
        let crashed = |_| Invalid::one("content", "could not be read: the reader crashed on it");
        Ok(prepared.await.map_err(crashed)??)
    }

    pub async fn get_document(&self, project: ProjectId, id: DocumentId) -> Result<Document> {
        let document = self.db().read(move |tx| documents::get(tx, project, id)).await?;
        document.ok_or_else(|| Error::not_found("document", id))
    }

    /// The text that was read from it; the offsets of its chunks point into it.
    pub async fn document_text(&self, project: ProjectId, id: DocumentId) -> Result<String> {
        let text = self.db().read(move |tx| documents::text(tx, project, id)).await?;
        text.ok_or_else(|| Error::not_found("document", id))
    }

    /// Newest first.
    pub async fn list_documents(&self, project: ProjectId, page: Page) -> Result<Paged<Document>> {
        Ok(self.db().read(move |tx| documents::page(tx, project, page)).await?)
    }

    /// In the order of the text.
    pub async fn document_chunks(
        &self,
        project: ProjectId,
        id: DocumentId,
        page: Page,
    ) -> Result<Paged<Chunk>> {
        self.db()
            .snapshot(move |tx| {
                documents::get(tx, project, id)?.ok_or_else(|| Error::not_found("document", id))?;
                Ok(documents::chunks(tx, id, page)?)
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
pub fn create(tx: &mut Tx<'_>, writer: &Writer, prepared: &Prepared) -> Result<(Document, bool)> {
    let project = writer.project.id;
    let Prepared { document, text, chunks } = prepared;
    while !documents::insert(tx, document, text, writer.author)? {
        if let Some(there) = documents::find_by_hash(tx, project, &document.content_hash)? {
            return Ok((there, false));
        }
        // It was deleted between the two statements: now there is room for this one.
    }
    let numbers = numbers::next(tx, Numbered::Chunks, writer.project.no, chunks.len())?;
    documents::insert_chunks(tx, project, &numbers, chunks)?;
    let texts: Vec<IndexedText> = chunks.iter().map(|chunk| indexed(document, chunk)).collect();
    let entries: Vec<Entry<'_>> =
        numbers.iter().zip(&texts).map(|(no, text)| Entry { no: *no, text }).collect();
    write::insert(tx, Index::Chunks, project, &entries)?;
    if writer.embeds {
        let queued: Vec<(i64, i64)> = numbers.iter().map(|no| (*no, 1)).collect();
        embedding_queue::enqueue(tx, Kind::Chunk, project, &queued, writer.now)?;
    }
    record(tx, writer, document, ChangeKind::DocumentIngested, 1)?;
    Ok((document.clone(), true))
}

pub fn delete(tx: &mut Tx<'_>, writer: &Writer, id: DocumentId) -> Result<Document> {
    let project = writer.project.id;
    let document =
        documents::delete(tx, project, id, writer.now)?.ok_or_else(|| Error::not_found("document", id))?;
    let numbers = documents::chunk_numbers(tx, id)?;
    for no in &numbers {
        write::remove(tx, Index::Chunks, *no)?;
        embedding_queue::remove(tx, Kind::Chunk, *no)?;
    }
    embeddings::remove(tx, Index::Chunks, project, &numbers)?;
    record(tx, writer, &document, ChangeKind::DocumentDeleted, 2)?;
    Ok(document)
}

fn record(
    tx: &mut Tx<'_>,
    writer: &Writer,
    document: &Document,
    kind: ChangeKind,
    version: i64,
) -> Result<()> {
    let event = NewEvent {
        kind,
        entity: document.id.0,
        entity_type: &document.mime_type,
        version,
        at: writer.now,
        author: writer.author,
    };
    Ok(events::record(tx, writer.project.id, &[event])?)
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
fn prepare(project: ProjectId, new: NewDocument, hash: String, now: Timestamp) -> Result<Prepared, Invalid> {
    let mime = match &new.mime_type {
        Some(given) => given.parse::<Mime>(),
        None => Mime::sniff(&new.title, &new.content),
    };
    let mime = mime.map_err(|error| Invalid::one("mimeType", error.to_string()))?;
    let read = extract(mime, &new.content).map_err(|error| Invalid::one("content", error.to_string()))?;
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
    Ok(Prepared { document, text: read.text, chunks })
}

/// A chunk is also found by what it is part of.
fn indexed(document: &Document, chunk: &Chunk) -> IndexedText {
    let name = match &chunk.heading {
        Some(heading) => format!("{}\n{heading}", document.title),
        None => document.title.clone(),
    };
    IndexedText { name, body: chunk.text.clone() }
}
