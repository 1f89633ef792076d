//! Limits how often one token starts one agent from outside (`EMERGENT_INVOKE_RATE`), over all protocols together.
//! Each server counts for itself.

use std::time::Duration;

use emergent_domain::ids::{AgentId, TokenId};
use emergent_executor::Error;

use crate::{ApiError, rate_limit::RateLimit};

/// The default of [`crate::AppOptions::invoke_rate`].
pub(crate) const DEFAULT_PER_MINUTE: usize = 60;
const WINDOW: Duration = Duration::from_secs(60);

/// The runs that tokens started from outside lately.
pub(crate) struct InvokeRate(RateLimit<(TokenId, AgentId)>);

impl InvokeRate {
    /// Allows so many runs a minute of one agent, for each token.
    pub(crate) fn per_minute(max: usize) -> Self {
        Self(RateLimit::new(max, WINDOW))
    }

    /// How many runs a minute are allowed.
    pub(crate) fn max_per_minute(&self) -> usize {
        self.0.max()
    }

    /// Counts a run that a token is about to start, or returns the error that says how long it has to wait.
    pub(crate) fn take(&self, token: TokenId, agent: AgentId) -> Result<(), ApiError> {
        self.0.take((token, agent)).map_err(|wait| ApiError::too_many_invocations(self.0.max(), wait))
    }

    /// Takes back the count of a start that was refused because the request is invalid: nothing was started. Starts are
    /// counted first, because a caller that disconnects does not stop a start that is being committed.
    pub(crate) fn unless_invalid<T>(
        &self,
        token: TokenId,
        agent: AgentId,
        started: Result<T, Error>,
    ) -> Result<T, Error> {
        if matches!(started, Err(Error::Invalid(_))) {
            self.0.give_back(&(token, agent));
        }
        started
    }
}
