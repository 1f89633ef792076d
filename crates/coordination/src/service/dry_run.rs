//! What starting a workflow would do. The workflow is created in a transaction that is rolled back, so a dry run fails
//! for every request that a dispatch refuses. Agents are chosen outside of that transaction, which occupies SQLite's
//! only writer, and within a time limit.

use std::collections::{HashMap, VecDeque};

use emergent_domain::{
    agent::Agent,
    coordination::CoordinationSettings,
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    task::Task,
    workflow::Workflow,
};
use emergent_rules::workflow::{
    discussion,
    foreign_blockers::ForeignBlocker,
    select::{self, AgentIndex},
    snapshot::Snapshot,
};
use emergent_store::{
    Tx, projects,
    tasks::{self, TaskOutcome},
};
use tokio::time::Instant;

use super::dispatch::CheckedWorkflow;
use crate::{
    agent_cards::{agent_cards, load_outcomes},
    dispatchable::dispatchable_agents,
    dispatcher::{Dispatcher, MAX_SELECTION_TIME},
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
    /// What of the review that the task requires cannot be held as asked.
    pub review_note: Option<String>,
}

/// A workflow that is not kept.
pub(super) struct TrialWorkflow {
    pub checked: CheckedWorkflow,
    /// The `blocks` edges of its tasks, as (blocker, blocked), if they were checked and not written.
    pub blocks: Option<Vec<(ObjectId, ObjectId)>>,
}

impl Dispatcher {
    /// Creates a workflow, returns what it would do, and rolls everything back.
    pub(super) async fn dry_run<F>(&self, project: ProjectId, create: F) -> Result<DryRun>
    where
        F: Fn(&mut Tx<'_>) -> Result<TrialWorkflow> + Send + Sync + 'static,
    {
        let graph = self.executor().graph();
        // All tasks are in memory until agents are chosen for them.
        let _turn = graph.preview_turn(project).await?;
        let work = move |tx: &mut Tx<'_>| -> Result<LoadedDryRun> {
            let TrialWorkflow { checked: CheckedWorkflow { created, planner }, blocks } = create(tx)?;
            let tasks: Vec<Task> = created.tasks.iter().map(Task::from_object).collect();
            let blocks = match blocks {
                Some(blocks) => blocks,
                None => tasks::list_blocks(tx, project, created.workflow.id)?,
            };
            let outside = load_foreign_blockers(tx, project, &tasks, &blocks)?;
            let agents = dispatchable_agents(tx, project)?;
            let coordination =
                projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
            let outcomes = load_outcomes(tx, project, created.workflow.id, &tasks)?;
            let workflow = created.workflow;
            Ok(LoadedDryRun { workflow, planner, tasks, blocks, outside, agents, coordination, outcomes })
        };
        let loaded = graph.db().write_and_roll_back(work).await?;
        let judge = self.judge_model(&loaded.workflow.settings).map(|model| model.to_string());
        let build = move || build_dry_run(loaded, judge, Instant::now() + MAX_SELECTION_TIME);
        self.selection_pool().run(project, build).await?
    }
}

/// What the transaction of a dry run has read.
struct LoadedDryRun {
    workflow: Workflow,
    planner: Option<String>,
    tasks: Vec<Task>,
    /// Pairs of (blocker, blocked).
    blocks: Vec<(ObjectId, ObjectId)>,
    outside: Vec<ForeignBlocker>,
    agents: Vec<Agent>,
    coordination: CoordinationSettings,
    outcomes: Vec<TaskOutcome>,
}

/// Chooses an agent for each task, and returns an error if that is not done at the deadline.
fn build_dry_run(loaded: LoadedDryRun, judge: Option<String>, deadline: Instant) -> Result<DryRun> {
    let LoadedDryRun { workflow, planner, tasks, blocks, outside, agents, coordination, outcomes } = loaded;
    let cards = agent_cards(&agents, &coordination, &outcomes);
    let index = AgentIndex::new(&cards);
    let snapshot = Snapshot::new(workflow, tasks, &blocks, &outside);
    let mut blocked_by = blocker_keys(&snapshot, &blocks);
    let mut layers: Vec<Vec<DryRunTask>> = Vec::new();
    for PlacedTask { task, layer, .. } in place_tasks(&snapshot) {
        let selection = select::select_by_project_rules(task, &cards, &coordination.selection_rules)
            .filter(|_| Instant::now() < deadline)
            .or_else(|| index.select_by_rules_until(task, &|| Instant::now() >= deadline))
            .ok_or_else(too_slow)?;
        let agent = selection.agent.as_deref().filter(|_| task.requires_collaboration);
        let review_note =
            agent.and_then(|agent| discussion::review_note(task, agent, &cards, &coordination.discussions));
        layers.resize_with(layers.len().max(layer + 1), Vec::new);
        layers[layer].push(DryRunTask {
            blocked_by: blocked_by.remove(&task.id).unwrap_or_default(),
            agent: selection.agent,
            reason: selection.reason,
            clear: selection.clear,
            review_note,
            task: task.clone(),
        });
    }
    let max_concurrent = snapshot.workflow.settings.max_concurrent;
    let startable =
        snapshot.available().into_iter().take(max_concurrent).map(|task| task.key.clone()).collect();
    Ok(DryRun { planner, judge, layers, startable })
}

fn too_slow() -> Error {
    let reason = format!(
        "choosing the agents takes longer than {} seconds, which is the limit; name them with `assignedAgent`, or give \
         fewer or shorter tasks",
        MAX_SELECTION_TIME.as_secs()
    );
    Invalid::new("dryRun", reason).into()
}

