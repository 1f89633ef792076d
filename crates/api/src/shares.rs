//! The share of a limit that one token or one project may use, so that nobody uses all of it.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use emergent_domain::{
    ids::{ProjectId, TokenId},
    token::Token,
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

/// How many there may be at once of requests, or of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub total: usize,
    /// Of all tokens that are bound to one project.
    pub per_project: usize,
    /// Of one token that is bound to a project.
    pub per_token: usize,
    /// Of one token that spans projects: a dashboard of the operator sees every project with it.
    pub per_operator_token: usize,
    /// The part of the total that tokens bound to a project never get.
    pub reserved: usize,
}

impl Capacity {
    pub const fn new(total: usize) -> Self {
        Self {
            total,
            per_project: total / 2,
            per_token: total / 4,
            per_operator_token: total / 4 * 3,
            reserved: total / 16,
        }
    }

    /// Whoever comes first may use all of it.
    pub const fn unshared(total: usize) -> Self {
        Self { total, per_project: total, per_token: total, per_operator_token: total, reserved: 0 }
    }
}

/// Counts what is in use, in all and by owner.
pub(crate) struct Limiter {
    what: &'static str,
    capacity: Capacity,
    permits: Arc<Semaphore>,
    tokens: Shares<TokenId>,
    projects: Shares<ProjectId>,
}

/// What one token uses: it is counted until this is dropped.
#[expect(dead_code, reason = "held, not used")]
pub(crate) struct TokenShares {
    token: Share<TokenId>,
    project: Option<Share<ProjectId>>,
}

impl Limiter {
    /// `what` is counted, in the plural, for errors.
    pub(crate) fn new(what: &'static str, capacity: Capacity) -> Self {
        Self {
            what,
            capacity,
            permits: Arc::new(Semaphore::new(capacity.total)),
            tokens: Shares::default(),
            projects: Shares::default(),
        }
    }

    /// Takes one of the total, for whoever it is. `None` means that none is left.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Whether only the part that is kept for operators is left.
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
        let of_token = self.tokens.take(token.id, per_token);
        let of_token = of_token.ok_or_else(|| self.refusal("of this token", per_token))?;
        let of_project = self.projects.take(project, per_project);
        let of_project = of_project.ok_or_else(|| self.refusal("of this project", per_project))?;
        Ok(TokenShares { token: of_token, project: Some(of_project) })
    }

    /// The error for a caller whom the total, or the part that is kept for operators, leaves no room.
    pub(crate) fn refuse(&self) -> ApiError {
        self.refusal("in all", self.capacity.total)
    }

    fn refusal(&self, whose: &str, limit: usize) -> ApiError {
        ApiError::overloaded(self.what, whose, limit)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.capacity.total.saturating_sub(self.permits.available_permits())
    }
}

/// Counts what each owner holds.
pub(crate) struct Shares<K> {
    held: Arc<Mutex<HashMap<K, usize>>>,
}

/// One part of an owner's share. It is given back when it is dropped.
pub(crate) struct Share<K: Eq + Hash> {
    held: Arc<Mutex<HashMap<K, usize>>>,
    owner: K,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { held: Arc::default() }
    }
}

impl<K: Eq + Hash + Copy> Shares<K> {
    /// Returns `None` if the owner holds `limit` already.
    pub(crate) fn take(&self, owner: K, limit: usize) -> Option<Share<K>> {
        let mut held = self.held.lock();
        let count = held.entry(owner).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Share { held: Arc::clone(&self.held), owner })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.owner);
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
    fn one_project_leaves_room_for_others_and_for_the_operator() {
        let limiter = Limiter::new("requests", Capacity::new(64));
        let project = ProjectId::new();
        let (first, second) = (token(Some(project)), token(Some(project)));
        let mut held: Vec<_> = (0..100).map_while(|_| limiter.take_share(&first).ok()).collect();
        assert_eq!(held.len(), 16, "one token");
        held.extend((0..100).map_while(|_| limiter.take_share(&second).ok()));
        assert_eq!(held.len(), 32, "one project");
        assert!(limiter.take_share(&token(Some(ProjectId::new()))).is_ok());
        assert!(limiter.take_share(&token(None)).is_ok());
        let permits: Vec<_> = (0..61).map_while(|_| limiter.try_acquire()).collect();
        assert!(limiter.only_reserved_left() && permits.len() == 61);
    }

    #[test]
    fn an_owner_gets_its_share_and_others_theirs() {
        let shares = Shares::default();
        let held: Vec<_> = (0..2).filter_map(|_| shares.take("a", 2)).collect();
        assert_eq!(held.len(), 2);
        assert!(shares.take("a", 2).is_none() && shares.take("b", 2).is_some());
        drop(held);
        assert!(shares.take("a", 2).is_some());
        assert!(shares.held.lock().is_empty(), "owners that hold nothing take no memory");
    }
}
