//! Finds what a script answered instead of a model, for lists. A single run is asked with `Run::is_rehearsal`.

use std::collections::HashSet;

use emergent_domain::{
    ids::{RunId, WorkflowId},
    run::REHEARSAL_PROVIDERS,
};

use crate::{error::Result, page, tx::Tx, value::Param};

/// The runs among these that a script answered.
pub fn list_rehearsed(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<HashSet<RunId>> {
    let mut rehearsed = HashSet::new();
    for list in page::in_chunks(runs) {
        let sql = format!(
            "SELECT r.id FROM agent_runs AS r WHERE r.id IN ({}) AND {}",
            page::placeholders(1, list.len()),
            is_rehearsal()
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        rehearsed.extend(tx.query(&sql, &params, |row| row.get::<RunId>(0))?);
    }
    Ok(rehearsed)
}

/// The workflows among these with a run that a script answered. The runs of each workflow are looked up by the index
/// of their workflow until one is found. It is a subquery with a limit, because PostgreSQL might answer an `EXISTS`
/// from all runs of all workflows.
pub fn list_rehearsed_workflows(tx: &mut Tx<'_>, workflows: &[WorkflowId]) -> Result<HashSet<WorkflowId>> {
    let mut rehearsed = HashSet::new();
    for list in page::in_chunks(workflows) {
        let sql = format!(
            "SELECT w.id FROM workflows AS w WHERE w.id IN ({})
                 AND coalesce((SELECT true FROM agent_runs AS r WHERE r.workflow_id = w.id AND {} LIMIT 1), false)",
            page::placeholders(1, list.len()),
            is_rehearsal()
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        rehearsed.extend(tx.query(&sql, &params, |row| row.get::<WorkflowId>(0))?);
    }
    Ok(rehearsed)
}

/// A condition on the run `r`, whose model is stored as `provider/name`.
fn is_rehearsal() -> String {
    let providers = REHEARSAL_PROVIDERS.map(|provider| format!("r.model LIKE '{provider}/%'"));
    format!("({})", providers.join(" OR "))
}
