//! Embedding: writes add rows to a queue, and this module embeds them in batches.
//!
//! A row leaves the queue in the transaction that writes its vector. If a worker stops for any
//! reason, the next one therefore continues where it stopped. The embedding itself happens outside
//! of any transaction.

use std::{sync::Arc, time::Duration};

use emergent_domain::{author::Author, change::ChangeKind, cursor::Page, ids::ProjectId, time::Timestamp};
use emergent_llm::{EmbedTask, Embedder};
pub use emergent_store::embedding_queue::EmbeddingProgress;
use emergent_store::{
    Tx,
    embedding_queue::{self, EmbedOutcome, QueuedRow, RowKind},
    feed::{self, NewChange},
    jobs,
    search::parts::MAX_PARTS,
};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::{
    Graph,
    error::{Error, Result},
    worker::{ClaimedJob, JobOutcome, Worker},
};

/// Texts are truncated to this size before embedding, because models read a few thousand tokens at
/// most.
const MAX_TEXT: usize = 32 << 10;
/// How many rows without a vector one transaction queues.
const ENQUEUE_BATCH: usize = 2_000;
/// How long one project is embedded before the others have their turn.
const MAX_TURN: Duration = Duration::from_secs(1);
/// If a turn of a project embeds this many rows, tables may have grown since their statistics were made.
const MIN_BULK_ROWS: usize = 100;

