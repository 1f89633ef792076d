//! Imports NDJSON in batches, so that a file of any length needs the same amount of memory. The
//! next batch is read while the previous one is being written.

use std::{fmt::Display, pin::Pin, sync::Arc};

use bytes::Bytes;
use emergent_domain::{ids::ProjectId, invalid::Invalid, json_cost::JsonCost};
use emergent_store::requester::{Requester, on_behalf_of};
use futures_util::{Stream, StreamExt, stream};
use tokio::task::JoinHandle;

use super::{
    batch::{Batch, BatchError, BatchOutcome, BatchPart, Counts, IdMap, OnError},
    line::LineError,
    split::{RawLine, Splitter},
};
use crate::{Actor, Error, Graph, error::Result};

/// A batch ends at this number of lines or bytes, whichever comes first.
const MAX_BATCH_LINES: usize = 2_000;
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The maximum memory of the values of a batch, besides its last line.
const MAX_BATCH_VALUES: usize = 16 << 20;
/// How many renamed ids are remembered. Only files that refer to keyed objects by id need them.
const MAX_RENAMED_IDS: usize = 100_000;
/// How often a batch is retried if concurrent writers use its ids or keys.
const MAX_ATTEMPTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportOptions {
    pub on_error: OnError,
}

/// The progress of an import. The counts refer to committed data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportProgress {
    pub lines: u64,
    pub bytes: u64,
    pub objects: Counts,
    pub relationships: Counts,
    /// The number of invalid lines so far.
    pub failed: u64,
    /// The invalid lines since the previous progress report.
    pub errors: Vec<LineError>,
    /// True in the last progress report.
    pub done: bool,
    /// True if the last batch was not written because of its errors. Correct the file and import it
    /// again; what is already there is updated.
    pub stopped: bool,
}

impl Graph {
    /// Writes a batch of lines, numbered from 1, in one transaction, or in several if that takes too long.
    /// Invalid lines are reported in the outcome and have no effect.
    pub async fn import_batch(&self, actor: Actor, lines: Vec<(u64, String)>) -> Result<BatchOutcome> {
        let raw = lines
            .into_iter()
            .map(|(number, text)| RawLine { number, bytes: Some(text.into_bytes()) })
            .collect();
        let batch = parse(self, actor.project, raw).await?;
        match write(self.clone(), actor, batch, Arc::default(), OnError::Skip).await {
            Ok(outcome) => Ok(outcome),
            Err(BatchError::Failed(error)) => Err(error),
            Err(BatchError::Stopped(outcome)) => Ok(*outcome),
        }
    }

    /// Imports a file while it is being received, and reports the progress after each batch. The
    /// stream ends after an error, or after a report with `done`. Everything reported is committed,
    /// whatever happens afterwards.
    pub fn import<S, E>(
        &self,
        actor: Actor,
        input: S,
        options: ImportOptions,
    ) -> impl Stream<Item = Result<ImportProgress>> + Send + use<S, E>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let input = input.map(|part| part.map_err(|error| error.to_string()));
        let importer = Importer {
            graph: self.clone(),
            actor,
            options,
            input: Box::pin(input),
            splitter: Splitter::default(),
            waiting: Vec::new().into_iter(),
            ended: false,
            writing: None,
            renamed: Arc::default(),
            progress: ImportProgress::default(),
        };
        stream::unfold(importer, |mut importer| async move {
            let next = importer.next().await?;
            Some((next, importer))
        })
    }
}

/// Parses and validates lines, before the transaction that writes them.
async fn parse(graph: &Graph, project: ProjectId, lines: Vec<RawLine>) -> Result<Arc<Batch>> {
    #[expect(clippy::disallowed_methods, reason = "awaited here; an import parses one batch at a time")]
    let parsed = tokio::task::spawn_blocking(move || Batch::parse(&lines)).await;
    let parsed = parsed.map_err(|_| Invalid::new("", "the lines could not be parsed; see the server log"))?;
    Ok(Arc::new(parsed.validated(graph, project).await?))
}

/// Writes a batch in one transaction. If that takes longer than a transaction may, it is written in halves, and
/// these in halves again. An import that ends in between can be repeated, as always.
async fn write(
    graph: Graph,
    actor: Actor,
    batch: Arc<Batch>,
    mut renamed: Arc<IdMap>,
    on_error: OnError,
) -> Result<BatchOutcome, BatchError> {
    let (mut written, mut parts) = (BatchOutcome::default(), vec![batch.whole()]);
    while let Some(part) = parts.pop() {
        let halves = part.halves();
        match write_part(&graph, actor, &batch, part, &renamed, on_error).await {
            Err(BatchError::Failed(Error::Store(emergent_store::Error::TooSlow { .. })))
                if halves.is_some() =>
            {
                let (first, second) = halves.unwrap_or_default();
                parts.extend([second, first]);
            }
            Ok(outcome) => {
                if !parts.is_empty() && !outcome.renamed.is_empty() {
                    Arc::make_mut(&mut renamed).extend(outcome.renamed.iter().copied());
                }
                written.add(outcome);
            }
            Err(BatchError::Stopped(stopped)) => {
                written.errors.extend(stopped.errors);
                return Err(BatchError::Stopped(Box::new(written)));
            }
            Err(failed) => return Err(failed),
        }
    }
    written.errors.sort_by_key(|error| error.line);
    Ok(written)
}

