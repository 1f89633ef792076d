//! Creates, changes and deletes agents.

use std::collections::BTreeSet;

use axum::extract::State;
use emergent_domain::{
    agent::{Agent, AgentDefinition},
    invalid::{Invalid, Problem},
    pack::nearest_name,
    token::Scope,
};
use emergent_executor::{
    Error as ExecutorError,
    agents::{AgentPatch, Save, UnchangedTrigger},
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::read::with_warnings;
use crate::{
    App,
    auth::{AsActor, Caller},
    extract::{AgentPath, Json, Query},
    response::{Envelope, Result, created_if, ok, written},
    views::agent::{AgentView, CreateAgent, UpdateAgent},
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveQuery {
    /// Make every check, and return the agent as it would be, with its warnings. Nothing is written.
    #[serde(default, rename = "dryRun")]
    #[param(value_type = Option<bool>, rename = "dryRun")]
    dry_run: bool,
}

impl SaveQuery {
    fn save(&self) -> Save {
        if self.dry_run { Save::DryRun } else { Save::Commit }
    }
}

/// Creates an agent. The tools and agents it names must exist; the error for a misspelt name suggests
/// the nearest one, and names only built-in tools without the scope `agents:read`. With `dryRun`, nothing is created, and
/// the answer has the status 200.
#[utoipa::path(
    post, path = "/api/admin/agents", tag = "agents", operation_id = "createAgent",
    params(SaveQuery), request_body = CreateAgent,
    responses(
        (status = 200, description = "The agent as it would be, after a dry run", body = Envelope<AgentView>),
        (status = 201, description = "The agent", body = Envelope<AgentView>),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Query(query): Query<SaveQuery>,
    Json(body): Json<CreateAgent>,
) -> Result<AgentView> {
    let misspelt = misspelt_provider(&app, body.model.as_ref().map(|model| model.provider.as_str()));
    let definition: AgentDefinition = body.into();
    if let Some(problem) = misspelt {
        let tried = app.executor.create_agent_with(actor, definition, Save::DryRun).await;
        return Err(with_others(problem, tried).into());
    }
    let agent = app.executor.create_agent_with(actor, definition, query.save()).await?;
    if caller.has_scope(Scope::AgentsRead) {
        return created_if(!query.dry_run, with_warnings(&app, actor.project, agent).await);
    }
    let warnings = app.executor.agent_warnings_unread(actor.project, &agent).await;
    created_if(!query.dry_run, AgentView::from(agent).with_warnings(warnings))
}

/// A provider of models that is probably misspelt. One that resembles none is checked when the agent is started: the
/// definition may be meant for another server, or for one that uses one model for everything.
fn misspelt_provider(app: &App, provider: Option<&str>) -> Option<Problem> {
    let provider = provider?;
    let known: Vec<String> = app.executor.models().status().into_iter().map(|status| status.name).collect();
    if known.iter().any(|name| name == provider) {
        return None;
    }
    let nearest = nearest_name(provider, known.iter().map(String::as_str))?;
    let reason = format!("has the unknown provider `{provider}`; did you mean `{nearest}`?");
    Some(Problem::new("model", reason))
}

/// A problem together with all others that a dry run found, so that they can be corrected at once.
fn with_others(problem: Problem, tried: std::result::Result<Agent, ExecutorError>) -> Invalid {
    let others = match tried {
        Err(ExecutorError::Invalid(invalid)) => invalid.problems,
        // Other errors are told once the definition is valid.
        Ok(_) | Err(_) => Vec::new(),
    };
    Invalid { problems: std::iter::once(problem).chain(others).collect() }
}

/// Changes an agent. Active runs keep the version they started with. A change without effect creates no
/// version. A request that names `trigger` activates its schedule again if that was suspended. With `dryRun`, nothing is
/// changed. Without the scope `agents:read`, the answer has only what identifies the agent, and each change is a version.
#[utoipa::path(
    patch, path = "/api/admin/agents/{agentId}", tag = "agents", operation_id = "updateAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), SaveQuery), request_body = UpdateAgent,
    responses((status = 200, description = "The changed agent", body = Envelope<AgentView>)),
)]
pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
    Query(query): Query<SaveQuery>,
    Json(body): Json<UpdateAgent>,
) -> Result<AgentView> {
    let provider = body.model.as_ref().and_then(|model| Some(model.as_ref()?.provider.as_str()));
    let misspelt = misspelt_provider(&app, provider);
    let patch = AgentPatch {
        expected_version: body.expected_version,
        trigger: match body.trigger {
            Some(Some(_)) => UnchangedTrigger::Reactivate,
            _ => UnchangedTrigger::Keep,
        },
        sent: Some(sent_fields(&body)),
        apply: move |before| body.apply_to(before),
    };
    if let Some(problem) = misspelt {
        let tried = app.executor.update_agent_with(actor, agent, patch, Save::DryRun).await;
        return Err(with_others(problem, tried).into());
    }
    let changed = app.executor.update_agent_with(actor, agent, patch, query.save()).await?;
    written(&caller, Scope::AgentsRead, ok(with_warnings(&app, actor.project, changed).await))
}

/// The fields that the request has.
fn sent_fields(body: &UpdateAgent) -> BTreeSet<String> {
    match serde_json::to_value(body) {
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        // The body was parsed from an object, and its form is that of the request.
        Ok(_) | Err(_) => BTreeSet::new(),
    }
}

/// Deletes an agent. Its runs stay readable, and queued runs still start. An agent that a product's job
/// starts cannot be deleted while the job exists. Without the scope `agents:read`, the answer has only what identifies the
/// agent.
#[utoipa::path(
    delete, path = "/api/admin/agents/{agentId}", tag = "agents", operation_id = "deleteAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")),
    responses((status = 200, description = "The deleted agent", body = Envelope<AgentView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
) -> Result<AgentView> {
    written(&caller, Scope::AgentsRead, ok(app.executor.delete_agent(actor, agent).await?))
}
