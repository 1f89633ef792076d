//! The events of one part of a run, as they come.

use std::collections::VecDeque;

use emergent_domain::{approval::Approval, ids::ApprovalId, run_event::RunEvent};
use emergent_executor as executor;
use emergent_store::agui_runs::{self, AguiRun};
use emergent_surfaces::agui::{event::Event, stream::EventStream, tools::requests_to_tell};
use futures_util::{Stream, StreamExt, stream};

use crate::{ApiError, App};

/// What is sent next, and from where.
struct Frames {
    app: App,
    part: AguiRun,
    events: stream::BoxStream<'static, executor::Result<RunEvent>>,
    state: EventStream,
    ready: VecDeque<Event>,
    has_ended: bool,
}

/// Returns the events of a part of a run.
pub(super) fn frames(
    app: &App,
    part: AguiRun,
    state: EventStream,
) -> impl Stream<Item = Event> + Send + 'static {
    let events = app.executor.follow(part.thread.project, part.run, part.after_seq).boxed();
    let frames = Frames { app: app.clone(), part, events, state, ready: VecDeque::new(), has_ended: false };
    stream::unfold(frames, |mut frames| async move {
        let event = frames.next().await?;
        Some((event, frames))
    })
}

impl Frames {
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.ready.extend(self.state.take_events());
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended || self.state.has_finished() {
                return None;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Err(failure) = self.receive(event).await {
                        self.fail(failure);
                    }
                }
                Some(Err(failure)) => self.fail(failure.into()),
                None => self.has_ended = true,
            }
        }
    }

    async fn receive(&mut self, event: RunEvent) -> Result<(), ApiError> {
        let seq = event.seq;
        match (self.part.ended_seq, seq) {
            // What is streamed now belongs to a later part.
            (Some(_), None) => return Ok(()),
            (Some(end), Some(seq)) => {
                if seq <= end {
                    self.state.on_event(event.body);
                }
                if seq >= end {
                    let part = self.part.clone();
                    let told = self.app.graph.db().read(move |tx| agui_runs::list_told(tx, &part)).await?;
                    self.state.interrupt(&told);
                }
            }
            (None, _) => {
                self.state.on_event(event.body);
                if let Some(seq) = seq.filter(|_| self.state.is_waiting()) {
                    self.check_wait(seq).await?;
                }
            }
        }
        Ok(())
    }

    /// Ends the part if the run waits for a person or for its client and nothing happened after this event. Where the part ended is stored
    /// before the client learns of it.
    async fn check_wait(&mut self, seq: i64) -> Result<(), ApiError> {
        let (project, run) = (self.part.thread.project, self.part.run);
        let Some((run, requests)) = self.app.executor.open_requests(project, run).await? else {
            return Ok(());
        };
        if run.seq > seq || requests.is_empty() {
            return Ok(());
        }
        let requests = requests_to_tell(run.id, requests);
        self.end(seq, &requests).await?;
        self.state.interrupt(&requests);
        Ok(())
    }

    async fn end(&mut self, seq: i64, requests: &[Approval]) -> Result<(), ApiError> {
        let AguiRun { thread, client_run, .. } = self.part.clone();
        let ids: Vec<ApprovalId> = requests.iter().map(|request| request.id).collect();
        let work = move |tx: &mut emergent_store::Tx<'_>| agui_runs::end(tx, &thread, &client_run, seq, &ids);
        Ok(self.app.graph.db().write(work).await?)
    }

    fn fail(&mut self, failure: ApiError) {
        let body = failure.into_body();
        self.state.fail(body.code, body.message);
    }
}
