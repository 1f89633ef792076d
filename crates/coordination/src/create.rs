//! Creates workflows with their tasks, and adds tasks to a workflow. All tasks of a request are checked
//! before one is written, and every problem is reported with the path of its field.

use std::collections::{BTreeSet, HashMap, HashSet};

use emergent_domain::{
    author::Author,
    coordination::DiscussionDefaults,
    dependency_cycles::name_cycle,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    invalid::{Invalid, MAX_SHOWN_PROBLEMS, Problem},
    object::Object,
    output_schema::OutputSchema,
    pack::nearest_name,
    relationship::NewRelationship,
    task::{self, BLOCKS_TYPE, MAX_TITLE_BYTES, NewTask, VerdictKind},
    text::truncate,
    workflow::{Workflow, WorkflowOrigin, WorkflowSettings, WorkflowStatus},
    workflow_event::WorkflowEventBody,
};
use emergent_graph::{Error, Result, WriteContext, objects, relationships};
use emergent_rules::workflow::discussion::{DiscussionKind, max_participants};
use emergent_store::{
    Tx,
    objects::EndObject,
    projects, runs, tasks,
    workflows::{self, NewWorkflowEvent},
};
use serde_json::Map;

use crate::{decision_rights::check_may_add, dispatchable::NameableAgents, transactions::new_event};

const MAX_KEY_BYTES: usize = 64;
const MAX_RETRIES: i64 = 100;
pub(crate) const MAX_BLOCKERS: usize = 200;
/// The most edges that the tasks of one request bring: one for each task that they name in `blockedBy` and `verifies`. All
/// of them are written in one transaction.
const MAX_EDGES: usize = 10_000;
/// After so many problems, no more are looked for. The last problem of an answer says so.
const MAX_PROBLEMS: usize = MAX_SHOWN_PROBLEMS - 1;
/// Searching for a similar name is slow, so only the first problems of a request suggest one.
const MAX_SUGGESTIONS: usize = 20;

/// The request to create a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflow {
    pub description: String,
    pub settings: WorkflowSettings,
    /// If there are none, a planner creates them first.
    pub tasks: Vec<NewTask>,
}

/// A new workflow. Its tasks are in the order of the request.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedWorkflow {
    pub workflow: Workflow,
    pub tasks: Vec<Object>,
}

/// What becomes of a workflow that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Start,
    /// The transaction is rolled back. The edges of the tasks, which are most of what would be written, are only checked.
    DryRun,
}

/// Creates a workflow with its tasks. Any dispatcher with free capacity claims it. A workflow without tasks
/// is planned first. If a run creates it, the workflow inherits its trace and its place in a chain of triggers.
pub fn create_workflow(tx: &mut Tx<'_>, writer: &WriteContext, new: &NewWorkflow) -> Result<CreatedWorkflow> {
    let run = match author_run(writer) {
        Some(run) => runs::get(tx, writer.project.id, run)?,
        None => None,
    };
    let origin = run.map(|run| WorkflowOrigin {
        trigger: None,
        cause: run.cause,
        cause_depth: run.cause_depth,
        traceparent: run.terms.traceparent,
    });
    let agents = NameableAgents::load(tx, writer.project.id, writer.author)?;
    create_workflow_with_origin(tx, writer, new, agents, origin.unwrap_or_default(), Purpose::Start)
}

