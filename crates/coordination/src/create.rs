//! How tasks come into being: a workflow starts with some, or gets more later. All of them are
//! checked before any is made, and every problem is told with its place.

use std::collections::{BTreeSet, HashMap, HashSet};

use emergent_domain::{
    author::Author,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    invalid::{Invalid, Problem},
    object::Object,
    pack::nearest_name,
    relationship::NewRelationship,
    task::{self, BLOCKS_TYPE, NewTask, VerdictKind},
    workflow::{Workflow, WorkflowSettings, WorkflowStatus},
    workflow_event::WorkflowEventBody,
};
use emergent_graph::{Error, Result, WriteContext, objects, relationships};
use emergent_store::{
    Tx, agents, tasks,
    workflows::{self, NewWorkflowEvent},
};
use serde_json::Map;

use crate::transactions::new_event;

const MAX_KEY_CHARS: usize = 64;
const MAX_TITLE_CHARS: usize = 500;
const MAX_RETRIES: i64 = 100;
const MAX_BLOCKERS: usize = 200;
/// Problems that come with the name that was probably meant.
const MAX_SUGGESTIONS: usize = 20;

/// A workflow to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflow {
    pub description: String,
    pub settings: WorkflowSettings,
    /// None for one that is planned first.
    pub tasks: Vec<NewTask>,
}

/// What was made. Tasks are in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedWorkflow {
    pub workflow: Workflow,
    pub tasks: Vec<Object>,
}

/// Makes a workflow with its tasks, to be walked by whichever dispatcher is free; without tasks, it
/// is planned first.
pub fn create_workflow(tx: &mut Tx<'_>, writer: &WriteContext, new: &NewWorkflow) -> Result<CreatedWorkflow> {
    let project = writer.project.id;
    let known = TaskReferences::for_new_workflow(tx, project)?;
    let problems = known.problems(&new.tasks, new.settings.max_tasks);
    Invalid::if_any(problems)?;
    let status = if new.tasks.is_empty() { WorkflowStatus::Planning } else { WorkflowStatus::Running };
    let (started_by, started_by_run) = match writer.author {
        Author::Token { id } => (Some(id), None),
        Author::Run { run_id, .. } => (None, Some(run_id)),
        Author::System => (None, None),
    };
    let workflow = Workflow {
        id: WorkflowId::new(),
        project,
        description: new.description.clone(),
        status,
        settings: new.settings.clone(),
        escalation: None,
        summary: None,
        planner_run: None,
        plan_attempts: 0,
        owner: None,
        revision: 0,
        event_seq: 0,
        started_by,
        started_by_run,
        created_at: writer.now,
        updated_at: writer.now,
        completed_at: None,
    };
    workflows::insert(tx, &workflow)?;
    let started = WorkflowEventBody::WorkflowStarted {
        description: workflow.description.clone(),
        status,
        tasks: new.tasks.len(),
    };
    workflows::append_events(tx, workflow.id, &[new_event(None, started_by_run, &started, writer.now)])?;
    let tasks = create_tasks(tx, writer, workflow.id, &new.tasks, &known)?;
    Ok(CreatedWorkflow { workflow, tasks })
}

/// Adds tasks to a workflow that is not over.
pub fn add_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    new: &[NewTask],
) -> Result<Vec<Object>> {
    let project = writer.project.id;
    // Held from here on: nobody ends it, and nobody else adds to it, before these are in.
    let found = workflows::lock(tx, project, workflow)?;
    let found = found.ok_or_else(|| Error::NotFound { what: "workflow", id: workflow.to_string() })?;
    if found.status.is_terminal() {
        let message = format!("the workflow `{workflow}` is {} and takes no more tasks", found.status);
        return Err(Error::Conflict { message });
    }
    let known = TaskReferences::for_workflow(tx, project, workflow)?;
    Invalid::if_any(known.problems(new, found.settings.max_tasks))?;
    create_tasks(tx, writer, workflow, new, &known)
}

/// What new tasks can refer to.
struct TaskReferences {
    tasks: HashMap<String, ObjectId>,
    agents: Vec<String>,
}

impl TaskReferences {
    fn for_new_workflow(tx: &mut Tx<'_>, project: ProjectId) -> Result<Self> {
        Ok(Self { tasks: HashMap::new(), agents: agents::list_names(tx, project)? })
    }

