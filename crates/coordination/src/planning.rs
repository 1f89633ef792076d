//! Planning: an agent creates the tasks of a workflow with its tools. A plan that fails the checks is
//! returned to the planner with the reason, at most twice; then the workflow fails.

use emergent_domain::{
    agent::Agent,
    ids::RunId,
    run::{Run, RunStatus},
    text::counted,
    workflow::WorkflowStatus,
};
use emergent_rules::workflow::planning::{plan_problem, planner_prompt};

use crate::{apply::WorkflowWrite, dispatchable::is_selectable, loaded_workflow::LoadedWorkflow};

/// The planner of a workflow that names none.
pub const DEFAULT_PLANNER: &str = "task-planner";
const MAX_PLAN_ATTEMPTS: i64 = 3;

/// Returns the next writes of planning; none while the planner runs. `run` is the planner's newest run, and
/// `refusal` says why it could not be started.
pub(crate) fn planning_writes(
    loaded: &LoadedWorkflow,
    run: Option<&Run>,
    refusal: Option<&str>,
) -> Vec<WorkflowWrite> {
    if let Some(reason) = refusal {
        return vec![fail_workflow(format!("the planner could not be started: {reason}"))];
    }
    let workflow = loaded.workflow();
    let Some(run) = run else { return vec![start_planner(loaded, None)] };
    if !run.status.is_terminal() {
        return Vec::new();
    }
    let problem = match run.status {
        RunStatus::Completed => plan_problem(&loaded.snapshot, &loaded.agents),
        status => {
            let why = run.error.clone().or(run.summary.clone()).unwrap_or_default();
            Some(format!("the run of the planner is {status}: {why}"))
        }
    };
    let Some(problem) = problem else {
        let why = match loaded.snapshot.tasks().len() {
            1 => "1 task was planned".to_owned(),
            count => format!("{count} tasks were planned"),
        };
        return vec![WorkflowWrite::MoveWorkflow {
            to: WorkflowStatus::Running,
            why,
            summary: None,
            escalation: None,
        }];
    };
    let mut writes: Vec<WorkflowWrite> =
        loaded.snapshot.tasks().iter().map(|task| WorkflowWrite::DeleteTask { task: task.id }).collect();
    if run.status == RunStatus::Cancelled || workflow.plan_attempts >= MAX_PLAN_ATTEMPTS {
        // The planner has no use for these ways out, so they are not part of the problem.
        let ways_out = match loaded.snapshot.tasks().is_empty() && run.status == RunStatus::Completed {
            true => {
                "; choose a model that calls tools, which `rehearsal/echo` does not, or dispatch the work with its \
                 `tasks` (`emergent dispatch --tasks FILE`), which needs no planner"
            }
            false => "",
        };
        writes.push(fail_workflow(format!(
            "no plan after {}: {problem}{ways_out}",
            counted(workflow.plan_attempts, "attempt")
        )));
        return writes;
    }
    writes.push(WorkflowWrite::RejectPlan { why: problem.clone() });
    writes.push(start_planner(loaded, Some(&problem)));
    writes
}

fn fail_workflow(why: String) -> WorkflowWrite {
    let summary = Some(why.clone());
    WorkflowWrite::MoveWorkflow { to: WorkflowStatus::Failed, why, summary, escalation: None }
}

/// Starts the planner with the problem of its last plan, or fails the workflow if there is no such agent.
fn start_planner(loaded: &LoadedWorkflow, problem: Option<&str>) -> WorkflowWrite {
    let workflow = loaded.workflow();
    let name = workflow.settings.planner.as_deref().unwrap_or(DEFAULT_PLANNER);
    let Some(agent) = loaded.agents.iter().find(|agent| agent.definition.name == name) else {
        let why = format!(
            "there is no agent `{name}` to plan with: install emergent.code, name another in `planner`, or give `tasks`"
        );
        return fail_workflow(why);
    };
    let is_selectable = |agent: &&Agent| is_selectable(&agent.definition, &loaded.coordination);
    let selectable: Vec<Agent> = loaded.agents.iter().filter(is_selectable).cloned().collect();
    WorkflowWrite::StartPlanner {
        agent: agent.id,
        prompt: planner_prompt(&workflow.description, &selectable, problem),
        run: RunId::new(),
    }
}
