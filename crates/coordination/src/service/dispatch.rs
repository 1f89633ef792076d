//! Starts a workflow of new tasks or of tasks that are in the graph, and adds a single task.

use std::collections::{BTreeSet, HashSet};

use emergent_domain::{
    ids::WorkflowId,
    invalid::{Invalid, Problem},
    object::Object,
    task::{NewTask, Task, TaskStatus},
    text,
    workflow::{Workflow, WorkflowOrigin, WorkflowSettings, WorkflowStatus},
};
use emergent_graph::{Actor, Graph};
use emergent_net::trace_context;
use emergent_store::{Tx, agents, idempotency::accept_once, workflows as store_workflows};
use serde_json::{Value, json};

use super::{
    budgets::check_day_budget,
    changes::retry_properties,
    decision_audit::record_take_over,
    dry_run::{DryRun, TrialWorkflow},
    standalone_task,
};
use crate::{
    create::{
        CreatedWorkflow, NewWorkflow, Purpose, add_tasks, blocks_of, check_size, create_workflow_with_origin,
        record_start, workflow_row,
    },
    decision_rights::check_may_take_over,
    dispatchable::{NameableAgents, may_read_agents},
    dispatcher::Dispatcher,
    error::{Error, Result},
    existing_tasks::{ExistingTasks, assign_tasks, find_tasks, task_problems},
    model_check::planner_name,
    planning::DEFAULT_PLANNER,
    transactions::update_properties,
};

const MAX_DESCRIPTION_BYTES: usize = 100_000;
const MAX_CONCURRENT_TASKS: usize = 1_000;

/// A workflow that was created and passed all checks.
pub(crate) struct CheckedWorkflow {
    pub created: CreatedWorkflow,
    /// The agent that creates the tasks; `None` if the workflow has tasks.
    pub planner: Option<String>,
}

