//! Extracts the text of documents, and splits it into chunks.
//!
//! A document is foreign input, and a small one can need much memory. A server therefore extracts PDFs and
//! large documents in a process of its own, which has limits on memory and time. The process is the
//! same program: it reads the document from standard input, and writes the text and the chunks to standard
//! output. Without a program, as in tests of libraries, the work is done on a thread.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::Stdio,
    sync::{Arc, OnceLock},
    time::Duration,
};

use emergent_documents::{ChunkOptions, Mime, chunk, extract};
use emergent_domain::{foreign_json, invalid::Invalid};
use emergent_store::MAX_TEXT_BYTES;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::work_pool::Turn;

/// The name of the command that extracts a document from standard input.
pub const COMMAND: &str = "extract-document";
/// The memory that the process may use. A PDF of the largest accepted size with images fits.
pub const MEMORY_LIMIT: u64 = 768 << 20;
/// The processor time that the process may use.
pub const CPU_LIMIT: Duration = Duration::from_secs(90);
/// After this time the process is killed.
const TIME_LIMIT: Duration = Duration::from_secs(240);
/// Smaller documents are extracted by this process, unless they are PDFs.
const SMALL_DOCUMENT: usize = 256 << 10;
/// The maximum size of what precedes the text in the output: the title, and the chunks with their headings.
const MAX_HEADER_BYTES: u64 = 96 << 20;

/// The text of a document, and where its chunks are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extracted {
    pub text: String,
    pub chunks: Vec<ChunkRange>,
}

/// A chunk: `text[start..end]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkRange {
    pub start: usize,
    pub end: usize,
    pub tokens: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
}

/// The first line of the output. The text follows it.
#[derive(Serialize, Deserialize)]
enum Header {
    Extracted { text_bytes: u64, chunks: Vec<ChunkRange> },
    Failed(String),
}

/// Extracts documents with a program, or with a thread if there is none.
#[derive(Default)]
pub(crate) struct TextExtractor {
    program: OnceLock<PathBuf>,
}

impl TextExtractor {
    pub(crate) fn set_program(&self, program: PathBuf) {
        // The first program stays: a server sets it once, before it accepts documents.
        let _ = self.program.set(program);
    }

    /// Extracts a document. The turn ends with the work, even if the caller is dropped before.
    pub(crate) async fn extract(
        &self,
        mime: Mime,
        content: Vec<u8>,
        turn: Arc<Turn>,
    ) -> Result<Extracted, Invalid> {
        match self.program.get() {
            Some(program) if mime == Mime::Pdf || content.len() > SMALL_DOCUMENT => {
                extract_in_process(program.clone(), mime, content).await
            }
            _ => extract_on_thread(mime, content, turn).await,
        }
    }
}

async fn extract_on_thread(mime: Mime, content: Vec<u8>, turn: Arc<Turn>) -> Result<Extracted, Invalid> {
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited here; the pools of documents limit how many there are"
    )]
    let extracted = tokio::task::spawn_blocking(move || {
        // A thread cannot be stopped. It keeps the turn, so that no other one starts beside it.
        let _turn = turn;
        extract_chunks(mime, &content)
    });
    let extracted = extracted.await.map_err(|_| {
        Invalid::new("content", "could not be read: the text extraction crashed; the file may be damaged")
    })?;
    extracted.map_err(|reason| Invalid::new("content", reason))
}

/// Extracts and chunks. This can take long for a large document.
fn extract_chunks(mime: Mime, content: &[u8]) -> Result<Extracted, String> {
    let read = extract(mime, content).map_err(|error| error.to_string())?;
    let chunks = chunk(&read, &ChunkOptions::default()).into_iter().map(|part| ChunkRange {
        start: part.start,
        end: part.end,
        tokens: part.tokens,
        heading: part.heading,
    });
    Ok(Extracted { chunks: chunks.collect(), text: read.text })
}

/// The other side of `extract_in_process`: extracts the document on `input`, and writes the outcome to
/// `output`. A document that cannot be read is an outcome, not an error.
pub fn run_extraction(media_type: &str, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut content = Vec::new();
    input.read_to_end(&mut content)?;
    let extracted = media_type
        .parse::<Mime>()
        .map_err(|error| error.to_string())
        .and_then(|mime| extract_chunks(mime, &content));
    drop(content);
    let (header, text) = match extracted {
        Ok(Extracted { text, chunks }) => (Header::Extracted { text_bytes: text.len() as u64, chunks }, text),
        Err(reason) => (Header::Failed(reason), String::new()),
    };
    serde_json::to_writer(&mut *output, &header)?;
    output.write_all(b"\n")?;
    output.write_all(text.as_bytes())?;
    output.flush()
}

