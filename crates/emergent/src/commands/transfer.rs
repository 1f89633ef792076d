//! `emergent graph import` and `export`: streams a graph from or to an NDJSON file.

use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use emergent_domain::{foreign_json, text::counted};
use emergent_wire::{
    envelope::FailureBody,
    import::{CountsView, ImportView, LineErrorView},
};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::{Client, Received, refusal},
    error::{Error, Result},
    output, progress,
};

/// How many invalid lines are shown; the others are only counted.
const MAX_SHOWN_ERRORS: usize = 20;

/// The lines that an import reads.
const FORMAT: &str = r#"{"kind":"object","type":"Person","key":"ada","properties":{"name":"Ada"}} or {"kind":"relationship","type":"knows","from":{"type":"Person","key":"ada"},"to":{"type":"Person","key":"charles"}}"#;
/// The file is read and sent in chunks of this size.
const CHUNK_BYTES: usize = 256 << 10;
/// What an export does not contain, so that nobody takes it for a backup.
const LEFT_OUT: &str = "exported: the current objects and relationships of one project. Not exported: their history, \
                        sources, documents, agents, runs, workflows, products, tokens and secrets; `emergent \
                        backup` copies everything.";
/// The end of an export that took longer than this is announced.
const LONG_EXPORT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Skip invalid lines instead of stopping at the batch that contains one
    ///
    /// A batch has 2,000 lines.
    #[arg(long)]
    skip_errors: bool,
}

impl Import {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let (reader, size) = self.open()?;
        let bar = progress::bytes(size, "importing");
        let upload_bar = bar.clone();
        let body = read_in_chunks(reader)
            .inspect(move |chunk| upload_bar.inc(chunk.as_ref().map_or(0, Bytes::len) as u64));
        let path = if self.skip_errors { "/api/graph/import?onError=skip" } else { "/api/graph/import" };
        let response = client.upload(path, "application/x-ndjson", body).await?;
        let mut errors = Vec::new();
        let last = last_line(response.stream(), |progress| {
            let (objects, edges) = (total(&progress.objects), total(&progress.relationships));
            bar.set_message(format!(
                "importing  {}, {}",
                counted(objects, "object"),
                counted(edges, "relationship")
            ));
            errors.extend(progress.errors.iter().cloned());
            errors.truncate(MAX_SHOWN_ERRORS);
        })
        .await?;
        bar.finish_and_clear();
        let last = match last {
            ImportLine::Progress(progress) => progress,
            ImportLine::Failed { error } => return Err(refusal(error)),
        };
        let (failed, stopped) = (last.failed, last.stopped);
        if as_json {
            let mut summary = last.into_raw();
            // The last line has only the errors since the line before it.
            summary["errors"] = json!(errors);
            output::print_json(&summary)?
        } else {
            print_summary(&last, &errors)?
        }
        match (failed, stopped) {
            (0, _) => Ok(()),
            (count, true) => Err(Error::Usage(format!(
                "{}: the import stopped there; correct the file and run it again, or leave them out with --skip-errors",
                line_count_text(count, "wrong")
            ))),
            (count, false) => Err(Error::Usage(line_count_text(count, "not imported"))),
        }
    }

    /// Refuses a file that does not exist. It is not opened: a pipe can be opened only once.
    pub fn check_file(&self) -> Result<()> {
        if self.file.as_os_str() == "-" {
            return Ok(());
        }
        let found = std::fs::metadata(&self.file);
        found.map(drop).map_err(|source| Error::input_file(&self.file, source))
    }

    /// Opens the input. Its size is `None` when it is unknown.
    fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
        if self.file.as_os_str() == "-" {
            return Ok((Box::new(std::io::stdin()), None));
        }
        let failed = |source| Error::input_file(&self.file, source);
        let file = File::open(&self.file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok((Box::new(file), Some(metadata.len()).filter(|length| *length > 0)))
    }
}

/// `1 line was wrong`, `3 lines were wrong`.
fn line_count_text(count: u64, outcome: &str) -> String {
    if count == 1 { format!("1 line was {outcome}") } else { format!("{count} lines were {outcome}") }
}

