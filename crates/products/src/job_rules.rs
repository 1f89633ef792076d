//! The rules of a job that a schema cannot express: it starts an agent or a workflow, at times or at an event.

use emergent_domain::{
    agent::AvailableNames,
    cron::Cron,
    invalid::Problem,
    pack::nearest_name,
    workflow_template::{WorkflowTemplate, check_event_config, check_schedule_config},
};
use serde_json::Value;

use crate::{manifest::ManifestJob, problem::ManifestProblem};

/// Checks what a job starts, when, and with which settings.
pub(crate) fn check_job(root: &Value, base: &str, job: &ManifestJob, problems: &mut Vec<ManifestProblem>) {
    // A pointer names an entry that exists.
    let mut add = |field: &str, reason: &str| {
        problems.push(ManifestProblem::new(format!("{base}{field}"), reason.to_owned()));
    };
    let has = |field: &str| root.pointer(&format!("{base}/{field}")).is_some();
    match (has("agent"), job.dispatch.is_some()) {
        (true, true) => add("/dispatch", "is given beside `agent`: give one of them"),
        (false, false) => add("", "`agent` or `dispatch` is required"),
        _ => {}
    }
    match (has("cron"), job.event.is_some()) {
        (true, true) => add("/event", "is given beside `cron`: give one of them"),
        (false, false) => add("", "`cron` or `event` is required"),
        (false, true) if job.dispatch.is_none() => {
            add("/event", "is only for a job with `dispatch`: an agent has its own `trigger`");
        }
        _ => {}
    }
    if let Some(template) = &job.dispatch {
        check_workflow(root, base, job, template, problems);
    }
    if job.event.is_some() || !has("cron") {
        return;
    }
    if let Err(error) = job.cron.parse::<Cron>() {
        let problem = ManifestProblem::new(format!("{base}/cron"), error.to_string());
        problems.push(problem.with_fix("use five fields, such as `0 8 * * MON-FRI`"));
    }
    if job.dispatch.is_none()
        && let Err(invalid) = job.config.check()
    {
        let base = if root.pointer(&format!("{base}/config")).is_some() {
            format!("{base}/config")
        } else {
            base.into()
        };
        problems.extend(
            invalid.problems.into_iter().map(|problem| ManifestProblem::from_field(root, &base, problem)),
        );
    }
}

/// Checks the workflow of a job, and that the settings are for a job that starts one.
fn check_workflow(
    root: &Value,
    base: &str,
    job: &ManifestJob,
    template: &WorkflowTemplate,
    problems: &mut Vec<ManifestProblem>,
) {
    let config = match job.event {
        Some(event) => ("event_config", check_event_config(event, &job.event_config)),
        None => ("config", check_schedule_config(&job.config)),
    };
    for (field, checked) in [("dispatch", template.check()), config] {
        if let Err(invalid) = checked {
            let pointer = format!("{base}/{field}");
            let base = if root.pointer(&pointer).is_some() { pointer } else { base.to_owned() };
            let locate = |problem| ManifestProblem::from_field(root, &base, problem);
            problems.extend(invalid.problems.into_iter().map(locate));
        }
    }
}

/// Checks the names in the tasks of a workflow: of the agents that are assigned, and of the tasks that come before.
/// The agents of the product count, although they do not exist yet.
pub(crate) fn task_problems(
    root: &Value,
    base: &str,
    template: &WorkflowTemplate,
    names: &AvailableNames,
) -> Vec<ManifestProblem> {
    let tasks = template.tasks.as_deref().unwrap_or_default();
    let mut problems = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        if let Some(agent) = task.assigned_agent.as_ref().filter(|agent| !names.agents.contains(*agent)) {
            let nearest = nearest_name(agent, names.agents.iter().map(String::as_str));
            let hint = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            let reason = format!("there is no agent `{agent}`{hint}");
            problems.push(Problem::new(format!("tasks[{index}].assigned_agent"), reason));
        }
        for (place, key) in task.blocked_by.iter().enumerate() {
            if !tasks.iter().any(|other| other.key == *key) {
                let reason = format!("there is no task `{key}` in this workflow");
                problems.push(Problem::new(format!("tasks[{index}].blocked_by[{place}]"), reason));
            }
        }
    }
    problems.into_iter().map(|problem| ManifestProblem::from_field(root, base, problem)).collect()
}
