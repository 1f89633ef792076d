//! Creates, updates and deletes the MCP servers of a project, and accepts tools that are held back.

use std::collections::BTreeSet;

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::{McpServerId, ProjectId, TokenId},
    invalid::{Invalid, Problem},
    mcp_server::{
        ConfiguredBy, DEFAULT_TIMEOUT, MAX_TIMEOUT_SECONDS, McpServer, PinPolicy, ServerSpec, ToolStatus,
        TransportKind,
    },
};
use emergent_secrets::{Template, bindings};
use emergent_store::{
    Tx, audit, mcp_servers,
    mcp_tools::{self, StoredTool},
    projects,
};
use serde_json::{Map, Value};

use super::{Error, McpServers, pins};

/// A project has no more servers than this.
const MAX_SERVERS: usize = 100;
/// The most patterns of a tool filter, and the longest pattern.
const MAX_GLOBS: usize = 200;
const MAX_GLOB_BYTES: usize = 128;

/// How much of an unknown digest an error quotes: all of a real one.
const MAX_QUOTED_CHARS: usize = 64;

/// A server to be added.
#[derive(Debug, Clone)]
pub struct NewServer {
    pub spec: ServerSpec,
    pub tool_filter: Vec<String>,
    pub pin_policy: PinPolicy,
    pub trust: bool,
    pub timeout_seconds: i64,
    pub enabled: bool,
}

impl NewServer {
    /// A server with the default settings: enabled, with all of its tools.
    pub fn new(spec: ServerSpec) -> Self {
        Self {
            spec,
            tool_filter: vec!["*".into()],
            pin_policy: PinPolicy::default(),
            trust: false,
            timeout_seconds: DEFAULT_TIMEOUT,
            enabled: true,
        }
    }
}

/// A change of a server; a field that is `None` is not changed.
#[derive(Debug, Clone, Default)]
pub struct ServerPatch {
    /// Fields of the [`ServerSpec`], by their names in a manifest; null removes a field.
    pub spec: Map<String, Value>,
    pub tool_filter: Option<Vec<String>>,
    pub pin_policy: Option<PinPolicy>,
    pub trust: Option<bool>,
    pub timeout_seconds: Option<i64>,
    pub enabled: Option<bool>,
}

impl McpServers {
    pub async fn create(
        &self,
        project: ProjectId,
        by: ConfiguredBy,
        new: NewServer,
    ) -> Result<McpServer, Error> {
        self.check(&new.spec, &new.tool_filter, new.timeout_seconds)?;
        self.check_program(&new.spec, by)?;
        let now = self.clock().now();
        let server = McpServer {
            tool_filter: new.tool_filter,
            pin_policy: new.pin_policy,
            trust: new.trust,
            timeout_seconds: new.timeout_seconds,
            enabled: new.enabled,
            ..McpServer::new(project, new.spec, by, now)
        };
        self.db()
            .write(move |tx| {
                lock_servers(tx, project)?;
                if mcp_servers::list_all(tx, project)?.len() >= MAX_SERVERS {
                    return Err(Error::Conflict(format!("a project has at most {MAX_SERVERS} MCP servers")));
                }
                if !mcp_servers::insert(tx, &server)? {
                    return Err(name_taken(server.name()));
                }
                bindings::bind_server(tx, None, &server, by, now)?;
                audit::record(tx, &settings_entry(AuditAction::McpServerCreate, &server), now)?;
                Ok(server.clone())
            })
            .await
    }