/// Writes a part of a batch in one transaction.
async fn write_part(
    graph: &Graph,
    actor: Actor,
    batch: &Arc<Batch>,
    part: BatchPart,
    renamed: &Arc<IdMap>,
    on_error: OnError,
) -> Result<BatchOutcome, BatchError> {
    for attempt in 1.. {
        let (inner, batch, renamed) = (graph.clone(), Arc::clone(batch), Arc::clone(renamed));
        let part = part.clone();
        let written = graph.write_validated(actor.project, move |tx| {
            // An import may run for hours after its token was authenticated.
            inner.check_token_valid(tx, actor.author)?;
            let ctx = inner.write_context(tx, actor)?;
            batch.write(tx, &ctx, &part, &renamed, on_error)
        });
        match written.await {
            Err(BatchError::Failed(Error::Store(emergent_store::Error::Duplicate { .. })))
                if attempt < MAX_ATTEMPTS => {}
            done => return done,
        }
    }
    unreachable!("the last attempt returns")
}

/// The number of lines and bytes up to the end of a batch.
#[derive(Clone, Copy, Default)]
struct BatchEnd {
    lines: u64,
    bytes: u64,
}

struct Importer {
    graph: Graph,
    actor: Actor,
    options: ImportOptions,
    input: Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>,
    splitter: Splitter,
    /// Lines that were received together with those of the previous batch.
    waiting: std::vec::IntoIter<RawLine>,
    /// True if the input has ended.
    ended: bool,
    writing: Option<(BatchEnd, JoinHandle<Result<BatchOutcome, BatchError>>)>,
    renamed: Arc<IdMap>,
    progress: ImportProgress,
}

impl Importer {
    async fn next(&mut self) -> Option<Result<ImportProgress>> {
        if self.progress.done {
            return None;
        }
        let next = self.step().await;
        if next.is_err() {
            self.progress.done = true;
        }
        Some(next)
    }

    /// Runs until the transaction of the next batch has ended.
    async fn step(&mut self) -> Result<ImportProgress> {
        loop {
            let lines = self.read().await;
            let (reached, batch) = match lines {
                Ok(lines) if lines.is_empty() => (BatchEnd::default(), None),
                Ok(lines) => {
                    let bytes =
                        lines.iter().map(|line| line.bytes.as_ref().map_or(0, Vec::len) as u64 + 1).sum();
                    (
                        BatchEnd { lines: lines.len() as u64, bytes },
                        Some(parse(&self.graph, self.actor.project, lines).await?),
                    )
                }
                Err(error) => {
                    // The batch that was read before the error is still written.
                    self.finish_writing().await?;
                    return Err(error);
                }
            };
            let wrote = self.finish_writing().await?;
            self.progress.done = self.progress.stopped || batch.is_none();
            if self.progress.done && self.progress.objects.created + self.progress.relationships.created > 0 {
                self.graph.renew_statistics_after_load().await;
            }
            if let Some(batch) = batch.filter(|_| !self.progress.stopped) {
                let (graph, actor, renamed) = (self.graph.clone(), self.actor, Arc::clone(&self.renamed));
                let on_error = self.options.on_error;
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the importer awaits it before the next batch; if it is dropped, the batch is still written whole"
                )]
                let writing = tokio::spawn(on_behalf_of(Requester::Project(actor.project), async move {
                    write(graph, actor, batch, renamed, on_error).await
                }));
                self.writing = Some((reached, writing));
            }
            if wrote || self.progress.done {
                let errors = std::mem::take(&mut self.progress.errors);
                return Ok(ImportProgress { errors, ..self.progress.clone() });
            }
        }
    }

    /// Reads the lines of a batch. Empty at the end of the input.
    async fn read(&mut self) -> Result<Vec<RawLine>> {
        let mut lines = Vec::new();
        let (mut bytes, mut values) = (0, 0);
        loop {
            for line in self.waiting.by_ref() {
                bytes += line.bytes.as_ref().map_or(0, Vec::len);
                values += line.bytes.as_ref().map_or(0, |line| JsonCost::estimate(line).bytes);
                lines.push(line);
                if lines.len() == MAX_BATCH_LINES || bytes >= MAX_BATCH_BYTES || values >= MAX_BATCH_VALUES {
                    return Ok(lines);
                }
            }
            if self.ended {
                return Ok(lines);
            }
            let mut came = Vec::new();
            match self.input.next().await {
                Some(Ok(part)) => self.splitter.push(&part, &mut came),
                Some(Err(error)) => return Err(input_error(&error)),
                None => {
                    self.ended = true;
                    self.splitter.finish(&mut came);
                }
            }
            self.waiting = came.into_iter();
        }
    }

    /// Waits for the batch that is being written. Returns false if there was none.
    async fn finish_writing(&mut self) -> Result<bool> {
        let Some((reached, writing)) = self.writing.take() else { return Ok(false) };
        let progress = &mut self.progress;
        match writing.await {
            Ok(Ok(outcome)) => {
                progress.lines += reached.lines;
                progress.bytes += reached.bytes;
                progress.objects.add(outcome.objects);
                progress.relationships.add(outcome.relationships);
                progress.failed += outcome.errors.len() as u64;
                progress.errors = outcome.errors;
                if !outcome.renamed.is_empty() && self.renamed.len() < MAX_RENAMED_IDS {
                    Arc::make_mut(&mut self.renamed).extend(outcome.renamed);
                }
                Ok(true)
            }
            Ok(Err(BatchError::Stopped(outcome))) => {
                progress.objects.add(outcome.objects);
                progress.relationships.add(outcome.relationships);
                progress.failed += outcome.errors.len() as u64;
                progress.errors = outcome.errors;
                progress.stopped = true;
                Ok(true)
            }
            Ok(Err(BatchError::Failed(error))) => Err(error),
            Err(_) => Err(emergent_store::Error::Closed.into()),
        }
    }
}

fn input_error(error: &str) -> Error {
    Invalid::new(
        "",
        format!("the upload ended early: {error}; run the import again, it updates what is already there"),
    )
    .into()
}