impl Graph {
    /// Processes the queue until `stop` is set. Returns at once if there is no embedder.
    pub async fn run_embedder(&self, stop: watch::Receiver<bool>) {
        if self.embedder().is_none() {
            return;
        }
        if let Err(error) = self.enqueue_missing_vectors().await {
            warn!(error = %error, "could not queue rows without a vector; new changes are still embedded");
        }
        let graph = self.clone();
        let worker = Worker::for_outside_calls(embedding_queue::QUEUE);
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed| {
                let graph = graph.clone();
                async move { graph.embed_project(&claimed).await }
            })
            .await;
    }

    /// Returns how many rows are queued and how many are embedded.
    pub async fn embedding_progress(&self, project: ProjectId) -> Result<EmbeddingProgress> {
        Ok(self.db().read(move |tx| embedding_queue::progress(tx, project)).await?)
    }

    /// Queues all rows without a vector of the current model, in every project. This is necessary
    /// if the model was changed, or if no embedder was configured when the rows were written.
    pub async fn enqueue_missing_vectors(&self) -> Result<()> {
        let mut page = Page::first(Page::MAX);
        loop {
            let projects = self.list_projects(page).await?;
            for project in &projects.items {
                self.enqueue_missing_in_project(project.id).await?;
            }
            match projects.next {
                Some(next) => page.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Queues the rows of a project without a vector of the current model, and returns their
    /// number. Old vectors remain until the new ones replace them.
    pub async fn enqueue_missing_in_project(&self, project: ProjectId) -> Result<u64> {
        let Some(embedder) = self.embedder() else { return Ok(0) };
        let model = embedder.model().to_owned();
        let current_model = model.clone();
        if !self.db().read(move |tx| embedding_queue::has_missing(tx, project, &current_model)).await? {
            return Ok(0);
        }
        let now = self.clock().now();
        let mut queued = 0;
        for kind in RowKind::ALL {
            queued += self.enqueue_missing_rows(kind, project, &model, now).await?;
        }
        self.db().write(move |tx| embedding_queue::ensure_queue_job(tx, project, now)).await?;
        Ok(queued)
    }

    /// Queues the rows of one kind in transactions of bounded size, so that other writers never wait long.
    async fn enqueue_missing_rows(
        &self,
        kind: RowKind,
        project: ProjectId,
        model: &str,
        now: Timestamp,
    ) -> Result<u64> {
        let (mut queued, mut after) = (0, i64::MIN);
        loop {
            let read_model = model.to_owned();
            let numbers = self
                .db()
                .read(move |tx| {
                    embedding_queue::list_missing(tx, kind, project, &read_model, after, ENQUEUE_BATCH)
                })
                .await?;
            let Some(last) = numbers.last().copied() else { return Ok(queued) };
            let model = model.to_owned();
            queued += self
                .db()
                .write(move |tx| embedding_queue::enqueue_missing(tx, kind, project, &model, &numbers, now))
                .await?;
            after = last;
        }
    }

    /// Embeds the queue of a project in batches, and completes the job when the queue is empty. After a while
    /// the other projects have their turn: whoever writes faster than is embedded must not keep them waiting.
    async fn embed_project(&self, claimed: &ClaimedJob) -> Result<JobOutcome> {
        let Some(project) = claimed.job.project else { return Ok(JobOutcome::Done) };
        let (began, mut done) = (tokio::time::Instant::now(), 0);
        loop {
            let count = self.embed_batch(project).await?;
            done += count;
            let (is_empty, is_over) = (count == 0, began.elapsed() >= MAX_TURN);
            // This comes before the job is completed, because its worker stops what follows the end of its lease.
            if (is_empty || is_over) && done >= MIN_BULK_ROWS {
                self.renew_statistics_after_load().await;
            }
            if is_empty && self.complete(project, claimed).await? {
                break;
            }
            if is_over {
                debug!(project.id = %project, rows = done, "embedded {done} rows, and there are more");
                return Ok(JobOutcome::More);
            }
        }
        info!(project.id = %project, rows = done, "embedded {done} rows");
        Ok(JobOutcome::Completed)
    }

    /// Completes the job unless rows were queued in the meantime. Returns whether the job is
    /// complete.
    async fn complete(&self, project: ProjectId, claimed: &ClaimedJob) -> Result<bool> {
        let (id, owner, now) = (claimed.job.id, claimed.owner.clone(), self.clock().now());
        let work = move |tx: &mut Tx<'_>| {
            // A writer that queues a row while this job is active relies on the job to process it.
            if !jobs::lock_owned(tx, id, &owner)? {
                return Ok(true);
            }
            if !embedding_queue::is_empty(tx, project)? {
                return Ok(false);
            }
            jobs::complete(tx, id, &owner, now)?;
            let event = NewChange {
                kind: ChangeKind::EmbeddingsDone,
                entity: project.0,
                entity_type: "project",
                version: 0,
                at: now,
                author: Author::System,
            };
            feed::append(tx, project, &[event])?;
            Ok::<_, Error>(true)
        };
        self.db().write(work).await
    }

    /// Embeds one batch of a project. Returns how many rows left the queue, or 0 if it was empty.
    pub async fn embed_batch(&self, project: ProjectId) -> Result<usize> {
        let Some(embedder) = self.embedder() else { return Ok(0) };
        let size = embedder.max_batch().clamp(1, 512);
        loop {
            let (mut waiting, mut texts) = self.db().read(move |tx| read_batch(tx, project, size)).await?;
            // The rest stays in the queue. A batch of long objects would otherwise take many times as long as one of
            // short ones, while the other projects wait for their turn.
            let count = rows_in_batch(&waiting, &texts, embedder.max_text_bytes(), size);
            waiting.truncate(count);
            texts.truncate(count);
            if waiting.is_empty() {
                return Ok(0);
            }
            let outcomes = embed(embedder, &waiting, texts).await?;
            let model = embedder.model().to_owned();
            let (dims, now) = (outcomes.iter().find_map(vector_dims), self.clock().now());
            let rows: Vec<(QueuedRow, EmbedOutcome)> = waiting.into_iter().zip(outcomes).collect();
            let work = move |tx: &mut Tx<'_>| {
                if let Some(dims) = dims {
                    embedding_queue::record_model(tx, project, &model, dims, now)?;
                }
                embedding_queue::complete(tx, project, &model, &rows)
            };
            let ended = self.db().write(work).await?;
            // If `ended` is 0, all rows changed while they were being embedded, and the queue has
            // new entries.
            if ended > 0 {
                return Ok(ended);
            }
        }
    }
}