    /// Changes a server. For a server that a product installed, only `enabled`, `trust`, the pin policy and the
    /// timeout can be changed; the product determines the rest. If the program or the address changes, tools
    /// that were accepted stay accepted as they are, and others are held back. An operator who enables a
    /// server confirms it, also if it is enabled already.
    pub async fn update(
        &self,
        project: ProjectId,
        by: ConfiguredBy,
        id: McpServerId,
        patch: ServerPatch,
    ) -> Result<McpServer, Error> {
        let servers = self.clone();
        self.db()
            .write(move |tx| {
                lock_servers(tx, project)?;
                let current = mcp_servers::lock(tx, project, id)?.ok_or_else(|| Error::no_server(id))?;
                if let Some(product) = &current.product
                    && (!patch.spec.is_empty() || patch.tool_filter.is_some())
                {
                    return Err(Error::Conflict(format!(
                        "`{}` belongs to the product `{product}`, which decides what it is: only `enabled`, \
                         `pinPolicy`, `trust` and `timeoutSeconds` can be set",
                        current.name()
                    )));
                }
                let spec = apply_patch(&current.spec, &patch.spec)?;
                let is_confirmed = current.needs_confirmation()
                    && by == ConfiguredBy::Operator
                    && (patch.enabled == Some(true) || spec != current.spec);
                let is_configured = spec != current.spec || (patch.enabled == Some(true) && !current.enabled);
                let updated = McpServer {
                    configured_by: if is_configured { by } else { current.configured_by },
                    version: current.version + i64::from(spec != current.spec),
                    tool_filter: patch.tool_filter.clone().unwrap_or_else(|| current.tool_filter.clone()),
                    pin_policy: patch.pin_policy.unwrap_or(current.pin_policy),
                    trust: patch.trust.unwrap_or(current.trust),
                    unbound_version: current.unbound_version.filter(|_| !is_confirmed),
                    timeout_seconds: patch.timeout_seconds.unwrap_or(current.timeout_seconds),
                    enabled: patch.enabled.unwrap_or(current.enabled),
                    updated_at: servers.clock().now(),
                    spec,
                    ..current.clone()
                };
                if updated.spec != current.spec || updated.tool_filter != current.tool_filter {
                    servers.check(&updated.spec, &updated.tool_filter, updated.timeout_seconds)?;
                }
                // A token of the project may disable a program that the operator configured, but neither enable
                // it nor change its arguments, its environment, or which of its tools are accepted unseen.
                let is_trusted_anew =
                    updated.trust != current.trust || updated.pin_policy != current.pin_policy;
                if is_configured || is_trusted_anew {
                    servers.check_program(&updated.spec, by)?;
                }
                check_timeout(updated.timeout_seconds)?;
                let same_name = mcp_servers::get_by_name(tx, project, updated.name())?;
                if same_name.is_some_and(|other| other.id != id) {
                    return Err(name_taken(updated.name()));
                }
                if updated.trust && !current.trust {
                    mcp_tools::accept_new(tx, id, updated.updated_at)?;
                }
                mcp_servers::update(tx, &updated)?;
                if updated.spec != current.spec {
                    bindings::bind_server(tx, Some(&current), &updated, by, updated.updated_at)?;
                } else if is_confirmed {
                    bindings::keep_for_next_version(tx, &current, updated.updated_at)?;
                }
                let entry = settings_entry(AuditAction::McpServerUpdate, &updated)
                    .detail("changed", changed_settings(&current, &updated))
                    .detail("confirmed", is_confirmed);
                audit::record(tx, &entry, updated.updated_at)?;
                mcp_servers::get(tx, project, id)?.ok_or_else(|| Error::no_server(id))
            })
            .await
    }

