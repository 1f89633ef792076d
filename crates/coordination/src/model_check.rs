//! Which models a workflow uses: every agent that it could start needs one that this server can call, and where the
//! settings ask for a judge, there has to be a model for it.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{Agent, ModelConfig},
    coordination::CoordinationSettings,
    invalid::{Invalid, Problem},
    pack::nearest_name,
    task::{Task, TaskStatus},
    token::Scope,
    workflow::WorkflowSettings,
};
use emergent_llm::Models;

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
        agents: &[Agent],
        settings: &WorkflowSettings,
    ) -> Option<ModelConfig> {
        if !settings.asks_for_judge() || self.settings().judge.is_some() {
            return None;
        }
        let models = self.executor().models();
        if let Ok(model) = models.choose_for_run(settings.model.as_ref(), None) {
            return Some(model);
        }
        let planner = agents.iter().find(|agent| agent.definition.name == planner_name(settings))?;
        models.choose(Some(planner.definition.model.as_ref()?)).ok()
    }

    /// Refuses a workflow whose settings ask for a judge if there is no model that can judge: the rules would decide
    /// in its place, and the results would count as evaluated.
    pub(crate) fn check_judge(&self, settings: &WorkflowSettings) -> Result<()> {
        let fields = settings.judge_fields();
        if fields.is_empty() {
            return Ok(());
        }
        let models = self.executor().models();
        let reason = match self.settings().judge.as_ref().or(settings.judge.as_ref()) {
            Some(judge) => match models.choose(Some(judge)) {
                Ok(_) => return Ok(()),
                Err(error) => format!("the judge model of this server cannot be called: {error}"),
            },
            None => "this server has no model that can judge: give `model` for the whole workflow (`emergent dispatch \
                     --model provider/name`), or start the server with `EMERGENT_JUDGE_MODEL=provider/name`"
                .to_owned(),
        };
        let problem =
            |field: &&str| Problem::new(*field, format!("asks for a model that judges, but {reason}"));
        Ok(Invalid::if_any(fields.iter().map(problem).collect())?)
    }

    /// Refuses a model for the whole workflow that cannot be meant: one of a provider that there is not, or one that its
    /// provider does not have. Of a model that a provider sells, only the provider knows the names.
    pub(crate) fn check_requested_model(&self, settings: &WorkflowSettings, is_planned: bool) -> Result<()> {
        let Some(model) = &settings.model else { return Ok(()) };
        let models = self.executor().models();
        let reason = match unknown_provider(models, model) {
            Some(reason) => reason,
            None => match models.check_name(Some(model), true) {
                Ok(()) => return Ok(()),
                // The model of a missing script is to plan as well, which the script that is always there cannot.
                Err(error) if is_planned => {
                    let other = format!("or give another model: {}", without_key(is_planned));
                    error.to_string().replace("or use `rehearsal/echo`", &other)
                }
                Err(error) => error.to_string(),
            },
        };
        Err(Invalid::new("model", reason).into())
    }

    /// Refuses a workflow if an agent that it could start has no model that this server can call. `all` are the agents of
    /// its project, which the answer names if `may_name`.
    pub(crate) fn check_models(
        &self,
        created: &CreatedWorkflow,
        planner: Option<&str>,
        all: &[Agent],
        coordination: &CoordinationSettings,
        may_name: bool,
    ) -> Result<()> {
        let tasks: Vec<Task> = created.tasks.iter().map(Task::from_object).collect();
        let names = startable_names(all, coordination, &tasks, planner);
        let settings = &created.workflow.settings;
        let models = self.executor().models();
        let mut uncallable = UncallableModels::default();
        let calls_models = |agent: &&Agent| {
            names.contains(agent.definition.name.as_str()) && !agent.definition.calls_no_model()
        };
        for agent in all.iter().filter(calls_models) {
            let own = agent.definition.model.as_ref();
            let requested = match agent.definition.pins_model() {
                true => own,
                false => settings.model.as_ref(),
            };
            if let Err(error) = models.choose_for_run(requested, own) {
                let setting = missing_setting(models, requested.or(own), &error.to_string());
                uncallable.add(&agent.definition.name, setting, error.to_string());
            }
        }
        let mut problems = uncallable.problems(planner.is_some());
        if !may_name && !problems.is_empty() {
            let reason = format!(
                "this workflow could start agents that cannot run, which are shown with the scope `{}`: give `model` \
                 for the whole workflow (`emergent dispatch --model provider/name`; {})",
                Scope::AgentsRead,
                without_key(planner.is_some())
            );
            problems = vec![Problem::new("model", reason)];
        }
        Ok(Invalid::if_any(problems)?)
    }
}

