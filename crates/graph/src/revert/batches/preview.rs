//! Previews of reverts in many transactions: each is rolled back, so that nobody waits longer for the writer than for
//! a real one. The code that decides is that of the revert. What a transaction would have changed is kept in an
//! [`Overlay`], from which later ones write what matters to them before they decide.

use std::{sync::Arc, time::Duration};

use emergent_store::Tx;
use parking_lot::RwLock;
use tokio::time::timeout;

use super::{Batch, BatchOutcome, BatchedRevert, Overlay, RevertReport, RunSet, WrittenEntities, run_batch};
use crate::{Actor, Error, Graph, error::Result};

/// The most entities of a preview, which remembers what it would change.
const MAX_ENTITIES: usize = 100_000;
/// How long a preview may take, once it has its turn.
const MAX_TIME: Duration = Duration::from_secs(30);

impl Graph {
    /// Returns what [`Graph::revert_in_batches`] would do, and changes nothing. A project has one such preview at a
    /// time.
    pub async fn preview_revert(&self, actor: Actor, runs: RunSet, at_once: usize) -> Result<RevertReport> {
        let _turn = self.preview_turn(actor.project).await?;
        let (project, wanted) = (actor.project, runs.clone());
        let written = self.db().read(move |tx| WrittenEntities::load(tx, project, &wanted)).await?;
        if written.count() > MAX_ENTITIES {
            return Err(not_previewed(&format!("{} entities, the limit is {MAX_ENTITIES}", written.count())));
        }
        let mut revert = BatchedRevert::new(self, actor, runs, at_once);
        revert.overlay = Some(Arc::default());
        match timeout(MAX_TIME, revert.run_all(written)).await {
            Ok(done) => done.map(|()| revert.report),
            Err(_) => Err(not_previewed(&format!("it took longer than {} seconds", MAX_TIME.as_secs()))),
        }
    }
}

fn not_previewed(why: &str) -> Error {
    let message = format!(
        "this revert is too large for a preview ({why}): preview the runs one by one, without `tree`; read \
         what they wrote in their lists of writes; or revert without `dryRun`, which takes as long as it \
         needs and leaves what others have changed"
    );
    Error::Conflict { message }
}

impl BatchedRevert<'_> {
    /// Makes one transaction, rolls it back, and remembers what it would have changed.
    pub(super) async fn try_batch(
        &self,
        batch: Batch,
        overlay: Arc<RwLock<Overlay>>,
    ) -> Result<BatchOutcome> {
        let (graph, actor, runs, at) = (self.graph.clone(), self.actor, self.runs.clone(), self.at);
        let seen = Arc::clone(&overlay);
        let work = move |tx: &mut Tx<'_>| -> Result<BatchOutcome> {
            let ctx = graph.write_context(tx, actor)?;
            run_batch(tx, &ctx, &runs, &batch, at, Some(&seen.read()))
        };
        let mut outcome = self.graph.write_validated_and_roll_back(actor.project, work).await?;
        overlay.write().add(std::mem::take(&mut outcome.effects));
        Ok(outcome)
    }
}
