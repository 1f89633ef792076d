//! What a planner agent is asked, and whether the tasks that it created make a workable plan.

use emergent_domain::{agent::Agent, text::counted};

use super::snapshot::Snapshot;

/// The prompt of the planner. `problem` says why its previous plan was rejected.
pub fn planner_prompt(description: &str, agents: &[Agent], problem: Option<&str>) -> String {
    let agents: Vec<String> = agents
        .iter()
        .map(|agent| format!("- {}: {}", agent.definition.name, agent.definition.description))
        .collect();
    let mut text = format!(
        "Break this work down into tasks and make them with your tools:\n\n{}\n\n\
         Each task has a short key, a title, a description that says everything its agent needs to know, a kind \
         (research, design, implement, test, review, …) and, where it matters, an agent. Join them by what has to be \
         done first: with `tasks_create`, `blockedBy` names those; with other tools, a `blocks` relationship leads \
         from the task that is done first. Tasks that are not joined are done side by side; none may wait for \
         itself.\n\nThe agents there are:\n{}\n\nAnswer with a short summary once the tasks are made.",
        description,
        agents.join("\n"),
    );
    if let Some(problem) = problem {
        text.push_str(&format!(
            "\n\nYour last plan was not taken and its tasks are gone: {problem}\nMake all tasks anew, without that mistake."
        ));
    }
    text
}

/// Why a plan cannot be used, or `None` if it can.
pub fn plan_problem(snapshot: &Snapshot, agents: &[Agent]) -> Option<String> {
    let tasks = snapshot.tasks();
    let max_tasks = snapshot.workflow.settings.max_tasks;
    if tasks.is_empty() {
        return Some(
            "it made no tasks: the planner has to create them with its tools (`tasks_create`)".to_owned(),
        );
    }
    if tasks.len() > max_tasks {
        return Some(format!("it has {}, and the limit is {max_tasks}", counted(tasks.len() as u64, "task")));
    }
    let known_agent = |name: &String| agents.iter().any(|agent| &agent.definition.name == name);
    for task in tasks {
        if task.title.trim().is_empty() && task.description.trim().is_empty() {
            return Some(format!("task `{}` says nothing about what is to be done", task.key));
        }
        if let Some(name) = task.named_agents().find(|name| !known_agent(name)) {
            return Some(format!(
                "task `{}` names the agent `{name}`, which is not there; there are {}",
                task.key,
                agent_names(agents)
            ));
        }
    }
    None
}

/// The names of agents, for a message.
pub fn agent_names(agents: &[Agent]) -> String {
    let names: Vec<&str> = agents.iter().map(|agent| agent.definition.name.as_str()).collect();
    names.join(", ")
}
