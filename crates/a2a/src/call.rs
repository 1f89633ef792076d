//! A message to an agent, from sending it until its task ends. Whoever stops waiting cancels the task.

use std::{sync::Arc, time::Duration};

use emergent_net::{
    backoff::Backoff,
    call_clock::{CallClock, ClockPause},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
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
/// The delays after a refusal because of a rate limit that names no time. The first is the shortest for all.
const RATE_LIMIT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// How long the request that cancels a task may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the answer to a message is awaited that nobody waits for any more, to cancel its task.
const LATE_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a call may take, and the callback for its waits.
#[derive(Clone)]
pub struct CallOptions {
    /// The timeout of the call, by its clock.
    pub within: Duration,
    pub clock: CallClock,
    pub patience: Patience,
    pub on_wait: OnWait,
}

impl CallOptions {
    /// Options for a caller that does not wait for people of the other system.
    pub fn new(within: Duration) -> Self {
        let (clock, patience) = (CallClock::default(), Patience::Unauthorised);
        Self { within, clock, patience, on_wait: Arc::new(|_| ()) }
    }
}

/// The callback that receives what a call waits for.
pub type OnWait = Arc<dyn Fn(Wait) + Send + Sync>;

/// What a call waits for, besides the work of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// A person of the other system has to authorise the task. The text is what the agent says of it.
    Authorisation { text: String },
    /// The agent refused a request because of its rate limit, and gets it again after this time.
    RateLimit { delay: Duration },
}

/// Which waits a call endures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A task that needs an authorisation is the outcome of the call.
    Unauthorised,
    /// An authorisation is awaited until the timeout of the call. A task that still needs it then is the outcome.
    Timeout,
    /// Authorisations and rate limits are awaited until then, and do not count towards the timeout of the call.
    Until(Instant),
}

impl AgentClient {
    /// Sends a message and waits until its task ends, or needs something from the caller. If the future is
    /// dropped, or the time is up, the task is cancelled. A message that the agent may have got is not sent again: its
    /// answer may have been lost.
    pub async fn send(&self, message: OutgoingMessage, options: CallOptions) -> Result<Outcome, Error> {
        let mut call = OpenCall::new(self, options);
        let (clock, within) = (call.options.clock.clone(), call.options.within);
        let ended = clock.timeout(within, call.run(message)).await;
        call.end(ended)
    }

    /// Waits until a task ends that an earlier message started, or needs something from the caller. If the time is up,
    /// the task as it is then is the outcome. If the future is dropped, the task is cancelled, unless the caller does
    /// not wait at all ([`Patience::Unauthorised`]).
    pub async fn follow(&self, task: String, options: CallOptions) -> Result<Outcome, Error> {
        let mut call = OpenCall::new(self, options);
        call.returns_unfinished = true;
        let (clock, within) = (call.options.clock.clone(), call.options.within);
        let ended = clock.timeout(within, call.run_follow(task)).await;
        call.end(ended)
    }
}

/// A call that is cancelled on the agent when it is dropped.
struct OpenCall {
    inner: Arc<Inner>,
    options: CallOptions,
    /// When the timeout strikes, if the clock never stops.
    timeout_at: Instant,
    /// Whether a task that has not ended when the time is up is the outcome.
    returns_unfinished: bool,
    /// The request with the message, until its answer has come.
    sending: Option<JoinHandle<Result<Outcome, Error>>>,
    /// The task, until it has ended.
    task: Option<String>,
    /// The task as it is, if that is the outcome when the time is up.
    unfinished: Option<Outcome>,
}

impl OpenCall {
    fn new(client: &AgentClient, options: CallOptions) -> Self {
        Self {
            inner: Arc::clone(&client.0),
            timeout_at: Instant::now() + options.within,
            options,
            returns_unfinished: false,
            sending: None,
            task: None,
            unfinished: None,
        }
    }

    async fn run(&mut self, message: OutgoingMessage) -> Result<Outcome, Error> {
        let mut refusals = 0;
        let outcome = loop {
            match self.send_once(message.clone()).await {
                // The agent did nothing with the message.
                Err(error @ Error::RateLimited { .. }) => self.wait_for_limit(error, &mut refusals).await?,
                sent => break sent?,
            }
        };
        self.wait_for_end(outcome).await
    }

    async fn run_follow(&mut self, task: String) -> Result<Outcome, Error> {
        let outcome = self.ask_for_task(&task).await?;
        match self.options.patience {
            Patience::Unauthorised => Ok(outcome),
            Patience::Timeout | Patience::Until(_) => self.wait_for_end(outcome).await,
        }
    }

