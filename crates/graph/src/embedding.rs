//! Giving rows their vectors: a queue that is filled with the writes and emptied in batches here.
//!
//! A row leaves the queue in the transaction that writes its vector, so that whatever stops a
//! worker, the next one goes on where it was. Embedding itself happens outside any transaction.

use std::sync::Arc;

use emergent_domain::{author::Author, change::ChangeKind, cursor::Page, ids::ProjectId};
use emergent_llm::{EmbedTask, Embedder};
pub use emergent_store::embedding_queue::EmbeddingProgress;
use emergent_store::{
    Tx,
    embedding_queue::{self, EmbedOutcome, QueuedRow, RowKind},
    events::{self, NewChange},
    jobs,
};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    Graph,
    error::{Error, Result},
    worker::{ClaimedJob, JobOutcome, Worker},
};

/// Texts are cut to this before they are embedded: models read a few thousand tokens at most.
const MAX_TEXT: usize = 32 << 10;

impl Graph {
    /// Works on the queue until told to stop. Returns at once without an embedder.
    pub async fn run_embedder(&self, stop: watch::Receiver<bool>) {
        if self.embedder().is_none() {
            return;
        }
        if let Err(error) = self.enqueue_missing_vectors().await {
            warn!(error = %error, "could not look for what lacks a vector, new changes are embedded all the same");
        }
        let graph = self.clone();
        let worker = Worker::new(embedding_queue::QUEUE);
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed| {
                let graph = graph.clone();
                async move { graph.embed_project(&claimed).await }
            })
            .await;
    }

    /// How many rows wait and how many are done.
    pub async fn embedding_progress(&self, project: ProjectId) -> Result<EmbeddingProgress> {
        Ok(self.db().read(move |tx| embedding_queue::progress(tx, project)).await?)
    }

    /// Queues what has no vector of the current model, in every project: the model was changed, or
    /// there was none when the rows were written.
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

    /// Queues what a project has without a vector of the current model, and tells how many. Old
    /// vectors stay until the new ones replace them.
    pub async fn enqueue_missing_in_project(&self, project: ProjectId) -> Result<u64> {
        let Some(embedder) = self.embedder() else { return Ok(0) };
        let model = embedder.model().to_owned();
        let asked = model.clone();
        if !self.db().read(move |tx| embedding_queue::has_missing(tx, project, &asked)).await? {
            return Ok(0);
        }
        let now = self.clock().now();
        Ok(self.db().write(move |tx| embedding_queue::enqueue_missing(tx, project, &model, now)).await?)
    }

    /// Embeds what a project has waiting, batch by batch, and completes the job when nothing is
    /// left.
    async fn embed_project(&self, claimed: &ClaimedJob) -> Result<JobOutcome> {
        let Some(project) = claimed.job.project else { return Ok(JobOutcome::Done) };
        let mut done = 0;
        loop {
            match self.embed_batch(project).await? {
                0 if self.complete(project, claimed).await? => break,
                some => done += some,
            }
        }
        info!(project.id = %project, rows = done, "embedded {done} rows");
        Ok(JobOutcome::Completed)
    }

    /// Ends the job, unless something was queued since; says whether it is over.
    async fn complete(&self, project: ProjectId, claimed: &ClaimedJob) -> Result<bool> {
        let (id, owner, now) = (claimed.job.id, claimed.owner.clone(), self.clock().now());
        let work = move |tx: &mut Tx<'_>| {
            // Whoever queues a row while this job is live counts on it.
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
            events::append(tx, project, &[event])?;
            Ok::<_, Error>(true)
        };
        self.db().write(work).await
    }

    /// Embeds one batch of what a project has waiting; returns how many rows left the queue, 0
    /// when none waits.
    pub async fn embed_batch(&self, project: ProjectId) -> Result<usize> {
        let Some(embedder) = self.embedder() else { return Ok(0) };
        let size = embedder.max_batch().clamp(1, 512);
        loop {
            let (waiting, texts) = self.db().read(move |tx| read_batch(tx, project, size)).await?;
            if waiting.is_empty() {
                return Ok(0);
            }
            let made = embed(embedder, &waiting, texts).await?;
            let model = embedder.model().to_owned();
            if let Some(dims) = made.iter().find_map(vector_dims) {
                let (model, now) = (model.clone(), self.clock().now());
                self.db()
                    .write(move |tx| embedding_queue::record_model(tx, project, &model, dims, now))
                    .await?;
            }
            let rows: Vec<(QueuedRow, EmbedOutcome)> = waiting.into_iter().zip(made).collect();
            let ended =
                self.db().write(move |tx| embedding_queue::complete(tx, project, &model, &rows)).await?;
            // Everything may have changed while it was embedded; then there is something waiting.
            if ended > 0 {
                return Ok(ended);
            }
        }
    }
}

/// Some rows that wait, and the text of each that is still alive.
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
            .map(|(row, at)| (row.no, at))
            .collect();
        let nos: Vec<i64> = places.keys().copied().collect();
        for (no, mut text) in embedding_queue::load_texts(tx, kind, &nos)? {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            texts[places[&no]] = Some(text);
        }
    }
    Ok((waiting, texts))
}

/// The vector of each text. A text that the model refuses gets none, and does not stop the others.
async fn embed(
    embedder: &Arc<dyn Embedder>,
    waiting: &[QueuedRow],
    texts: Vec<Option<String>>,
) -> Result<Vec<EmbedOutcome>> {
    let mut made = vec![EmbedOutcome::Deleted; waiting.len()];
    let places: Vec<usize> =
        texts.iter().zip(0..).filter(|(text, _)| text.is_some()).map(|(_, at)| at).collect();
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    if texts.is_empty() {
        return Ok(made);
    }
    match embedder.embed(&texts, EmbedTask::Document).await {
        Ok(vectors) => {
            places.iter().zip(vectors).for_each(|(at, vector)| made[*at] = EmbedOutcome::Vector(vector))
        }
        Err(emergent_llm::Error::BadRequest { .. }) => {
            for (at, text) in places.iter().zip(&texts) {
                made[*at] = embed_single(embedder, waiting[*at], text).await?;
            }
            // A wrong address or model name is refused in the same way. Then it is not the texts'
            // fault, and they are queued again at the next start, with better settings.
            if !made.iter().any(|made| vector_dims(made).is_some()) && !is_embedder_available(embedder).await
            {
                made.fill(EmbedOutcome::Deleted);
            }
        }
        Err(error) => return Err(Error::Embedding(error)),
    }
    Ok(made)
}

async fn embed_single(embedder: &Arc<dyn Embedder>, row: QueuedRow, text: &String) -> Result<EmbedOutcome> {
    match embedder.embed(std::slice::from_ref(text), EmbedTask::Document).await {
        Ok(mut vectors) => Ok(vectors.pop().map_or(EmbedOutcome::Deleted, EmbedOutcome::Vector)),
        Err(error @ emergent_llm::Error::BadRequest { .. }) => {
            warn!(row.no = row.no, error = %error, "the model refuses this text, it stays without a vector");
            Ok(EmbedOutcome::Refused)
        }
        Err(error) => Err(Error::Embedding(error)),
    }
}

async fn is_embedder_available(embedder: &Arc<dyn Embedder>) -> bool {
    embedder.embed(&["a plain word".to_owned()], EmbedTask::Document).await.is_ok()
}

fn vector_dims(made: &EmbedOutcome) -> Option<usize> {
    match made {
        EmbedOutcome::Vector(vector) => Some(vector.len()),
        EmbedOutcome::Refused | EmbedOutcome::Deleted => None,
    }
}
