//! The ways in for people: a workflow is started, or only checked; a task is added.

use std::collections::HashMap;

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, ProjectId, WorkflowId},
    invalid::{Invalid, Problem},
    object::Object,
    pack::nearest,
    task::{NewTask, Task, VerdictKind},
    workflow::{Workflow, WorkflowSettings},
};
use emergent_graph::{Actor, objects};
use emergent_store::{Tx, agents, tasks};

use crate::{
    Dispatcher, Error, PLANNER, Result,
    select::{self, AgentCard},
    start::{NewWorkflow, add_tasks, start_workflow},
    state::Snapshot,
};

const LONGEST_DESCRIPTION: usize = 100_000;
const MOST_AT_ONCE: usize = 1_000;

/// What would be done: every task, each layer waiting for those before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Who would make the tasks; `None` when they were given.
    pub planner: Option<String>,
    pub layers: Vec<Vec<CheckedTask>>,
    /// Keys of the tasks that would start at once, in order.
    pub first: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTask {
    pub task: Task,
    pub blocked_by: Vec<String>,
    /// Who would do it by the rules, and why.
    pub agent: Option<String>,
    pub reason: String,
    /// Whether the rules leave no doubt; where they do, a model may be asked.
    pub clear: bool,
}

impl Dispatcher {
    /// Starts a workflow, to be walked by whichever dispatcher is free.
    pub async fn dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<Workflow> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            check(tx, actor.project, &new)?;
            let writer = graph.writer(tx, actor)?;
            Ok::<_, Error>(start_workflow(tx, &writer, &new)?.workflow)
        };
        self.executor().graph().db().write(work).await
    }

    /// What [`Dispatcher::dispatch`] would do. It is done and undone, so that what is refused here
    /// is what is refused there.
    pub async fn check_dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<Checked> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| -> Result<(), Undone> {
            let planner = check(tx, actor.project, &new)?;
            let writer = graph.writer(tx, actor).map_err(Error::from)?;
            let started = start_workflow(tx, &writer, &new).map_err(Error::from)?;
            let tasks: Vec<Task> = started.tasks.iter().map(Task::of).collect();
            let blocks = tasks::blocks(tx, actor.project, started.workflow.id)?;
            let agents = agents::all(tx, actor.project)?;
            let snapshot = Snapshot::new(started.workflow, tasks, &blocks, &[]);
            Err(Undone::Checked(Box::new(checked(&snapshot, planner, &blocks, &agents))))
        };
        match self.executor().graph().db().write(work).await {
            Err(Undone::Checked(checked)) => Ok(*checked),
            Err(Undone::Failed(error)) => Err(error),
            Ok(()) => Err(Error::Conflict("nothing was checked".to_owned())),
        }
    }

    /// Adds a task to a workflow that is not over; without one, it is for whoever takes it.
    pub async fn add_task(&self, actor: Actor, workflow: Option<WorkflowId>, task: NewTask) -> Result<Task> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let writer = graph.writer(tx, actor)?;
            let made: Option<Object> = match workflow {
                Some(workflow) => {
                    add_tasks(tx, &writer, workflow, std::slice::from_ref(&task)).map_err(alone)?.pop()
                }
                None => {
                    check_alone(tx, actor.project, &task)?;
                    Some(objects::create(tx, &writer, &objects::Draft::new(task.object(None))?)?)
                }
            };
            made.as_ref().map(Task::of).ok_or_else(|| Error::not_found("task", &task.key))
        };
        self.executor().graph().db().write(work).await
    }
}

