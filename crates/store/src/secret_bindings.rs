//! Who said that a secret may be sent to a server. [`secrets`](crate::secrets) checks it when it reads the
//! sealed value.

use emergent_domain::{
    ids::{McpServerId, ProjectId, TokenId},
    inbox::Webhook,
    mcp_server::McpServer,
    time::Timestamp,
};
use emergent_net::address;
use uuid::Uuid;

use crate::{
    error::Result,
    params,
    row::{TableRow, row},
    tx::Tx,
};

/// The condition under which a binding `b` counts for a secret `s`: an operator made it, or the token that
/// gave the current value.
pub(crate) const COUNTS_SQL: &str = "(b.allowed_by IS NULL OR b.allowed_by = s.author_token)";

/// A stored binding.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretBinding {
    pub id: Uuid,
    pub project: ProjectId,
    pub secret: String,
    pub owner: String,
    pub target: String,
    /// The token of one project that made the binding; `None` for an operator.
    pub allowed_by: Option<TokenId>,
    pub created_at: Timestamp,
}

row! {
    SecretBinding in "secret_bindings" {
        id: "id",
        project: "project_id",
        secret: "secret",
        owner: "owner",
        target: "target",
        allowed_by: "allowed_by",
        created_at: "created_at",
    }
}

/// The owner of the bindings of a server: its product, so that a product can rename its servers, or the
/// server itself.
pub fn owner_of(server: &McpServer) -> String {
    match &server.product {
        Some(product) => product_owner(product),
        None => server_owner(server.id),
    }
}

pub fn product_owner(product: &str) -> String {
    format!("product:{product}")
}

pub fn server_owner(server: McpServerId) -> String {
    format!("server:{server}")
}

/// The owner of the bindings of a project's webhook, which signs its notices with a secret.
pub const WEBHOOK_OWNER: &str = "webhook";

/// The target of a binding to a webhook: its address in the form in which it is requested.
pub fn webhook_target(url: &str) -> String {
    address::requested(url).unwrap_or_else(|| url.to_owned())
}

/// Records that a token of one project, or an operator, has the notices for an address signed with a secret. The
/// caller has locked the project.
pub fn bind_webhook(
    tx: &mut Tx<'_>,
    project: ProjectId,
    webhook: &Webhook,
    allowed_by: Option<TokenId>,
    now: Timestamp,
) -> Result<()> {
    let target = webhook_target(&webhook.url);
    let is_known = list_for_owner(tx, project, WEBHOOK_OWNER)?.iter().any(|binding| {
        binding.secret == webhook.secret && binding.target == target && binding.allowed_by == allowed_by
    });
    if is_known {
        return Ok(());
    }
    let binding = SecretBinding {
        id: Uuid::now_v7(),
        project,
        secret: webhook.secret.clone(),
        owner: WEBHOOK_OWNER.to_owned(),
        target,
        allowed_by,
        created_at: now,
    };
    insert(tx, &binding)
}

/// Whether the webhook of a project was set since such bindings are recorded. One that was set before needs none.
pub fn has_webhook_bindings(tx: &mut Tx<'_>, project: ProjectId) -> Result<bool> {
    let sql = "SELECT 1 FROM secret_bindings WHERE project_id = $1 AND owner = $2 LIMIT 1";
    Ok(tx.query_opt(sql, params![project, WEBHOOK_OWNER], |_| Ok(()))?.is_some())
}

/// The bindings of an owner, whether they count or not.
pub fn list_for_owner(tx: &mut Tx<'_>, project: ProjectId, owner: &str) -> Result<Vec<SecretBinding>> {
    let columns = SecretBinding::COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM secret_bindings WHERE project_id = $1 AND owner = $2 ORDER BY secret, created_at, id"
    );
    tx.query(&sql, params![project, owner], SecretBinding::from_row)
}

/// The bindings of a project that count: those of an operator, and those of the token that gave the current
/// value of the secret.
pub fn list_effective(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<SecretBinding>> {
    let sql = format!(
        "SELECT {} FROM secret_bindings AS b
         JOIN secrets AS s ON s.project_id = b.project_id AND s.name = b.secret
         WHERE b.project_id = $1 AND {COUNTS_SQL} ORDER BY b.secret, b.created_at, b.id",
        SecretBinding::columns_of("b")
    );
    tx.query(&sql, params![project], SecretBinding::from_row)
}

/// Inserts a binding. The caller has locked the project and checked that it is not there yet.
pub fn insert(tx: &mut Tx<'_>, binding: &SecretBinding) -> Result<()> {
    tx.insert_row(binding, [], "")?;
    Ok(())
}

pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: Uuid) -> Result<()> {
    tx.execute("DELETE FROM secret_bindings WHERE project_id = $1 AND id = $2", params![project, id])?;
    Ok(())
}

/// Deletes all bindings of an owner.
pub fn delete_for_owner(tx: &mut Tx<'_>, project: ProjectId, owner: &str) -> Result<()> {
    tx.execute("DELETE FROM secret_bindings WHERE project_id = $1 AND owner = $2", params![project, owner])?;
    Ok(())
}