    pub async fn delete(&self, project: ProjectId, id: McpServerId) -> Result<(), Error> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                let server = mcp_servers::lock(tx, project, id)?.ok_or_else(|| Error::no_server(id))?;
                if let Some(product) = &server.product {
                    return Err(Error::Conflict(format!(
                        "this server belongs to the product `{product}` and is deleted with it: switch it off instead"
                    )));
                }
                audit::record(tx, &audit_entry(AuditAction::McpServerDelete, &server), now)?;
                mcp_servers::delete(tx, project, id)?;
                Ok(())
            })
            .await?;
        self.close_stale().await;
        Ok(())
    }

    /// Accepts a new or changed tool: pins its current definition, so that it is no longer held back. `digest`
    /// is that of the definition that somebody looked at. If the server says something else by now, nothing
    /// is accepted.
    pub async fn accept_tool(
        &self,
        project: ProjectId,
        id: McpServerId,
        name: &str,
        digest: Option<&str>,
        by: Option<TokenId>,
    ) -> Result<StoredTool, Error> {
        let (name, now) = (name.to_owned(), self.clock().now());
        let digest = digest.map(str::to_owned);
        self.db()
            .write(move |tx| {
                let server = mcp_servers::lock(tx, project, id)?.ok_or_else(|| Error::no_server(id))?;
                let stored = mcp_tools::list_for_server(tx, id)?.into_iter().find(|tool| tool.name == name);
                let mut stored = stored
                    .ok_or_else(|| Error::NotFound { what: "tool of this server", id: name.clone() })?;
                if let Some(digest) = digest.as_ref().filter(|digest| **digest != stored.digest) {
                    return Err(Error::Conflict(format!(
                        "the tool `{name}` has another definition than the one with the digest `{}`: look at \
                         it again, and send its digest `{}`",
                        shortened(digest),
                        stored.digest
                    )));
                }
                match stored.status {
                    ToolStatus::Live => return Ok(stored),
                    ToolStatus::Gone => {
                        return Err(Error::Conflict(format!("the server no longer has a tool `{name}`")));
                    }
                    ToolStatus::New | ToolStatus::Changed => {}
                }
                // A changed tool keeps the time of its first acceptance, and with it its bare name.
                let accepted_at = stored.accepted_at.unwrap_or(now);
                pins::accept(&mut stored, accepted_at);
                stored.accepted_by = by;
                mcp_tools::upsert(tx, id, &stored)?;
                mcp_servers::bump_revision(tx, project)?;
                let entry = audit_entry(AuditAction::McpServerAcceptTool, &server)
                    .detail("tool", name.as_str())
                    .detail("digest", stored.pinned_digest.as_str());
                audit::record(tx, &entry, now)?;
                Ok(stored)
            })
            .await
    }

    /// Validates the spec, the tool filter and the timeout, and refuses programs where they are not run.
    fn check(&self, spec: &ServerSpec, filter: &[String], timeout: i64) -> Result<(), Error> {
        let mut problems = spec.check();
        for (field, text) in spec.templates() {
            if let Err(invalid) = text.parse::<Template>() {
                problems.extend(invalid.prefixed(&field).problems);
            }
        }
        if filter.len() > MAX_GLOBS
            || filter.iter().any(|glob| glob.is_empty() || glob.len() > MAX_GLOB_BYTES || glob.contains('\0'))
        {
            problems.push(Problem::new(
                "toolFilter",
                format!("must be at most {MAX_GLOBS} patterns of 1 to {MAX_GLOB_BYTES} bytes"),
            ));
        }
        Invalid::if_any(problems)?;
        check_timeout(timeout)?;
        if self.is_blocked(spec) { Err(Error::StdioDisabled) } else { Ok(()) }
    }

    /// Refuses a program that this token may not configure.
    fn check_program(&self, spec: &ServerSpec, by: ConfiguredBy) -> Result<(), Error> {
        let programs = &self.settings().programs;
        match programs.allow_spec(spec, by) {
            true => Ok(()),
            false => Err(Error::ProgramNotAllowed {
                command: spec.command_line().unwrap_or_default(),
                variables: programs.explain_variables(spec),
            }),
        }
    }
}

fn check_timeout(seconds: i64) -> Result<(), Invalid> {
    match (1..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        true => Ok(()),
        false => Err(Invalid::new("timeoutSeconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}"))),
    }
}

/// The spec with the fields of the patch. A change between a program and a URL removes the fields of the
/// other kind first.
fn apply_patch(current: &ServerSpec, patch: &Map<String, Value>) -> Result<ServerSpec, Error> {
    if patch.is_empty() {
        return Ok(current.clone());
    }
    let mut spec = serde_json::to_value(current).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else { return Ok(current.clone()) };
    let transport = patch.get("transport").and_then(Value::as_str).unwrap_or(current.transport().as_str());
    let is_program = transport == TransportKind::Stdio.as_str();
    if is_program != (current.transport() == TransportKind::Stdio) {
        for field in ["command", "args", "env", "url", "headers"] {
            fields.remove(field);
        }
    }
    for (field, value) in patch {
        match value {
            Value::Null => fields.remove(field),
            value => fields.insert(field.clone(), value.clone()),
        };
    }
    serde_json::from_value(spec).map_err(|error| Invalid::new("", error.to_string()).into())
}

