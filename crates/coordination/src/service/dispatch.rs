//! Starts a workflow, does a dry run of one, and adds a single task.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    invalid::{Invalid, Problem},
    object::Object,
    task::{NewTask, Task, VerdictKind},
    workflow::{Workflow, WorkflowSettings},
};
use emergent_graph::{Actor, objects};
use emergent_rules::workflow::{
    select::{self, AgentCard},
    snapshot::Snapshot,
};
use emergent_store::{Tx, tasks};

use crate::{
    agent_cards::{agent_cards, load_outcomes},
    create::{NewWorkflow, add_tasks, create_workflow},
    dispatchable::{NameableAgents, dispatchable_agents},
    dispatcher::Dispatcher,
    error::{Error, Result},
    planning::DEFAULT_PLANNER,
};

const MAX_DESCRIPTION_BYTES: usize = 100_000;
const MAX_CONCURRENT_TASKS: usize = 1_000;
const MAX_RETRIES: i64 = 100;

/// The result of a dry run: the tasks in layers, where each layer waits for the ones before it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The agent that would create the tasks; `None` if the request has tasks.
    pub planner: Option<String>,
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
    /// Starts a workflow, to be driven by any dispatcher with free capacity.
    pub async fn dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<Workflow> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            check_request(tx, actor, &new)?;
            let writer = graph.write_context(tx, actor)?;
            Ok::<_, Error>(create_workflow(tx, &writer, &new)?.workflow)
        };
        self.executor().graph().db().write(work).await
    }

    /// Returns what [`Dispatcher::dispatch`] would do. The workflow is created in a transaction that is
    /// rolled back, so a dry run fails for exactly the requests that a dispatch refuses.
    pub async fn dry_run_dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<DryRun> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| -> Result<(), DryRunOutcome> {
            let planner = check_request(tx, actor, &new)?;
            let writer = graph.write_context(tx, actor).map_err(Error::from)?;
            let created = create_workflow(tx, &writer, &new).map_err(Error::from)?;
            let tasks: Vec<Task> = created.tasks.iter().map(Task::from_object).collect();
            let blocks = tasks::list_blocks(tx, actor.project, created.workflow.id)?;
            let agents = dispatchable_agents(tx, actor.project)?;
            let outcomes = load_outcomes(tx, actor.project, created.workflow.id, &tasks)?;
            let cards = agent_cards(&agents, &outcomes);
            let snapshot = Snapshot::new(created.workflow, tasks, &blocks, &[]);
            Err(DryRunOutcome::Done(Box::new(build_dry_run(&snapshot, planner, &blocks, &cards))))
        };
        match self.executor().graph().db().write(work).await {
            Err(DryRunOutcome::Done(dry_run)) => Ok(*dry_run),
            Err(DryRunOutcome::Failed(error)) => Err(error),
            Ok(()) => Err(Error::Conflict("the dry run was committed without a result".to_owned())),
        }
    }

    /// Adds a task to a workflow that has not ended. Without a workflow, the task waits until somebody
    /// takes it.
    pub async fn add_task(&self, actor: Actor, workflow: Option<WorkflowId>, task: NewTask) -> Result<Task> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let writer = graph.write_context(tx, actor)?;
            let created: Option<Object> = match workflow {
                Some(workflow) => add_tasks(tx, &writer, workflow, std::slice::from_ref(&task))
                    .map_err(without_list_index)?
                    .pop(),
                None => {
                    check_standalone_task(tx, actor, &task)?;
                    Some(objects::create(tx, &writer, &objects::ObjectDraft::new(task.to_object(None))?)?)
                }
            };
            created.as_ref().map(Task::from_object).ok_or_else(|| Error::not_found("task", &task.key))
        };
        self.executor().graph().db().write(work).await
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

/// Checks a request except for its tasks. Returns the name of the planner if it has no tasks.
fn check_request(tx: &mut Tx<'_>, actor: Actor, new: &NewWorkflow) -> Result<Option<String>> {
    let mut problems = Vec::new();
    if new.description.trim().is_empty() {
        problems.push(Problem::new("description", "is empty"));
    }
    if new.description.contains('\0') {
        problems.push(Problem::new("description", "has a NUL character"));
    }
    if new.description.len() > MAX_DESCRIPTION_BYTES {
        problems
            .push(Problem::new("description", format!("must have at most {MAX_DESCRIPTION_BYTES} bytes")));
    }
    if !(1..=MAX_CONCURRENT_TASKS).contains(&new.settings.max_concurrent) {
        problems.push(Problem::new("maxConcurrent", format!("must be 1 to {MAX_CONCURRENT_TASKS}")));
    }
    let planner = planner_name(&new.settings);
    let agents = NameableAgents::load(tx, actor.project, actor.author)?;
    // A planner that the request names must exist even if its tasks make planning unnecessary.
    let must_exist = new.tasks.is_empty() || new.settings.planner.is_some();
    if let Some(problem) = agents.problem(&planner, planner != DEFAULT_PLANNER).filter(|_| must_exist) {
        let hint = "install emergent.code, name another planner, or give `tasks`";
        problems.push(Problem::new("planner", format!("{problem}: {hint}")));
    }
    Invalid::if_any(problems)?;
    Ok(new.tasks.is_empty().then_some(planner))
}

fn planner_name(settings: &WorkflowSettings) -> String {
    settings.planner.clone().unwrap_or_else(|| DEFAULT_PLANNER.to_owned())
}

fn build_dry_run(
    snapshot: &Snapshot,
    planner: Option<String>,
    blocks: &[(ObjectId, ObjectId)],
    cards: &[AgentCard],
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
            let selection = select::select_by_rules(task, cards);
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
    DryRun { planner, layers, startable }
}

/// Removes the list index from the problems of a request that has a single task, and no list.
fn without_list_index(error: emergent_graph::Error) -> Error {
    match error {
        emergent_graph::Error::Invalid(mut invalid) => {
            for problem in &mut invalid.problems {
                if let Some(field) = problem.field.strip_prefix("tasks[0].") {
                    problem.field = field.to_owned();
                }
            }
            invalid.into()
        }
        other => other.into(),
    }
}

/// Checks a task without a workflow. Such a task has no blockers, and judges no other task.
fn check_standalone_task(tx: &mut Tx<'_>, actor: Actor, task: &NewTask) -> Result<()> {
    let mut problems = Vec::new();
    let mut add = |field: &str, reason: &str| problems.push(Problem::new(field, reason));
    if task.title.trim().is_empty() {
        add("title", "is required");
    }
    let needs_workflow = "is only for a task of a workflow: give `workflowId`";
    for (field, given) in [
        ("blockedBy", !task.blocked_by.is_empty()),
        ("verifies", !task.verifies.is_empty()),
        ("verdict", task.verdict != VerdictKind::None),
    ] {
        if given {
            add(field, needs_workflow);
        }
    }
    if task.complexity.is_some_and(|complexity| !(1..=10).contains(&complexity)) {
        add("complexity", "must be 1 to 10");
    }
    if task.max_retries.is_some_and(|retries| !(0..=MAX_RETRIES).contains(&retries)) {
        add("maxRetries", &format!("must be 0 to {MAX_RETRIES}"));
    }
    let agents = NameableAgents::load(tx, actor.project, actor.author)?;
    if let Some(problem) = task.assigned_agent.as_deref().and_then(|name| agents.problem_with_list(name)) {
        add("assignedAgent", &problem);
    }
    Ok(Invalid::if_any(problems)?)
}
