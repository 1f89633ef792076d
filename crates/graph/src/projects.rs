//! Projects: creating, renaming and deleting.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    cursor::{Page, ResultPage},
    ids::ProjectId,
    invalid::{Invalid, Problem},
    mcp_server::ConfiguredBy,
    pack::nearest_name,
    project::{Project, ProjectPatch, Retention, check_name},
    time::Timestamp,
};
use emergent_net::address::origin;
use emergent_store::{Tx, agents, audit, projects as rows, secret_bindings, secrets};
use serde_json::{Value, json};

use crate::{Error, Graph, cleanup, error::Result};

/// The project that exists from the first start.
pub const DEFAULT_PROJECT: &str = "default";

impl Graph {
    pub async fn create_project(&self, name: &str, strict: bool) -> Result<Project> {
        check_name(name)?;
        let (name, now) = (name.to_owned(), self.clock().now());
        self.db()
            .write(move |tx| {
                let project = rows::insert(tx, &name, strict, now)?.ok_or_else(|| name_taken(&name))?;
                let entry = audit_entry(AuditAction::ProjectCreate, &project).detail("strict", strict);
                audit::record(tx, &entry, now)?;
                Ok(project)
            })
            .await
    }

    pub async fn list_projects(&self, page: Page) -> Result<ResultPage<Project>> {
        Ok(self.db().read(move |tx| rows::list(tx, &page)).await?)
    }

    pub async fn get_project(&self, id: ProjectId) -> Result<Project> {
        let project = self.db().read(move |tx| rows::get(tx, id)).await?;
        project.ok_or_else(|| Error::not_found("project", id))
    }

    /// Finds a project by id or by name.
    pub async fn find_project(&self, id_or_name: &str) -> Result<Project> {
        let requested = id_or_name.to_owned();
        let project = self
            .db()
            .read(move |tx| match requested.parse() {
                Ok(id) => rows::get(tx, id),
                // No name contains NUL, and PostgreSQL would reject it as a parameter.
                Err(_) if requested.contains('\0') => Ok(None),
                Err(_) => rows::get_by_name(tx, &requested),
            })
            .await?;
        project.ok_or_else(|| Error::not_found("project", id_or_name))
    }

    /// Like [`Graph::update_project_as`], as an operator.
    pub async fn update_project(&self, id: ProjectId, patch: ProjectPatch) -> Result<Project> {
        self.update_project_as(id, patch, ConfiguredBy::Operator).await
    }

    /// Changes a project. `by` says on whose authority the secret of a new webhook signs its notices.
    pub async fn update_project_as(
        &self,
        id: ProjectId,
        patch: ProjectPatch,
        by: ConfiguredBy,
    ) -> Result<Project> {
        if let Some(name) = &patch.name {
            check_name(name)?;
        }
        let graph = self.clone();
        self.db()
            .write(move |tx| {
                let before = rows::lock(tx, id)?.ok_or_else(|| Error::not_found("project", id))?;
                let mut after = before.clone();
                after.name = patch.name.clone().unwrap_or(after.name);
                after.strict = patch.strict.unwrap_or(after.strict);
                after.retention = patch.retention.apply(after.retention);
                after.retention.check()?;
                apply_coordination(tx, &mut after, &patch, graph.clock().now())?;
                apply_webhook(tx, &mut after, &patch, by, graph.clock().now())?;
                if after == before {
                    return Ok(before);
                }
                if after.name != before.name {
                    refuse_if_default(&before, "renamed")?;
                    if rows::get_by_name(tx, &after.name)?.is_some() {
                        return Err(name_taken(&after.name));
                    }
                }
                after.updated_at = graph.clock().now();
                rows::update(tx, &after)?;
                let entry = audit_entry(AuditAction::ProjectUpdate, &after)
                    .detail("nameBefore", before.name)
                    .detail("strict", after.strict)
                    .detail("retention", retention_json(&after.retention))
                    .detail("retentionBefore", retention_json(&before.retention))
                    .detail("autoDispatch", after.auto_dispatch_since.is_some())
                    .detail("webhook", webhook_json(&after));
                audit::record(tx, &entry, after.updated_at)?;
                Ok(after)
            })
            .await
    }

