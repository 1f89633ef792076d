//! The connection of `emergent mcp` to `/mcp`, opened at the first request. A data folder is closed again
//! soon after the last request, so that other processes can use it; a server stays connected.

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;

use crate::{
    client::{Client, DataAccess, LocalDriver, ServerFlags},
    config::StoreFlags,
    error::Result,
};

/// How long the data folder stays open without a request. Requests come in bursts, and opening the folder for
/// each would be slow.
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

/// A connection that is shared by all requests.
#[derive(Clone)]
pub(super) struct ServerConnection(Arc<Inner>);

struct Inner {
    server: ServerFlags,
    store: StoreFlags,
    open: Mutex<Option<OpenConnection>>,
}

struct OpenConnection {
    client: Arc<Client>,
    /// Drives the runs that were started on a data folder.
    driver: Option<LocalDriver>,
}

impl ServerConnection {
    pub fn new(server: ServerFlags, store: StoreFlags) -> Self {
        Self(Arc::new(Inner { server, store, open: Mutex::default() }))
    }

    /// Connects if needed. A data folder stays open while a returned client exists. `starts_run` says that
    /// the request starts a run, which on a data folder only this process can drive.
    pub async fn connect(&self, starts_run: bool) -> Result<Arc<Client>> {
        let mut open = self.0.open.lock().await;
        let connection = match open.as_mut() {
            Some(connection) => connection,
            None => {
                let client =
                    Arc::new(Client::connect(&self.0.server, &self.0.store, DataAccess::Create).await?);
                if client.is_sole_driver() {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the task ends when the folder is closed, which it does itself when idle"
                    )]
                    tokio::spawn(close_when_idle(self.clone()));
                }
                open.insert(OpenConnection { client, driver: None })
            }
        };
        if starts_run && connection.driver.is_none() {
            connection.driver = Some(connection.client.drive_runs());
        }
        Ok(Arc::clone(&connection.client))
    }

    /// The client of a connected server; `None` without a connection, or with an open data folder.
    pub async fn connected(&self) -> Option<Arc<Client>> {
        let open = self.0.open.lock().await;
        open.as_ref().map(|open| Arc::clone(&open.client)).filter(|client| !client.is_sole_driver())
    }

    /// Drops a connection to a server that does not respond: the next request looks for a server again.
    pub async fn disconnect(&self) {
        self.close().await;
    }

    /// Closes the connection and stops driving runs.
    pub async fn close(&self) {
        let open = self.0.open.lock().await.take();
        if let Some(driver) = open.and_then(|open| open.driver) {
            driver.stop().await;
        }
    }
}

/// Closes the data folder once no request uses it.
async fn close_when_idle(connection: ServerConnection) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        let mut open = connection.0.open.lock().await;
        match open.as_ref() {
            None => return,
            Some(current) if Arc::strong_count(&current.client) > 1 => {}
            Some(_) => {
                // The lock is held while the driver stops: a request that comes now waits, then opens the
                // folder again.
                if let Some(driver) = open.take().and_then(|open| open.driver) {
                    driver.stop().await;
                }
                return;
            }
        }
    }
}
