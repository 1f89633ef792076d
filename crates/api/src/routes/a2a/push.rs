//! Where the updates of a task are sent: sets, reads and deletes the configurations of push notifications.
//! [`deliver`](super::deliver) sends them.

use emergent_domain::{ids::RunId, invalid::Invalid};
use emergent_executor::webhooks;
use emergent_secrets::{Secret, SecretName};
use emergent_store::{a2a_push as rows, requester::on_behalf_of};
use emergent_surfaces::a2a::{
    error::A2aError,
    push::{
        CheckedPushConfig, MAX_CONFIGS, PushAuthentication, PushConfig, PushConfigList, PushConfigParams,
        PushPage, push_config_not_found,
    },
    request::parse_task,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    agent_call::AgentCall,
    failure::Result,
    tasks::{TaskAccess, load},
};
use crate::ApiError;

/// What is sealed of a configuration.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct PushSecrets {
    pub token: Option<String>,
    pub credentials: Option<String>,
}

/// The name under which the secrets of a configuration are sealed.
pub(super) fn secret_name(uid: Uuid) -> std::result::Result<SecretName, Invalid> {
    rows::secret_name(uid).parse()
}

/// Sets a configuration of a task, which the address of the request or the configuration itself names.
pub(super) async fn create(call: &AgentCall, task: Option<&str>, config: PushConfig) -> Result<PushConfig> {
    let named = config.task()?;
    let task = match (task.map(parse_task).transpose()?, named) {
        (Some(task), Some(named)) if named != task => {
            return Err(Invalid::new("taskId", "is not the task in the address of the request").into());
        }
        (task, named) => task.or(named).ok_or_else(|| Invalid::new("taskId", "is required"))?,
    };
    let checked = config.check("")?;
    check_address(call, "url", &checked)?;
    load(call, task, TaskAccess::Change).await?;
    store(call, task, checked).await
}

/// Checks where the updates of a message's task are to be sent, before the message is accepted.
pub(super) fn check_address(call: &AgentCall, field: &str, config: &CheckedPushConfig) -> Result<()> {
    let allow_private = call.app.executor.settings().allow_private_hosts;
    webhooks::check_url(&config.url, allow_private).map_err(|reason| Invalid::new(field, reason).into())
}

/// Stores a configuration. The caller may change the task.
pub(super) async fn store(call: &AgentCall, task: Uuid, config: CheckedPushConfig) -> Result<PushConfig> {
    let CheckedPushConfig { id, url, token, scheme, credentials } = config;
    let uid = Uuid::now_v7();
    let row = rows::PushConfig {
        task: RunId(task),
        uid,
        id: id.unwrap_or_else(|| uid.to_string()),
        project: call.actor.project,
        token: call.caller.token.id,
        url,
        auth_scheme: scheme,
        key: None,
        sealed: None,
        followed_run: None,
        after_seq: 0,
        created_at: call.app.graph.clock().now(),
    };
    let shown = show(&row);
    let stored = on_behalf_of(call.caller.requester(), insert(call, row, PushSecrets { token, credentials }));
    if !stored.await? {
        let message =
            format!("a task has at most {MAX_CONFIGS} push notification configurations: delete one");
        return Err(Invalid::new("id", message).into());
    }
    Ok(shown)
}

/// Inserts a configuration with its secrets sealed. False when the task has too many.
async fn insert(call: &AgentCall, row: rows::PushConfig, secrets: PushSecrets) -> Result<bool> {
    if secrets.token.is_none() && secrets.credentials.is_none() {
        return Ok(call.app.graph.db().write(move |tx| rows::upsert(tx, &row, MAX_CONFIGS)).await?);
    }
    let text =
        serde_json::to_string(&secrets).map_err(|error| ApiError::internal_text(&error.to_string()))?;
    let (project, name) = (row.project, secret_name(row.uid)?);
    let stored = call.app.secrets.store_sealed(project, &name, Secret::new(text), move |tx, sealed| {
        let row = rows::PushConfig { key: Some(sealed.key), sealed: Some(sealed.bytes), ..row.clone() };
        rows::upsert(tx, &row, MAX_CONFIGS)
    });
    Ok(stored.await.map_err(ApiError::from)?)
}

/// The configuration as clients read it, without its secrets.
fn show(row: &rows::PushConfig) -> PushConfig {
    let authentication = row.auth_scheme.clone();
    PushConfig {
        id: Some(row.id.clone()),
        task_id: Some(row.task.to_string()),
        url: row.url.clone(),
        token: None,
        authentication: authentication.map(|scheme| PushAuthentication { scheme, credentials: None }),
    }
}

pub(super) async fn list(call: &AgentCall, task: &str, page: &PushPage) -> Result<PushConfigList> {
    page.check()?;
    let found = configs(call, task).await?.1;
    Ok(PushConfigList { configs: found.iter().map(show).collect(), next_page_token: String::new() })
}

pub(super) async fn get(call: &AgentCall, params: &PushConfigParams) -> Result<PushConfig> {
    let (task, found) = configs(call, &params.task_id).await?;
    let config = found.iter().find(|config| config.id == params.id);
    let missing = || -> A2aError { push_config_not_found(task, &params.id) };
    Ok(show(config.ok_or_else(missing)?))
}

/// Deletes a configuration. One that does not exist is deleted already.
pub(super) async fn delete(call: &AgentCall, params: PushConfigParams) -> Result<()> {
    let task = parse_task(&params.task_id)?;
    load(call, task, TaskAccess::Change).await?;
    let id = params.id;
    if id.contains('\0') {
        return Ok(());
    }
    Ok(call.app.graph.db().write(move |tx| rows::delete(tx, RunId(task), &id)).await?)
}

/// The configurations of a task. Only the token that started the task reads them, because an address may contain a key.
async fn configs(call: &AgentCall, task: &str) -> Result<(Uuid, Vec<rows::PushConfig>)> {
    let task = parse_task(task)?;
    load(call, task, TaskAccess::Change).await?;
    Ok((task, call.app.graph.db().read(move |tx| rows::list(tx, RunId(task))).await?))
}
