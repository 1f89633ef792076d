//! Looks up tokens and sessions that this server has not seen before. All that wait are looked up with one read: whoever
//! presents many unknown tokens makes that read a little longer, and uses one connection, however many there are.

use std::collections::VecDeque;

use emergent_domain::browser_session::Login;
use emergent_graph::{Credential, Graph};
use emergent_store::requester::{Requester, on_behalf_of};
use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::ApiError;

/// The most tokens that one read looks up.
const MAX_LOOKUP_BATCH: usize = 512;

type LookupResult = Result<Option<Login>, ApiError>;

/// The lookups of one requester.
pub(crate) struct TokenLookups {
    requester: Requester,
    waiting: Mutex<VecDeque<WaitingLookup>>,
    /// Whoever has it makes the next read, for all that wait.
    turn: tokio::sync::Mutex<()>,
}

struct WaitingLookup {
    credential: Credential,
    reply: oneshot::Sender<LookupResult>,
}

impl TokenLookups {
    pub(crate) fn new(requester: Requester) -> Self {
        Self { requester, waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Returns the valid login of this credential.
    pub(crate) async fn look_up(&self, graph: &Graph, credential: &Credential) -> LookupResult {
        loop {
            let (reply, mut result) = oneshot::channel();
            self.waiting.lock().push_back(WaitingLookup { credential: credential.clone(), reply });
            let _turn = tokio::select! {
                biased;
                result = &mut result => match result {
                    Ok(result) => return result,
                    // The caller that made the read was dropped before its end.
                    Err(_) => continue,
                },
                turn = self.turn.lock() => turn,
            };
            loop {
                match result.try_recv() {
                    Ok(result) => return result,
                    Err(TryRecvError::Closed) => break,
                    Err(TryRecvError::Empty) => self.read_batch(graph).await,
                }
            }
        }
    }

    /// Looks up those that have waited longest.
    async fn read_batch(&self, graph: &Graph) {
        let batch: Vec<WaitingLookup> = {
            let mut waiting = self.waiting.lock();
            waiting.retain(|lookup| !lookup.reply.is_closed());
            let count = waiting.len().min(MAX_LOOKUP_BATCH);
            waiting.drain(..count).collect()
        };
        let credentials: Vec<Credential> = batch.iter().map(|lookup| lookup.credential.clone()).collect();
        match on_behalf_of(self.requester, graph.log_in_each(&credentials)).await {
            Ok(logins) => {
                for (lookup, login) in batch.into_iter().zip(logins) {
                    let _ = lookup.reply.send(Ok(login));
                }
            }
            Err(error) => {
                let error = ApiError::from(error);
                for lookup in batch {
                    let _ = lookup.reply.send(Err(error.clone()));
                }
            }
        }
    }
}