    async fn send_once(&mut self, message: OutgoingMessage) -> Result<Outcome, Error> {
        let (inner, within) = (Arc::clone(&self.inner), self.options.within);
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
        sent.map_err(|_| Error::Lost("the request was interrupted".into()))?
    }

    /// Asks for the task until it has ended.
    async fn wait_for_end(&mut self, mut outcome: Outcome) -> Result<Outcome, Error> {
        let mut polls = 0;
        // Keeps the clock stopped while a person has to act.
        let mut authorisation: Option<Option<ClockPause>> = None;
        loop {
            match outcome.state {
                TaskState::Working => authorisation = None,
                TaskState::AuthRequired if self.options.patience != Patience::Unauthorised => {
                    if authorisation.is_none() {
                        (self.options.on_wait)(Wait::Authorisation { text: outcome.summary() });
                        authorisation = Some(self.pause_clock());
                        // The authorisation may be given at once.
                        polls = 0;
                    }
                }
                _ => return Ok(outcome),
            }
            let task =
                outcome.task.clone().ok_or_else(|| Error::InvalidMessage("a task without an id".into()))?;
            self.task = Some(task.clone());
            let is_outcome = self.returns_unfinished || outcome.state == TaskState::AuthRequired;
            // What the agent has said so far may be large, and is not needed while this waits.
            self.unfinished = is_outcome.then(|| outcome.without_content());
            drop(outcome);
            sleep(POLL.delay(polls)).await;
            polls += 1;
            outcome = self.ask_for_task(&task).await?;
        }
    }

    /// Asks for a task as it is now.
    async fn ask_for_task(&mut self, task: &str) -> Result<Outcome, Error> {
        let get = Operation::Get { task: task.to_owned() };
        let (mut failures, mut refusals) = (0, 0);
        loop {
            let polled = self.inner.request(&get, POLL_TIMEOUT, task::parse_task).await;
            match polled.map(Outcome::from) {
                Ok(next) if next.task.as_deref() != Some(task) => {
                    return Err(Error::InvalidMessage("another task than the one that was asked for".into()));
                }
                Ok(next) => return Ok(next),
                Err(error @ Error::RateLimited { .. }) => self.wait_for_limit(error, &mut refusals).await?,
                Err(error)
                    if error.is_transient()
                        && (failures + 1 < MAX_FAILED_POLLS || self.has_time_to_wait()) =>
                {
                    sleep(POLL.delay(failures)).await;
                    failures += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits as long as the agent wants after it refused a request because of its rate limit. Fails with the refusal
    /// if that is longer than the call may take.
    async fn wait_for_limit(&self, refusal: Error, refusals: &mut u32) -> Result<(), Error> {
        let Error::RateLimited { retry_after } = &refusal else { return Err(refusal) };
        // An agent that names zero seconds again and again is not asked without a pause.
        let delay = match retry_after {
            Some(named) => (*named).max(RATE_LIMIT.delay(0)),
            None => RATE_LIMIT.delay(*refusals),
        };
        *refusals += 1;
        let latest = match self.options.patience {
            Patience::Until(instant) => instant,
            Patience::Unauthorised | Patience::Timeout => self.timeout_at,
        };
        if delay >= latest.saturating_duration_since(Instant::now()) {
            return Err(refusal);
        }
        (self.options.on_wait)(Wait::RateLimit { delay });
        let _pause = self.pause_clock();
        sleep(delay).await;
        Ok(())
    }

    /// Whether the call may wait for the other system, which may be away for some minutes, instead of giving its task up.
    fn has_time_to_wait(&self) -> bool {
        matches!(self.options.patience, Patience::Until(instant) if Instant::now() < instant)
    }

    /// Stops the clock of the call, if its waits do not count.
    fn pause_clock(&self) -> Option<ClockPause> {
        matches!(self.options.patience, Patience::Until(_)).then(|| self.options.clock.pause())
    }

    /// The outcome of the call; `None` if its time was up. A task that failed to be followed, or takes too long, is
    /// cancelled when this is dropped: nobody asks for it any more.
    fn end(mut self, ended: Option<Result<Outcome, Error>>) -> Result<Outcome, Error> {
        let within = self.options.within;
        match (ended, self.unfinished.take(), self.task.clone()) {
            (Some(Ok(outcome)), ..) | (None, Some(outcome), _) => {
                self.task = None;
                Ok(outcome)
            }
            (Some(Err(error)), _, Some(task)) => Err(Error::Abandoned { task, source: Box::new(error) }),
            (Some(Err(error)), _, None) => Err(error),
            (None, None, Some(task)) => Err(Error::NotFinished { task, within }),
            (None, None, None) => Err(Error::Timeout(within)),
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
                    Ok(Ok(Ok(Outcome { state, task: Some(task), .. }))) if !state.is_end() => task,
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
