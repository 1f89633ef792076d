//! Closes the connection of a server when one of its secrets gets a new value or is deleted. A connection has the values
//! of its secrets from when it was made, so it would use the old ones for as long as it lives. The new connection also
//! has a new circuit breaker: a server that refused the old value is asked at once with the new one.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{mcp_server::McpServer, time::Timestamp};
use emergent_store::secrets;
use tracing::{info, warn};

use super::{McpServers, connection::ServerConnection, target};

/// The version of each secret that a server refers to, and since when it is the current one. A secret that was deleted
/// and set again has the version 1 again.
pub type SecretVersions = BTreeMap<String, (i64, Timestamp)>;

impl McpServers {
    /// The connection of this version of a server, with its secrets as they are now.
    pub(super) async fn up_to_date_connection(&self, server: &McpServer) -> Arc<ServerConnection> {
        let connection = self.connection(server);
        match self.close_if_secrets_changed(&connection).await {
            true => self.connection(server),
            false => connection,
        }
    }

    /// Closes a connection if a secret of its server changed since the connection was first used. Returns whether it
    /// did.
    pub(super) async fn close_if_secrets_changed(&self, connection: &Arc<ServerConnection>) -> bool {
        let Some(current) = self.secret_versions(&connection.server).await else { return false };
        let is_changed = {
            let mut known = connection.secret_versions.lock();
            *known.get_or_insert_with(|| current.clone()) != current
        };
        if !is_changed {
            return false;
        }
        let name = connection.server.name();
        info!(server = name, "a secret of the MCP server `{name}` changed, so its connection is closed");
        {
            let mut connections = self.0.connections.lock();
            let id = connection.server.id;
            if connections.get(&id).is_some_and(|one| Arc::ptr_eq(one, connection)) {
                connections.remove(&id);
            }
        }
        connection.close().await;
        true
    }

    /// Closes the connections with secrets that changed, also if nobody uses them: a program should not keep a value
    /// that was deleted.
    pub(super) async fn close_with_old_secrets(&self) {
        let connections: Vec<_> = self.0.connections.lock().values().cloned().collect();
        for connection in connections {
            self.close_if_secrets_changed(&connection).await;
        }
    }

    /// The current versions of the secrets that a server refers to; `None` if it refers to none, or if they cannot be
    /// read.
    async fn secret_versions(&self, server: &McpServer) -> Option<SecretVersions> {
        let needed = target::required_secrets(&server.spec);
        if needed.is_empty() {
            return None;
        }
        let project = server.project;
        match self.db().read(move |tx| secrets::list(tx, project)).await {
            Ok(rows) => {
                let rows = rows.into_iter().filter(|row| needed.contains(&row.name));
                Some(rows.map(|row| (row.name, (row.version, row.updated_at))).collect())
            }
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "the secrets of a project could not be read");
                None
            }
        }
    }
}