/// Like [`create_workflow`], with what the caller knows: the agents that it may name, and the origin of the workflow.
pub(crate) fn create_workflow_with_origin(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    new: &NewWorkflow,
    agents: NameableAgents,
    origin: WorkflowOrigin,
    purpose: Purpose,
) -> Result<CreatedWorkflow> {
    let references = TaskReferences::for_new_workflow(writer, agents);
    let problems = references.problems(&new.tasks, new.settings.max_tasks);
    Invalid::if_any(problems)?;
    let status = if new.tasks.is_empty() { WorkflowStatus::Planning } else { WorkflowStatus::Running };
    let mut workflow = workflow_row(writer, status, &new.description, &new.settings, origin);
    // The ids are chosen before the tasks are written, so that all events are written at once.
    let tasks: Vec<(ObjectId, &NewTask)> = new.tasks.iter().map(|task| (ObjectId::new(), task)).collect();
    let mut events = vec![start_event(&workflow, new.tasks.len())];
    events.extend(tasks.iter().map(|(id, task)| added_event(writer, *id, task)));
    let writer = writer.insert_workflow(tx, &mut workflow, &events)?;
    let created = create_tasks(tx, &writer, workflow.id, &tasks)?;
    let edges = task_edges(&new.tasks, &ids_by_key(&tasks))?;
    let end = |task: &Object| (task.id, EndObject { type_: task.type_.clone(), updated_at: task.updated_at });
    let ends = created.iter().map(end).collect();
    // `problems` has found no cycle among the tasks.
    match purpose {
        Purpose::Start => drop(relationships::create_all_between_new(tx, &writer, &edges, &ends)?),
        Purpose::DryRun => relationships::check_all_between_new(tx, &writer, &edges, &ends)?,
    }
    Ok(CreatedWorkflow { workflow, tasks: created })
}

/// Checks the tasks of a workflow that is not created yet, as if somebody created it who may name these agents.
pub(crate) fn check_new_tasks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agents: NameableAgents,
    new: &NewWorkflow,
) -> Result<()> {
    let coordination = projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
    let references = TaskReferences { tasks: HashMap::new(), agents, discussions: coordination.discussions };
    Ok(Invalid::if_any(references.problems(&new.tasks, new.settings.max_tasks))?)
}

/// A new workflow of whoever writes.
pub(crate) fn workflow_row(
    writer: &WriteContext,
    status: WorkflowStatus,
    description: &str,
    settings: &WorkflowSettings,
    origin: WorkflowOrigin,
) -> Workflow {
    let (started_by, started_by_run) = match writer.author {
        Author::Token { id } => (Some(id), None),
        Author::Run { run_id, .. } => (None, Some(run_id)),
        Author::System => (None, None),
    };
    Workflow {
        id: WorkflowId::new(),
        project: writer.project.id,
        description: description.to_owned(),
        status,
        settings: settings.clone(),
        escalation: None,
        summary: None,
        planner_run: None,
        plan_attempts: 0,
        owner: None,
        revision: 0,
        event_seq: 0,
        started_by,
        started_by_run,
        origin,
        created_at: writer.now,
        updated_at: writer.now,
        completed_at: None,
    }
}

/// Records the event that a workflow was created with so many tasks.
pub(crate) fn record_start(tx: &mut Tx<'_>, workflow: &Workflow, tasks: usize) -> Result<()> {
    Ok(workflows::append_events(tx, workflow.id, &[start_event(workflow, tasks)])?)
}

fn start_event(workflow: &Workflow, tasks: usize) -> NewWorkflowEvent {
    let started = WorkflowEventBody::WorkflowStarted {
        description: workflow.description.clone(),
        status: workflow.status,
        tasks,
    };
    new_event(None, workflow.started_by_run, &started, workflow.created_at)
}

