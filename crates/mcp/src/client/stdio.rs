//! MCP over the standard input and output of a program: one message per line, responses in any order.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
};

use super::{
    ClientOptions, Error,
    inbox::Inbox,
    lines::{self, Line},
    pending::PendingReplies,
    process::{Process, Program},
    transport::{Reply, Request, Transport},
};
use crate::message::{Kind, Message};

/// The maximum number of messages that wait until the program reads them.
const QUEUE_CAPACITY: usize = 64;
const MAX_LOG_LINE_BYTES: usize = 16 << 10;

pub struct StdioTransport {
    process: Arc<Process>,
    pending: Arc<PendingReplies>,
    out: parking_lot::Mutex<Option<mpsc::Sender<Bytes>>>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl StdioTransport {
    #[expect(
        clippy::disallowed_methods,
        reason = "the transport keeps the handles, and aborts the tasks when it is dropped"
    )]
    pub fn start(program: &Program, inbox: Arc<Inbox>, options: &ClientOptions) -> Result<Self, Error> {
        let (process, pipes) = Process::start(program)?;
        let (process, pending) = (Arc::new(process), PendingReplies::new());
        let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
        let reader = Reader {
            pending: Arc::clone(&pending),
            inbox,
            // A weak reference, because the reader must not keep the program's input open.
            out: out.downgrade(),
            limit: options.max_message_bytes,
        };
        let read = tokio::spawn({
            let (process, pending) = (Arc::clone(&process), Arc::clone(&pending));
            async move {
                let mut error = reader.read(pipes.stdout).await;
                process.stop();
                if matches!(error, Error::Lost(_)) {
                    // The exit status of the process is a better reason than a closed pipe.
                    error = Error::Lost(process.exited().await);
                }
                pending.close_with(&error);
            }
        });
        let write = tokio::spawn(write_loop(pipes.stdin, queue));
        let log = tokio::spawn(log_stderr(pipes.stderr, Arc::clone(&options.on_stderr)));
        let tasks = vec![read.abort_handle(), write.abort_handle(), log.abort_handle()];
        Ok(Self { process, pending, out: parking_lot::Mutex::new(Some(out)), tasks })
    }

    async fn write(&self, text: Bytes) -> Result<(), Error> {
        let out = self.out.lock().clone();
        let sent = match out {
            Some(out) => out.send(text).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        Err(self
            .pending
            .close_error()
            .unwrap_or_else(|| Error::Lost("the program no longer reads its input".into())))
    }
}

#[async_trait]
impl Transport for StdioTransport {
    async fn request(&self, request: Request) -> Result<Reply, Error> {
        let expected = self.pending.register(request.id)?;
        // A program that no longer reads will end, and its end is then the error.
        let _ = self.write(request.text).await;
        expected.wait().await
    }

    async fn send(&self, text: Bytes, _: Option<&str>) -> Result<(), Error> {
        self.write(text).await
    }

    async fn closed(&self) -> Error {
        self.pending.closed().await
    }

    async fn close(&self) {
        self.pending.close_with(&Error::Lost("it was closed".into()));
        self.out.lock().take();
        self.process.stop();
        self.process.exited().await;
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.pending.close_with(&Error::Lost("it was closed".into()));
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn write_loop(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(text) = queue.recv().await {
        // The message and its line break are one write, so that the program is not woken twice.
        let mut line = Vec::with_capacity(text.len() + 1);
        line.extend_from_slice(&text);
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            break;
        }
    }
}

async fn log_stderr(stderr: ChildStderr, say: Arc<dyn Fn(&str) + Send + Sync>) {
    let mut from = BufReader::new(stderr);
    loop {
        match lines::next_line(&mut from, MAX_LOG_LINE_BYTES).await {
            Ok(Line::Text(line)) => say(String::from_utf8_lossy(&line).as_ref()),
            // The pipe is read in any case, because a full pipe would block the program.
            Ok(Line::TooLong) => {
                say("(a line that is too long to be logged)");
                let mut rest = from.into_inner();
                let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
                return;
            }
            Ok(Line::End) | Err(_) => return,
        }
    }
}

struct Reader {
    pending: Arc<PendingReplies>,
    inbox: Arc<Inbox>,
    out: mpsc::WeakSender<Bytes>,
    limit: usize,
}

impl Reader {
    /// Reads until the end of the pipe, or until an error that cannot be recovered from.
    async fn read(&self, stdout: ChildStdout) -> Error {
        let mut from = BufReader::with_capacity(64 << 10, stdout);
        let (mut passed_over, mut has_spoken) = (0, false);
        loop {
            let line = match lines::next_line(&mut from, self.limit).await {
                Ok(Line::Text(line)) => line,
                Ok(Line::TooLong) => return Error::TooLarge { limit: self.limit },
                Ok(Line::End) => return Error::Lost("the program closed its output".into()),
                Err(error) => return Error::Lost(error.to_string()),
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let message = Message::parse(&line);
            has_spoken |= message.is_ok();
            match message {
                Ok(message) if message.kind() == Kind::Response => self.pending.resolve(&message),
                Ok(message) => match self.inbox.handle(&message) {
                    Ok(Some(answer)) => {
                        // The send is not awaited: a program that sends requests without reading must not
                        // block the reader.
                        if let Some(out) = self.out.upgrade() {
                            let _ = out.try_send(answer.into());
                        }
                    }
                    Ok(None) => {}
                    Err(flood) => return flood,
                },
                Err(error) => {
                    // A waiting call could never finish: the invalid line was its response, or replaces it.
                    // Only before its first message may a program print a greeting, as package runners do.
                    passed_over += 1;
                    let greets = !has_spoken && is_plain_text(&line);
                    if passed_over > MAX_PLAIN_LINES || (!self.pending.is_empty() && !greets) {
                        return Error::InvalidMessage(error.message);
                    }
                }
            }
        }
    }
}

/// The maximum number of lines that are not messages and arrive while no call waits.
const MAX_PLAIN_LINES: usize = 1_000;

/// Whether a line cannot be meant as a message, such as the plain text of a greeting.
fn is_plain_text(line: &[u8]) -> bool {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    std::str::from_utf8(line).is_ok() && !matches!(first, Some(b'{' | b'['))
}