async fn extract_in_process(program: PathBuf, mime: Mime, content: Vec<u8>) -> Result<Extracted, Invalid> {
    let failed = |reason: &str| Invalid::new("content", format!("could not be read: {reason}"));
    let child = Command::new(program)
        .args([COMMAND, &mime.to_string()])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let mut child = child.map_err(|error| {
        tracing::error!(%error, "could not start the process that extracts documents");
        failed("the server could not start the text extraction; try again later")
    })?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("the text extraction has no input"));
    };
    let work = async {
        let send = async move {
            // If the process ends early, its outcome says why.
            let _ = stdin.write_all(&content).await;
            drop((stdin, content));
        };
        let (received, ()) = tokio::join!(receive(BufReader::new(stdout)), send);
        (received, child.wait().await)
    };
    match timeout(TIME_LIMIT, work).await {
        Ok((Ok(Ok(extracted)), _)) => Ok(extracted),
        Ok((Ok(Err(reason)), _)) => Err(Invalid::new("content", reason)),
        Ok((Err(_), Ok(status))) if !status.success() => Err(failed(&format!(
            "the text extraction needs more than the limit of {} MiB of memory or {} seconds, or crashed; \
             the file may be damaged: split it, or convert it to text",
            MEMORY_LIMIT >> 20,
            CPU_LIMIT.as_secs()
        ))),
        Ok((Err(error), _)) => Err(failed(&error.to_string())),
        Err(_) => {
            let seconds = TIME_LIMIT.as_secs();
            Err(failed(&format!("the text extraction took longer than the limit of {seconds} seconds")))
        }
    }
}

/// Reads what the process writes: the outcome, or the error of the document.
async fn receive(
    mut output: BufReader<tokio::process::ChildStdout>,
) -> io::Result<Result<Extracted, String>> {
    let mut line = Vec::new();
    (&mut output).take(MAX_HEADER_BYTES).read_until(b'\n', &mut line).await?;
    let too_large = || io::Error::other("its text or its headings are too large; split the document");
    if line.len() as u64 == MAX_HEADER_BYTES {
        return Err(too_large());
    }
    match foreign_json::from_slice(&line)? {
        Header::Failed(reason) => Ok(Err(reason)),
        Header::Extracted { text_bytes, chunks } => {
            drop(line);
            if text_bytes > MAX_TEXT_BYTES as u64 {
                return Err(too_large());
            }
            let mut text = Vec::with_capacity(usize::try_from(text_bytes).unwrap_or_default());
            output.take(text_bytes).read_to_end(&mut text).await?;
            let text = String::from_utf8(text).map_err(io::Error::other)?;
            let is_in_text = |chunk: &ChunkRange| text.get(chunk.start..chunk.end).is_some();
            if text.len() as u64 != text_bytes || !chunks.iter().all(is_in_text) {
                return Err(io::Error::other("the text extraction ended early"));
            }
            Ok(Ok(Extracted { text, chunks }))
        }
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;
    use crate::work_pool::WorkPool;

    /// One thread for such work is busy for a while, so that the extraction waits for it.
    #[test]
    fn a_document_keeps_its_turn_until_its_thread_has_ended() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let (pool, project) = (WorkPool::new("tests", 1, Duration::from_millis(100)), ProjectId::new());
            let (release, released) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || released.recv());
            let turn = Arc::new(pool.turn(project).await.unwrap());
            let extractor = TextExtractor::default();
            let extracting = extractor.extract(Mime::TEXT, b"tea".to_vec(), turn);
            assert!(timeout(Duration::from_millis(50), extracting).await.is_err(), "the caller gives up");
            assert!(pool.turn(project).await.is_err(), "the work has not ended");
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            assert!(pool.turn(project).await.is_ok());
        });
    }

    fn run(media_type: &str, content: &[u8]) -> (Header, String) {
        let mut output = Vec::new();
        run_extraction(media_type, &mut &*content, &mut output).unwrap();
        let split = output.iter().position(|byte| *byte == b'\n').unwrap();
        let header = serde_json::from_slice(&output[..split]).unwrap();
        (header, String::from_utf8(output[split + 1..].to_vec()).unwrap())
    }

    #[test]
    fn the_process_writes_the_chunks_and_then_the_text() {
        let (header, text) = run("text/markdown", b"# Tea\n\nSteep for **three** minutes.");
        let Header::Extracted { text_bytes, chunks } = header else { panic!("it is readable") };
        assert_eq!(text, "Tea\n\nSteep for three minutes.");
        assert_eq!((text_bytes as usize, chunks[0].heading.as_deref()), (text.len(), Some("Tea")));
    }

    #[test]
    fn a_document_that_cannot_be_read_is_an_outcome() {
        let (header, text) = run("application/pdf", b"not a PDF");
        assert!(matches!(header, Header::Failed(reason) if reason.contains("PDF")));
        assert_eq!(text, "");
    }
}
