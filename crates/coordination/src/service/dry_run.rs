//! What starting a workflow would do. The workflow is created in a transaction that is rolled back, so a dry run fails
//! for exactly the requests that a dispatch refuses.

use std::collections::HashMap;

use emergent_domain::{
    coordination::SelectionRule,
    ids::{ObjectId, ProjectId},
    task::Task,
};
use emergent_rules::workflow::{
    select::{self, AgentCard},
    snapshot::Snapshot,
};
use emergent_store::{Tx, projects, tasks};

use super::dispatch::CheckedWorkflow;
use crate::{
    agent_cards::{agent_cards, load_outcomes},
    dispatchable::dispatchable_agents,
    dispatcher::Dispatcher,
    error::{Error, Result},
    foreign_blockers::load_foreign_blockers,
};

/// The result of a dry run: the tasks in layers, where each layer waits for the ones before it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The agent that would create the tasks; `None` if the request has tasks.
    pub planner: Option<String>,
    /// The model that would judge, as `provider/name`; `None` if the rules alone decide.
    pub judge: Option<String>,
    pub layers: Vec<Vec<DryRunTask>>,
    /// Keys of the tasks that would start at once, in order.
    pub startable: Vec<String>,
}

/// A task of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRunTask {
    pub task: Task,
    pub blocked_by: Vec<String>,
    /// The agent that the rules choose; `None` if they find none.
    pub agent: Option<String>,
    /// Why the rules choose this agent, or none.
    pub reason: String,
    /// Whether the choice of the rules is clear. If it is not, a model may be asked.
    pub clear: bool,
}

impl Dispatcher {
    /// Creates a workflow, returns what it would do, and rolls everything back.
    pub(super) async fn dry_run<F>(&self, project: ProjectId, create: F) -> Result<DryRun>
    where
        F: Fn(&mut Tx<'_>) -> Result<CheckedWorkflow> + Send + Sync + 'static,
    {
        let dispatcher = self.clone();
        let work = move |tx: &mut Tx<'_>| -> Result<(), DryRunOutcome> {
            let CheckedWorkflow { created, planner } = create(tx)?;
            let tasks: Vec<Task> = created.tasks.iter().map(Task::from_object).collect();
            let blocks = tasks::list_blocks(tx, project, created.workflow.id)?;
            let outside = load_foreign_blockers(tx, project, &tasks, &blocks)?;
            let agents = dispatchable_agents(tx, project)?;
            let coordination =
                projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
            let outcomes = load_outcomes(tx, project, created.workflow.id, &tasks)?;
            let cards = agent_cards(&agents, &coordination, &outcomes);
            let judge = dispatcher.judge_model(&created.workflow.settings).map(|model| model.to_string());
            let snapshot = Snapshot::new(created.workflow, tasks, &blocks, &outside);
            let rules = &coordination.selection_rules;
            let dry_run = build_dry_run(&snapshot, planner, &blocks, &cards, rules, judge);
            Err(DryRunOutcome::Done(Box::new(dry_run)))
        };
        match self.executor().graph().db().write(work).await {
            Err(DryRunOutcome::Done(dry_run)) => Ok(*dry_run),
            Err(DryRunOutcome::Failed(error)) => Err(error),
            Ok(()) => Err(Error::Conflict("the dry run was committed without a result".to_owned())),
        }
    }
}

/// The error with which the transaction of a dry run always ends, so that it is rolled back.
enum DryRunOutcome {
    Done(Box<DryRun>),
    Failed(Error),
}

impl From<Error> for DryRunOutcome {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<emergent_store::Error> for DryRunOutcome {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

fn build_dry_run(
    snapshot: &Snapshot,
    planner: Option<String>,
    blocks: &[(ObjectId, ObjectId)],
    cards: &[AgentCard],
    rules: &[SelectionRule],
    judge: Option<String>,
) -> DryRun {
    let keys: HashMap<ObjectId, &str> =
        snapshot.tasks().iter().map(|task| (task.id, task.key.as_str())).collect();
    let mut layers: Vec<Vec<DryRunTask>> = Vec::new();
    let mut layer_of: HashMap<ObjectId, usize> = HashMap::new();
    // The tasks have no dependency cycle, so each round finds the layer of at least one more task.
    while layer_of.len() < snapshot.tasks().len() {
        let placed_before = layer_of.len();
        for task in snapshot.tasks() {
            if layer_of.contains_key(&task.id) {
                continue;
            }
            let blocker_layers: Option<Vec<usize>> =
                snapshot.blockers(task.id).map(|blocker| layer_of.get(&blocker.id).copied()).collect();
            let Some(blocker_layers) = blocker_layers else { continue };
            let layer = blocker_layers.into_iter().max().map_or(0, |last| last + 1);
            layer_of.insert(task.id, layer);
            layers.resize_with(layers.len().max(layer + 1), Vec::new);
            let selection = select::select_by_project_rules(task, cards, rules)
                .unwrap_or_else(|| select::select_by_rules(task, cards));
            let edges_to_task = blocks.iter().filter(|(_, to)| *to == task.id);
            layers[layer].push(DryRunTask {
                blocked_by: edges_to_task
                    .filter_map(|(from, _)| keys.get(from))
                    .map(|&key| key.to_owned())
                    .collect(),
                agent: selection.agent,
                reason: selection.reason,
                clear: selection.clear,
                task: task.clone(),
            });
        }
        if layer_of.len() == placed_before {
            break;
        }
    }
    let max_concurrent = snapshot.workflow.settings.max_concurrent;
    let startable =
        snapshot.available().into_iter().take(max_concurrent).map(|task| task.key.clone()).collect();
    DryRun { planner, judge, layers, startable }
}