/// Adds tasks to a workflow that has not ended. One that waits for a person takes them from whoever may decide, and from
/// its own agents.
pub fn add_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    new: &[NewTask],
) -> Result<Vec<Object>> {
    let project = writer.project.id;
    // The lock prevents that the workflow ends, or gets other tasks, before these are written.
    let locked = workflows::lock(tx, project, workflow)?;
    let locked = locked.ok_or_else(|| Error::NotFound { what: "workflow", id: workflow.to_string() })?;
    if locked.status.is_terminal() {
        let message = format!("the workflow `{workflow}` is {} and takes no more tasks", locked.status);
        return Err(Error::Conflict { message });
    }
    check_may_add(tx, writer, &locked)?;
    let references = TaskReferences::for_workflow(tx, writer, workflow)?;
    Invalid::if_any(references.problems(new, locked.settings.max_tasks))?;
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let tasks: Vec<(ObjectId, &NewTask)> = new.iter().map(|task| (ObjectId::new(), task)).collect();
    let created = create_tasks(tx, writer, workflow, &tasks)?;
    let mut ids = references.tasks;
    ids.extend(ids_by_key(&tasks));
    relationships::create_all(tx, writer, &task_edges(new, &ids)?)?;
    let events: Vec<NewWorkflowEvent> =
        tasks.iter().map(|(id, task)| added_event(writer, *id, task)).collect();
    workflows::append_events(tx, workflow, &events)?;
    Ok(created)
}

/// Checks how much the tasks of a request are together. This needs nothing that is stored, so it is done before a
/// transaction begins.
pub(crate) fn check_size(new: &[NewTask]) -> Result<(), Invalid> {
    Invalid::if_any(size_problem(new).into_iter().collect())
}

fn size_problem(new: &[NewTask]) -> Option<Problem> {
    let edges: usize = new.iter().map(|task| task.blocked_by.len() + task.verifies.len()).sum();
    (edges > MAX_EDGES).then(|| {
        let reason = format!(
            "names {edges} tasks in `blockedBy` and `verifies` together, and the limit for one request is {MAX_EDGES}; \
             name only direct blockers, or add tasks in several requests"
        );
        Problem::new("tasks", reason)
    })
}

/// What new tasks can refer to.
struct TaskReferences {
    /// The tasks of the workflow by key.
    tasks: HashMap<String, ObjectId>,
    agents: NameableAgents,
    /// What the project says about discussions.
    discussions: DiscussionDefaults,
}

impl TaskReferences {
    fn for_new_workflow(writer: &WriteContext, agents: NameableAgents) -> Self {
        let discussions = writer.project.coordination.discussions.clone();
        Self { tasks: HashMap::new(), agents, discussions }
    }

    fn for_workflow(tx: &mut Tx<'_>, writer: &WriteContext, workflow: WorkflowId) -> Result<Self> {
        let tasks = tasks::list_keys(tx, writer.project.id, workflow)?.into_iter().collect();
        let agents = NameableAgents::load(tx, writer.project.id, writer.author)?;
        Ok(Self { tasks, ..Self::for_new_workflow(writer, agents) })
    }

