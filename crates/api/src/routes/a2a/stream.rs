//! Streams the updates of a task from the record of its runs. A stream begins with the task as it is, and goes on with
//! what happens after that, so that nothing is lost when a client subscribes again, also after a restart of the server.

use std::{collections::VecDeque, time::Duration};

use axum::response::{Response, sse::Event};
use emergent_domain::{
    ids::RunId,
    run::RunStatus,
    run_event::{RunEvent, RunEventBody},
};
use emergent_executor as executor;
use emergent_surfaces::a2a::{
    error::{A2aError, ErrorKind},
    request::{MAX_HISTORY, SendMessage, TaskParams, parse_task},
    stream::TaskUpdates,
    types::StreamResponse,
};
use futures_util::{Stream, StreamExt, stream};

use super::{
    agent_call::AgentCall,
    failure::Result,
    send::accept,
    tasks::{TaskAccess, chain_state, ids, load, load_shown, show},
};
use crate::{App, sse, stream_limit::StreamPermit};

/// How often a paused task is checked for the run that resumes it.
const RESUME_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How an update, or the error that ends the stream, is written.
pub(super) type FrameFn = Box<dyn Fn(std::result::Result<&StreamResponse, &A2aError>) -> Event + Send>;

/// Accepts a message and streams the updates of its task.
pub(super) async fn send(call: &AgentCall, request: SendMessage, frame: FrameFn) -> Result<Response> {
    let message = request.check()?;
    let permit = call.permit()?;
    let task = accept(call, &message).await?;
    open(call, task, message.history_length, permit, frame).await
}

/// Streams the updates of a task that has not ended.
pub(super) async fn subscribe(call: &AgentCall, params: TaskParams, frame: FrameFn) -> Result<Response> {
    let id = parse_task(&params.id)?;
    let chain = load(call, id, TaskAccess::Read).await?;
    if chain_state(&chain).is_terminal() {
        let message = format!("task `{id}` has ended: get it, there are no further updates");
        let error = A2aError::new(ErrorKind::UnsupportedOperation, message).with("taskId", id.to_string());
        return Err(error.into());
    }
    let permit = call.permit()?;
    open(call, id, MAX_HISTORY, permit, frame).await
}

async fn open(
    call: &AgentCall,
    id: uuid::Uuid,
    history: usize,
    permit: StreamPermit,
    frame: FrameFn,
) -> Result<Response> {
    let chain = load_shown(call, id, history, TaskAccess::Read).await?;
    let is_terminal = chain_state(&chain).is_terminal();
    let updates = Updates {
        app: call.app.clone(),
        project: call.actor.project,
        state: TaskUpdates::new(ids(&chain)),
        in_conversation: chain.context.is_some(),
        run: chain.newest.id,
        is_paused: chain.newest.status == RunStatus::Paused && !is_terminal,
        has_ended: is_terminal,
        // What is recorded before this is in the task.
        events: call.app.executor.follow(call.actor.project, chain.newest.id, chain.newest.seq).boxed(),
        ready: VecDeque::from([StreamResponse::Task(show(&chain, history))]),
    };
    let frames = frames(updates).map(move |update| match update {
        Ok(update) => frame(Ok(&update)),
        Err(failure) => frame(Err(&failure.into_error())),
    });
    Ok(sse::stream_with(&call.app, &call.caller, permit, frames))
}

/// What is sent next, and from where.
struct Updates {
    app: App,
    project: emergent_domain::ids::ProjectId,
    state: TaskUpdates,
    in_conversation: bool,
    /// The run that is followed.
    run: RunId,
    events: stream::BoxStream<'static, executor::Result<RunEvent>>,
    ready: VecDeque<StreamResponse>,
    /// Whether the run has paused. The stream stays open until a message resumes the task and it ends.
    is_paused: bool,
    has_ended: bool,
}

fn frames(updates: Updates) -> impl Stream<Item = Result<StreamResponse>> + Send + 'static {
    stream::unfold(updates, |mut updates| async move {
        let next = updates.next().await?;
        updates.has_ended |= next.is_err();
        Some((next, updates))
    })
}

impl Updates {
    async fn next(&mut self) -> Option<Result<StreamResponse>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(Ok(update));
            }
            if self.has_ended {
                return None;
            }
            if self.is_paused {
                if let Err(failure) = self.follow_resumed().await {
                    return Some(Err(failure));
                }
                continue;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Err(failure) = self.receive(event).await {
                        return Some(Err(failure));
                    }
                }
                Some(Err(failure)) => return Some(Err(failure.into())),
                None => self.has_ended = true,
            }
        }
    }

    async fn receive(&mut self, event: RunEvent) -> Result<()> {
        let requests = match TaskUpdates::needs_requests(&event) {
            true => self.app.executor.pending_requests(self.run).await?,
            false => Vec::new(),
        };
        self.ready.extend(self.state.on_event(&event, &requests));
        if let RunEventBody::Ended { status, .. } = event.body {
            self.is_paused = status == RunStatus::Paused && !self.in_conversation;
            self.has_ended = !self.is_paused;
        }
        Ok(())
    }

    /// Waits until a run resumes the paused one, and follows it.
    async fn follow_resumed(&mut self) -> Result<()> {
        loop {
            if let Some(run) = self.app.executor.resumed_as(self.run).await? {
                self.run = run;
                self.is_paused = false;
                self.events = self.app.executor.follow(self.project, run, 0).boxed();
                return Ok(());
            }
            tokio::time::sleep(RESUME_POLL_INTERVAL).await;
        }
    }
}