    fn for_workflow(tx: &mut Tx<'_>, project: ProjectId, workflow: WorkflowId) -> Result<Self> {
        let tasks = tasks::list_keys(tx, project, workflow)?.into_iter().collect();
        Ok(Self { tasks, agents: agents::list_names(tx, project)? })
    }

    /// Everything that stands against these tasks.
    fn problems(&self, new: &[NewTask], most: usize) -> Vec<Problem> {
        let mut problems = Vec::new();
        let all = self.tasks.len() + new.len();
        if all > most {
            let there = match self.tasks.len() {
                0 => String::new(),
                there => format!(", {there} of them there already"),
            };
            let reason = format!("would be {all} tasks of one workflow{there}, and max_tasks is {most}");
            problems.push(Problem::new("tasks", reason));
        }
        // So many are not looked at one by one.
        if new.len() > task::MAX_TASKS {
            return problems;
        }
        let mut keys = HashSet::new();
        for (at, one) in new.iter().enumerate() {
            let mut add = |field: &str, reason: String| {
                problems.push(Problem::new(format!("tasks[{at}].{field}"), reason));
            };
            if let Err(reason) = check_key(&one.key) {
                add("key", reason);
            } else if !keys.insert(one.key.as_str()) {
                add("key", format!("`{}` is the key of a task before this one", one.key));
            } else if self.tasks.contains_key(&one.key) {
                add("key", format!("`{}` is the key of a task of this workflow", one.key));
            }
            check_fields(one, &mut add);
            self.check_agents(one, &mut add);
        }
        let known: Vec<&str> =
            new.iter().map(|one| one.key.as_str()).chain(self.tasks.keys().map(String::as_str)).collect();
        let names: HashSet<&str> = known.iter().copied().collect();
        for (at, one) in new.iter().enumerate() {
            for (field, list) in [("blockedBy", &one.blocked_by), ("verifies", &one.verifies)] {
                for (place, key) in list.iter().enumerate() {
                    if !names.contains(key.as_str()) {
                        // Looking for a name like it takes a while; the first few will do.
                        let like = (problems.len() < MAX_SUGGESTIONS)
                            .then(|| nearest_name(key, known.iter().copied()));
                        let reason = unknown_name("task", key, like.flatten());
                        problems.push(Problem::new(format!("tasks[{at}].{field}[{place}]"), reason));
                    }
                }
            }
        }
        if problems.is_empty()
            && let Some((at, circle)) = find_cycle(new)
        {
            problems.push(Problem::new(format!("tasks[{at}].blockedBy"), circle));
        }
        problems
    }

    fn check_agents(&self, one: &NewTask, add: &mut impl FnMut(&str, String)) {
        let known = |name: &str| self.agents.iter().any(|agent| agent == name);
        let hint = |name: &str| {
            unknown_name("agent", name, nearest_name(name, self.agents.iter().map(String::as_str)))
        };
        if let Some(name) = one.assigned_agent.as_deref().filter(|name| !known(name)) {
            add("assignedAgent", hint(name));
        }
        for (place, name) in one.collaborators.iter().enumerate().filter(|(_, name)| !known(name)) {
            add(&format!("collaborators[{place}]"), hint(name));
        }
    }
}

/// What is wrong with a task's own words.
fn check_fields(one: &NewTask, add: &mut impl FnMut(&str, String)) {
    if one.title.trim().is_empty() {
        add("title", "is required".to_owned());
    } else if one.title.len() > MAX_TITLE_CHARS {
        add("title", format!("must have at most {MAX_TITLE_CHARS} bytes"));
    }
    for (field, list) in [("blockedBy", &one.blocked_by), ("verifies", &one.verifies)] {
        if list.len() > MAX_BLOCKERS {
            add(field, format!("must name at most {MAX_BLOCKERS} tasks"));
        }
    }
    if one.complexity.is_some_and(|complexity| !(1..=10).contains(&complexity)) {
        add("complexity", "must be 1 to 10".to_owned());
    }
    if one.max_retries.is_some_and(|retries| !(0..=MAX_RETRIES).contains(&retries)) {
        add("maxRetries", format!("must be 0 to {MAX_RETRIES}"));
    }
    if one.verdict == VerdictKind::None && !one.verifies.is_empty() {
        add(
            "verifies",
            "is only for a task that ends in a verdict: give `verdict` as test or review".to_owned(),
        );
    }
    if one.verifies.contains(&one.key) {
        add("verifies", "a task cannot judge itself".to_owned());
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.is_empty() {
        return Err("is required".to_owned());
    }
    if key.len() > MAX_KEY_CHARS || !key.chars().all(fine) || !key.starts_with(char::is_alphanumeric) {
        return Err(format!(
            "`{}` must have 1 to {MAX_KEY_CHARS} letters, digits, `_`, `-` and `.`, and begin with a letter or digit",
            key.chars().take(MAX_KEY_CHARS).collect::<String>()
        ));
    }
    Ok(())
}

fn unknown_name(what: &str, name: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("there is no {what} `{name}`; did you mean `{hint}`?"),
        None => format!("there is no {what} `{name}`"),
    }
}

