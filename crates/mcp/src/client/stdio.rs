//! MCP over a program's standard input and output: one message a line, answers in any order.

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

/// Messages that wait until the program reads them.
const QUEUE_CAPACITY: usize = 64;
const MAX_LOG_LINE_BYTES: usize = 16 << 10;

pub struct StdioTransport {
    process: Arc<Process>,
    pending: Arc<PendingReplies>,
    out: parking_lot::Mutex<Option<mpsc::Sender<Bytes>>>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl StdioTransport {
    pub fn start(program: &Program, inbox: Arc<Inbox>, options: &ClientOptions) -> Result<Self, Error> {
        let (process, pipes) = Process::start(program)?;
        let (process, pending) = (Arc::new(process), PendingReplies::new());
        let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
        let reader = Reader {
            pending: Arc::clone(&pending),
            inbox,
            // Weak: what reads must not keep the program's input open.
            out: out.downgrade(),
            limit: options.max_message_bytes,
        };
        let read = tokio::spawn({
            let (process, pending) = (Arc::clone(&process), Arc::clone(&pending));
            async move {
                let mut why = reader.read(pipes.stdout).await;
                process.stop();
                if matches!(why, Error::Lost(_)) {
                    // How the process ended says more than that its pipe did.
                    why = Error::Lost(process.exited().await);
                }
                pending.close_with(&why);
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
        Err(self.pending.close_error().unwrap_or_else(|| Error::Lost("it no longer reads".into())))
    }
}

#[async_trait]
impl Transport for StdioTransport {
    async fn request(&self, request: Request) -> Result<Reply, Error> {
        let expected = self.pending.register(request.id)?;
        // A program that reads no more ends; its end is what is told then.
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
        // One write for line and break: a program woken by half a line would be woken twice.
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
            // Drained all the same: a full pipe would stop the program.
            Ok(Line::TooLong) => {
                say("(a line too long to be logged)");
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
    /// Until the end of the pipe or something that cannot be gone on from.
    async fn read(&self, stdout: ChildStdout) -> Error {
        let mut from = BufReader::with_capacity(64 << 10, stdout);
        let (mut passed_over, mut has_spoken) = (0, false);
        loop {
            let line = match lines::next_line(&mut from, self.limit).await {
                Ok(Line::Text(line)) => line,
                Ok(Line::TooLong) => return Error::TooLarge { limit: self.limit },
                Ok(Line::End) => return Error::Lost("it closed its output".into()),
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
                        // Not waited for: a program that asks without reading must not stop us.
                        if let Some(out) = self.out.upgrade() {
                            let _ = out.try_send(answer.into());
                        }
                    }
                    Ok(None) => {}
                    Err(flood) => return flood,
                },
                Err(error) => {
                    // Whoever waits would wait in vain: this was the answer, or stands in its way.
                    // Only before its first message may a program greet, as package runners do.
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

/// Lines that are no messages and come when nobody waits for one.
const MAX_PLAIN_LINES: usize = 1_000;

/// Whether a line cannot have been meant as a message: plain text of a greeting.
fn is_plain_text(line: &[u8]) -> bool {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    std::str::from_utf8(line).is_ok() && !matches!(first, Some(b'{' | b'['))
}
