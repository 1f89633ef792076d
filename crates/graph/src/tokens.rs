//! API tokens. The secret is shown once and only its hash is stored.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    author::Author,
    cursor::{Page, ResultPage},
    ids::{ProjectId, TokenId},
    invalid::Invalid,
    object::check_text,
    time::Timestamp,
    token::{Scope, Token},
};
use emergent_store::{Tx, audit, projects, tokens as rows};
use sha2::{Digest, Sha256};

use crate::{Credential, Error, Graph, error::Result};

/// The prefix makes a secret of Emergent recognisable, for example in a log.
const PREFIX: &str = "emt_";

/// Shorter admin tokens are refused, because they could be guessed.
pub const MIN_ADMIN_TOKEN_CHARS: usize = 16;

/// Generates a secret. It has 32 random bytes and cannot be guessed, so a plain hash is sufficient
/// for storing it.
pub fn new_secret() -> String {
    random_secret(PREFIX)
}

pub(crate) fn random_secret(prefix: &str) -> String {
    format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
}

fn audit_entry(action: AuditAction, token: &Token) -> NewAuditEntry {
    NewAuditEntry::new(action, token.project, &token.name).id(token.id)
}

fn creation_entry(token: &Token) -> NewAuditEntry {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    audit_entry(AuditAction::TokenCreate, token)
        .detail("scopes", scopes)
        .detail("expiresAt", token.expires_at.map(|time| time.to_string()))
}

pub(crate) fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

impl Graph {
    /// Creates a token. Returns it with its secret, which cannot be retrieved again. Without a
    /// project, the token spans all projects.
    pub async fn create_token(
        &self,
        name: &str,
        scopes: BTreeSet<Scope>,
        project: Option<ProjectId>,
        expires_at: Option<Timestamp>,
    ) -> Result<(Token, String)> {
        check_text("name", Some(name), 128)?;
        if scopes.is_empty() {
            return Err(Invalid::new("scopes", "must name at least one scope").into());
        }
        let now = self.clock().now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(Invalid::new("expiresAt", "must be in the future").into());
        }
        let secret = new_secret();
        let token = Token {
            id: TokenId::new(),
            project,
            name: name.to_owned(),
            scopes,
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        let hash = hash(&secret);
        let stored = token.clone();
        self.db()
            .write(move |tx| {
                if let Some(project) = stored.project
                    && projects::get(tx, project)?.is_none()
                {
                    return Err(Error::not_found("project", project));
                }
                // A request that was under way when its token was revoked must leave no token behind.
                if let Some(creator) = audit::origin_token(tx)
                    && let Some(creator) = rows::lock(tx, creator)?
                    && !creator.is_valid(now)
                {
                    return Err(Error::TokenEnded);
                }
                rows::insert(tx, &stored, &hash)?;
                Ok(audit::record(tx, &creation_entry(&stored), now)?)
            })
            .await?;
        Ok((token, secret))
    }

    /// Lists the tokens of one project or of all, including revoked and expired ones, newest first.
    pub async fn list_tokens(&self, project: Option<ProjectId>, page: Page) -> Result<ResultPage<Token>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, &page)).await?)
    }

    /// Revokes a token. If a project is given, the token must belong to it. Revoking twice has no
    /// further effect.
    pub async fn revoke_token(&self, project: Option<ProjectId>, id: TokenId) -> Result<Token> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                let token = rows::get(tx, id)?
                    .filter(|token| project.is_none() || token.project == project)
                    .ok_or_else(|| Error::not_found("token", id))?;
                if token.revoked_at.is_none() {
                    rows::revoke(tx, id, now)?;
                    audit::record(tx, &audit_entry(AuditAction::TokenRevoke, &token), now)?;
                }
                Ok(Token { revoked_at: token.revoked_at.or(Some(now)), ..token })
            })
            .await
    }

    /// Revokes those of these tokens that are not revoked yet, in one transaction.
    pub(crate) async fn revoke_tokens(&self, ids: Vec<TokenId>) -> Result<()> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                for id in &ids {
                    if let Some(token) = rows::get(tx, *id)?.filter(|token| token.revoked_at.is_none()) {
                        rows::revoke(tx, *id, now)?;
                        audit::record(tx, &audit_entry(AuditAction::TokenRevoke, &token), now)?;
                    }
                }
                Ok(())
            })
            .await
    }

    /// Returns the token of a secret, if it is valid.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Token>> {
        let login = self.log_in(&Credential::Token(secret.into())).await?;
        Ok(login.map(|login| Arc::unwrap_or_clone(login.token)))
    }

    /// Rejects an author whose token is no longer valid, within the transaction of the operation.
    /// Authors that are not tokens are always accepted.
    pub(crate) fn check_token_valid(&self, tx: &mut Tx<'_>, author: Author) -> Result<()> {
        let Author::Token { id } = author else { return Ok(()) };
        match rows::get(tx, id)? {
            Some(token) if !token.is_valid(self.clock().now()) => Err(Error::TokenEnded),
            _ => Ok(()),
        }
    }

    /// Creates the token of the operator's configured secret, with every scope in every project, and returns
    /// it. A token that was revoked stays revoked: the caller checks that it is valid. Otherwise whoever
    /// learnt the secret would have access again after the next start.
    pub async fn ensure_admin_token(&self, secret: &str) -> Result<Token> {
        if secret.len() < MIN_ADMIN_TOKEN_CHARS {
            let reason = format!("must have at least {MIN_ADMIN_TOKEN_CHARS} characters");
            return Err(Invalid::new("admin token", reason).into());
        }
        let new = Token {
            id: TokenId::new(),
            project: None,
            name: "admin".to_owned(),
            scopes: Scope::ALL.iter().copied().collect(),
            created_at: self.clock().now(),
            expires_at: None,
            revoked_at: None,
        };
        let hash = hash(secret);
        self.db()
            .write(move |tx| {
                if rows::insert(tx, &new, &hash)? {
                    audit::record(tx, &creation_entry(&new), new.created_at)?;
                    return Ok(new.clone());
                }
                let existing = rows::get_by_hash(tx, &hash)?.filter(|token| token.scopes == new.scopes);
                match existing {
                    Some(token) if token.project.is_none() => Ok(token),
                    _ => Err(Error::Conflict {
                        message: "the admin token is already the secret of a token with fewer scopes: choose another secret"
                            .to_owned(),
                    }),
                }
            })
            .await
    }
}
