//! Lists what a run wrote to the graph, or what it and all the runs below it wrote.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ProjectId, RunId},
    run_write::RunWrite,
};
use emergent_store::runs::writes;

use crate::{
    Error, Executor, Result,
    history::get_run,
    revert::{MAX_TREE_RUNS, list_descendants},
};

/// A write, with the agent of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentWrite {
    pub write: RunWrite,
    pub agent_name: String,
}

impl Executor {
    /// Returns what the tool calls of a run wrote, oldest first; with `tree`, also what the runs below it wrote.
    pub async fn run_writes(
        &self,
        project: ProjectId,
        id: RunId,
        tree: bool,
        page: Page,
    ) -> Result<ResultPage<AgentWrite>> {
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                let mut agents = HashMap::from([(id, run.agent_name)]);
                let mut runs = vec![id];
                if tree {
                    let descendants = list_descendants(tx, id)?;
                    if descendants.len() >= MAX_TREE_RUNS {
                        return Err(Error::Conflict(format!(
                            "run `{id}` has {MAX_TREE_RUNS} or more runs below it: list what those wrote that it started, one by one"
                        )));
                    }
                    runs.extend(descendants.iter().map(|child| child.id));
                    agents.extend(descendants.into_iter().map(|child| (child.id, child.agent_name)));
                }
                let found = writes::list(tx, project, &runs, &page)?;
                Ok(found.map(|write| AgentWrite {
                    agent_name: agents.get(&write.run).cloned().unwrap_or_default(),
                    write,
                }))
            })
            .await
    }
}