    /// Returns every reason why these tasks cannot be created.
    fn problems(&self, new: &[NewTask], max_tasks: usize) -> Vec<Problem> {
        let mut problems = Vec::new();
        let total = self.tasks.len() + new.len();
        if total > max_tasks {
            let existing = match self.tasks.len() {
                0 => String::new(),
                count => format!(", {count} of them there already"),
            };
            let reason =
                format!("would be {total} tasks of one workflow{existing}, and max_tasks is {max_tasks}");
            problems.push(Problem::new("tasks", reason));
        }
        // Checking each task of such a large request would take too long.
        let size = size_problem(new);
        if new.len() > task::MAX_TASKS || size.is_some() {
            problems.extend(size);
            return problems;
        }
        let mut keys = HashSet::new();
        for (index, task) in new.iter().enumerate() {
            if problems.len() >= MAX_PROBLEMS {
                problems.push(unchecked(index));
                return problems;
            }
            let mut add = |field: &str, reason: String| {
                problems.push(Problem::new(format!("tasks[{index}].{field}"), reason));
            };
            if let Err(reason) = check_key(&task.key) {
                add("key", reason);
            } else if !keys.insert(task.key.as_str()) {
                add("key", format!("`{}` is the key of a task before this one", task.key));
            } else if self.tasks.contains_key(&task.key) {
                add("key", format!("`{}` is the key of a task of this workflow", task.key));
            }
            check_fields(task, &mut add);
            self.check_agents(task, &mut add);
            if let Some(problem) = quorum_problem(task, &self.discussions) {
                add("discussion.quorum", problem);
            }
            problems.extend(task.discussion.problems(&format!("tasks[{index}].discussion")));
            if let Some(problem) = threshold_problem(task, &self.discussions) {
                problems.push(Problem::new(format!("tasks[{index}].discussion.threshold"), problem));
            }
        }
        let all_keys: Vec<&str> =
            new.iter().map(|task| task.key.as_str()).chain(self.tasks.keys().map(String::as_str)).collect();
        let known_keys: HashSet<&str> = all_keys.iter().copied().collect();
        for (index, task) in new.iter().enumerate() {
            for (field, list) in [("blockedBy", &task.blocked_by), ("verifies", &task.verifies)] {
                for (position, key) in list.iter().enumerate() {
                    if !known_keys.contains(key.as_str()) {
                        if problems.len() >= MAX_PROBLEMS {
                            problems.push(unchecked(index));
                            return problems;
                        }
                        let suggestion = (problems.len() < MAX_SUGGESTIONS).then(|| {
                            nearest_name(key, all_keys.iter().copied().filter(|known| *known != task.key))
                        });
                        let reason = unknown_name("task", key, suggestion.flatten());
                        problems.push(Problem::new(format!("tasks[{index}].{field}[{position}]"), reason));
                    }
                }
            }
        }
        if let Some((index, cycle)) = find_cycle(new) {
            problems.push(Problem::new(format!("tasks[{index}].blockedBy"), cycle));
        }
        problems
    }

    fn check_agents(&self, task: &NewTask, add: &mut impl FnMut(&str, String)) {
        if let Some(problem) = task.assigned_agent.as_deref().and_then(|name| self.agents.problem(name, true))
        {
            add("assignedAgent", problem);
        }
        for (position, name) in task.collaborators.iter().enumerate() {
            if let Some(problem) = self.agents.problem(name, true) {
                add(&format!("collaborators[{position}]"), problem);
            }
        }
        for (index, phase) in task.discussion.phases.iter().enumerate() {
            for (position, name) in phase.agents.iter().enumerate() {
                if let Some(problem) = self.agents.problem(name, true) {
                    add(&format!("discussion.phases[{index}].agents[{position}]"), problem);
                }
            }
        }
    }
}

/// The last of many problems.
fn unchecked(index: usize) -> Problem {
    Problem::new(
        "tasks",
        format!("may have more problems, which were not looked for, from tasks[{index}] on"),
    )
}

/// Why the quorum that a task sets cannot be reached by the agents that it names; `None` if it can, or if the agents
/// are not known yet. Then a quorum that is too high is lowered, and the event of the discussion says so.
pub(crate) fn quorum_problem(task: &NewTask, project: &DiscussionDefaults) -> Option<String> {
    let quorum = task.discussion.quorum?;
    let defaults = task.discussion.or(project);
    let participants = max_participants(task.assigned_agent.as_deref(), &task.collaborators, &defaults)?;
    (quorum > participants).then(|| {
        format!(
            "is {quorum}, but at most {participants} agents take part: the one that does the task, and those that \
             `collaborators` and the phases name"
        )
    })
}

/// Why the threshold that a task sets has no effect in its review, whose kind the task leaves to the project; `None` if it
/// has one. Without a review, it is for the discussions that the agent starts.
pub(crate) fn threshold_problem(task: &NewTask, project: &DiscussionDefaults) -> Option<String> {
    if !task.requires_collaboration || task.discussion.effective_kind().is_some() {
        return None;
    }
    let kind = project.effective_kind().unwrap_or(DiscussionKind::ReviewLoop.as_str());
    let problem = task.discussion.threshold_problem(kind)?;
    Some(format!("{problem}; `kind` is not set, so the review is one"))
}

