//! Documents: text extraction and chunking happen outside of the transaction. A document of usual size is
//! written with everything derived from it in one transaction, a large one in several.

use std::{collections::HashMap, ops::Range, sync::Arc};

use emergent_documents::Mime;
use emergent_domain::{
    change::ChangeKind,
    cursor::{Page, ResultPage},
    document::{Chunk, Document, NewDocument},
    ids::{ChunkId, DocumentId, ProjectId},
    indexed_text::IndexedText,
    invalid::Invalid,
    json::JsonObject,
    object::{check_properties, check_text},
};
use emergent_store::{
    MAX_TEXT_BYTES, Tx, documents,
    embedding_queue::{self, RowKind},
    feed::{self, NewChange},
    requester::{Requester, on_behalf_of},
    row_numbers::{self, NumberedTable},
    search::{
        embeddings,
        write::{self, Entry, SearchIndex},
    },
};
use sha2::{Digest, Sha256};

use crate::{Actor, Error, Graph, WriteContext, error::Result, work_pool::Turn};

pub mod extraction;
mod ingestion;
mod objects;

pub(crate) use extraction::TextExtractor;
use extraction::{ChunkRange, Extracted};
use ingestion::MAX_TX_CHUNKS;

mod limits {
    pub const TITLE: usize = 1_024;
    pub const URL: usize = 4_096;
    /// Larger documents wait for their turn, one at a time for each project.
    pub const SMALL_CONTENT: usize = 1 << 20;
    /// The maximum number of chunks that a caller with a transaction of its own can create. All of them are
    /// written in that transaction, for which other writers wait.
    pub const CALLER_CHUNKS: usize = 256;
}

/// A document whose text has been extracted and chunked, ready to be written.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    document: Document,
    text: String,
    chunks: Vec<ChunkRange>,
}

