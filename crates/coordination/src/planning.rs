//! Planning: an agent makes the tasks of a workflow through its tools. What it made is checked; a
//! plan that will not do goes back to it with the reason, twice, before the workflow fails.

use std::collections::HashSet;

use emergent_domain::{
    ids::RunId,
    run::{Run, RunStatus},
    task::Task,
    workflow::WorkflowStatus,
};
use emergent_store::{Tx, runs};

use crate::{
    Result, apply::WorkflowWrite, loaded_workflow::LoadedWorkflow, prepare_attempt::agent_names,
    workflow_driver::WorkflowDriver,
};

/// Who plans when a workflow does not say.
pub const DEFAULT_PLANNER: &str = "task-planner";
const MAX_PLAN_ATTEMPTS: i64 = 3;

/// What planning does next; nothing while the planner works.
pub(crate) async fn planning_writes(
    walk: &WorkflowDriver,
    known: &LoadedWorkflow,
    refused: Option<String>,
) -> Result<Vec<WorkflowWrite>> {
    if let Some(why) = refused {
        return Ok(vec![fail_workflow(format!("the planner could not be started: {why}"))]);
    }
    let workflow = known.workflow();
    let Some(run) = workflow.planner_run else { return Ok(vec![start_planner(known, None)]) };
    let (project, db) = (walk.project, walk.dispatcher.executor().graph().db());
    let read = move |tx: &mut Tx<'_>| runs::get(tx, project, run);
    let found: Result<Option<Run>, emergent_store::Error> = db.read(read).await;
    let Some(run) = found? else { return Ok(vec![start_planner(known, None)]) };
    if !run.status.is_terminal() {
        return Ok(Vec::new());
    }
    let problem = match run.status {
        RunStatus::Completed => plan_problem(known),
        status => {
            let why = run.error.clone().or(run.summary.clone()).unwrap_or_default();
            Some(format!("the run of the planner is {status}: {why}"))
        }
    };
    let Some(problem) = problem else {
        let why = format!("{} tasks were planned", known.snapshot.tasks().len());
        return Ok(vec![WorkflowWrite::MoveWorkflow {
            to: WorkflowStatus::Running,
            why,
            summary: None,
            escalation: None,
        }]);
    };
    let mut items: Vec<WorkflowWrite> =
        known.snapshot.tasks().iter().map(|task| WorkflowWrite::DeleteTask { task: task.id }).collect();
    if run.status == RunStatus::Cancelled || workflow.plan_attempts >= MAX_PLAN_ATTEMPTS {
        items.push(fail_workflow(format!("no plan after {} attempts: {problem}", workflow.plan_attempts)));
        return Ok(items);
    }
    items.push(WorkflowWrite::RejectPlan { why: problem.clone() });
    items.push(start_planner(known, Some(&problem)));
    Ok(items)
}

fn fail_workflow(why: String) -> WorkflowWrite {
    let summary = Some(why.clone());
    WorkflowWrite::MoveWorkflow { to: WorkflowStatus::Failed, why, summary, escalation: None }
}

fn start_planner(known: &LoadedWorkflow, problem: Option<&str>) -> WorkflowWrite {
    let workflow = known.workflow();
    let name = workflow.settings.planner.as_deref().unwrap_or(DEFAULT_PLANNER);
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        let why = format!(
            "there is no agent `{name}` to plan with: install emergent.code, name another in `planner`, or give `tasks`"
        );
        return fail_workflow(why);
    };
    WorkflowWrite::StartPlanner { agent: agent.id, prompt: planner_prompt(known, problem), run: RunId::new() }
}

fn planner_prompt(known: &LoadedWorkflow, problem: Option<&str>) -> String {
    let agents: Vec<String> = known
        .agents
        .iter()
        .map(|agent| format!("- {}: {}", agent.definition.name, agent.definition.description))
        .collect();
    let mut text = format!(
        "Break this work down into tasks and make them with your tools:\n\n{}\n\n\
         Each task has a short key, a title, a description that says everything its agent needs to know, a kind \
         (research, design, implement, test, review, …) and, where it matters, an agent. Join them by what has to be \
         done first: with `tasks_create`, `blockedBy` names those; with other tools, a `blocks` relationship leads \
         from the task that is done first. Every task must hang together with the others, and none may wait for \
         itself.\n\nThe agents there are:\n{}\n\nAnswer with a short summary once the tasks are made.",
        known.workflow().description,
        agents.join("\n"),
    );
    if let Some(problem) = problem {
        text.push_str(&format!(
            "\n\nYour last plan was not taken and its tasks are gone: {problem}\nMake all tasks anew, without that mistake."
        ));
    }
    text
}

/// What is wrong with a plan, if anything.
fn plan_problem(known: &LoadedWorkflow) -> Option<String> {
    let snapshot = &known.snapshot;
    let tasks = snapshot.tasks();
    let most = snapshot.workflow.settings.max_tasks;
    if tasks.is_empty() {
        return Some("it made no tasks".to_owned());
    }
    if tasks.len() > most {
        return Some(format!("it has {} tasks, and {most} are the limit", tasks.len()));
    }
    let known_agent = |name: &String| known.agents.iter().any(|agent| &agent.definition.name == name);
    for task in tasks {
        if task.title.trim().is_empty() && task.description.trim().is_empty() {
            return Some(format!("task `{}` says nothing about what is to be done", task.key));
        }
        let named = task.assigned_agent.iter().chain(&task.collaborators);
        if let Some(name) = named.into_iter().find(|name| !known_agent(name)) {
            return Some(format!(
                "task `{}` names the agent `{name}`, which is not there; there are {}",
                task.key,
                agent_names(&known.agents)
            ));
        }
    }
    let apart = disconnected_tasks(known, tasks);
    match apart.is_empty() {
        true => None,
        false => Some(format!(
            "the tasks do not hang together: {} are not joined to `{}` by what has to be done first",
            apart.join(", "),
            tasks[0].key
        )),
    }
}

/// The tasks that no chain of blockers joins to the first.
fn disconnected_tasks(known: &LoadedWorkflow, tasks: &[Task]) -> Vec<String> {
    let mut joined = HashSet::from([tasks[0].id]);
    let mut grew = true;
    while grew {
        grew = false;
        for task in tasks {
            for blocker in known.snapshot.blockers(task.id) {
                let (one, other) = (joined.contains(&task.id), joined.contains(&blocker.id));
                if one != other {
                    joined.extend([task.id, blocker.id]);
                    grew = true;
                }
            }
        }
    }
    tasks.iter().filter(|task| !joined.contains(&task.id)).map(|task| format!("`{}`", task.key)).collect()
}
