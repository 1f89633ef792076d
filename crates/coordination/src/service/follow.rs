//! Following a workflow: every event after a place, as it happens. A follower that reconnects after
//! its last event misses nothing and sees nothing twice.

use std::collections::VecDeque;

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    workflow::WorkflowEvent,
};
use emergent_store::{Tx, wake::Waiter, workflows};
use futures_util::{Stream, stream};
use tokio::time::Duration;

use crate::{dispatcher::Dispatcher, error::Result, transactions::get_workflow};

/// How often to look for what another server recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const PAGE_SIZE: usize = 200;

struct Follower {
    dispatcher: Dispatcher,
    project: ProjectId,
    id: WorkflowId,
    last: i64,
    changed: Waiter,
    ready: VecDeque<WorkflowEvent>,
    ended: bool,
}

impl Dispatcher {
    /// Ends once the workflow is over and everything was told. One that waits for a person is
    /// followed on.
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
            // Before the first look, so that nothing falls between looking and listening.
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

    /// Reads what is new; whether there was something.
    async fn read_new_events(&mut self) -> Result<bool> {
        let (project, id, last) = (self.project, self.id, self.last);
        let read = move |tx: &mut Tx<'_>| {
            // In this order: what is over has no events after those that are read next.
            let workflow = get_workflow(tx, project, id)?;
            let events = workflows::list_events(tx, id, last, PAGE_SIZE)?;
            Ok::<_, crate::error::Error>((workflow, events))
        };
        let (workflow, events) = self.dispatcher.executor().graph().db().read(read).await?;
        let some = !events.is_empty();
        let newest = events.last().map_or(last, |event| event.seq);
        self.ready.extend(events);
        self.ended = workflow.status.is_terminal() && newest >= workflow.event_seq;
        Ok(some)
    }
}
