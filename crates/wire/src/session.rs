//! Logins of browsers.

use emergent_domain::{browser_session::Login, time::Timestamp, token::Scope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

/// The request to log in: with a token, or with a one-time code that stands for one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSession {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Of `emergent serve` or `emergent login-link`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Who is logged in.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct SessionView {
    /// Absent for a request with a token in `Authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    pub token_id: Uuid,
    pub token_name: String,
    /// Absent for a token that spans projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Uuid>,
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// When the login ends, if it is not used before. Absent for a token without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

impl From<&Login> for SessionView {
    fn from(login: &Login) -> Self {
        let token = &login.token;
        Self {
            id: login.session.map(|session| session.id.0),
            token_id: token.id.0,
            token_name: token.name.clone(),
            project: token.project.map(|project| project.0),
            scopes: token.scopes.iter().copied().collect(),
            expires_at: login.expires_at(),
        }
    }
}

/// A code with which a browser can log in once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoginCode)]
pub struct LoginCodeView {
    /// It is not shown again.
    pub code: String,
    /// The page that logs in with it, on this server.
    #[schema(example = "/login?code=emc_…")]
    pub path: String,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
