//! Writes and removes large documents in many small transactions, so that other writers never wait long.
//!
//! A large document is hidden while its chunks are written, and becomes visible with the last transaction.
//! When a large document is deleted, it is hidden at once, and its chunks are removed from the indexes
//! afterwards. If the server stops in between, the housekeeping removes what is hidden.

use std::{ops::Range, sync::Arc, time::Duration};

use emergent_domain::{change::ChangeKind, document::Document, ids::DocumentId, time::Timestamp};
use emergent_net::errors::error_chain;
use emergent_store::{
    Tx, documents,
    embedding_queue::{self, RowKind},
    search::{
        embeddings,
        write::{self, SearchIndex},
    },
};
use tracing::warn;

use super::{PreparedDocument, insert_chunks, record};
use crate::{Actor, Error, Graph, WriteContext, error::Result};

/// The maximum number of chunks that one transaction writes to the indexes, or removes from them.
const BATCH_CHUNKS: usize = 32;
/// A document with more chunks than this is written and removed in several transactions.
pub(super) const MAX_TX_CHUNKS: usize = 128;
/// A hidden document that no transaction has added to for this long is removed.
const HIDDEN_LIMIT: Duration = Duration::from_secs(15 * 60);
/// How many hidden documents one pass of the housekeeping removes.
const MAX_PURGED: usize = 100;

impl Graph {
    /// Writes a large document. If the project already has a document with the same content, returns that
    /// document and `false`.
    pub(super) async fn ingest(&self, actor: Actor, prepared: PreparedDocument) -> Result<(Document, bool)> {
        let prepared = Arc::new(prepared);
        let hidden = Arc::clone(&prepared);
        if let Some(existing) = self.write(actor, move |tx, ctx| begin(tx, ctx, &hidden)).await? {
            return Ok((existing, false));
        }
        let error = match self.ingest_chunks(actor, &prepared).await {
            Ok(document) => return Ok((document, true)),
            Err(error) => error,
        };
        let id = prepared.document.id;
        if let Err(error) = self.purge_document(id).await {
            warn!(document.id = %id, error = %error, "an unfinished document is removed later");
        }
        if matches!(error, Error::Store(emergent_store::Error::Duplicate { .. })) {
            // Somebody else ingested the same content meanwhile.
            let (project, hash) = (actor.project, prepared.document.content_hash.clone());
            let existing = self.db().read(move |tx| documents::find_by_hash(tx, project, &hash)).await?;
            return existing.map(|document| (document, false)).ok_or(error);
        }
        Err(error)
    }

    async fn ingest_chunks(&self, actor: Actor, prepared: &Arc<PreparedDocument>) -> Result<Document> {
        let mut numbers = Vec::with_capacity(prepared.chunks.len());
        for start in (0..prepared.chunks.len()).step_by(BATCH_CHUNKS) {
            let batch = start..(start + BATCH_CHUNKS).min(prepared.chunks.len());
            let prepared = Arc::clone(prepared);
            numbers.extend(
                self.write(actor, move |tx, ctx| add_chunks(tx, ctx, &prepared, batch.clone())).await?,
            );
        }
        let prepared = Arc::clone(prepared);
        self.write(actor, move |tx, ctx| publish(tx, ctx, &prepared, &numbers)).await
    }

    /// Removes the chunks of a hidden document from the indexes. The rows of a document that was never
    /// visible are deleted; others are kept, as those of every deleted document.
    pub(crate) async fn purge_document(&self, id: DocumentId) -> Result<()> {
        self.purge_if_due(id, None).await
    }

    /// As [`Graph::purge_document`], with `due` only if the document may be removed at that time. Once this has
    /// started, the document cannot become visible any more.
    async fn purge_if_due(&self, id: DocumentId, due: Option<Timestamp>) -> Result<()> {
        if !self.db().write(move |tx| documents::begin_purge(tx, id, due)).await? {
            return Ok(());
        }
        let mut from = 0;
        loop {
            let next = self.db().write(move |tx| purge_chunks(tx, id, from)).await?;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Removes documents that stayed hidden because a server stopped while it wrote or removed them. A document
    /// that cannot be removed keeps no others from their turn, because those whose removal has begun come last;
    /// the first error is returned at the end.
    pub(crate) async fn purge_hidden_documents(&self) -> Result<()> {
        let now = self.clock().now();
        let mut first_error = None;
        for id in self.db().read(move |tx| documents::list_purgeable(tx, now, MAX_PURGED)).await? {
            let Err(error) = self.purge_if_due(id, Some(now)).await else { continue };
            warn!(document.id = %id, error = %error_chain(&error), "a hidden document could not be removed");
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// Inserts the hidden document, or returns the existing one with the same content.
fn begin(tx: &mut Tx<'_>, ctx: &WriteContext, prepared: &PreparedDocument) -> Result<Option<Document>> {
    let document = &prepared.document;
    if let Some(existing) = documents::find_by_hash(tx, ctx.project.id, &document.content_hash)? {
        return Ok(Some(existing));
    }
    documents::insert_hidden(tx, document, &prepared.text, ctx.author, ctx.now + HIDDEN_LIMIT)?;
    Ok(None)
}

/// Adds some chunks to a hidden document, and returns their row numbers.
fn add_chunks(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    prepared: &PreparedDocument,
    batch: Range<usize>,
) -> Result<Vec<i64>> {
    let id = prepared.document.id;
    if !documents::keep_hidden(tx, id, ctx.now + HIDDEN_LIMIT)? {
        return Err(Error::Conflict {
            message:
                "ingesting the document took too long, and what was written was removed: upload it again"
                    .to_owned(),
        });
    }
    insert_chunks(tx, ctx, prepared, batch)
}

/// Makes a hidden document visible, with everything that follows from it.
fn publish(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    prepared: &PreparedDocument,
    numbers: &[i64],
) -> Result<Document> {
    let document = Document { created_at: ctx.now, ..prepared.document.clone() };
    if !documents::publish(tx, document.id, ctx.now)? {
        return Err(Error::not_found("document", document.id));
    }
    if ctx.embed {
        let queued: Vec<(i64, i64)> = numbers.iter().map(|no| (*no, 1)).collect();
        embedding_queue::enqueue(tx, RowKind::Chunk, ctx.project.id, &queued, ctx.now)?;
    }
    record(tx, ctx, &document, ChangeKind::DocumentIngested, 1)?;
    Ok(document)
}

/// Removes the next chunks from the indexes. Returns the index of the chunk to continue with, or `None` when
/// nothing is left to do.
fn purge_chunks(tx: &mut Tx<'_>, id: DocumentId, from: i64) -> Result<Option<i64>> {
    let Some(hidden) = documents::lock_hidden(tx, id)? else { return Ok(None) };
    let chunks = documents::chunk_numbers_from(tx, id, from, BATCH_CHUNKS)?;
    let numbers: Vec<i64> = chunks.iter().map(|(_, no)| *no).collect();
    for no in &numbers {
        write::remove(tx, SearchIndex::Chunks, *no)?;
        embedding_queue::remove(tx, RowKind::Chunk, *no)?;
    }
    embeddings::remove(tx, SearchIndex::Chunks, hidden.project, &numbers)?;
    if hidden.was_never_visible {
        documents::delete_chunks(tx, &numbers)?;
    }
    match chunks.last() {
        Some((index, _)) => Ok(Some(index + 1)),
        None => {
            documents::finish_purge(tx, id, hidden.was_never_visible)?;
            Ok(None)
        }
    }
}
