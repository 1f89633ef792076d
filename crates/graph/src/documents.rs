//! Documents: text extraction and chunking happen outside of the transaction; the document and
//! everything derived from it is written inside one.

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
    feed::{self, NewChange},
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

/// A document whose text has been extracted and chunked, ready to be written.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    document: Document,
    text: String,
    chunks: Vec<Chunk>,
}

impl Graph {
    /// Ingests a document. If the project already has a document with the same content, returns
    /// that document and `false`.
    pub async fn create_document(&self, actor: Actor, new: NewDocument) -> Result<(Document, bool)> {
        check(&new)?;
        let content_hash = hash(&new);
        let existing =
            self.db().read(move |tx| documents::find_by_hash(tx, actor.project, &content_hash)).await?;
        if let Some(document) = existing {
            return Ok((document, false));
        }
        let prepared = self.prepare_document(actor.project, new).await?;
        self.write(actor, move |tx, ctx| create(tx, ctx, &prepared)).await
    }

    /// Extracts and chunks a document, for [`create`] in a transaction of the caller.
    pub async fn prepare_document(&self, project: ProjectId, new: NewDocument) -> Result<PreparedDocument> {
        check(&new)?;
        let now = self.clock().now();
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; the threads of the runtime limit how many there are"
        )]
        let prepared = tokio::task::spawn_blocking(move || {
            let hash = hash(&new);
            prepare(project, new, hash, now)
        });
        let crashed = |_| {
            Invalid::new("content", "could not be read: the text extraction crashed; the file may be damaged")
        };
        Ok(prepared.await.map_err(crashed)??)
    }

    pub async fn get_document(&self, project: ProjectId, id: DocumentId) -> Result<Document> {
        let document = self.db().read(move |tx| documents::get(tx, project, id)).await?;
        document.ok_or_else(|| Error::not_found("document", id))
    }

    /// Returns the extracted text. The offsets of the chunks refer to it.
    pub async fn document_text(&self, project: ProjectId, id: DocumentId) -> Result<String> {
        let text = self.db().read(move |tx| documents::get_text(tx, project, id)).await?;
        text.ok_or_else(|| Error::not_found("document", id))
    }

    /// Lists the documents, newest first.
    pub async fn list_documents(&self, project: ProjectId, page: Page) -> Result<ResultPage<Document>> {
        Ok(self.db().read(move |tx| documents::list(tx, project, page)).await?)
    }

    /// Lists the chunks in the order of the text.
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

    /// Deletes a document and its chunks. Afterwards the same content can be ingested again.
    pub async fn delete_document(&self, actor: Actor, id: DocumentId) -> Result<Document> {
        self.write(actor, move |tx, ctx| delete(tx, ctx, id)).await
    }
}

/// Writes a document with its chunks, their text index and embedding queue entries, and the change.
/// Returns `false` if the project already has the content.
pub fn create(tx: &mut Tx<'_>, ctx: &WriteContext, prepared: &PreparedDocument) -> Result<(Document, bool)> {
    let project = ctx.project.id;
    let PreparedDocument { document, text, chunks } = prepared;
    while !documents::insert(tx, document, text, ctx.author)? {
        if let Some(existing) = documents::find_by_hash(tx, project, &document.content_hash)? {
            return Ok((existing, false));
        }
        // The document was deleted between the two statements, so the next insert can succeed.
    }
    let numbers = row_numbers::allocate(tx, NumberedTable::Chunks, ctx.project.no, chunks.len())?;
    documents::insert_chunks(tx, project, &numbers, chunks)?;
    let texts: Vec<IndexedText> = chunks.iter().map(|chunk| chunk_text(document, chunk)).collect();
    let entries: Vec<Entry<'_>> =
        numbers.iter().zip(&texts).map(|(no, text)| Entry { no: *no, text }).collect();
    write::insert(tx, SearchIndex::Chunks, project, &entries)?;
    if ctx.embed {
        let queued: Vec<(i64, i64)> = numbers.iter().map(|no| (*no, 1)).collect();
        embedding_queue::enqueue(tx, RowKind::Chunk, project, &queued, ctx.now)?;
    }
    record(tx, ctx, document, ChangeKind::DocumentIngested, 1)?;
    Ok((document.clone(), true))
}

pub fn delete(tx: &mut Tx<'_>, ctx: &WriteContext, id: DocumentId) -> Result<Document> {
    let project = ctx.project.id;
    let document =
        documents::delete(tx, project, id, ctx.now)?.ok_or_else(|| Error::not_found("document", id))?;
    let numbers = documents::chunk_numbers(tx, id)?;
    for no in &numbers {
        write::remove(tx, SearchIndex::Chunks, *no)?;
        embedding_queue::remove(tx, RowKind::Chunk, *no)?;
    }
    embeddings::remove(tx, SearchIndex::Chunks, project, &numbers)?;
    record(tx, ctx, &document, ChangeKind::DocumentDeleted, 2)?;
    Ok(document)
}

fn record(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    document: &Document,
    kind: ChangeKind,
    version: i64,
) -> Result<()> {
    let event = NewChange {
        kind,
        entity: document.id.0,
        entity_type: &document.mime_type,
        version,
        at: ctx.now,
        author: ctx.author,
    };
    Ok(feed::append(tx, ctx.project.id, &[event])?)
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

/// Extracts and chunks. This can take long for a large document.
fn prepare(
    project: ProjectId,
    new: NewDocument,
    hash: String,
    now: Timestamp,
) -> Result<PreparedDocument, Invalid> {
    let mime = match &new.mime_type {
        Some(media_type) => media_type.parse::<Mime>(),
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

/// The indexed text of a chunk includes the title of its document, so that a search by title finds
/// it.
fn chunk_text(document: &Document, chunk: &Chunk) -> IndexedText {
    let name = match &chunk.heading {
        Some(heading) => format!("{}\n{heading}", document.title),
        None => document.title.clone(),
    };
    IndexedText { name, body: chunk.text.clone() }
}