/// Streams a file in chunks; reads block, so they run on a blocking thread.
fn read_in_chunks(
    reader: Box<dyn Read + Send>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(reader, |mut reader| async move {
        #[expect(clippy::disallowed_methods, reason = "awaited here; a file is read one chunk at a time")]
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            let length = reader.read(&mut chunk)?;
            chunk.truncate(length);
            Ok::<_, std::io::Error>((length > 0).then_some((Bytes::from(chunk), reader)))
        });
        read.await.map_err(std::io::Error::other)?
    })
}

fn total(counts: &CountsView) -> u64 {
    counts.created + counts.updated + counts.unchanged
}

fn print_summary(progress: &ImportView, errors: &[LineErrorView]) -> Result<()> {
    for (what, counts) in [("object", &progress.objects), ("relationship", &progress.relationships)] {
        output::print_line(&format!(
            "{}: {} created, {} updated, {} unchanged",
            counted(total(counts), what),
            counts.created,
            counts.updated,
            counts.unchanged
        ))?;
    }
    for error in errors {
        output::print_text(&format!("  line {}: {}", error.line, error.message))?;
    }
    match errors.first().and_then(format_hint) {
        Some(hint) => output::print_text(&format!("{hint}: {FORMAT}")),
        None => Ok(()),
    }
}

/// What the lines of the file have to be, if the error of its first line is about that. A file in another format, such as
/// CSV or a list, is wrong from its first line on. `None` if the line has the right form and something else is wrong.
fn format_hint(error: &LineErrorView) -> Option<&'static str> {
    let begins_with = |begins: &[&str]| begins.iter().any(|begin| error.message.starts_with(begin));
    if error.line != 1 || error.field.is_some() {
        return None;
    }
    if begins_with(&["is not JSON", "is not UTF-8", "is a list", "invalid type: "]) {
        return Some("The file has to be NDJSON, an object of JSON in each line");
    }
    begins_with(&["missing field `", "unknown field `", "unknown variant `"])
        .then_some("A line looks like this")
}

/// A line of the response to an import.
#[derive(Deserialize)]
#[serde(untagged)]
enum ImportLine {
    Progress(Received<ImportView>),
    /// The import failed; this is always the last line.
    Failed {
        error: FailureBody,
    },
}

/// The error for a response that ended before the import did.
fn cut_off() -> Error {
    Error::Usage("the import was cut off; run it again, it goes on from what is there".to_owned())
}

/// Reads the NDJSON lines of a response and returns the last; `on_progress` gets each progress line. Fails
/// when the last line does not say that the import is done.
async fn last_line(
    mut chunks: stream::BoxStream<'static, Result<Bytes>>,
    mut on_progress: impl FnMut(&ImportView),
) -> Result<ImportLine> {
    let (mut buffer, mut last) = (Vec::new(), None);
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk?);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let Ok(line) = foreign_json::from_slice::<ImportLine>(&line) else { continue };
            if let ImportLine::Progress(progress) = &line {
                on_progress(progress);
            }
            last = Some(line);
        }
    }
    match last {
        Some(ImportLine::Progress(progress)) if !progress.done => Err(cut_off()),
        Some(last) => Ok(last),
        None => Err(cut_off()),
    }
}

#[derive(Debug, clap::Args)]
pub struct Export {
    /// A file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub async fn run(self, client: &Client) -> Result<()> {
        let mut chunks = client.get("/api/graph/export").await?.stream();
        let bar = progress::bytes(None, "exporting");
        let mut out: Box<dyn Write> = match &self.output {
            Some(path) => Box::new(File::create(path).map_err(|source| Error::output_file(path, source))?),
            None => output::text_writer(),
        };
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            out.write_all(&chunk)?;
            bar.inc(chunk.len() as u64);
        }
        out.flush()?;
        bar.finish_and_clear();
        output::print_notice(LEFT_OUT);
        if let Some(path) = &self.output
            && bar.elapsed() > LONG_EXPORT
        {
            eprintln!("written to {}", path.display());
        }
        Ok(())
    }
}