impl Graph {
    /// Ingests a document. If the project already has a document with the same content, returns
    /// that document and `false`. A large document is ingested to its end even if the caller is dropped.
    pub async fn create_document(&self, actor: Actor, new: NewDocument) -> Result<(Document, bool)> {
        check(&new)?;
        let turn = self.turn_if_large(actor.project, &new).await?;
        let (new, content_hash) = hash(new).await?;
        let found = content_hash.clone();
        let existing = self.db().read(move |tx| documents::find_by_hash(tx, actor.project, &found)).await?;
        if let Some(document) = existing {
            return Ok((document, false));
        }
        let prepared = self.prepare(actor.project, new, content_hash, turn.clone()).await?;
        if prepared.chunks.len() <= MAX_TX_CHUNKS {
            return self.write(actor, move |tx, ctx| create(tx, ctx, &prepared)).await;
        }
        // A small file can have a long text.
        let turn = match turn {
            Some(turn) => turn,
            None => Arc::new(self.0.document_pool.turn(actor.project).await?),
        };
        let graph = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; it outlives a caller who gives up, and the turn limits how many there are"
        )]
        let ingesting = tokio::spawn(on_behalf_of(Requester::Project(actor.project), async move {
            let _turn = turn;
            graph.ingest(actor, prepared).await
        }));
        ingesting.await.unwrap_or(Err(Error::Store(emergent_store::Error::Closed)))
    }

    /// Extracts and chunks a document, for [`create`] in a transaction of the caller.
    pub async fn prepare_document(&self, project: ProjectId, new: NewDocument) -> Result<PreparedDocument> {
        check(&new)?;
        let turn = self.turn_if_large(project, &new).await?;
        let (new, content_hash) = hash(new).await?;
        self.prepare(project, new, content_hash, turn).await
    }

    /// Waits for a turn if the document is large.
    async fn turn_if_large(&self, project: ProjectId, new: &NewDocument) -> Result<Option<Arc<Turn>>> {
        match new.content.len() > limits::SMALL_CONTENT {
            true => Ok(Some(Arc::new(self.0.document_pool.turn(project).await?))),
            false => Ok(None),
        }
    }

    /// Extracts and chunks. A large document has its turn already; a small one waits for its own.
    async fn prepare(
        &self,
        project: ProjectId,
        new: NewDocument,
        content_hash: String,
        turn: Option<Arc<Turn>>,
    ) -> Result<PreparedDocument> {
        let mime = match &new.mime_type {
            Some(media_type) => media_type.parse::<Mime>(),
            None => Mime::sniff(&new.title, &new.content),
        };
        let mime = mime.map_err(|error| Invalid::new("mimeType", error.to_string()))?;
        let NewDocument { title, content, source_url, metadata, .. } = new;
        let turn = match turn {
            Some(turn) => turn,
            None => Arc::new(self.0.extraction_pool.turn(project).await?),
        };
        let Extracted { text, chunks } = self.0.extractor.extract(mime, content, turn).await?;
        check_text_size(&text)?;
        let document = Document {
            id: DocumentId::new(),
            project,
            title,
            mime_type: mime.essence().to_owned(),
            source_url,
            metadata: JsonObject::from_map(&metadata),
            content_hash,
            text_bytes: text.len() as i64,
            chunk_count: chunks.len() as i64,
            created_at: self.clock().now(),
        };
        Ok(PreparedDocument { document, text, chunks })
    }

    pub async fn get_document(&self, project: ProjectId, id: DocumentId) -> Result<Document> {
        let document = self.db().read(move |tx| documents::get(tx, project, id)).await?;
        document.ok_or_else(|| Error::not_found("document", id))
    }

    /// Returns the titles of those of the documents that exist.
    pub async fn document_titles(
        &self,
        project: ProjectId,
        ids: Vec<DocumentId>,
    ) -> Result<HashMap<DocumentId, String>> {
        Ok(self.db().read(move |tx| documents::titles(tx, project, &ids)).await?)
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
        let document = self.write(actor, move |tx, ctx| delete(tx, ctx, id)).await?;
        if document.chunk_count > MAX_TX_CHUNKS as i64 {
            // The document is deleted already. What is left is found by the housekeeping if this fails.
            let graph = self.clone();
            #[expect(
                clippy::disallowed_methods,
                reason = "awaited here; it outlives a caller who gives up, and ends by itself"
            )]
            let purging = tokio::spawn(on_behalf_of(Requester::Project(actor.project), async move {
                graph.purge_document(id).await
            }));
            if let Ok(Err(error)) = purging.await {
                tracing::warn!(document.id = %id, error = %error, "the chunks of a deleted document are removed later");
            }
        }
        Ok(document)
    }
}

/// Writes a document with its chunks, their text index and embedding queue entries, and the change.
/// Returns `false` if the project already has the content.
pub fn create(tx: &mut Tx<'_>, ctx: &WriteContext, prepared: &PreparedDocument) -> Result<(Document, bool)> {
    let project = ctx.project.id;
    let PreparedDocument { document, text, chunks } = prepared;
    if chunks.len() > limits::CALLER_CHUNKS {
        let reason = format!(
            "has {} chunks, more than the maximum of {} for a tool: upload it with `POST /api/documents`",
            chunks.len(),
            limits::CALLER_CHUNKS
        );
        return Err(Invalid::new("content", reason).into());
    }
    while !documents::insert(tx, document, text, ctx.author)? {
        if let Some(existing) = documents::find_by_hash(tx, project, &document.content_hash)? {
            return Ok((existing, false));
        }
        // The document was deleted between the two statements, so the next insert can succeed.
    }
    let numbers = insert_chunks(tx, ctx, prepared, 0..chunks.len())?;
    if ctx.embed {
        let queued: Vec<(i64, i64)> = numbers.iter().map(|no| (*no, 1)).collect();
        embedding_queue::enqueue(tx, RowKind::Chunk, project, &queued, ctx.now)?;
    }
    record(tx, ctx, document, ChangeKind::DocumentIngested, 1)?;
    Ok((document.clone(), true))
}

