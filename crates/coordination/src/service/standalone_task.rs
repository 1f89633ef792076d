//! Creates a task outside of workflows, together with the `blocks` edges of the tasks that it waits for.

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::{Invalid, Problem},
    object::Object,
    output_schema::OutputSchema,
    task::{BLOCKS_TYPE, NewTask, TASK_TYPE, Task, VerdictKind},
};
use emergent_graph::{WriteContext, objects, relationships};
use emergent_store::{Tx, objects as rows, projects};

use crate::{
    create::{MAX_BLOCKERS, check_key, new_edge, quorum_problem, threshold_problem},
    dispatchable::NameableAgents,
    error::{Error, Result},
    existing_tasks::assigned_workflow,
    named_tasks::{is_about_name, parse_reference, resolve_task},
};

const MAX_RETRIES: i64 = 100;

/// Creates the task if it can be done. Nobody waits for a new task, so its edges close no cycle.
pub(super) fn create(tx: &mut Tx<'_>, writer: &WriteContext, task: &NewTask) -> Result<Object> {
    let blockers = check(tx, writer, task)?;
    let created = objects::create(tx, writer, &objects::ObjectDraft::new(task.to_object(None))?)?;
    let edges: Vec<relationships::RelationshipDraft> = blockers
        .into_iter()
        .map(|blocker| relationships::RelationshipDraft::new(new_edge(BLOCKS_TYPE, blocker, created.id)))
        .collect::<Result<_, Invalid>>()?;
    if !edges.is_empty() {
        relationships::create_all(tx, writer, &edges)?;
    }
    Ok(created)
}

/// Checks a task without a workflow, which judges no other task. Returns the tasks that it waits for.
fn check(tx: &mut Tx<'_>, writer: &WriteContext, task: &NewTask) -> Result<BTreeSet<ObjectId>> {
    let project = writer.project.id;
    let mut problems = Vec::new();
    let mut add = |field: &str, reason: &str| problems.push(Problem::new(field, reason));
    // A workflow that takes the task keeps its key.
    if let Err(reason) = check_key(&task.key) {
        add("key", &reason);
    }
    if task.title.trim().is_empty() {
        add("title", "is required");
    }
    let needs_workflow = "is only for a task of a workflow: give `workflowId`";
    for (field, given) in
        [("verifies", !task.verifies.is_empty()), ("verdict", task.verdict != VerdictKind::None)]
    {
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
    if let Some(Err(invalid)) = task.output_schema.as_ref().map(OutputSchema::compile) {
        for problem in invalid.prefixed("outputSchema").problems {
            add(&problem.field, &problem.reason);
        }
    }
    let agents = NameableAgents::load(tx, project, writer.author)?;
    if let Some(problem) = task.assigned_agent.as_deref().and_then(|name| agents.problem_with_list(name)) {
        add("assignedAgent", &problem);
    }
    problems.extend(task.discussion.problems("discussion"));
    let coordination = projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
    if let Some(problem) = quorum_problem(task, &coordination.discussions) {
        problems.push(Problem::new("discussion.quorum", problem));
    }
    if let Some(problem) = threshold_problem(task, &coordination.discussions) {
        problems.push(Problem::new("discussion.threshold", problem));
    }
    let blockers = find_blockers(tx, project, &task.blocked_by, &mut problems)?;
    Invalid::if_any(problems)?;
    Ok(blockers)
}

/// The tasks that `blockedBy` names. They are locked, so that no workflow takes one before the edges are written.
fn find_blockers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    references: &[String],
    problems: &mut Vec<Problem>,
) -> Result<BTreeSet<ObjectId>> {
    if references.len() > MAX_BLOCKERS {
        problems.push(Problem::new("blockedBy", format!("must name at most {MAX_BLOCKERS} tasks")));
        return Ok(BTreeSet::new());
    }
    let mut named: Vec<(String, &String, ObjectId)> = Vec::new();
    for (position, reference) in references.iter().enumerate() {
        let field = format!("blockedBy[{position}]");
        match resolve_blocker(tx, project, reference)? {
            Ok(id) => named.push((field, reference, id)),
            Err(reason) => problems.push(Problem::new(field, reason)),
        }
    }
    let blockers: BTreeSet<ObjectId> = named.iter().map(|(.., id)| *id).collect();
    rows::lock_live(tx, project, &blockers.iter().copied().collect::<Vec<_>>())?;
    for (field, reference, id) in named {
        if let Some(reason) = blocker_problem(tx, project, reference, id)? {
            problems.push(Problem::new(field, reason));
        }
    }
    Ok(blockers)
}

/// The id of the task that `blockedBy` names, or why it names none.
fn resolve_blocker(
    tx: &mut Tx<'_>,
    project: ProjectId,
    reference: &str,
) -> Result<std::result::Result<ObjectId, String>> {
    let parsed = match parse_reference(reference) {
        Ok(parsed) => parsed,
        Err(reason) => return Ok(Err(reason)),
    };
    match resolve_task(tx, project, &parsed) {
        Ok(id) => Ok(Ok(id)),
        Err(Error::Graph(emergent_graph::Error::NotFound { .. })) => Ok(Err(no_task(reference))),
        Err(error) if is_about_name(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

fn no_task(reference: &str) -> String {
    format!("there is no task `{reference}` outside of workflows; for one of a workflow, give `workflowId`")
}

/// Why a task outside of workflows cannot wait for this object; `None` if it can.
fn blocker_problem(
    tx: &mut Tx<'_>,
    project: ProjectId,
    reference: &str,
    id: ObjectId,
) -> Result<Option<String>> {
    let Some(object) = rows::get(tx, project, id)?.filter(|object| object.type_ == TASK_TYPE) else {
        return Ok(Some(no_task(reference)));
    };
    let task = Task::from_object(&object);
    Ok(assigned_workflow(tx, project, &task)?.map(|workflow| {
        format!(
            "the task `{}` belongs to the workflow `{}`, and a task outside of workflows waits only for others outside; \
             to add this one there, give `workflowId`",
            task.key, workflow.id
        )
    }))
}
