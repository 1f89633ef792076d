//! A message to an agent, from sending it until its task ends. Whoever stops waiting cancels the task.

use std::{sync::Arc, time::Duration};

use emergent_net::backoff::Backoff;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::debug;

use crate::{
    AgentClient, Error,
    binding::Operation,
    client::Inner,
    task::{self, Outcome, OutgoingMessage, TaskState},
};

/// The delays between two questions whether a task has ended.
const POLL: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// The timeout of one such question.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);
/// How many of them may fail one after the other.
const MAX_FAILED_POLLS: u32 = 5;
/// How long the request that cancels a task may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the answer to a message is awaited that nobody waits for any more, to cancel its task.
const LATE_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

impl AgentClient {
    /// Sends a message and waits until its task ends, or needs something from the caller. If the future is
    /// dropped, or the time is up, the task is cancelled. A message is sent only once: the agent may have got one
    /// whose answer was lost.
    pub async fn send(&self, message: OutgoingMessage, within: Duration) -> Result<Outcome, Error> {
        let mut call = OpenCall { inner: Arc::clone(&self.0), sending: None, task: None };
        match timeout(within, call.run(message, within)).await {
            Ok(outcome) => {
                // A failed call leaves a task behind that nobody asks for.
                if outcome.is_ok() {
                    call.task = None;
                }
                outcome
            }
            Err(_) => Err(match call.task.clone() {
                Some(task) => Error::NotFinished { task, within },
                None => Error::Timeout(within),
            }),
        }
    }
}

/// A call that is cancelled on the agent when it is dropped.
struct OpenCall {
    inner: Arc<Inner>,
    /// The request with the message, until its answer has come.
    sending: Option<JoinHandle<Result<Outcome, Error>>>,
    /// The task, until it has ended.
    task: Option<String>,
}

impl OpenCall {
    async fn run(&mut self, message: OutgoingMessage, within: Duration) -> Result<Outcome, Error> {
        let inner = Arc::clone(&self.inner);
        // In a task of its own: if the caller stops waiting, the id of the task is still needed to cancel it.
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here or, when the call is dropped, to cancel it"
        )]
        let sending = tokio::spawn(async move {
            let sent = inner.request(&Operation::Send(message.params()), within, task::parse_sent).await?;
            Ok(Outcome::from(sent))
        });
        let sent = self.sending.insert(sending).await;
        self.sending = None;
        let outcome = sent.map_err(|_| Error::Lost("the request was interrupted".into()))??;
        self.wait_for_end(outcome).await
    }

    /// Asks for the task until it has ended.
    async fn wait_for_end(&mut self, mut outcome: Outcome) -> Result<Outcome, Error> {
        if outcome.state != TaskState::Working {
            return Ok(outcome);
        }
        let task = outcome.task.take().ok_or_else(|| Error::InvalidMessage("a task without an id".into()))?;
        // What the agent has said so far may be large, and is not needed while this waits.
        drop(outcome);
        self.task = Some(task.clone());
        let get = Operation::Get { task: task.clone() };
        let (mut polls, mut failures) = (0, 0);
        loop {
            sleep(POLL.delay(polls)).await;
            polls += 1;
            let polled = self.inner.request(&get, POLL_TIMEOUT, task::parse_task).await;
            match polled.map(Outcome::from) {
                Ok(next) if next.task.as_ref() != Some(&task) => {
                    return Err(Error::InvalidMessage("another task than the one that was asked for".into()));
                }
                Ok(next) if next.state != TaskState::Working => return Ok(next),
                Ok(_) => failures = 0,
                Err(error) if error.is_transient() && failures + 1 < MAX_FAILED_POLLS => failures += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let (sending, task) = (self.sending.take(), self.task.take());
        if sending.is_none() && task.is_none() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let inner = Arc::clone(&self.inner);
        runtime.spawn(async move {
            let task = match (task, sending) {
                (Some(task), _) => task,
                (None, Some(sending)) => match timeout(LATE_ANSWER_TIMEOUT, sending).await {
                    Ok(Ok(Ok(Outcome { state: TaskState::Working, task: Some(task), .. }))) => task,
                    _ => return,
                },
                (None, None) => return,
            };
            if let Err(error) = inner.request(&Operation::Cancel { task }, CANCEL_TIMEOUT, |_| Ok(())).await {
                debug!("a task could not be cancelled: {}", error.without_quotes());
            }
        });
    }
}