/// Reports the problems of a task that need no knowledge of other tasks or agents.
fn check_fields(task: &NewTask, add: &mut impl FnMut(&str, String)) {
    if task.title.trim().is_empty() {
        add("title", "is required".to_owned());
    } else if task.title.len() > MAX_TITLE_BYTES {
        add("title", format!("must have at most {MAX_TITLE_BYTES} bytes"));
    }
    for (field, list) in [("blockedBy", &task.blocked_by), ("verifies", &task.verifies)] {
        if list.len() > MAX_BLOCKERS {
            add(field, format!("must name at most {MAX_BLOCKERS} tasks"));
        }
    }
    if task.complexity.is_some_and(|complexity| !(1..=10).contains(&complexity)) {
        add("complexity", "must be 1 to 10".to_owned());
    }
    if task.max_retries.is_some_and(|retries| !(0..=MAX_RETRIES).contains(&retries)) {
        add("maxRetries", format!("must be 0 to {MAX_RETRIES}"));
    }
    if let Some(Err(invalid)) = task.output_schema.as_ref().map(OutputSchema::compile) {
        for problem in invalid.prefixed("outputSchema").problems {
            add(&problem.field, problem.reason);
        }
    }
    if task.verdict == VerdictKind::None && !task.verifies.is_empty() {
        add(
            "verifies",
            "is only for a task that ends in a verdict: give `verdict` as test or review".to_owned(),
        );
    }
    if task.verifies.contains(&task.key) {
        add("verifies", "a task cannot judge itself".to_owned());
    }
}

pub(crate) fn check_key(key: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.is_empty() {
        return Err("is required".to_owned());
    }
    if key.len() > MAX_KEY_BYTES || !key.chars().all(is_allowed) || !key.starts_with(char::is_alphanumeric) {
        return Err(format!(
            "`{}` must have 1 to {MAX_KEY_BYTES} letters, digits, `_`, `-` and `.`, and begin with a letter or digit",
            key.chars().take(MAX_KEY_BYTES).collect::<String>()
        ));
    }
    Ok(())
}

fn unknown_name(what: &str, name: &str, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("there is no {what} `{name}`; did you mean `{suggestion}`?"),
        None => format!("there is no {what} `{name}`"),
    }
}

/// The keys of the tasks that a task waits for: its blockers, and the tasks that it judges.
fn dependencies(task: &NewTask) -> impl Iterator<Item = &str> {
    task.blocked_by.iter().chain(&task.verifies).map(String::as_str)
}

/// Finds a dependency cycle among new tasks: the index of one of its tasks, and a description. Existing
/// tasks cannot be part of a cycle, because none of them waits for a new one.
fn find_cycle(new: &[NewTask]) -> Option<(usize, String)> {
    let edges: Vec<(&str, &str)> =
        new.iter().flat_map(|task| dependencies(task).map(|blocker| (blocker, task.key.as_str()))).collect();
    let cycle = task::find_cycle(&edges)?;
    let index = new.iter().position(|task| cycle.first() == Some(&task.key.as_str()))?;
    Some((
        index,
        format!(
            "would create a dependency cycle: {}; remove one of these edges",
            name_cycle(&cycle, |key| truncate(key, MAX_KEY_BYTES))
        ),
    ))
}

/// Writes tasks that were checked, with these ids.
fn create_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    new: &[(ObjectId, &NewTask)],
) -> Result<Vec<Object>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let draft = |(index, (id, task)): (usize, &(ObjectId, &NewTask))| {
        objects::ObjectDraft::new(task.to_object(Some(workflow)))
            .map(|draft| draft.with_id(*id))
            .map_err(|invalid| invalid.prefixed(&format!("tasks[{index}]")))
    };
    let drafts: Vec<objects::ObjectDraft> = new.iter().enumerate().map(draft).collect::<Result<_, _>>()?;
    objects::create_all(tx, &writer.with_links(), &drafts)
}