/// Reads a batch of queued rows, and the text of each row that is still live.
fn read_batch(
    tx: &mut Tx<'_>,
    project: ProjectId,
    size: usize,
) -> emergent_store::Result<(Vec<QueuedRow>, Vec<Option<String>>)> {
    let waiting = embedding_queue::peek(tx, project, size)?;
    let mut texts = vec![None; waiting.len()];
    for kind in [RowKind::Object, RowKind::Chunk] {
        let places: std::collections::HashMap<i64, usize> = waiting
            .iter()
            .zip(0..)
            .filter(|(row, _)| row.kind == kind)
            .map(|(row, index)| (row.no, index))
            .collect();
        let nos: Vec<i64> = places.keys().copied().collect();
        for (no, mut text) in embedding_queue::load_texts(tx, kind, &nos)? {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            texts[places[&no]] = Some(text);
        }
    }
    Ok((waiting, texts))
}

/// How many of the rows, the first ones, have at most `max_parts` parts together. It is at least one.
fn rows_in_batch(
    rows: &[QueuedRow],
    texts: &[Option<String>],
    part_bytes: Option<usize>,
    max_parts: usize,
) -> usize {
    let Some(part_bytes) = part_bytes else { return rows.len() };
    let mut parts = 0;
    let fits = |(row, text): &(&QueuedRow, &Option<String>)| {
        let bytes = text.as_ref().map_or(0, String::len);
        let is_split = row.kind == RowKind::Object;
        parts += if is_split { bytes.div_ceil(part_bytes.max(1)).clamp(1, 1 + MAX_PARTS) } else { 1 };
        parts <= max_parts
    };
    rows.iter().zip(texts).take_while(fits).count().max(1).min(rows.len())
}

/// Embeds the texts. A text that the model rejects gets no vector, and does not affect the others.
async fn embed(
    embedder: &Arc<dyn Embedder>,
    waiting: &[QueuedRow],
    texts: Vec<Option<String>>,
) -> Result<Vec<EmbedOutcome>> {
    let mut outcomes = vec![EmbedOutcome::Deleted; waiting.len()];
    let indices: Vec<usize> =
        texts.iter().zip(0..).filter(|(text, _)| text.is_some()).map(|(_, index)| index).collect();
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    if texts.is_empty() {
        return Ok(outcomes);
    }
    match embedder.embed(&texts, EmbedTask::Document).await {
        Ok(vectors) => {
            for ((index, vector), text) in indices.iter().zip(vectors).zip(&texts) {
                let further = embed_further_parts(embedder, waiting[*index], text).await?;
                outcomes[*index] = if further.is_empty() {
                    EmbedOutcome::Vector(vector)
                } else {
                    EmbedOutcome::Parts { first: vector, further }
                };
            }
        }
        Err(emergent_llm::Error::BadRequest { .. }) => {
            for (index, text) in indices.iter().zip(&texts) {
                outcomes[*index] = embed_single(embedder, waiting[*index], text).await?;
            }
            // A wrong URL or model name is rejected in the same way as a bad text. In that case the
            // rows are dropped from the queue, and are queued again at the next start with
            // corrected settings.
            if !outcomes.iter().any(|outcome| vector_dims(outcome).is_some())
                && !is_embedder_available(embedder).await
            {
                outcomes.fill(EmbedOutcome::Deleted);
            }
        }
        Err(error) => return Err(Error::Embedding(error)),
    }
    Ok(outcomes)
}

/// The vectors of the parts of an object that the model leaves out of the vector of its text. A part that the model
/// rejects makes the object one without parts: it is still found by its beginning.
async fn embed_further_parts(
    embedder: &Arc<dyn Embedder>,
    row: QueuedRow,
    text: &str,
) -> Result<Vec<Vec<f32>>> {
    let Some(max_bytes) = embedder.max_text_bytes().filter(|_| row.kind == RowKind::Object) else {
        return Ok(Vec::new());
    };
    let parts: Vec<String> = text_parts(text, max_bytes).skip(1).take(MAX_PARTS).map(str::to_owned).collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    match embedder.embed(&parts, EmbedTask::Document).await {
        Ok(vectors) => Ok(vectors),
        Err(error @ emergent_llm::Error::BadRequest { .. }) => {
            warn!(row.no = row.no, error = %error, "the model rejected a part of the text; the object has one vector");
            Ok(Vec::new())
        }
        Err(error) => Err(Error::Embedding(error)),
    }
}

