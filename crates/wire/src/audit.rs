//! Entries of the audit log.

use emergent_domain::{audit::AuditEntry, json::JsonObject, time::Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct AuditEntryView {
    pub id: Uuid,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What was done, such as `token.create`.
    pub action: String,
    /// Absent for a change that concerns no single project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Uuid>,
    /// Absent for a change that the server itself made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<AuditTokenView>,
    /// The browser's session that stood for the token. Absent for a request with the token itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    /// The run, if an agent made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    /// The address of the connection. Absent for a command that works on the data folder itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub target: AuditTargetView,
    /// `done`: only changes that were made are recorded.
    pub outcome: String,
    /// Depends on the action; never a secret value.
    #[schema(value_type = Object)]
    pub details: JsonObject,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditToken)]
pub struct AuditTokenView {
    pub id: Uuid,
    /// The name that it had.
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditTarget)]
pub struct AuditTargetView {
    /// Such as `token` or `mcp_server`.
    pub kind: String,
    /// Empty for a target that has only a name.
    pub id: String,
    pub name: String,
}

impl From<AuditEntry> for AuditEntryView {
    fn from(entry: AuditEntry) -> Self {
        let name = entry.token_name.unwrap_or_default();
        Self {
            id: entry.id,
            at: entry.at,
            action: entry.action,
            project: entry.project.map(Into::into),
            token: entry.token.map(|id| AuditTokenView { id: id.0, name }),
            session_id: entry.session.map(Into::into),
            run_id: entry.run.map(Into::into),
            address: entry.address,
            target: AuditTargetView { kind: entry.target_kind, id: entry.target_id, name: entry.target_name },
            outcome: entry.outcome,
            details: entry.details,
        }
    }
}
