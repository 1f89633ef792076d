//! MCP over the standard input and output of a program: one message per line, responses in any order.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use emergent_net::large_messages::{LargeMessages, MAX_UNCOUNTED_BYTES};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
};

use super::{
    ClientOptions, Error,
    inbox::{Inbox, ServerReply},
    lines::{self, Line},
    pending::PendingReplies,
    process::{Process, Program},
    transport::{Incoming, Reply, Request, Transport, receive},
};

const READ_BUFFER_BYTES: usize = 64 << 10;
/// The maximum number of messages that wait until the program reads them.
const QUEUE_CAPACITY: usize = 64;
/// A longer line of a program's standard error is not logged, nor is anything after it.
const MAX_LOG_LINE_BYTES: usize = 16 << 10;
/// How long the rest of the standard error of an ended program is read. A descendant that outlived the program may keep
/// it open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);

/// A program and the tasks that exchange messages with it.
pub struct StdioTransport {
    process: Arc<Process>,
    pending: Arc<PendingReplies>,
    /// The queue of messages to the program; `None` once the transport is closed.
    out: parking_lot::Mutex<Option<mpsc::Sender<Bytes>>>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl StdioTransport {
    /// Starts the program, and the tasks that read, write and log.
    #[expect(
        clippy::disallowed_methods,
        reason = "the transport keeps the handles, and aborts the tasks when it is dropped"
    )]
    pub fn start(program: &Program, inbox: Arc<Inbox>, options: &ClientOptions) -> Result<Self, Error> {
        (options.on_start)();
        let (process, pipes) = Process::start(program)?;
        let (process, pending) = (Arc::new(process), PendingReplies::new());
        let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
        let reader = Reader {
            pending: Arc::clone(&pending),
            inbox,
            // A weak reference, because the reader must not keep the program's input open.
            out: out.downgrade(),
            max_message_bytes: options.max_message_bytes,
            large: options.large_messages.clone(),
        };
        let log = tokio::spawn(log_stderr(pipes.stderr, Arc::clone(&options.on_stderr)));
        let log_handle = log.abort_handle();
        let read = tokio::spawn({
            let (process, pending) = (Arc::clone(&process), Arc::clone(&pending));
            async move {
                let mut error = reader.read(pipes.stdout).await;
                process.stop();
                if matches!(error, Error::Lost(_)) {
                    // The exit status of the process is a better reason than a closed pipe.
                    error = Error::Lost(process.exited().await);
                    // Whoever gets the error may show what the program wrote last, which often says why it ended.
                    let _ = tokio::time::timeout(STDERR_TIMEOUT, log).await;
                }
                pending.close_with(&error);
            }
        });
        let write = tokio::spawn(write_loop(pipes.stdin, queue));
        let tasks = vec![read.abort_handle(), write.abort_handle(), log_handle];
        Ok(Self { process, pending, out: parking_lot::Mutex::new(Some(out)), tasks })
    }

    /// Queues a message for the program.
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
        let pending_reply = self.pending.register(request.id)?;
        // A failed write needs no error of its own: the program is ending, and its end ends the wait.
        let _ = self.write(request.text).await;
        pending_reply.wait().await
    }

    async fn send(&self, text: Bytes, _: Option<&str>) -> Result<(), Error> {
        self.write(text).await
    }

    async fn closed(&self) -> Error {
        self.pending.closed().await
    }

    async fn close(&self) {
        self.pending.close_with(&Error::Lost("the connection was closed".into()));
        self.out.lock().take();
        self.process.stop();
        self.process.exited().await;
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.pending.close_with(&Error::Lost("the connection was closed".into()));
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Writes queued messages to the program until the queue or the pipe is closed.
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

/// Passes the lines of a program's standard error to `on_line`.
async fn log_stderr(stderr: ChildStderr, on_line: Arc<dyn Fn(&str) + Send + Sync>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        match lines::next_line(&mut stderr, MAX_LOG_LINE_BYTES).await {
            Ok(Line::Text(line)) => on_line(String::from_utf8_lossy(&line).as_ref()),
            // The rest is read and discarded, because a full pipe would block the program.
            Ok(Line::TooLong) => {
                on_line("(a line that is too long to be logged)");
                let mut rest = stderr.into_inner();
                let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
                return;
            }
            Ok(Line::End) | Err(_) => return,
        }
    }
}

/// Reads the messages of a program.
struct Reader {
    pending: Arc<PendingReplies>,
    inbox: Arc<Inbox>,
    out: mpsc::WeakSender<Bytes>,
    max_message_bytes: usize,
    large: LargeMessages,
}

impl Reader {
    /// Reads until the end of the pipe, or until an error that cannot be recovered from.
    async fn read(&self, stdout: ChildStdout) -> Error {
        let mut stdout = BufReader::with_capacity(READ_BUFFER_BYTES, stdout);
        let (mut plain_lines, mut received_message) = (0, false);
        loop {
            let line = match lines::next_line(&mut stdout, self.max_message_bytes).await {
                Ok(Line::Text(line)) => line,
                Ok(Line::TooLong) => return Error::TooLarge { limit: self.max_message_bytes },
                Ok(Line::End) => return Error::Lost("the program closed its output".into()),
                Err(error) => return Error::Lost(error.to_string()),
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            // A program has at most one line in memory that is not counted yet.
            let held = match line.len() > MAX_UNCOUNTED_BYTES {
                true => self.large.hold().await.ok(),
                false => None,
            };
            let (bytes, inbox) = (line.len(), Arc::clone(&self.inbox));
            let received =
                self.large.process(bytes, move || (receive(&line, &inbox, None, None), line)).await;
            let (received, line) = match received {
                Ok(received) => received,
                Err(error) => return error.into(),
            };
            received_message |= received.is_ok();
            match received {
                Ok(Incoming::Response { id, reply }) => {
                    self.pending.resolve(id, reply.map(|reply| Reply { held, ..reply }));
                }
                Ok(Incoming::Handled(handled)) => match handled {
                    Ok(Some(reply)) => self.send_reply(reply),
                    Ok(None) => {}
                    Err(flood) => return flood,
                },
                Err(error) => {
                    // The invalid line may be the response that a call waits for, so the connection ends.
                    // Before its first message, a program may print plain text, as package runners do.
                    plain_lines += 1;
                    let is_greeting = !received_message && is_plain_text(&line);
                    if plain_lines > MAX_PLAIN_LINES || (!self.pending.is_empty() && !is_greeting) {
                        return Error::InvalidMessage(error);
                    }
                }
            }
        }
    }
}

impl Reader {
    /// Sends the response to a request of the program.
    fn send_reply(&self, reply: ServerReply) {
        match reply {
            // The send is not awaited: a program that sends requests without reading must not block the reader.
            ServerReply::Ready(response) => {
                if let Some(out) = self.out.upgrade() {
                    let _ = out.try_send(response.into());
                }
            }
            ServerReply::Later(reply) => {
                let out = self.out.clone();
                #[expect(
                    clippy::disallowed_methods,
                    reason = "it ends with the call that the request belongs to, and the number of such requests is limited"
                )]
                tokio::spawn(async move {
                    if let (Some(response), Some(out)) = (reply.await, out.upgrade()) {
                        let _ = out.send(response.into()).await;
                    }
                });
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