impl Dispatcher {
    /// Starts a workflow, to be driven by any dispatcher with free capacity.
    pub async fn dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<Workflow> {
        check_size(&new.tasks)?;
        self.compile_output_schemas(actor, &new.tasks, "tasks").await?;
        let (dispatcher, origin) = (self.clone(), request_origin());
        let work = move |tx: &mut Tx<'_>| -> Result<Workflow> {
            Ok(dispatcher.create_new(tx, actor, &new, &origin, Purpose::Start)?.created.workflow)
        };
        self.executor().graph().db().write(move |tx| accept_once(tx, &work)).await
    }

    /// Starts a workflow of tasks that are in the graph already.
    pub async fn dispatch_existing(&self, actor: Actor, existing: ExistingTasks) -> Result<Workflow> {
        let (dispatcher, origin) = (self.clone(), request_origin());
        let work = move |tx: &mut Tx<'_>| -> Result<Workflow> {
            Ok(dispatcher.create_from_graph(tx, actor, &existing, &origin)?.created.workflow)
        };
        self.executor().graph().db().write(move |tx| accept_once(tx, &work)).await
    }

    /// Returns what [`Dispatcher::dispatch`] would do.
    pub async fn dry_run_dispatch(&self, actor: Actor, new: NewWorkflow) -> Result<DryRun> {
        check_size(&new.tasks)?;
        self.compile_output_schemas(actor, &new.tasks, "tasks").await?;
        let dispatcher = self.clone();
        let origin = WorkflowOrigin::default();
        let create = move |tx: &mut Tx<'_>| -> Result<TrialWorkflow> {
            let checked = dispatcher.create_new(tx, actor, &new, &origin, Purpose::DryRun)?;
            let blocks = Some(blocks_of(&new.tasks, &checked.created.tasks));
            Ok(TrialWorkflow { checked, blocks })
        };
        self.dry_run(actor.project, create).await
    }

    /// Returns what [`Dispatcher::dispatch_existing`] would do.
    pub async fn dry_run_existing(&self, actor: Actor, existing: ExistingTasks) -> Result<DryRun> {
        let dispatcher = self.clone();
        let origin = WorkflowOrigin::default();
        let create = move |tx: &mut Tx<'_>| -> Result<TrialWorkflow> {
            let checked = dispatcher.create_from_graph(tx, actor, &existing, &origin)?;
            Ok(TrialWorkflow { checked, blocks: None })
        };
        self.dry_run(actor.project, create).await
    }

    /// Checks a request and creates its workflow.
    pub(crate) fn create_new(
        &self,
        tx: &mut Tx<'_>,
        actor: Actor,
        new: &NewWorkflow,
        origin: &WorkflowOrigin,
        purpose: Purpose,
    ) -> Result<CheckedWorkflow> {
        let agents = agents::list_all(tx, actor.project)?;
        let nameable = NameableAgents::from_agents(tx, &agents, actor.author)?;
        let planner = check_request(&nameable, new)?;
        check_day_budget(tx, actor.project, self.executor().graph().clock().now())?;
        self.check_requested_model(&new.settings, planner.is_some())?;
        let judge = self.fallback_judge(&agents, &new.settings);
        let settings = WorkflowSettings { judge, ..new.settings.clone() };
        self.check_judge(&settings)?;
        let new = NewWorkflow { settings, ..new.clone() };
        let writer = self.executor().graph().write_context(tx, actor)?;
        let created = create_workflow_with_origin(tx, &writer, &new, nameable, origin.clone(), purpose)?;
        let may_name = may_read_agents(tx, actor.author)?;
        self.check_models(&created, planner.as_deref(), &agents, &writer.project.coordination, may_name)?;
        Ok(CheckedWorkflow { created, planner })
    }

    /// Checks a request about tasks of the graph and makes them tasks of a new workflow.
    fn create_from_graph(
        &self,
        tx: &mut Tx<'_>,
        actor: Actor,
        existing: &ExistingTasks,
        origin: &WorkflowOrigin,
    ) -> Result<CheckedWorkflow> {
        let (project, graph) = (actor.project, self.executor().graph());
        Invalid::if_any(settings_problems(&existing.settings))?;
        let found = find_tasks(tx, project, &existing.selection)?;
        let found = take_from_cancelled(tx, graph, actor, found)?;
        // A token cannot have an internal agent started by its name, as in a request with new tasks.
        let agents = agents::list_all(tx, project)?;
        Invalid::if_any(task_problems(&found, &NameableAgents::from_agents(tx, &agents, actor.author)?))?;
        check_day_budget(tx, project, graph.clock().now())?;
        self.check_requested_model(&existing.settings, false)?;
        let judge = self.fallback_judge(&agents, &existing.settings);
        let settings = WorkflowSettings { judge, ..existing.settings.clone() };
        self.check_judge(&settings)?;
        let description = describe_tasks(&found);
        let author = graph.write_context(tx, actor)?;
        let workflow =
            workflow_row(&author, WorkflowStatus::Running, &description, &settings, origin.clone());
        store_workflows::insert(tx, &workflow)?;
        record_start(tx, &workflow, found.len())?;
        let (writer, _) = graph.workflow_write_context(tx, actor, workflow.id)?;
        let tasks = assign_tasks(tx, &writer, workflow.id, &found, HashSet::new())?;
        let created = CreatedWorkflow { workflow, tasks };
        let may_name = may_read_agents(tx, actor.author)?;
        self.check_models(&created, None, &agents, &writer.project.coordination, may_name)?;
        Ok(CheckedWorkflow { created, planner: None })
    }

    /// Compiles the output schemas of new tasks before the transaction that checks them, which then only finds them.
    /// `list` is the field of the tasks, or empty if there is one task and no list.
    async fn compile_output_schemas(&self, actor: Actor, tasks: &[NewTask], list: &str) -> Result<()> {
        let field = |index: usize| match list {
            "" => "outputSchema".to_owned(),
            list => format!("{list}[{index}].outputSchema"),
        };
        let schemas = tasks.iter().enumerate();
        let schemas = schemas.filter_map(|(index, task)| Some((field(index), task.output_schema.clone()?)));
        let graph = self.executor().graph();
        Ok(graph.compile_output_schemas(actor.project, schemas.collect()).await?)
    }

    /// Adds a task to a workflow that has not ended. Without a workflow, the task waits until somebody
    /// takes it, and its blockers are others outside of workflows.
    pub async fn add_task(&self, actor: Actor, workflow: Option<WorkflowId>, task: NewTask) -> Result<Task> {
        self.compile_output_schemas(actor, std::slice::from_ref(&task), "").await?;
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let writer = graph.write_context(tx, actor)?;
            let created: Option<Object> = match workflow {
                Some(workflow) => add_tasks(tx, &writer, workflow, std::slice::from_ref(&task))
                    .map_err(without_list_index)?
                    .pop(),
                None => Some(standalone_task::create(tx, &writer, &task)?),
            };
            created.as_ref().map(Task::from_object).ok_or_else(|| Error::not_found("task", &task.key))
        };
        self.executor().graph().db().write(work).await
    }
}

