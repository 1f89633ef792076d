//! API tokens, and requests to create them.

use emergent_domain::{
    time::Timestamp,
    token::{Scope, Token},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub struct TokenView {
    pub id: Uuid,
    pub name: String,
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// Absent for a token that spans projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Uuid>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
    /// The secret itself, in the answer to its creation and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// In the answer to a revocation: the tokens that this token created, and those that they created. They are
    /// revoked as well if the request says so (`children=true`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_tokens: Option<Vec<CreatedTokenView>>,
}

/// A token that another token created.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CreatedToken)]
pub struct CreatedTokenView {
    pub id: Uuid,
    pub name: String,
    /// Absent for a token that is not revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

impl From<Token> for CreatedTokenView {
    fn from(token: Token) -> Self {
        Self { id: token.id.0, name: token.name, revoked_at: token.revoked_at }
    }
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id.0,
            name: token.name,
            scopes: token.scopes.into_iter().collect(),
            project: token.project.map(|project| project.0),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            token: None,
            created_tokens: None,
        }
    }
}

impl From<(Token, String)> for TokenView {
    fn from((token, secret): (Token, String)) -> Self {
        Self { token: Some(secret), ..token.into() }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    #[schema(value_type = Vec<schema::Scope>, min_items = 1)]
    pub scopes: Vec<Scope>,
    /// Id or name. Without it the token is for the caller's own project or the one `X-Project-ID`
    /// names, and without that, too, it spans projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}
