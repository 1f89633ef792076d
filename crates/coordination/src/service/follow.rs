//! Streams the events of a workflow after a given `seq`, as they happen. A client that reconnects with the
//! `seq` of its last event misses no event and gets none twice.

use std::collections::VecDeque;

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    workflow::WorkflowEvent,
};
use emergent_store::{Tx, wake::Waiter, workflows};
use futures_util::{Stream, stream};
use tokio::time::Duration;

use crate::{dispatcher::Dispatcher, error::Result, transactions::get_workflow};

/// How often the database is checked for events of which no wake-up arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const PAGE_SIZE: usize = 200;

struct Follower {
    dispatcher: Dispatcher,
    project: ProjectId,
    id: WorkflowId,
    /// The `seq` of the last event that was returned.
    last: i64,
    changed: Waiter,
    /// Events that were read and not returned yet.
    ready: VecDeque<WorkflowEvent>,
    /// True once the workflow has ended and all of its events were read.
    ended: bool,
}

impl Dispatcher {
    /// Streams the events of a workflow after the `seq` in `after`. The stream ends after the last event of
    /// a workflow that has ended; while a workflow waits for a person, the stream stays open.
    pub fn follow(
        &self,
        project: ProjectId,
        id: WorkflowId,
        after: i64,
    ) -> impl Stream<Item = Result<WorkflowEvent>> + Send + use<> {
        let follower = Follower {
            dispatcher: self.clone(),
            project,
            id,
            last: after,
            // Created before the first read, so that an event after that read wakes the follower.
            changed: self.executor().graph().db().waiter(&workflows::events_channel(id)),
            ready: VecDeque::new(),
            ended: false,
        };
        stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(follower))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

impl Follower {
    async fn next(&mut self) -> Result<Option<WorkflowEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = event.seq;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.read_new_events().await? && !self.ended {
                self.changed.wait(POLL_INTERVAL).await;
            }
        }
    }

    /// Reads the events after the last one. Returns whether there were any.
    async fn read_new_events(&mut self) -> Result<bool> {
        let (project, id, last) = (self.project, self.id, self.last);
        let read = move |tx: &mut Tx<'_>| {
            // The workflow is read before its events: if it has ended, they are complete.
            let workflow = get_workflow(tx, project, id)?;
            let events = workflows::list_events(tx, id, last, PAGE_SIZE)?;
            Ok::<_, crate::error::Error>((workflow, events))
        };
        let (workflow, events) = self.dispatcher.executor().graph().db().read(read).await?;
        let has_new = !events.is_empty();
        let newest = events.last().map_or(last, |event| event.seq);
        self.ready.extend(events);
        self.ended = workflow.status.is_terminal() && newest >= workflow.event_seq;
        Ok(has_new)
    }
}
