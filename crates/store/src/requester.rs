//! On whose behalf the database is used. The value belongs to the task: the API sets it once for each request,
//! and every read below uses the share of that requester (see `engine/slots.rs`).

use std::pin::Pin;

use emergent_domain::ids::ProjectId;
use futures_util::{Stream, stream};

/// On whose behalf the database is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Requester {
    /// The server's own work, such as driving runs.
    #[default]
    Server,
    /// A token that spans projects, in a request that names no project.
    AllProjects,
    Project(ProjectId),
    /// Leases and health checks. A connection is always left for them, and they come before all others.
    Priority,
    /// Looking up the token and the project of a request. Some connections are reserved for it, and it may
    /// not use all the others.
    Authentication,
    /// Looking up a token that comes from an address which has presented too many unknown tokens. Such
    /// lookups share one connection and come after all others.
    DoubtedAuthentication,
}

tokio::task_local! {
    static CURRENT: Requester;
}

/// The requester of the current task.
pub fn current() -> Requester {
    CURRENT.try_with(|requester| *requester).unwrap_or_default()
}

/// Runs a future on behalf of a requester. Tasks that it spawns are not included.
pub fn on_behalf_of<F: Future>(requester: Requester, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(requester, work)
}

/// Like [`on_behalf_of`], for a stream that is polled after the future that returned it has ended.
pub fn stream_on_behalf_of<S>(requester: Requester, items: S) -> impl Stream<Item = S::Item> + Send + 'static
where
    S: Stream + Send + 'static,
{
    let mut items: Pin<Box<S>> = Box::pin(items);
    stream::poll_fn(move |context| CURRENT.sync_scope(requester, || items.as_mut().poll_next(context)))
}