/// Splits a text into parts of at most this many bytes, between words if it has any.
fn text_parts(mut text: &str, max_bytes: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        text = text.trim_start();
        if text.is_empty() {
            return None;
        }
        let end = if text.len() <= max_bytes {
            text.len()
        } else {
            let limit = text.floor_char_boundary(max_bytes);
            // A word that is longer than a part is split, and a part has at least one character.
            let space = text[..limit].rfind(char::is_whitespace).filter(|space| *space > 0);
            space.unwrap_or(limit.max(text.ceil_char_boundary(1)))
        };
        let (part, rest) = text.split_at(end);
        text = rest;
        Some(part)
    })
}

async fn embed_single(embedder: &Arc<dyn Embedder>, row: QueuedRow, text: &String) -> Result<EmbedOutcome> {
    match embedder.embed(std::slice::from_ref(text), EmbedTask::Document).await {
        Ok(mut vectors) => Ok(vectors.pop().map_or(EmbedOutcome::Deleted, EmbedOutcome::Vector)),
        Err(error @ emergent_llm::Error::BadRequest { .. }) => {
            warn!(row.no = row.no, error = %error, "the model rejected the text; the row has no vector");
            Ok(EmbedOutcome::Refused)
        }
        Err(error) => Err(Error::Embedding(error)),
    }
}

async fn is_embedder_available(embedder: &Arc<dyn Embedder>) -> bool {
    embedder.embed(&["a plain word".to_owned()], EmbedTask::Document).await.is_ok()
}

fn vector_dims(outcome: &EmbedOutcome) -> Option<usize> {
    match outcome {
        EmbedOutcome::Vector(vector) | EmbedOutcome::Parts { first: vector, .. } => Some(vector.len()),
        EmbedOutcome::Refused | EmbedOutcome::Deleted => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_long_objects_has_fewer_rows() {
        let row = |kind: RowKind| QueuedRow { kind, no: 1, version: 1 };
        let check = |kind: RowKind, bytes: &[usize], part_bytes: Option<usize>, expected: usize| {
            let rows = vec![row(kind); bytes.len()];
            let texts: Vec<Option<String>> = bytes.iter().map(|bytes| Some("x".repeat(*bytes))).collect();
            assert_eq!(rows_in_batch(&rows, &texts, part_bytes, 4), expected, "{kind:?} {bytes:?}");
        };
        check(RowKind::Object, &[10, 10, 10, 10], Some(10), 4);
        check(RowKind::Object, &[10, 21, 10], Some(10), 2);
        check(RowKind::Object, &[0, 0, 0, 0, 0], Some(10), 4);
        check(RowKind::Object, &[1_000, 10], Some(10), 1);
        check(RowKind::Object, &[1_000, 10], None, 2);
        check(RowKind::Chunk, &[1_000, 10], Some(10), 2);
        check(RowKind::Object, &[], Some(10), 0);
    }

    #[test]
    fn a_long_text_is_split_between_words() {
        let check = |text: &str, max_bytes: usize, expected: &[&str]| {
            assert_eq!(text_parts(text, max_bytes).collect::<Vec<_>>(), expected, "{text}");
        };
        check("one two three", 100, &["one two three"]);
        check("one two three", 8, &["one two", "three"]);
        check("one  two three", 5, &["one ", "two", "three"]);
        check("abcdefgh ij", 4, &["abcd", "efgh", "ij"]);
        check("ééé", 3, &["é", "é", "é"]);
        check("é", 1, &["é"]);
        check("  ", 4, &[]);
    }
}