/// The `blocks` edges of new tasks, as (blocker, blocked), in a stable order. `created` has the tasks in their order.
pub(crate) fn blocks_of(new: &[NewTask], created: &[Object]) -> Vec<(ObjectId, ObjectId)> {
    let ids: HashMap<&str, ObjectId> =
        new.iter().zip(created).map(|(task, object)| (task.key.as_str(), object.id)).collect();
    let blocks_of = |(task, object): (&NewTask, &Object)| {
        let blocked = object.id;
        let blockers = dependencies(task).filter_map(|key| ids.get(key).map(|blocker| (*blocker, blocked)));
        blockers.collect::<Vec<_>>()
    };
    let mut blocks: Vec<_> = new.iter().zip(created).flat_map(blocks_of).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

fn ids_by_key(new: &[(ObjectId, &NewTask)]) -> HashMap<String, ObjectId> {
    new.iter().map(|(id, task)| (task.key.clone(), *id)).collect()
}

/// The `blocks` and `verifies` edges of tasks that were checked. `ids` are those of all tasks that they name.
fn task_edges(
    new: &[NewTask],
    ids: &HashMap<String, ObjectId>,
) -> Result<Vec<relationships::RelationshipDraft>> {
    let mut edges = Vec::new();
    let mut add_edge = |type_: &str, from: &str, to: &str| -> Result<()> {
        if let (Some(from), Some(to)) = (ids.get(from), ids.get(to)) {
            edges.push(relationships::RelationshipDraft::new(new_edge(type_, *from, *to))?);
        }
        Ok(())
    };
    for task in new {
        // The sets drop keys that a task names twice.
        for blocker in dependencies(task).collect::<BTreeSet<_>>() {
            add_edge(BLOCKS_TYPE, blocker, &task.key)?;
        }
        let judged = if task.verifies.is_empty() { &task.blocked_by } else { &task.verifies };
        for judged_key in judged.iter().collect::<BTreeSet<_>>() {
            if task.verdict != VerdictKind::None {
                add_edge("verifies", &task.key, judged_key)?;
            }
        }
    }
    Ok(edges)
}

/// The event that a task was added.
fn added_event(writer: &WriteContext, id: ObjectId, task: &NewTask) -> NewWorkflowEvent {
    let event = WorkflowEventBody::TaskAdded {
        key: task.key.clone(),
        title: task.title.clone(),
        kind: task.kind.clone(),
        assigned_agent: task.assigned_agent.clone(),
        blocked_by: task.blocked_by.clone(),
    };
    new_event(Some(id), author_run(writer), &event, writer.now)
}

/// The most bytes of a title that its key contains.
const MAX_GENERATED_KEY_BYTES: usize = 40;

/// Makes a key from a title, different from those in `taken`.
pub(crate) fn unused_key(title: &str, taken: &HashSet<String>) -> String {
    let mut key = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if key.len() + c.len_utf8() > MAX_GENERATED_KEY_BYTES {
            break;
        }
        if c.is_alphanumeric() {
            key.push(c);
        } else if !key.is_empty() && !key.ends_with('-') {
            key.push('-');
        }
    }
    let key = if key.is_empty() { "task" } else { key.trim_end_matches('-') };
    let mut names = std::iter::once(key.to_owned()).chain((2..).map(|number| format!("{key}-{number}")));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// A relationship without properties.
pub(crate) fn new_edge(type_: &str, from: ObjectId, to: ObjectId) -> NewRelationship {
    NewRelationship { type_: type_.to_owned(), from, to, properties: Map::new(), weight: None }
}

/// The run that writes, or `None` if a token or the server does.
pub(crate) fn author_run(writer: &WriteContext) -> Option<RunId> {
    match writer.author {
        Author::Run { run_id, .. } => Some(run_id),
        Author::Token { .. } | Author::System => None,
    }
}