/// What a task waits for: its blockers, and what it judges, which has to be there first.
fn dependencies(one: &NewTask) -> impl Iterator<Item = &str> {
    one.blocked_by.iter().chain(&one.verifies).map(String::as_str)
}

/// Tasks that were to wait for one another, and where one of them is. What is there already waits
/// for none of the new ones.
fn find_cycle(new: &[NewTask]) -> Option<(usize, String)> {
    let edges: Vec<(&str, &str)> =
        new.iter().flat_map(|one| dependencies(one).map(|before| (before, one.key.as_str()))).collect();
    let way = task::find_cycle(&edges)?;
    let at = new.iter().position(|one| way.first() == Some(&one.key.as_str()))?;
    Some((at, format!("would create a dependency cycle: {}; remove one of these edges", way.join(" → "))))
}

/// Makes what was checked: the tasks, who waits for whom, who judges whom.
fn create_tasks(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    workflow: WorkflowId,
    new: &[NewTask],
    known: &TaskReferences,
) -> Result<Vec<Object>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let draft = |(at, one): (usize, &NewTask)| {
        objects::ObjectDraft::new(one.to_object(Some(workflow)))
            .map_err(|invalid| invalid.prefixed(&format!("tasks[{at}]")))
    };
    let drafts: Vec<objects::ObjectDraft> = new.iter().enumerate().map(draft).collect::<Result<_, _>>()?;
    let made = objects::create_all(tx, writer, &drafts)?;
    let mut ids = known.tasks.clone();
    ids.extend(new.iter().zip(&made).map(|(one, object)| (one.key.clone(), object.id)));

    let mut edges = Vec::new();
    let mut join = |type_: &str, from: &str, to: &str| -> Result<()> {
        if let (Some(from), Some(to)) = (ids.get(from), ids.get(to)) {
            edges.push(relationships::RelationshipDraft::new(new_edge(type_, *from, *to))?);
        }
        Ok(())
    };
    for one in new {
        // Named twice is named once.
        for before in dependencies(one).collect::<BTreeSet<_>>() {
            join(BLOCKS_TYPE, before, &one.key)?;
        }
        let judged = if one.verifies.is_empty() { &one.blocked_by } else { &one.verifies };
        for other in judged.iter().collect::<BTreeSet<_>>() {
            if one.verdict != VerdictKind::None {
                join("verifies", &one.key, other)?;
            }
        }
    }
    relationships::create_all(tx, writer, &edges)?;

    let run = author_run(writer);
    let added: Vec<NewWorkflowEvent> = new
        .iter()
        .zip(&made)
        .map(|(task, object)| {
            let added = WorkflowEventBody::TaskAdded {
                key: task.key.clone(),
                title: task.title.clone(),
                kind: task.kind.clone(),
                assigned_agent: task.assigned_agent.clone(),
                blocked_by: task.blocked_by.clone(),
            };
            new_event(Some(object.id), run, &added, writer.now)
        })
        .collect();
    workflows::append_events(tx, workflow, &added)?;
    Ok(made)
}

pub(crate) fn new_edge(type_: &str, from: ObjectId, to: ObjectId) -> NewRelationship {
    NewRelationship { type_: type_.to_owned(), from, to, properties: Map::new(), weight: None }
}

pub(crate) fn author_run(writer: &WriteContext) -> Option<RunId> {
    match writer.author {
        Author::Run { run_id, .. } => Some(run_id),
        Author::Token { .. } | Author::System => None,
    }
}
