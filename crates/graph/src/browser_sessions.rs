//! Logins: which token a secret or the cookie of a browser stands for, and the sessions of browsers.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    browser_session::{BrowserSession, CODE_LIFETIME, Login, MAX_OPEN_CODES, MAX_SESSIONS},
    ids::TokenId,
    time::Timestamp,
    token::Token,
};
use emergent_store::{Tx, audit, browser_sessions as rows, login_codes, tokens};

use crate::{
    Graph,
    error::Result,
    tokens::{hash, random_secret},
};

/// The prefixes make the secrets recognisable, for example in a log.
const SESSION_PREFIX: &str = "ems_";
const CODE_PREFIX: &str = "emc_";

/// What a request proves its origin with. The two kinds are never looked up as each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// The secret of a token, from the header `Authorization`.
    Token(Arc<str>),
    /// The secret of a session, from a cookie.
    Session(Arc<str>),
}

/// A session that was started, with its secret, which cannot be retrieved again.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedSession {
    pub login: Login,
    pub session: BrowserSession,
    pub secret: String,
}

impl Graph {
    /// Returns the valid login of a credential.
    pub async fn log_in(&self, credential: &Credential) -> Result<Option<Login>> {
        Ok(self.log_in_each(std::slice::from_ref(credential)).await?.pop().flatten())
    }

    /// Like [`Graph::log_in`], for many credentials with one read.
    pub async fn log_in_each(&self, credentials: &[Credential]) -> Result<Vec<Option<Login>>> {
        let hashes: Vec<(bool, Vec<u8>)> = credentials
            .iter()
            .map(|credential| match credential {
                Credential::Token(secret) => (false, hash(secret)),
                Credential::Session(secret) => (true, hash(secret)),
            })
            .collect();
        let wanted = hashes.clone();
        let read = move |tx: &mut Tx<'_>| {
            let list = |of_sessions: bool| {
                let of_kind = wanted.iter().filter(move |(is_session, _)| *is_session == of_sessions);
                of_kind.map(|(_, hash)| hash.as_slice()).collect::<Vec<_>>()
            };
            let (of_tokens, of_sessions) = (list(false), list(true));
            let mut logins: HashMap<(bool, Vec<u8>), Login> = HashMap::new();
            if !of_tokens.is_empty() {
                for (hash, token) in tokens::list_by_hash(tx, &of_tokens)? {
                    logins.insert((false, hash), Login { token: Arc::new(token), session: None });
                }
            }
            if !of_sessions.is_empty() {
                for (hash, login) in rows::list_by_hash(tx, &of_sessions)? {
                    logins.insert((true, hash), login);
                }
            }
            Ok::<_, emergent_store::Error>(logins)
        };
        let logins = self.db().read(read).await?;
        let now = self.clock().now();
        Ok(hashes.iter().map(|key| logins.get(key).filter(|login| login.is_valid(now)).cloned()).collect())
    }

    /// Starts a session that stands for a token; `None` if the token is not valid any more. The oldest sessions of the
    /// token end if it has too many.
    pub async fn start_session(&self, token: TokenId) -> Result<Option<StartedSession>> {
        self.start_session_of(move |_, _| Ok(Some(token))).await
    }

    /// Starts a session with a one-time code, which is used up; `None` if the code is unknown, has expired or
    /// was used before, or if its token is not valid any more.
    pub async fn start_session_with_code(&self, code: &str) -> Result<Option<StartedSession>> {
        let code = hash(code);
        self.start_session_of(move |tx, now| Ok(login_codes::consume(tx, &code, now)?)).await
    }

    /// Whether a one-time code can be used now. Uses nothing up.
    pub async fn has_login_code(&self, code: &str) -> Result<bool> {
        let (code, now) = (hash(code), self.clock().now());
        Ok(self.db().read(move |tx| login_codes::is_usable(tx, &code, now)).await?)
    }

    async fn start_session_of(
        &self,
        find_token: impl Fn(&mut Tx<'_>, Timestamp) -> Result<Option<TokenId>> + Send + 'static,
    ) -> Result<Option<StartedSession>> {
        let now = self.clock().now();
        let secret = random_secret(SESSION_PREFIX);
        let work = move |tx: &mut Tx<'_>| -> Result<Option<StartedSession>> {
            let Some(id) = find_token(tx, now)? else { return Ok(None) };
            let Some(token) = tokens::get(tx, id)?.filter(|token| token.is_valid(now)) else {
                return Ok(None);
            };
            let session = BrowserSession::new(id, now);
            rows::insert(tx, &session, &hash(&secret))?;
            audit::record(tx, &session_entry(AuditAction::SessionCreate, &token, &session), now)?;
            for ended in rows::delete_older(tx, id, MAX_SESSIONS)? {
                audit::record(tx, &session_entry(AuditAction::SessionEnd, &token, &ended), now)?;
            }
            let login = Login { token: Arc::new(token), session: Some(session) };
            Ok(Some(StartedSession { login, session, secret: secret.clone() }))
        };
        self.db().write(work).await
    }

    /// Ends a session. Ending it twice has no further effect.
    pub async fn end_session(&self, token: Arc<Token>, session: BrowserSession) -> Result<()> {
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            if rows::delete(tx, session.id)? {
                audit::record(tx, &session_entry(AuditAction::SessionEnd, &token, &session), now)?;
            }
            Ok(())
        };
        self.db().write(work).await
    }

    /// Records that a session is used, so that it ends later. Writes at most once a day.
    pub async fn renew_session(&self, session: BrowserSession) -> Result<()> {
        let now = self.clock().now();
        let Some(expires_at) = session.renewal(now) else { return Ok(()) };
        Ok(self.db().write(move |tx| rows::renew(tx, session.id, expires_at, now)).await?)
    }

    /// Creates a code with which a browser can log in once as this token. Returns it with the time of its end. It
    /// replaces the oldest unused code of the token if there are too many.
    pub async fn create_login_code(&self, token: TokenId) -> Result<(String, Timestamp)> {
        let now = self.clock().now();
        let (code, expires_at) = (random_secret(CODE_PREFIX), now + CODE_LIFETIME);
        let code_hash = hash(&code);
        let work = move |tx: &mut Tx<'_>| {
            login_codes::insert(tx, &code_hash, token, now, expires_at)?;
            login_codes::delete_older(tx, token, MAX_OPEN_CODES)?;
            Ok::<_, emergent_store::Error>(())
        };
        self.db().write(work).await?;
        Ok((code, expires_at))
    }
}

fn session_entry(action: AuditAction, token: &Token, session: &BrowserSession) -> NewAuditEntry {
    NewAuditEntry::new(action, token.project, &token.name)
        .id(session.id)
        .detail("expiresAt", session.expires_at.to_string())
}
