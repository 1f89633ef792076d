//! Limits of concurrent requests and streams: in total, and the share of them that one token or one project
//! may use.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use emergent_domain::{
    ids::{ProjectId, TokenId},
    token::Token,
};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::ApiError;

/// How long a request waits while the total is used up. Of a thousand requests that one token makes at once, those beyond
/// its share end as soon as the token is known, and until then they leave nothing of the total to others.
const PATIENCE: Duration = Duration::from_millis(500);

/// The limits of concurrent requests, or of open streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub total: usize,
    /// The limit of all tokens of one project together.
    pub per_project: usize,
    /// The limit of one token that is bound to a project.
    pub per_token: usize,
    /// The limit of one token that spans projects. It is higher, because an operator's dashboard shows every
    /// project with one token.
    pub per_operator_token: usize,
    /// The part of the total that tokens bound to a project cannot use.
    pub reserved: usize,
}

impl Capacity {
    /// Divides a total: half of it for one project, a quarter for one token, a sixteenth reserved for
    /// operators.
    pub const fn new(total: usize) -> Self {
        Self {
            total,
            per_project: total / 2,
            per_token: total / 4,
            per_operator_token: total / 4 * 3,
            reserved: total / 16,
        }
    }

    /// Has no limits besides the total: one token may use all of it.
    pub const fn unshared(total: usize) -> Self {
        Self { total, per_project: total, per_token: total, per_operator_token: total, reserved: 0 }
    }
}

/// Counts requests or streams in total, by token and by project.
pub(crate) struct Limiter {
    what: &'static str,
    capacity: Capacity,
    permits: Arc<Semaphore>,
    tokens: Shares<TokenId>,
    projects: Shares<ProjectId>,
}

/// One request or stream of a token. It is counted until this is dropped.
#[expect(dead_code, reason = "dropping them ends the count")]
pub(crate) struct TokenShares {
    token: Share<TokenId>,
    project: Option<Share<ProjectId>>,
}

impl Limiter {
    /// `what` names the counted things in errors, in the plural.
    pub(crate) fn new(what: &'static str, capacity: Capacity) -> Self {
        Self {
            what,
            capacity,
            permits: Arc::new(Semaphore::new(capacity.total)),
            tokens: Shares::default(),
            projects: Shares::default(),
        }
    }

    /// Takes one of the total, whoever the caller is. Returns `None` if the total is used up.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Like [`Limiter::try_acquire`], and waits a little if the total is used up.
    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        match self.try_acquire() {
            Some(permit) => Some(permit),
            None => timeout(PATIENCE, Arc::clone(&self.permits).acquire_owned()).await.ok()?.ok(),
        }
    }

    /// Whether only the part that is reserved for operators is left.
    pub(crate) fn only_reserved_left(&self) -> bool {
        self.permits.available_permits() < self.capacity.reserved
    }

    /// Counts one for this token, or returns the error that names the limit it has reached.
    pub(crate) fn take_share(&self, token: &Token) -> Result<TokenShares, ApiError> {
        let Some(project) = token.project else {
            let limit = self.capacity.per_operator_token;
            let share = self.tokens.take(token.id, limit);
            let share = share.ok_or_else(|| self.refusal("of this token", limit))?;
            return Ok(TokenShares { token: share, project: None });
        };
        let (per_token, per_project) = (self.capacity.per_token, self.capacity.per_project);
        let token_share = self.tokens.take(token.id, per_token);
        let token_share = token_share.ok_or_else(|| self.refusal("of this token", per_token))?;
        let project_share = self.projects.take(project, per_project);
        let project_share = project_share.ok_or_else(|| self.refusal("of this project", per_project))?;
        Ok(TokenShares { token: token_share, project: Some(project_share) })
    }

    /// Returns the error for a caller if the total is used up, or only the part for operators is left.
    pub(crate) fn refuse(&self) -> ApiError {
        self.refusal("in all", self.capacity.total)
    }

    fn refusal(&self, owner: &str, limit: usize) -> ApiError {
        ApiError::overloaded(self.what, owner, limit)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.capacity.total.saturating_sub(self.permits.available_permits())
    }
}

/// Counts the used shares of each owner.
pub(crate) struct Shares<K> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// One counted use of an owner. Dropping it ends the count.
pub(crate) struct Share<K: Eq + Hash> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    owner: K,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { counts: Arc::default() }
    }
}

impl<K: Eq + Hash + Copy> Shares<K> {
    /// Counts one more use of the owner. Returns `None` if it has `limit` already.
    pub(crate) fn take(&self, owner: K, limit: usize) -> Option<Share<K>> {
        let mut counts = self.counts.lock();
        let count = counts.entry(owner).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Share { counts: Arc::clone(&self.counts), owner })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(project: Option<ProjectId>) -> Token {
        Token {
            id: TokenId::new(),
            project,
            name: "test".into(),
            scopes: Default::default(),
            expires_at: None,
            revoked_at: None,
            created_at: emergent_domain::time::Timestamp::from_micros(0),
        }
    }

    #[test]
    fn one_project_cannot_use_the_share_of_others_and_of_the_operator() {
        let limiter = Limiter::new("requests", Capacity::new(64));
        let project = ProjectId::new();
        let (first, second) = (token(Some(project)), token(Some(project)));
        let mut taken: Vec<_> = (0..100).map_while(|_| limiter.take_share(&first).ok()).collect();
        assert_eq!(taken.len(), 16, "one token");
        taken.extend((0..100).map_while(|_| limiter.take_share(&second).ok()));
        assert_eq!(taken.len(), 32, "one project");
        assert!(limiter.take_share(&token(Some(ProjectId::new()))).is_ok());
        assert!(limiter.take_share(&token(None)).is_ok());
        let permits: Vec<_> = (0..61).map_while(|_| limiter.try_acquire()).collect();
        assert!(limiter.only_reserved_left() && permits.len() == 61);
    }

    #[test]
    fn each_owner_has_its_own_limit() {
        let shares = Shares::default();
        let taken: Vec<_> = (0..2).filter_map(|_| shares.take("a", 2)).collect();
        assert_eq!(taken.len(), 2);
        assert!(shares.take("a", 2).is_none() && shares.take("b", 2).is_some());
        drop(taken);
        assert!(shares.take("a", 2).is_some());
        assert!(shares.counts.lock().is_empty(), "owners without a share use no memory");
    }
}
