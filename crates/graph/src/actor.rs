//! Who writes where, and what a write needs to know.

use std::{sync::Arc, time::Duration};

use emergent_domain::{author::Author, ids::ProjectId, pack::PackSet, project::Project, time::Timestamp};
use emergent_store::{Tx, packs, projects};

use crate::{
    Graph,
    error::{Error, Result},
};

/// Who writes where. Built by the API from the token, by a run from its tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor {
    pub project: ProjectId,
    pub author: Author,
}

/// Inside a transaction: the project's row, its compiled packs, the moment, the author.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub project: Project,
    pub packs: Arc<PackSet>,
    pub author: Author,
    pub now: Timestamp,
    /// Whether this is the dispatcher, which makes moves of tasks that nobody else makes, and need
    /// not be told of what it does itself.
    pub is_dispatcher: bool,
    /// Whether changed texts are queued for new vectors.
    pub embed: bool,
    /// Why, as every version written with it says; mostly nothing is said.
    pub reason: Option<String>,
}

impl WriteContext {
    /// The moment of a change to something last written at `last`: two versions never share one,
    /// whatever the clocks of several servers say.
    pub(crate) fn timestamp_after(&self, last: Timestamp) -> Timestamp {
        self.now.max(last + Duration::from_micros(1))
    }
}

impl Graph {
    /// Reads what a write needs; `NotFound` when the project is gone.
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
        if let Some((known, packs)) = self.0.packs.lock().get(&project.id)
            && *known == revision
        {
            return Ok(Arc::clone(packs));
        }
        let packs = Arc::new(PackSet::compile(&packs::list_assigned(tx, project.id)?)?);
        // Not before the commit: what this transaction assigned may still be rolled back, and the
        // revision given to something else.
        let (graph, id, compiled) = (self.clone(), project.id, Arc::clone(&packs));
        tx.after_commit(move || {
            graph.0.packs.lock().insert(id, (revision, compiled));
        });
        Ok(packs)
    }

    /// A transaction of its own around a write.
    pub(crate) async fn write<T, F>(&self, actor: Actor, work: F) -> Result<T>
    where
        F: Fn(&mut Tx<'_>, &WriteContext) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let graph = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            let writer = graph.write_context(tx, actor)?;
            work(tx, &writer)
        };
        self.db().write(work).await
    }
}
