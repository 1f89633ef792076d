//! Plans the MCP servers of a product.

use emergent_domain::mcp_server::{SecretUse, ServerSpec, TransportKind};
use emergent_secrets::destination::secret_uses;
use serde_json::{Value, json};

use super::{Action, ItemKind, PlanBuilder, StepChange, Warning, update_change};
use crate::{
    manifest::{Manifest, ManifestServer},
    state::ProjectState,
};

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_servers(&mut self) {
        let before: &'a ProjectState = self.before;
        let servers: Vec<ManifestServer<'a>> = self.after.into_iter().flat_map(Manifest::servers).collect();
        let ours = before.servers.iter().filter(|server| server.product.as_deref() == Some(self.name));
        for removed in ours.filter(|server| !servers.iter().any(|one| one.spec.name() == server.name())) {
            self.push_step(ItemKind::Server, removed.name(), StepChange::Remove, Action::DeleteServer);
        }
        for ManifestServer { spec, pointer, tool_filter: filter } in servers {
            let action = Action::UpsertServer(Box::new(spec.clone()));
            match before.servers.iter().find(|server| server.name() == spec.name()) {
                None => {
                    self.push_step(ItemKind::Server, spec.name(), StepChange::Add, action);
                    self.warn_of_program(spec);
                }
                Some(existing) if existing.product.as_deref() == Some(self.name) => {
                    let change = update_change(
                        &server_json(&existing.spec, &existing.tool_filter),
                        &server_json(spec, filter),
                    );
                    if change != StepChange::Keep && existing.spec != *spec {
                        self.warn_of_program(spec);
                    }
                    let action = if change == StepChange::Keep { Action::None } else { action };
                    self.push_step(ItemKind::Server, spec.name(), change, action);
                    if existing.listed_at.is_some() {
                        continue;
                    }
                }
                Some(existing) => {
                    self.push_conflict(
                        format!("{pointer}/name"),
                        "server",
                        spec.name(),
                        existing.product.as_deref(),
                    );
                    continue;
                }
            }
            self.warn_of_server(spec);
        }
    }

    pub(super) fn warn_of_program(&mut self, spec: &ServerSpec) {
        if let Some(command) = spec.command_line().filter(|_| !self.before.allows_program(spec)) {
            let variables = self.before.programs.explain_variables(spec);
            self.warnings.push(Warning::ProgramNotAllowed {
                server: spec.name().to_owned(),
                command,
                variables,
            });
        }
    }

    pub(super) fn warn_of_server(&mut self, spec: &ServerSpec) {
        let server = spec.name().to_owned();
        for SecretUse { name: secret, .. } in secret_uses(spec) {
            if !self.before.secrets.contains(&secret) {
                self.warnings.push(Warning::SecretMissing { server: server.clone(), secret });
            }
        }
        self.warnings.push(if spec.transport() == TransportKind::Stdio && !self.before.allow_stdio {
            Warning::ServerBlocked { server }
        } else {
            Warning::NotReachedYet { server }
        });
    }
}

fn server_json(spec: &ServerSpec, filter: &[String]) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    value["tool_filter"] = json!(filter);
    value
}