/// The origin of a workflow that the current request starts: the runs continue the trace of the request.
fn request_origin() -> WorkflowOrigin {
    let traceparent = trace_context::parent().map(|context| context.to_string());
    WorkflowOrigin { traceparent, ..WorkflowOrigin::default() }
}

/// Takes those of these tasks from their workflows that belong to cancelled ones, and makes them pending unless they
/// are completed. What waited for a person, or had a budget, is taken by whoever may decide. Returns all tasks as they
/// are now.
fn take_from_cancelled(
    tx: &mut Tx<'_>,
    graph: &Graph,
    actor: Actor,
    mut found: Vec<Object>,
) -> Result<Vec<Object>> {
    let tasks: Vec<Task> = found.iter().map(Task::from_object).collect();
    let workflows: BTreeSet<WorkflowId> = tasks.iter().filter_map(|task| task.workflow).collect();
    for id in workflows {
        // A task that was imported may name a workflow of another server.
        let Some(workflow) = store_workflows::lock(tx, actor.project, id)? else { continue };
        if workflow.status != WorkflowStatus::Cancelled {
            return Err(Error::Conflict(format!("the workflow `{id}` is {}: try again", workflow.status)));
        }
        if let Some(why) = check_may_take_over(tx, actor.author, &workflow)? {
            let count = tasks.iter().filter(|task| task.workflow == Some(id)).count();
            record_take_over(tx, actor, &workflow, count, why, graph.clock().now())?;
        }
        let (mut writer, _) = graph.workflow_write_context(tx, actor, id)?;
        writer.reason = Some("its workflow was cancelled, and another one takes it".to_owned());
        for (object, task) in found.iter_mut().zip(&tasks).filter(|(_, task)| task.workflow == Some(id)) {
            let mut properties = match task.status {
                TaskStatus::Completed => json!({}),
                _ => retry_properties(task, None, None),
            };
            properties["workflow_id"] = Value::Null;
            *object = update_properties(tx, &writer, task.id, properties)?;
        }
    }
    Ok(found)
}

/// Checks a request except for its tasks. Returns the name of the planner if it has no tasks.
pub(crate) fn check_request(agents: &NameableAgents, new: &NewWorkflow) -> Result<Option<String>> {
    let mut problems = Vec::new();
    if new.description.trim().is_empty() {
        problems.push(Problem::new("description", "is empty"));
    }
    if new.description.contains('\0') {
        problems.push(Problem::new("description", "has a NUL character"));
    }
    if new.description.len() > MAX_DESCRIPTION_BYTES {
        problems
            .push(Problem::new("description", format!("must have at most {MAX_DESCRIPTION_BYTES} bytes")));
    }
    problems.extend(settings_problems(&new.settings));
    let planner = planner_name(&new.settings).to_owned();
    // A planner that the request names must exist even if its tasks make planning unnecessary.
    let must_exist = new.tasks.is_empty() || new.settings.planner.is_some();
    if let Some(problem) = agents.problem(&planner, planner != DEFAULT_PLANNER).filter(|_| must_exist) {
        let hint = "install emergent.code, name another planner, or give `tasks`";
        problems.push(Problem::new("planner", text::append(&problem, ": ", hint)));
    }
    Invalid::if_any(problems)?;
    Ok(new.tasks.is_empty().then_some(planner))
}

fn settings_problems(settings: &WorkflowSettings) -> Vec<Problem> {
    if (1..=MAX_CONCURRENT_TASKS).contains(&settings.max_concurrent) {
        return Vec::new();
    }
    vec![Problem::new("maxConcurrent", format!("must be 1 to {MAX_CONCURRENT_TASKS}"))]
}

/// The description of a workflow of tasks that were there before: the titles of the first ones.
fn describe_tasks(found: &[Object]) -> String {
    const MAX_TITLES: usize = 3;
    let open: Vec<Task> =
        found.iter().map(Task::from_object).filter(|task| task.status != TaskStatus::Completed).collect();
    let name = |task: &Task| if task.title.trim().is_empty() { task.key.clone() } else { task.title.clone() };
    let names: Vec<String> = open.iter().take(MAX_TITLES).map(name).collect();
    match open.len().saturating_sub(MAX_TITLES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Removes the list index from the problems of a request that has a single task, and no list.
fn without_list_index(error: emergent_graph::Error) -> Error {
    match error {
        emergent_graph::Error::Invalid(mut invalid) => {
            for problem in &mut invalid.problems {
                if let Some(field) = problem.field.strip_prefix("tasks[0].") {
                    problem.field = field.to_owned();
                }
            }
            invalid.into()
        }
        other => other.into(),
    }
}
