//! The packs of projects, compiled outside of transactions.

use std::sync::Arc;

use emergent_domain::{
    ids::ProjectId,
    pack::{PackSet, TemplatePack, UnusableType},
    project::Project,
};
use emergent_store::{Tx, packs, projects};
use sha2::{Digest, Sha256};
use tracing::{debug, warn};

use super::{Rules, RulesStamp};
use crate::{Error, Graph, error::Result};

impl Graph {
    /// Compiles a pack that is to be assigned beside others on a thread for such work, and returns the size in memory of
    /// all of them.
    pub(crate) async fn compiled_bytes(
        &self,
        project: ProjectId,
        packs: Vec<TemplatePack>,
        new: TemplatePack,
    ) -> Result<u64> {
        let work = move || {
            // Those that are assigned were checked when they were; an earlier version may have accepted more.
            let assigned = PackSet::compile_stored(&packs).bytes();
            PackSet::compile([&new]).map(|set| set.bytes() + assigned)
        };
        Ok(self.0.validation_pool.run(project, work).await??)
    }

    /// Compiles the packs of a project where other packs are compiled, so that no transaction has to. Packs that cannot
    /// be compiled are reported by the next write.
    pub(crate) async fn warm_rules(&self, project: ProjectId) {
        if let Err(error) = self.load_rules(project).await {
            debug!(project = %project, %error, "the packs of the project could not be compiled");
        }
    }

    /// Compiles the packs of a project again when they are next needed. Callers that change the assigned packs in
    /// a transaction of their own call it afterwards.
    pub fn reload_packs(&self, project: ProjectId) {
        self.0.validation.forget(project);
    }

    /// Returns the compiled packs of a project, which may be older than the newest revision. `None` if there
    /// is no such project.
    pub(super) async fn load_rules(&self, project: ProjectId) -> Result<Option<Rules>> {
        if let Some(rules) = self.0.validation.cached(project) {
            return Ok(Some(rules));
        }
        let loaded = self
            .db()
            .snapshot(move |tx| {
                let Some(project) = projects::get(tx, project)? else { return Ok(None) };
                let assigned = packs::list_assigned(tx, project.id)?;
                Ok::<_, Error>(Some((RulesStamp::for_project(&project), assigned)))
            })
            .await?;
        let Some((stamp, assigned)) = loaded else { return Ok(None) };
        let packs = self.compile_packs(project, assigned).await?;
        let rules = Rules { stamp, bytes: packs.bytes(), packs };
        self.0.validation.insert(rules.clone());
        Ok(Some(rules))
    }

    /// Compiles stored packs on a thread for such work. Schemas that cannot be used are logged.
    async fn compile_packs(&self, project: ProjectId, packs: Vec<TemplatePack>) -> Result<Arc<PackSet>> {
        if packs.is_empty() {
            return Ok(Arc::default());
        }
        let compiled = self.0.validation_pool.run(project, move || PackSet::compile_stored(&packs)).await?;
        for UnusableType { pack, type_, problem, .. } in compiled.unusable_types() {
            warn!(
                project = %project, pack, %problem,
                "the schema of `{type_}` in the assigned pack `{pack}` cannot be used, so objects of this type cannot \
                 be written; `emergent pack unassign {pack}` unassigns the pack"
            );
        }
        Ok(Arc::new(compiled))
    }

    /// Compiles packs for a transaction that runs again afterwards.
    async fn compile_for_transaction(self, project: ProjectId, digest: [u8; 32], packs: Vec<TemplatePack>) {
        match self.compile_packs(project, packs).await {
            Ok(packs) => {
                self.0.validation.compiled.lock().insert(digest, packs);
            }
            // The transaction reports that its packs are not compiled.
            Err(error) => debug!(project = %project, %error, "the packs of the project were not compiled"),
        }
    }

    /// Returns the compiled packs for a transaction that has read the project. If they changed since they were loaded,
    /// they are compiled outside of the transaction, because all writers of SQLite wait for it. The transaction then
    /// runs again and finds them by their contents: it may have assigned them itself.
    pub(crate) fn project_packs(&self, tx: &mut Tx<'_>, project: &Project) -> Result<Arc<PackSet>> {
        let stamp = RulesStamp::for_project(project);
        let cached = self.0.validation.cached(project.id);
        if let Some(rules) = cached.filter(|rules| rules.stamp.revision == stamp.revision) {
            if rules.stamp != stamp {
                self.remember_after_commit(tx, Rules { stamp, ..rules.clone() });
            }
            return Ok(rules.packs);
        }
        let assigned = packs::list_assigned(tx, project.id)?;
        let digest = packs_digest(&assigned);
        let compiled = match assigned.is_empty() {
            true => Some(Arc::default()),
            false => self.0.validation.compiled.lock().get(&digest).cloned(),
        };
        let Some(packs) = compiled else {
            tx.retry_after(self.clone().compile_for_transaction(project.id, digest, assigned));
            let message =
                "the template packs of the project changed while this was written; try again".to_owned();
            return Err(Error::Overloaded { message });
        };
        let rules = Rules { stamp, bytes: packs.bytes(), packs: Arc::clone(&packs) };
        self.remember_after_commit(tx, rules);
        Ok(packs)
    }

    /// The cache is filled only after the commit: this transaction may be rolled back, and its revision number
    /// may then be used for a different assignment.
    fn remember_after_commit(&self, tx: &mut Tx<'_>, rules: Rules) {
        let graph = self.clone();
        tx.after_commit(move || graph.0.validation.insert(rules));
    }
}

/// Identifies packs by their contents. What a transaction has not committed yet has no other name that lasts.
fn packs_digest(packs: &[TemplatePack]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(packs).unwrap_or_default());
    hash.finalize().into()
}