/// Writes some chunks of a document and their text index. Returns their row numbers.
fn insert_chunks(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    prepared: &PreparedDocument,
    range: Range<usize>,
) -> Result<Vec<i64>> {
    let (project, document) = (ctx.project.id, &prepared.document);
    let chunks: Vec<Chunk> = range.map(|index| prepared.chunk(index)).collect();
    let numbers = row_numbers::allocate(tx, NumberedTable::Chunks, ctx.project.no, chunks.len())?;
    documents::insert_chunks(tx, project, &numbers, &chunks)?;
    let texts: Vec<IndexedText> = chunks.into_iter().map(|chunk| chunk_text(document, chunk)).collect();
    let entries: Vec<Entry<'_>> =
        numbers.iter().zip(&texts).map(|(no, text)| Entry { no: *no, text }).collect();
    write::insert(tx, SearchIndex::Chunks, project, &entries)?;
    Ok(numbers)
}

impl PreparedDocument {
    /// Returns the document as another one than every document with the same content, because it stands for
    /// something with an id of its own: the same words may be written twice.
    #[must_use]
    pub fn with_identity(mut self, identity: &str) -> Self {
        let digest = Sha256::digest(format!("{identity}\n{}", self.document.content_hash));
        self.document.content_hash = format!("{digest:x}");
        self
    }

    fn chunk(&self, index: usize) -> Chunk {
        let ChunkRange { start, end, tokens, heading } = &self.chunks[index];
        Chunk {
            id: ChunkId::new(),
            document: self.document.id,
            index: index as i64,
            start: *start as i64,
            end: *end as i64,
            tokens: *tokens as i64,
            heading: heading.clone(),
            text: self.text[*start..*end].to_owned(),
            created_at: self.document.created_at,
        }
    }
}

/// Deletes a document. The chunks of a large document are only hidden by this, and removed afterwards.
pub fn delete(tx: &mut Tx<'_>, ctx: &WriteContext, id: DocumentId) -> Result<Document> {
    let project = ctx.project.id;
    let document =
        documents::delete(tx, project, id, ctx.now)?.ok_or_else(|| Error::not_found("document", id))?;
    if document.chunk_count > MAX_TX_CHUNKS as i64 {
        documents::mark_purgeable(tx, id, ctx.now)?;
    } else {
        let numbers = documents::chunk_numbers(tx, id)?;
        for no in &numbers {
            write::remove(tx, SearchIndex::Chunks, *no)?;
            embedding_queue::remove(tx, RowKind::Chunk, *no)?;
        }
        embeddings::remove(tx, SearchIndex::Chunks, project, &numbers)?;
    }
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

/// Returns the document and the SHA-256 hash of its content.
async fn hash(new: NewDocument) -> Result<(NewDocument, String)> {
    let hash = |new: &NewDocument| format!("{:x}", Sha256::digest(&new.content));
    if new.content.len() <= limits::SMALL_CONTENT {
        let hash = hash(&new);
        return Ok((new, hash));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited here; the turns of documents limit how many there are"
    )]
    let hashed = tokio::task::spawn_blocking(move || {
        let hash = hash(&new);
        (new, hash)
    });
    hashed.await.map_err(|_| Error::Store(emergent_store::Error::Closed))
}

/// Refuses a text that could not be read again.
fn check_text_size(text: &str) -> Result<(), Invalid> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let reason = format!(
        "has a text of {} bytes, more than the maximum of {MAX_TEXT_BYTES}: split the document",
        text.len()
    );
    Err(Invalid::new("content", reason))
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

/// The indexed text of a chunk includes the title of its document, so that a search by title finds
/// it.
fn chunk_text(document: &Document, chunk: Chunk) -> IndexedText {
    let name = match &chunk.heading {
        Some(heading) => format!("{}\n{heading}", document.title),
        None => document.title.clone(),
    };
    IndexedText { name, body: chunk.text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_could_not_be_read_again_is_refused() {
        assert!(check_text_size(&"x".repeat(MAX_TEXT_BYTES)).is_ok());
        let refused = check_text_size(&"x".repeat(MAX_TEXT_BYTES + 1)).unwrap_err();
        assert_eq!(refused.problems[0].field, "content");
    }
}
