//! Which models a workflow uses: every agent that it could start needs one that this server can call, and where the
//! settings ask for a judge, there has to be a model for it.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{Agent, ModelConfig},
    coordination::CoordinationSettings,
    ids::ProjectId,
    invalid::{Invalid, Problem},
    task::{Task, TaskStatus},
    workflow::WorkflowSettings,
};
use emergent_store::{Tx, agents, projects};

use crate::{
    create::CreatedWorkflow, dispatchable::is_selectable, dispatcher::Dispatcher, error::Result,
    planning::DEFAULT_PLANNER,
};

/// The most agents that a message names.
const MAX_NAMES: usize = 10;

/// The agent that plans for a workflow.
pub(crate) fn planner_name(settings: &WorkflowSettings) -> &str {
    settings.planner.as_deref().unwrap_or(DEFAULT_PLANNER)
}

impl Dispatcher {
    /// The model that judges for a workflow; `None` if the rules alone decide.
    pub fn judge_model(&self, settings: &WorkflowSettings) -> Option<ModelConfig> {
        let judge = self.settings().judge.as_ref().or(settings.judge.as_ref())?;
        Some(self.executor().models().choose(Some(judge)).unwrap_or_else(|_| judge.clone()))
    }

    /// The model that judges for a workflow which asks for a judge on a server without one: the model of the
    /// workflow, else the one for everything (`EMERGENT_MODEL`), else the planner's. `None` if it needs none, or if
    /// none of these can be called.
    pub(crate) fn fallback_judge(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        settings: &WorkflowSettings,
    ) -> Result<Option<ModelConfig>> {
        if !settings.asks_for_judge() || self.settings().judge.is_some() {
            return Ok(None);
        }
        let models = self.executor().models();
        if let Ok(model) = models.choose_for_run(settings.model.as_ref(), None) {
            return Ok(Some(model));
        }
        let planner = agents::list_all(tx, project)?
            .into_iter()
            .find(|agent| agent.definition.name == planner_name(settings));
        Ok(planner
            .and_then(|agent| agent.definition.model)
            .and_then(|model| models.choose(Some(&model)).ok()))
    }

    /// Refuses a workflow if an agent that it could start has no model that this server can call.
    pub(crate) fn check_models(
        &self,
        tx: &mut Tx<'_>,
        created: &CreatedWorkflow,
        planner: Option<&str>,
    ) -> Result<()> {
        let project = created.workflow.project;
        let coordination =
            projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
        let all = agents::list_all(tx, project)?;
        let tasks: Vec<Task> = created.tasks.iter().map(Task::from_object).collect();
        let names = startable_names(&all, &coordination, &tasks, planner);
        let settings = &created.workflow.settings;
        // One message for all agents with the same problem.
        let mut agents_by_problem: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for agent in all.iter().filter(|agent| names.contains(agent.definition.name.as_str())) {
            let (requested, own) = (settings.model.as_ref(), agent.definition.model.as_ref());
            if let Err(error) = self.executor().models().choose_for_run(requested, own) {
                let name = format!("`{}`", agent.definition.name);
                agents_by_problem.entry(error.to_string()).or_default().push(name);
            }
        }
        let problems = agents_by_problem.into_iter().map(|(problem, names)| {
            let more = names.len().saturating_sub(MAX_NAMES);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let names = names.into_iter().take(MAX_NAMES).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "this workflow could start {names}{more}, which cannot run: {problem}; or give `model` for the \
                 whole workflow (`emergent dispatch --model provider/name`)"
            );
            Problem::new("model", reason)
        });
        Ok(Invalid::if_any(problems.collect())?)
    }
}

/// The names of the agents that a workflow could start: those that it names, and where one has to be chosen, all that
/// can be chosen.
fn startable_names<'a>(
    all: &'a [Agent],
    coordination: &'a CoordinationSettings,
    tasks: &'a [Task],
    planner: Option<&'a str>,
) -> BTreeSet<&'a str> {
    let open: Vec<&Task> = tasks.iter().filter(|task| task.status != TaskStatus::Completed).collect();
    let mut names: BTreeSet<&str> = planner.into_iter().collect();
    names.extend(open.iter().flat_map(|task| task.named_agents()).map(String::as_str));
    let needs_choice = |task: &&&Task| {
        task.assigned_agent.is_none() || (task.requires_collaboration && task.collaborators.is_empty())
    };
    if planner.is_some() || open.iter().any(|task| needs_choice(&task)) {
        let selectable = all.iter().filter(|agent| is_selectable(&agent.definition, coordination));
        names.extend(selectable.map(|agent| agent.definition.name.as_str()));
        names.extend(coordination.selection_rules.iter().map(|rule| rule.agent.as_str()));
    }
    // A flow calls the models of its parts.
    loop {
        let is_flow = |agent: &&Agent| names.contains(agent.definition.name.as_str());
        let parts = all.iter().filter(is_flow).filter_map(|agent| agent.definition.flow_config.as_ref());
        let parts: BTreeSet<&str> = parts.flat_map(|flow| flow.agents.iter().map(String::as_str)).collect();
        if parts.is_subset(&names) {
            return names;
        }
        names.extend(parts);
    }
}
