//! Finds out which of the servers that a run needs cannot be used, and why.

use std::collections::BTreeSet;

use emergent_domain::{ids::ProjectId, mcp_server::McpServer, run_event::UnavailableServer};
use emergent_store::{mcp_servers, secrets};
use futures_util::future::join_all;
use tracing::warn;

use super::{McpServers, target};

/// The longest reason that is recorded.
const MAX_REASON_CHARS: usize = 500;

/// What happens to servers whose last contact failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedServers {
    /// They are not contacted: the next call of one of their tools does that.
    Skip,
    /// They are contacted, unless their circuit breaker is open.
    Retry,
}

impl McpServers {
    /// Connects to those of the servers whose tools are not known yet, and with [`FailedServers::Retry`] also
    /// to those that failed or lack a secret, all at once and within a time limit. Returns the servers that
    /// cannot be used. The others are not contacted, so that a run does not wait for servers that it may never call:
    /// if one of them cannot be reached, the call that meets it reports that to its run.
    pub(crate) async fn check_availability(
        &self,
        project: ProjectId,
        servers: &[McpServer],
        failed: FailedServers,
    ) -> Vec<UnavailableServer> {
        // The status of a server changes without a new revision, so the given rows may be outdated.
        let read = self.db().read(move |tx| mcp_servers::list_all(tx, project)).await;
        let rows: Vec<McpServer> = match read {
            Ok(rows) => {
                rows.into_iter().filter(|row| servers.iter().any(|server| server.id == row.id)).collect()
            }
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "the MCP servers of a project could not be read");
                servers.to_vec()
            }
        };
        let missing = self.missing_secrets(project, &rows).await;
        let lacks_secret = |server: &McpServer| first_missing(server, &missing).is_some();
        let must_try = |server: &McpServer| {
            let has_failed =
                server.last_error.is_some() || self.is_blocked(&server.spec) || lacks_secret(server);
            server.listed_at.is_none() || (failed == FailedServers::Retry && has_failed)
        };
        let tried: Vec<&McpServer> = rows.iter().filter(|server| must_try(server)).collect();
        let outcomes = join_all(tried.iter().map(|server| self.contact(server))).await;
        let failures = tried.into_iter().zip(outcomes).filter_map(|(server, outcome)| {
            Some(UnavailableServer {
                server: server.name().to_owned(),
                reason: outcome.err()?.chars().take(MAX_REASON_CHARS).collect(),
                missing_secret: first_missing(server, &missing),
            })
        });
        failures.collect()
    }

    /// Connects to a server, or lists its tools over an open connection whose last use failed. The error
    /// completes a sentence that begins with the name of the server.
    async fn contact(&self, server: &McpServer) -> Result<(), String> {
        let connection = self.up_to_date_connection(server).await;
        let was_connected = connection.is_connected();
        let contact = async {
            let client = self.client(&connection).await?;
            if was_connected && server.last_error.is_some() {
                self.refresh_or_record(&connection, &client).await?;
            }
            Ok(())
        };
        let limit = self.settings().run_start_timeout;
        let outcome = tokio::time::timeout(limit, contact).await;
        outcome.unwrap_or_else(|_| Err(format!("gave no answer within {} seconds", limit.as_secs_f64())))
    }

    /// A server that a call could not use. `reason` completes a sentence that begins with its name.
    pub(super) async fn unavailable_server(&self, server: &McpServer, reason: &str) -> UnavailableServer {
        let missing = self.missing_secrets(server.project, std::slice::from_ref(server)).await;
        UnavailableServer {
            server: server.name().to_owned(),
            reason: reason.chars().take(MAX_REASON_CHARS).collect(),
            missing_secret: first_missing(server, &missing),
        }
    }

    /// The secrets that these servers refer to, and that the project does not have.
    async fn missing_secrets(&self, project: ProjectId, servers: &[McpServer]) -> BTreeSet<String> {
        let needed: BTreeSet<String> =
            servers.iter().flat_map(|server| target::required_secrets(&server.spec)).collect();
        if needed.is_empty() {
            return needed;
        }
        match self.db().read(move |tx| secrets::list(tx, project)).await {
            Ok(present) => {
                let is_missing = |name: &String| !present.iter().any(|secret| secret.name == *name);
                needed.into_iter().filter(is_missing).collect()
            }
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "the secrets of a project could not be read");
                BTreeSet::new()
            }
        }
    }
}

/// The first secret that a server refers to and that is missing.
fn first_missing(server: &McpServer, missing: &BTreeSet<String>) -> Option<String> {
    target::required_secrets(&server.spec).into_iter().find(|name| missing.contains(name))
}