/// Says that a model has a provider that there is not, with the one that was probably meant; `None` if there is the
/// provider, configured or not.
fn unknown_provider(models: &Models, model: &ModelConfig) -> Option<String> {
    let provider = match model.provider.as_str() {
        "record" => model.name.split('/').next().unwrap_or_default(),
        provider => provider,
    };
    let known: Vec<String> = models.status().into_iter().map(|status| status.name).collect();
    if known.iter().any(|name| name == provider) {
        return None;
    }
    let nearest = nearest_name(provider, known.iter().map(String::as_str));
    let nearest = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
    let separator = if nearest.is_empty() { "; the" } else { " The" };
    Some(format!(
        "has the unknown provider `{provider}`{nearest}{separator} providers are `{}`",
        known.join("`, `")
    ))
}

/// The model, and the setting that its provider needs and does not have. `None` if something else is wrong, or if the
/// error is about another model, such as that of `EMERGENT_MODEL`.
fn missing_setting<'a>(
    models: &Models,
    model: Option<&'a ModelConfig>,
    error: &str,
) -> Option<(&'a ModelConfig, &'static str)> {
    let model = model.filter(|model| error.contains(&format!("`{model}`")))?;
    let provider = models.status().into_iter().find(|status| status.name == model.provider)?;
    Some((model, provider.setting.filter(|_| !provider.configured)?))
}

/// The agents whose models cannot be called, by what is wrong.
#[derive(Default)]
struct UncallableModels {
    /// The agents by model, and the settings that the providers of the models need.
    without_credentials: BTreeMap<String, Vec<String>>,
    settings: BTreeSet<&'static str>,
    /// The agents by other problems.
    others: BTreeMap<String, Vec<String>>,
}

impl UncallableModels {
    fn add(&mut self, agent: &str, missing: Option<(&ModelConfig, &'static str)>, problem: String) {
        let agents = match missing {
            Some((model, setting)) => {
                self.settings.insert(setting);
                self.without_credentials.entry(format!("`{model}`")).or_default()
            }
            None => self.others.entry(problem).or_default(),
        };
        agents.push(format!("`{agent}`"));
    }

    /// One problem for all models without credentials, because the ways out are the same, and one for each other
    /// problem.
    fn problems(self, is_planned: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !self.without_credentials.is_empty() {
            let by_model = self.without_credentials.into_iter();
            let agents: Vec<_> =
                by_model.map(|(model, agents)| format!("{} ({model})", names_text(agents))).collect();
            let settings: Vec<_> = self.settings.iter().map(|setting| format!("`{setting}`")).collect();
            let reason = format!(
                "this workflow could start {}, whose models have no credentials: give `model` for the whole workflow \
                 (`emergent dispatch --model provider/name`; {}), or set {} and start the server again, or start \
                 it with `EMERGENT_MODEL=provider/name` to use another model for everything",
                agents.join(", "),
                without_key(is_planned),
                settings.join(" and ")
            );
            problems.push(Problem::new("model", reason));
        }
        problems.extend(self.others.into_iter().map(|(problem, agents)| {
            let reason = format!(
                "this workflow could start {}, which cannot run: {problem}; or give `model` for the whole workflow \
                 (`emergent dispatch --model provider/name`)",
                names_text(agents)
            );
            Problem::new("model", reason)
        }));
        problems
    }
}

/// What needs no key. A planner has to create tasks, and `rehearsal/echo` only repeats what it is given.
fn without_key(is_planned: bool) -> &'static str {
    match is_planned {
        true => {
            "without a key, a rehearsal script that creates tasks can plan, `emergent dispatch --tasks FILE` needs \
             no planner, and `emergent demo` shows a workflow"
        }
        false => "`rehearsal/echo` needs no key",
    }
}

/// The first names of a list, and how many more there are.
fn names_text(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.into_iter().take(MAX_NAMES).collect::<Vec<_>>().join(", "))
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