    /// Deletes a project. Its tokens stop working, its secrets are removed, and its runs and workflows are
    /// cancelled on every server. Its other rows remain for a while, but are no longer visible.
    pub async fn delete_project(&self, id: ProjectId) -> Result<()> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                let project = rows::lock(tx, id)?.ok_or_else(|| Error::not_found("project", id))?;
                refuse_if_default(&project, "deleted")?;
                audit::record(tx, &audit_entry(AuditAction::ProjectDelete, &project), now)?;
                rows::delete(tx, id, now)?;
                cleanup::end_project(tx, id, now)
            })
            .await?;
        self.db().vectors().remove_project(id);
        Ok(())
    }

    pub async fn ensure_default_project(&self) -> Result<Project> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                if let Some(existing) = rows::get_by_name(tx, DEFAULT_PROJECT)? {
                    return Ok(existing);
                }
                match rows::insert(tx, DEFAULT_PROJECT, false, now)? {
                    Some(created) => Ok(created),
                    // Another server created it at the same moment.
                    None => rows::get_by_name(tx, DEFAULT_PROJECT)?
                        .ok_or_else(|| Error::not_found("project", DEFAULT_PROJECT)),
                }
            })
            .await
    }
}

/// Applies the changes of a project's coordination. A rule must name an agent that workflows may start.
fn apply_coordination(
    tx: &mut Tx<'_>,
    project: &mut Project,
    patch: &ProjectPatch,
    now: Timestamp,
) -> Result<()> {
    match patch.auto_dispatch {
        Some(true) => project.auto_dispatch_since = project.auto_dispatch_since.or(Some(now)),
        Some(false) => project.auto_dispatch_since = None,
        None => {}
    }
    let coordination = &mut project.coordination;
    if let Some(select) = patch.select_internal_agents {
        coordination.select_internal_agents = select;
    }
    if let Some(discussions) = &patch.discussions {
        coordination.discussions.clone_from(discussions);
        coordination.check()?;
    }
    let Some(rules) = &patch.selection_rules else { return Ok(()) };
    coordination.selection_rules.clone_from(rules);
    coordination.check()?;
    let agents = agents::list_all(tx, project.id)?;
    let names = || agents.iter().map(|agent| agent.definition.name.as_str());
    let mut problems = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let reason = match agents.iter().find(|agent| agent.definition.name == rule.agent) {
            Some(agent) if agent.definition.is_dispatchable() => continue,
            Some(_) => format!(
                "the agent `{}` is internal, and workflows may start it only if its definition has \
                 `config.dispatchable`",
                rule.agent
            ),
            None => match nearest_name(&rule.agent, names()) {
                Some(similar) => format!("there is no agent `{}`; did you mean `{similar}`?", rule.agent),
                None => format!("there is no agent `{}`", rule.agent),
            },
        };
        problems.push(Problem::new(format!("selectionRules[{index}].agent"), reason));
    }
    Ok(Invalid::if_any(problems)?)
}

/// Applies the change of a project's webhook. Its secret must exist, because every notice is signed. Who set the
/// webhook is recorded, except for one from before that was recorded that stays as it is.
fn apply_webhook(
    tx: &mut Tx<'_>,
    project: &mut Project,
    patch: &ProjectPatch,
    by: ConfiguredBy,
    now: Timestamp,
) -> Result<()> {
    let Some(webhook) = &patch.webhook else { return Ok(()) };
    if let Some(webhook) = webhook {
        webhook.check()?;
        if secrets::get(tx, project.id, &webhook.secret)?.is_none() {
            let reason = format!("there is no secret `{}` in this project; set it first", webhook.secret);
            return Err(Invalid::new("webhook.secret", reason).into());
        }
        let is_new = project.webhook.as_ref() != Some(webhook);
        if is_new || secret_bindings::has_webhook_bindings(tx, project.id)? {
            secret_bindings::bind_webhook(tx, project.id, webhook, by.project_token(), now)?;
        }
    }
    project.webhook.clone_from(webhook);
    Ok(())
}

/// The address without its path and its query, which may contain a key.
fn webhook_json(project: &Project) -> Value {
    match &project.webhook {
        Some(webhook) => json!({ "origin": origin(&webhook.url), "secret": webhook.secret }),
        None => Value::Null,
    }
}

fn audit_entry(action: AuditAction, project: &Project) -> NewAuditEntry {
    NewAuditEntry::new(action, Some(project.id), &project.name).id(project.id)
}

fn retention_json(retention: &Retention) -> Value {
    let Retention { runs_days, events_days, firings_days } = retention;
    json!({ "runsDays": runs_days, "eventsDays": events_days, "firingsDays": firings_days })
}

fn name_taken(name: &str) -> Error {
    Error::Conflict { message: format!("a project named `{name}` already exists") }
}

/// The default project cannot be renamed or deleted, because requests without a project refer to it
/// by name.
fn refuse_if_default(project: &Project, action: &str) -> Result<()> {
    if project.name == DEFAULT_PROJECT {
        return Err(Error::Conflict {
            message: format!("the project `{DEFAULT_PROJECT}` cannot be {action}"),
        });
    }
    Ok(())
}
