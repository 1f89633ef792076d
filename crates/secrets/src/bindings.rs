//! The bindings of secrets. A value is sent only where an operator, or the token that gave the value, said
//! that it may be sent. Whoever configures a server says so for the secrets it refers to; it has no effect
//! for a value that came from somebody else.

use std::collections::BTreeSet;

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::ProjectId,
    mcp_server::{ConfiguredBy, McpServer, SecretUse},
    redact::HeldSecret,
    time::Timestamp,
};
use emergent_store::{
    Result as StoreResult, Tx, audit, mcp_servers, projects,
    secret_bindings::{self as rows, SecretBinding},
    secrets::{self as secret_rows, BoundTargets},
};
use uuid::Uuid;

use crate::{
    Destination, Error, Result, SecretInfo, SecretName, Secrets,
    destination::{self, EarlierTargets, address_of, origin_of},
    keyring::SealedValue,
    service::{ProjectServers, to_info},
};

/// Records what the configuration of a server says about its secrets: those that it refers to, and did not
/// refer to before with the same target, may be sent there. The caller has locked the project, and `before`
/// is the server as it was. Only new ones count: whoever changes the description of a server has not looked
/// at where others direct its secrets.
pub fn bind_server(
    tx: &mut Tx<'_>,
    before: Option<&McpServer>,
    after: &McpServer,
    by: ConfiguredBy,
    now: Timestamp,
) -> StoreResult<()> {
    let uses = destination::secret_uses(&after.spec);
    let mut uses_before = BTreeSet::new();
    if let Some(before) = before {
        keep_for_next_version(tx, before, now)?;
        uses_before = destination::secret_uses(&before.spec);
    }
    let owner = rows::owner_of(after);
    bind(tx, after.project, &owner, &(&uses - &uses_before), by, now)?;
    remove(tx, after.project, &owner, &(&uses_before - &uses), by)
}

/// Binds the secrets of a server that is older than the bindings, or older than their paths or headers, because
/// its next version is not.
pub fn keep_for_next_version(tx: &mut Tx<'_>, server: &McpServer, now: Timestamp) -> StoreResult<()> {
    let (owner, uses) = (rows::owner_of(server), destination::secret_uses(&server.spec));
    if server.predates_bindings() {
        bind(tx, server.project, &owner, &uses, ConfiguredBy::Operator, now)?;
    }
    let earlier = EarlierTargets::of_server(server);
    if earlier == EarlierTargets::default() {
        return Ok(());
    }
    for binding in rows::list_for_owner(tx, server.project, &owner)? {
        if earlier.contains(&binding.target) {
            let bound = uses.iter().filter(|one| one.name == binding.secret).cloned().collect();
            bind(tx, server.project, &owner, &bound, binding.allowed_by.into(), now)?;
        }
    }
    Ok(())
}

/// Records that these secrets may be sent to these targets. The caller has locked the project.
pub fn bind(
    tx: &mut Tx<'_>,
    project: ProjectId,
    owner: &str,
    uses: &BTreeSet<SecretUse>,
    by: ConfiguredBy,
    now: Timestamp,
) -> StoreResult<()> {
    if uses.is_empty() {
        return Ok(());
    }
    let existing = rows::list_for_owner(tx, project, owner)?;
    let allowed_by = by.project_token();
    let is_known = |one: &SecretUse| {
        existing.iter().any(|binding| is_about(binding, one) && binding.allowed_by == allowed_by)
    };
    for one in uses.iter().filter(|one| !is_known(one)) {
        let binding = SecretBinding {
            id: Uuid::now_v7(),
            project,
            secret: one.name.clone(),
            owner: owner.to_owned(),
            target: one.target.clone(),
            allowed_by,
            created_at: now,
        };
        rows::insert(tx, &binding)?;
    }
    Ok(())
}

/// Removes the bindings of what the owner does not use any more: an operator removes all of them, and a
/// token of one project its own. What others said stays, for when the change is undone.
pub fn remove(
    tx: &mut Tx<'_>,
    project: ProjectId,
    owner: &str,
    unused: &BTreeSet<SecretUse>,
    by: ConfiguredBy,
) -> StoreResult<()> {
    if unused.is_empty() {
        return Ok(());
    }
    let may_remove =
        |binding: &SecretBinding| by == ConfiguredBy::Operator || binding.allowed_by == by.project_token();
    for binding in rows::list_for_owner(tx, project, owner)? {
        if may_remove(&binding) && unused.iter().any(|one| is_about(&binding, one)) {
            rows::delete(tx, project, binding.id)?;
        }
    }
    Ok(())
}

fn is_about(binding: &SecretBinding, one: &SecretUse) -> bool {
    binding.secret == one.name && binding.target == one.target
}

