//! `emergent graph import` and `export`: whole graphs as NDJSON, as streams in both directions.

use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use crate::{
    client::Client,
    error::{Error, Result},
    output, progress,
};

/// How many wrong lines are shown; the rest is counted.
const MAX_SHOWN_ERRORS: usize = 20;

#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Leave wrong lines out, instead of stopping before the thousand lines that have one
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
        let mut last = last_line(answer.stream(), |told| {
            let (objects, edges) = (total(&told["objects"]), total(&told["relationships"]));
            bar.set_message(format!("importing  {objects} objects, {edges} relationships"));
            wrong.extend(told["errors"].as_array().into_iter().flatten().cloned());
            wrong.truncate(MAX_SHOWN_ERRORS);
        })
        .await?;
        bar.finish_and_clear();
        if let Some(message) = last["error"]["message"].as_str() {
            let code = last["error"]["code"].as_str().unwrap_or_default().to_owned();
            return Err(Error::Refused { code, message: message.to_owned(), details: String::new() });
        }
        last["errors"] = json!(wrong);
        if as_json {
            output::print_json(&last)?
        } else {
            print_summary(&last)?
        }
        match (last["failed"].as_u64().unwrap_or(0), last["stopped"] == true) {
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
        let read = tokio::task::spawn_blocking(move || {
            let mut part = vec![0; 256 << 10];
            let length = reader.read(&mut part)?;
            part.truncate(length);
            Ok::<_, std::io::Error>((length > 0).then_some((Bytes::from(part), reader)))
        });
        read.await.map_err(std::io::Error::other)?
    })
}

fn total(of: &Value) -> u64 {
    ["created", "updated", "unchanged"].iter().filter_map(|how| of[how].as_u64()).sum()
}

fn print_summary(told: &Value) -> Result<()> {
    for what in ["objects", "relationships"] {
        let of = &told[what];
        output::print_line(&format!(
            "{} {what}: {} created, {} updated, {} unchanged",
            total(of),
            of["created"],
            of["updated"],
            of["unchanged"]
        ))?;
    }
    for error in told["errors"].as_array().into_iter().flatten() {
        output::print_line(&format!(
            "  line {}: {}",
            error["line"],
            error["message"].as_str().unwrap_or_default()
        ))?;
    }
    Ok(())
}

/// Reads NDJSON lines as they come and returns the last, which has to say that it is.
async fn last_line(
    mut parts: stream::BoxStream<'static, Result<Bytes>>,
    mut seen: impl FnMut(&Value),
) -> Result<Value> {
    let (mut rest, mut last) = (Vec::new(), Value::Null);
    while let Some(part) = parts.next().await {
        rest.extend_from_slice(&part?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if let Ok(value) = serde_json::from_slice::<Value>(&line) {
                seen(&value);
                last = value;
            }
        }
    }
    if last["done"] == true {
        return Ok(last);
    }
    Err(Error::Usage("the import was cut off; run it again, it goes on from what is there".to_owned()))
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
