//! `emergent graph import` and `export`: whole graphs as NDJSON, as streams in both directions.

use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
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

/// How many wrong lines are shown; the rest is counted.
const MAX_SHOWN_ERRORS: usize = 20;

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
        let sent = bar.clone();
        let body =
            read_in_chunks(reader).inspect(move |part| sent.inc(part.as_ref().map_or(0, Bytes::len) as u64));
        let path = if self.skip_errors { "/api/graph/import?onError=skip" } else { "/api/graph/import" };
        let answer = client.upload(path, "application/x-ndjson", body).await?;
        let mut wrong = Vec::new();
        let last = last_line(answer.stream(), |progress| {
            let (objects, edges) = (total(&progress.objects), total(&progress.relationships));
            bar.set_message(format!("importing  {objects} objects, {edges} relationships"));
            wrong.extend(progress.errors.iter().cloned());
            wrong.truncate(MAX_SHOWN_ERRORS);
        })
        .await?;
        bar.finish_and_clear();
        let last = match last {
            ImportLine::Progress(progress) => progress,
            ImportLine::Failed { error } => return Err(refusal(error)),
        };
        let (failed, stopped) = (last.failed, last.stopped);
        if as_json {
            let mut whole = last.into_raw();
            // The last line has the errors since the one before it; people want all of them.
            whole["errors"] = json!(wrong);
            output::print_json(&whole)?
        } else {
            print_summary(&last, &wrong)?
        }
        match (failed, stopped) {
            (0, _) => Ok(()),
            (wrong, true) => Err(Error::Usage(format!(
                "{}: the import stopped there; mend the file and run it again, or leave them out with --skip-errors",
                line_count_text(wrong, "wrong")
            ))),
            (wrong, false) => Err(Error::Usage(line_count_text(wrong, "not imported"))),
        }
    }

    fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
        if self.file.as_os_str() == "-" {
            return Ok((Box::new(std::io::stdin()), None));
        }
        let failed = |source| Error::File { path: self.file.clone(), source };
        let file = File::open(&self.file).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok((Box::new(file), Some(about.len()).filter(|length| *length > 0)))
    }
}

fn line_count_text(count: u64, how: &str) -> String {
    if count == 1 { format!("1 line was {how}") } else { format!("{count} lines were {how}") }
}

/// A file in parts, read on a thread that may wait.
fn read_in_chunks(
    reader: Box<dyn Read + Send>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(reader, |mut reader| async move {
        #[expect(clippy::disallowed_methods, reason = "awaited here; a file is read one part at a time")]
        let read = tokio::task::spawn_blocking(move || {
            let mut part = vec![0; 256 << 10];
            let length = reader.read(&mut part)?;
            part.truncate(length);
            Ok::<_, std::io::Error>((length > 0).then_some((Bytes::from(part), reader)))
        });
        read.await.map_err(std::io::Error::other)?
    })
}

fn total(counts: &CountsView) -> u64 {
    counts.created + counts.updated + counts.unchanged
}

fn print_summary(progress: &ImportView, errors: &[LineErrorView]) -> Result<()> {
    for (what, counts) in [("objects", &progress.objects), ("relationships", &progress.relationships)] {
        output::print_line(&format!(
            "{} {what}: {} created, {} updated, {} unchanged",
            total(counts),
            counts.created,
            counts.updated,
            counts.unchanged
        ))?;
    }
    for error in errors {
        output::print_line(&format!("  line {}: {}", error.line, error.message))?;
    }
    Ok(())
}

/// A line of the answer to an import.
#[derive(Deserialize)]
#[serde(untagged)]
enum ImportLine {
    Progress(Received<ImportView>),
    /// The import ended with this; it is always the last line.
    Failed {
        error: FailureBody,
    },
}

fn cut_off() -> Error {
    Error::Usage("the import was cut off; run it again, it goes on from what is there".to_owned())
}

/// Reads NDJSON lines as they come and returns the last, which has to say that it is.
async fn last_line(
    mut parts: stream::BoxStream<'static, Result<Bytes>>,
    mut seen: impl FnMut(&ImportView),
) -> Result<ImportLine> {
    let (mut rest, mut last) = (Vec::new(), None);
    while let Some(part) = parts.next().await {
        rest.extend_from_slice(&part?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let Ok(line) = serde_json::from_slice::<ImportLine>(&line) else { continue };
            if let ImportLine::Progress(progress) = &line {
                seen(progress);
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
        let mut parts = client.get("/api/graph/export").await?.stream();
        let bar = progress::bytes(None, "exporting");
        let mut out: Box<dyn Write> = match &self.output {
            Some(path) => {
                Box::new(File::create(path).map_err(|source| Error::File { path: path.clone(), source })?)
            }
            None => Box::new(std::io::stdout().lock()),
        };
        while let Some(part) = parts.next().await {
            let part = part?;
            out.write_all(&part)?;
            bar.inc(part.len() as u64);
        }
        out.flush()?;
        bar.finish_and_clear();
        if let Some(path) = &self.output
            // Long exports end with a word; short ones have their prompt back at once anyway.
            && bar.elapsed() > Duration::from_secs(1)
        {
            eprintln!("written to {}", path.display());
        }
        Ok(())
    }
}