impl Secrets {
    /// Allows a server to get a secret at its current target. Only an operator and the token that gave the
    /// value may: whoever does not know the value must not be able to direct it anywhere.
    pub async fn allow(
        &self,
        project: ProjectId,
        by: ConfiguredBy,
        name: &SecretName,
        server: &str,
    ) -> Result<SecretInfo> {
        let (this, name, server) = (self.clone(), name.clone(), server.to_owned());
        let work = move |tx: &mut Tx<'_>| {
            projects::lock(tx, project)?.ok_or(Error::NoProject(project))?;
            let row = secret_rows::get(tx, project, name.as_str())?
                .ok_or_else(|| Error::NotFound { name: name.clone() })?;
            let may_allow = match by {
                ConfiguredBy::Operator => true,
                ConfiguredBy::Project(token) => row.author == Some(token),
            };
            if !may_allow {
                return Err(Error::GivenByOthers { name: name.clone() });
            }
            // No name contains NUL, and PostgreSQL would reject it as a parameter.
            let found = match server.contains('\0') {
                true => None,
                false => mcp_servers::get_by_name(tx, project, &server)?,
            };
            let found = found.ok_or_else(|| Error::NoServer(server.chars().take(100).collect()))?;
            let mut uses = destination::secret_uses(&found.spec);
            uses.retain(|one| one.name == name.as_str());
            if uses.is_empty() {
                return Err(Error::Conflict(format!("the server `{server}` does not refer to `{name}`")));
            }
            let now = this.0.clock.now();
            bind(tx, project, &rows::owner_of(&found), &uses, by, now)?;
            let entry = NewAuditEntry::new(AuditAction::SecretAllow, Some(project), name.as_str())
                .detail("mcpServer", found.name())
                .detail("mcpServerId", found.id.to_string());
            audit::record(tx, &entry, now)?;
            to_info(row, &ProjectServers::load(tx, project)?)
        };
        self.0.db.write(work).await
    }

    /// Holds the current values of all secrets that a server may have been sent: those with a binding to it that
    /// counts, whatever its configuration refers to now.
    pub async fn hold_bound(&self, server: &McpServer) -> Result<Vec<HeldSecret>> {
        let (project, owner) = (server.project, rows::owner_of(server));
        let read = move |tx: &mut Tx<'_>| {
            let bound = rows::list_effective(tx, project)?.into_iter();
            let names: BTreeSet<String> =
                bound.filter(|binding| binding.owner == owner).map(|binding| binding.secret).collect();
            let names: Vec<String> = names.into_iter().collect();
            let any_target = BoundTargets { current: "", earlier: [None, None] };
            Ok::<_, Error>(secret_rows::get_sealed(tx, project, &names, &owner, any_target)?)
        };
        let mut held = Vec::new();
        for (name, row) in self.0.db.read(read).await? {
            let (name, sealed) = (name.parse()?, SealedValue { key: row.key, bytes: row.sealed });
            held.push(self.unseal(project, &name, &sealed)?.1);
        }
        Ok(held)
    }

    /// Returns the error for a secret that may not be sent to a destination. It says where it may be sent.
    pub(crate) async fn refusal(&self, destination: &Destination, name: &SecretName) -> Error {
        let project = destination.project;
        let bound: Result<Vec<SecretBinding>> =
            self.0.db.read(move |tx| Ok(rows::list_effective(tx, project)?)).await;
        let mut bound = match bound {
            Ok(bound) => bound,
            Err(error) => return error,
        };
        bound.retain(|binding| binding.secret == name.as_str());
        if bound.iter().any(|binding| binding.owner == destination.owner) {
            bound.retain(|binding| binding.owner == destination.owner);
        }
        let (asked, address) = (origin_of(&destination.target), address_of(&destination.target));
        let shown = |binding: &SecretBinding| match origin_of(&binding.target) {
            Some(origin) if address.is_some() && address_of(&binding.target) == address => {
                format!("`{origin}` with other headers")
            }
            Some(origin) if Some(&origin) == asked.as_ref() => format!("another path of `{origin}`"),
            _ => format!("`{}`", shown_target(&binding.target)),
        };
        let targets: BTreeSet<String> = bound.iter().map(shown).collect();
        let targets: Vec<String> = targets.into_iter().take(MAX_SHOWN_TARGETS).collect();
        let (server, target) = (destination.server.clone(), shown_target(&destination.target));
        // The paths and headers that differ may contain a key, so they are not shown.
        let is_same_host = asked.is_some() && bound.iter().any(|binding| origin_of(&binding.target) == asked);
        let refusal = match targets.join(", ") {
            none if none.is_empty() => format!("may not be sent to `{target}` yet"),
            allowed if is_same_host => format!(
                "may be sent to {allowed}, and not to the path and headers that `{server}` has now (`emergent \
                 mcp-server show {server}`)"
            ),
            allowed => format!("may be sent to {allowed}, and not to `{target}`"),
        };
        Error::NotBound { name: name.clone(), server, target, refusal }
    }
}

/// How many targets an error names.
const MAX_SHOWN_TARGETS: usize = 3;
/// Longer targets are shortened in errors to this many characters.
const MAX_SHOWN_CHARS: usize = 200;

/// The target without path and query, which may contain a key, and which others than admins would see in a
/// run.
fn shown_target(target: &str) -> String {
    let target = origin_of(target).unwrap_or_else(|| target.to_owned());
    match target.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &target[..end]),
        None => target,
    }
}