/// How a check ends: what it found is thrown, so that nothing of it stays.
enum Undone {
    Checked(Box<Checked>),
    Failed(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<emergent_store::Error> for Undone {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// What is wrong beside the tasks; who plans, if somebody has to.
fn check(tx: &mut Tx<'_>, project: ProjectId, new: &NewWorkflow) -> Result<Option<String>> {
    let mut problems = Vec::new();
    if new.description.trim().is_empty() {
        problems.push(Problem::new("description", "is empty"));
    }
    if new.description.contains('\0') {
        problems.push(Problem::new("description", "has a NUL character"));
    }
    if new.description.len() > LONGEST_DESCRIPTION {
        problems.push(Problem::new("description", format!("must have at most {LONGEST_DESCRIPTION} bytes")));
    }
    if !(1..=MOST_AT_ONCE).contains(&new.settings.max_concurrent) {
        problems.push(Problem::new("maxConcurrent", format!("must be 1 to {MOST_AT_ONCE}")));
    }
    let planner = planner(&new.settings);
    let names = agents::names(tx, project)?;
    // With tasks, a planner is named in vain, but has to be there all the same.
    let needed = new.tasks.is_empty() || new.settings.planner.is_some();
    if needed && !names.contains(&planner) {
        problems.push(Problem::new("planner", no_planner(&planner, &names)));
    }
    Invalid::unless_empty(problems)?;
    Ok(new.tasks.is_empty().then_some(planner))
}

fn planner(settings: &WorkflowSettings) -> String {
    settings.planner.clone().unwrap_or_else(|| PLANNER.to_owned())
}

fn no_planner(name: &str, names: &[String]) -> String {
    match nearest(name, names.iter().map(String::as_str)) {
        Some(hint) if name != PLANNER => format!("there is no agent `{name}`; did you mean `{hint}`?"),
        _ => format!(
            "there is no agent `{name}` to plan with: install emergent.code, name another one, or give `tasks`"
        ),
    }
}

fn checked(
    snapshot: &Snapshot,
    planner: Option<String>,
    blocks: &[(ObjectId, ObjectId)],
    agents: &[Agent],
) -> Checked {
    let cards: Vec<AgentCard> = agents.iter().map(|agent| AgentCard::of(&agent.definition)).collect();
    let keys: HashMap<ObjectId, &str> =
        snapshot.tasks().iter().map(|task| (task.id, task.key.as_str())).collect();
    let mut layers: Vec<Vec<CheckedTask>> = Vec::new();
    let mut layer_of: HashMap<ObjectId, usize> = HashMap::new();
    // No way leads round, so each time at least one more task has a layer.
    while layer_of.len() < snapshot.tasks().len() {
        let before = layer_of.len();
        for task in snapshot.tasks() {
            if layer_of.contains_key(&task.id) {
                continue;
            }
            let known: Option<Vec<usize>> =
                snapshot.blockers(task.id).map(|blocker| layer_of.get(&blocker.id).copied()).collect();
            let Some(known) = known else { continue };
            let layer = known.into_iter().max().map_or(0, |last| last + 1);
            layer_of.insert(task.id, layer);
            layers.resize_with(layers.len().max(layer + 1), Vec::new);
            let ruled = select::rules(task, &cards);
            let waits = blocks.iter().filter(|(_, to)| *to == task.id);
            layers[layer].push(CheckedTask {
                blocked_by: waits.filter_map(|(from, _)| keys.get(from)).map(|&key| key.to_owned()).collect(),
                agent: ruled.agent,
                reason: ruled.reason,
                clear: ruled.clear,
                task: task.clone(),
            });
        }
        if layer_of.len() == before {
            break;
        }
    }
    let most = snapshot.workflow.settings.max_concurrent;
    let first = snapshot.available().into_iter().take(most).map(|task| task.key.clone()).collect();
    Checked { planner, layers, first }
}

/// The problems of a list of one task, as those of the task.
fn alone(error: emergent_graph::Error) -> Error {
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

/// A task of no workflow waits for nobody it could name, and judges nothing.
fn check_alone(tx: &mut Tx<'_>, project: ProjectId, task: &NewTask) -> Result<()> {
    let mut problems = Vec::new();
    let mut add = |field: &str, reason: &str| problems.push(Problem::new(field, reason));
    if task.title.trim().is_empty() {
        add("title", "is required");
    }
    let of_a_workflow = "is only for a task of a workflow: give `workflowId`";
    for (field, given) in [
        ("blockedBy", !task.blocked_by.is_empty()),
        ("verifies", !task.verifies.is_empty()),
        ("verdict", task.verdict != VerdictKind::None),
    ] {
        if given {
            add(field, of_a_workflow);
        }
    }
    if task.complexity.is_some_and(|complexity| !(1..=10).contains(&complexity)) {
        add("complexity", "must be 1 to 10");
    }
    if task.max_retries.is_some_and(|retries| !(0..=100).contains(&retries)) {
        add("maxRetries", "must be 0 to 100");
    }
    let names = agents::names(tx, project)?;
    if let Some(name) = task.assigned_agent.as_ref().filter(|name| !names.contains(name)) {
        add("assignedAgent", &format!("there is no agent `{name}`; there are {}", names.join(", ")));
    }
    Ok(Invalid::unless_empty(problems)?)
}
