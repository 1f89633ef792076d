//! Starts the workflows of triggers, in the transaction of the executor that fires them. Nobody asks for such a
//! workflow when it starts, so it may do what a token could: its tasks cannot name internal agents.

use emergent_domain::{
    author::Author,
    ids::{ProjectId, TokenId, WorkflowId},
    invalid::Invalid,
    workflow_template::WorkflowTemplate,
};
use emergent_executor::{TriggeredWorkflow, WorkflowHooks};
use emergent_graph::Actor;
use emergent_store::Tx;
use uuid::Uuid;

use crate::{
    create::{NewWorkflow, Purpose, check_new_tasks},
    dispatchable::NameableAgents,
    dispatcher::{Dispatcher, WeakDispatcher},
    error::{Error, Result},
    service::dispatch::check_request,
};

/// Returns the functions that the executor calls for triggers that start workflows.
pub(crate) fn workflow_hooks(dispatcher: WeakDispatcher) -> WorkflowHooks {
    let starting = dispatcher.clone();
    WorkflowHooks {
        check: Box::new(move |tx, project, author, template| {
            dispatcher
                .upgrade()
                .ok_or_else(stopped)?
                .check_template(tx, project, author, template)
                .map_err(to_executor_error)
        }),
        start: Box::new(move |tx, project, new| {
            starting
                .upgrade()
                .ok_or_else(stopped)?
                .start_triggered(tx, project, new)
                .map_err(to_executor_error)
        }),
    }
}

fn stopped() -> emergent_executor::Error {
    emergent_executor::Error::Conflict("the dispatcher of this server has stopped".to_owned())
}

fn to_executor_error(error: Error) -> emergent_executor::Error {
    match error {
        Error::Executor(error) => error,
        Error::Invalid(invalid) | Error::Graph(emergent_graph::Error::Invalid(invalid)) => {
            emergent_executor::Error::Invalid(invalid)
        }
        Error::Graph(error) => emergent_executor::Error::Graph(error),
        Error::Store(error) => emergent_executor::Error::Store(error),
        other => emergent_executor::Error::Conflict(other.to_string()),
    }
}

impl Dispatcher {
    /// Checks a template as a dispatch checks a request of a token, whoever sends it. Models are checked when the
    /// workflow starts.
    fn check_template(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        author: Author,
        template: &WorkflowTemplate,
    ) -> Result<()> {
        let new = new_workflow(template, None)?;
        let author = match author {
            Author::Token { .. } => author,
            Author::Run { .. } | Author::System => Author::Token { id: TokenId(Uuid::nil()) },
        };
        let agents = NameableAgents::load(tx, project, author)?;
        check_request(&agents, &new)?;
        Ok(check_new_tasks(tx, project, agents, &new)?)
    }

    fn start_triggered(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        triggered: &TriggeredWorkflow,
    ) -> Result<WorkflowId> {
        self.check_template(tx, project, Author::System, &triggered.template)?;
        let new = new_workflow(&triggered.template, triggered.event.as_deref())?;
        let actor = Actor { project, author: Author::System };
        Ok(self.create_new(tx, actor, &new, &triggered.origin, Purpose::Start)?.created.workflow.id)
    }
}

/// The workflow of a template. What happened is added where agents read it: to the description if a planner creates
/// the tasks, and to the description of each task otherwise.
fn new_workflow(template: &WorkflowTemplate, event: Option<&str>) -> Result<NewWorkflow, Invalid> {
    template.check()?;
    let mut tasks = template.tasks.clone().unwrap_or_default();
    let mut description = template.description_text();
    if let Some(event) = event {
        let add = |text: &mut String| {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!("{separator}This was started by an event: {event}"));
        };
        match tasks.is_empty() {
            true => add(&mut description),
            false => tasks.iter_mut().for_each(|task| add(&mut task.description)),
        }
    }
    Ok(NewWorkflow { description, settings: template.settings()?, tasks })
}
