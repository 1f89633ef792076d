//! The author and project of a write, and the context that a write needs.

use std::{sync::Arc, time::Duration};

use emergent_domain::{author::Author, ids::ProjectId, pack::PackSet, project::Project, time::Timestamp};
use emergent_store::{Tx, packs, projects};

use crate::{
    Graph,
    error::{Error, Result},
};

/// An author and the project it acts in. The API builds it from a token, a run from its tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor {
    pub project: ProjectId,
    pub author: Author,
}

/// The context of a write transaction: the project row, its compiled packs, the timestamp and the
/// author.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub project: Project,
    pub packs: Arc<PackSet>,
    pub author: Author,
    pub now: Timestamp,
    /// Whether the dispatcher writes. It may make status changes of tasks that nobody else may
    /// make, and it is not notified of its own writes.
    pub is_dispatcher: bool,
    /// Whether changed texts are queued for embedding.
    pub embed: bool,
    /// The reason that is stored with every version written in this context. Usually none.
    pub reason: Option<String>,
}

impl WriteContext {
    /// Returns the timestamp for a change of something last written at `last`. The result is later
    /// than `last`, so that two versions never share a timestamp even if the clocks of several
    /// servers differ.
    pub(crate) fn timestamp_after(&self, last: Timestamp) -> Timestamp {
        self.now.max(last + Duration::from_micros(1))
    }
}

impl Graph {
    /// Loads the context of a write. Returns `NotFound` if the project was deleted.
    pub fn write_context(&self, tx: &mut Tx<'_>, actor: Actor) -> Result<WriteContext> {
        let project =
            projects::get(tx, actor.project)?.ok_or_else(|| Error::not_found("project", actor.project))?;
        let packs = self.project_packs(tx, &project)?;
        Ok(WriteContext {
            packs,
            project,
            author: actor.author,
            now: self.clock().now(),
            is_dispatcher: false,
            embed: self.embedder().is_some(),
            reason: None,
        })
    }

    fn project_packs(&self, tx: &mut Tx<'_>, project: &Project) -> Result<Arc<PackSet>> {
        let revision = project.packs_revision;
        if let Some((cached_revision, packs)) = self.0.packs.lock().get(&project.id)
            && *cached_revision == revision
        {
            return Ok(Arc::clone(packs));
        }
        let packs = Arc::new(PackSet::compile(&packs::list_assigned(tx, project.id)?)?);
        // The cache is filled only after the commit: this transaction may be rolled back, and its
        // revision number may then be used for a different assignment.
        let (graph, id, compiled) = (self.clone(), project.id, Arc::clone(&packs));
        tx.after_commit(move || {
            graph.0.packs.lock().insert(id, (revision, compiled));
        });
        Ok(packs)
    }

    /// Runs a write in a transaction of its own.
    pub(crate) async fn write<T, F>(&self, actor: Actor, work: F) -> Result<T>
    where
        F: Fn(&mut Tx<'_>, &WriteContext) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let graph = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            let ctx = graph.write_context(tx, actor)?;
            work(tx, &ctx)
        };
        self.db().write(work).await
    }
}