/// Locks the project, so that changes of its servers are serialised: their number and names are checked.
fn lock_servers(tx: &mut Tx<'_>, project: ProjectId) -> Result<(), Error> {
    let project_row = projects::lock(tx, project)?;
    project_row.map(|_| ()).ok_or_else(|| Error::NotFound { what: "project", id: project.to_string() })
}

fn audit_entry(action: AuditAction, server: &McpServer) -> NewAuditEntry {
    NewAuditEntry::new(action, Some(server.project), server.name()).id(server.id)
}

/// An entry with the settings of a server. Of its variables it has the names only.
fn settings_entry(action: AuditAction, server: &McpServer) -> NewAuditEntry {
    let env: Vec<&str> = server.spec.env().keys().map(String::as_str).collect();
    audit_entry(action, server)
        .detail("transport", server.spec.transport().as_str())
        .detail("target", audited_target(&server.spec))
        .detail("env", env)
        .detail("toolFilter", server.tool_filter.clone())
        .detail("enabled", server.enabled)
        .detail("pinPolicy", server.pin_policy.as_str())
        .detail("trust", server.trust)
        .detail("timeoutSeconds", server.timeout_seconds)
}

/// The names of the settings that differ: those of the API, and the fields of the spec.
fn changed_settings(before: &McpServer, after: &McpServer) -> Vec<String> {
    let spec = |server: &McpServer| match serde_json::to_value(&server.spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (spec_before, spec_after) = (spec(before), spec(after));
    let names: BTreeSet<&String> = spec_before.keys().chain(spec_after.keys()).collect();
    let changed_fields = names.into_iter().filter(|name| spec_before.get(*name) != spec_after.get(*name));
    let settings = [
        ("toolFilter", before.tool_filter != after.tool_filter),
        ("pinPolicy", before.pin_policy != after.pin_policy),
        ("trust", before.trust != after.trust),
        ("timeoutSeconds", before.timeout_seconds != after.timeout_seconds),
        ("enabled", before.enabled != after.enabled),
    ];
    let changed = settings.into_iter().filter(|(_, is_changed)| *is_changed);
    changed_fields.cloned().chain(changed.map(|(name, _)| name.to_owned())).collect()
}

/// The program or the address of a server, for the audit log. Another path of a host is another destination, so it
/// belongs to the address. Arguments and the values of a query are left out, because somebody may have written a
/// secret there.
fn audited_target(spec: &ServerSpec) -> String {
    match spec {
        ServerSpec::Stdio { command, .. } => command.clone(),
        ServerSpec::Sse { url, .. } | ServerSpec::Http { url, .. } | ServerSpec::A2a { url, .. } => {
            audited_address(url)
        }
    }
}

/// The address without a password, the values of its query and what is for the client alone (`#part`).
fn audited_address(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let address = format!("{scheme}://{host}{path}");
    let Some(query) = query else { return address };
    let names = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        // It has no name, so all of it may be a secret.
        None => "…".to_owned(),
    });
    format!("{address}?{}", names.collect::<Vec<_>>().join("&"))
}

/// The beginning of a text that somebody sent, for an error.
fn shortened(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

fn name_taken(name: &str) -> Error {
    Error::Conflict(format!("this project has an MCP server `{name}` already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_log_has_the_address_with_its_path_and_without_secrets() {
        for (url, audited) in [
            ("http://127.0.0.1:4992/customers/b", "http://127.0.0.1:4992/customers/b"),
            ("https://mcp.example.com", "https://mcp.example.com"),
            ("https://me:pass@mcp.example.com/mcp?key=abc&b=#part", "https://mcp.example.com/mcp?key=…&b=…"),
            ("https://mcp.example.com?abc", "https://mcp.example.com?…"),
        ] {
            assert_eq!(audited_address(url), audited);
        }
    }
}