/// The keys of the tasks that each task waits for, in the order of `blocks`.
fn blocker_keys(snapshot: &Snapshot, blocks: &[(ObjectId, ObjectId)]) -> HashMap<ObjectId, Vec<String>> {
    let mut keys: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (from, to) in blocks {
        if let Some(blocker) = snapshot.get(*from) {
            keys.entry(*to).or_default().push(blocker.key.clone());
        }
    }
    keys
}

/// A task with its place in a dry run.
struct PlacedTask<'a> {
    task: &'a Task,
    /// One more than the last layer of its blockers.
    layer: usize,
    /// How often one has to go through the tasks in their order until all that this task waits for were passed.
    round: usize,
    position: usize,
}

/// Places the tasks: those that are passed first come first. Tasks that wait for themselves are left out; such cycles
/// are refused when tasks are created.
fn place_tasks(snapshot: &Snapshot) -> Vec<PlacedTask<'_>> {
    let tasks = snapshot.tasks();
    let positions: HashMap<ObjectId, usize> =
        tasks.iter().enumerate().map(|(position, task)| (task.id, position)).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    let mut open_blockers: Vec<usize> = vec![0; tasks.len()];
    for (position, task) in tasks.iter().enumerate() {
        for blocker in snapshot.blockers(task.id).filter_map(|blocker| positions.get(&blocker.id)) {
            dependents[*blocker].push(position);
            open_blockers[position] += 1;
        }
    }
    // The layer and the round of each task, as far as its blockers are placed.
    let mut places: Vec<(usize, usize)> = vec![(0, 0); tasks.len()];
    let mut free: VecDeque<usize> =
        (0..tasks.len()).filter(|position| open_blockers[*position] == 0).collect();
    let mut placed: Vec<PlacedTask<'_>> = Vec::with_capacity(tasks.len());
    while let Some(position) = free.pop_front() {
        let (layer, round) = places[position];
        placed.push(PlacedTask { task: &tasks[position], layer, round, position });
        for &dependent in &dependents[position] {
            let (own_layer, own_round) = &mut places[dependent];
            *own_layer = (*own_layer).max(layer + 1);
            *own_round = (*own_round).max(round + usize::from(position > dependent));
            open_blockers[dependent] -= 1;
            if open_blockers[dependent] == 0 {
                free.push_back(dependent);
            }
        }
    }
    placed.sort_by_key(|placed| (placed.round, placed.position));
    placed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use emergent_domain::{
        agent::AgentDefinition, ids::AgentId, task::NewTask, time::Timestamp, workflow::WorkflowSettings,
    };
    use emergent_testkit::fixtures;

    use super::*;

    /// Tasks with these keys, and pairs of (blocker, blocked).
    fn loaded(keys: &[&str], blocks: &[(&str, &str)]) -> LoadedDryRun {
        let task = |key: &&str| Task {
            key: (*key).to_owned(),
            ..fixtures::task(NewTask { title: "Anything".into(), ..NewTask::default() })
        };
        let tasks: Vec<Task> = keys.iter().map(task).collect();
        let id = |key: &str| tasks.iter().find(|task| task.key == key).unwrap().id;
        let blocks = blocks.iter().map(|(from, to)| (id(from), id(to))).collect();
        LoadedDryRun {
            workflow: fixtures::workflow(ProjectId::new(), WorkflowSettings::default(), Timestamp::now()),
            planner: None,
            tasks,
            blocks,
            outside: Vec::new(),
            agents: Vec::new(),
            coordination: CoordinationSettings::default(),
            outcomes: Vec::new(),
        }
    }

    #[test]
    fn tasks_are_in_layers_in_whatever_order_they_come() {
        let blocks = [("b", "c"), ("a", "b"), ("a", "d"), ("d", "c")];
        let loaded = loaded(&["c", "b", "a", "d"], &blocks);
        let far = Instant::now() + Duration::from_secs(3_600);
        let dry_run = build_dry_run(loaded, None, far).unwrap();
        let keys = |layer: &Vec<DryRunTask>| layer.iter().map(|one| one.task.key.clone()).collect::<Vec<_>>();
        let layers: Vec<Vec<String>> = dry_run.layers.iter().map(keys).collect();
        assert_eq!(layers, [vec!["a"], vec!["d", "b"], vec!["c"]]);
        assert_eq!(dry_run.layers[2][0].blocked_by, ["b", "d"]);
        assert_eq!(dry_run.startable, ["a"]);
    }

    #[test]
    fn a_dry_run_says_which_review_cannot_be_held_as_asked() {
        let mut loaded = loaded(&["a"], &[]);
        let agent = |name: &str| Agent {
            id: AgentId::new(),
            project: ProjectId::new(),
            version: 1,
            definition: AgentDefinition::new(name),
            created_at: Timestamp::now(),
            updated_at: Timestamp::now(),
            deleted_at: None,
        };
        loaded.agents = vec![agent("writer"), agent("reader")];
        let task = &mut loaded.tasks[0];
        task.assigned_agent = Some("writer".to_owned());
        task.requires_collaboration = true;
        task.discussion.kind = Some("debate".to_owned());
        let far = Instant::now() + Duration::from_secs(3_600);
        let dry_run = build_dry_run(loaded, None, far).unwrap();
        let note = dry_run.layers[0][0].review_note.as_deref();
        assert!(note.is_some_and(|note| note.contains("review_loop instead of a debate")), "{note:?}");
    }

    #[test]
    fn a_dry_run_ends_at_its_deadline() {
        let error = build_dry_run(loaded(&["a"], &[]), None, Instant::now()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(error.to_string().contains("5 seconds"), "{error}");
    }
}
