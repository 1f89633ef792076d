//! The way to `/mcp`: found when something is asked. A data folder is let go again soon after, so
//! that others can have it; a server stays connected.

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;

use crate::{
    client::{Client, LocalDriver, ServerFlags},
    config::StoreFlags,
    error::Result,
};

/// Requests come in bursts: opening the folder for each would be slow, and keeping it rude.
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

#[derive(Clone)]
pub(super) struct ServerConnection(Arc<Inner>);

struct Inner {
    server: ServerFlags,
    store: StoreFlags,
    open: Mutex<Option<OpenConnection>>,
}

struct OpenConnection {
    client: Arc<Client>,
    driver: Option<LocalDriver>,
}

impl ServerConnection {
    pub fn new(server: ServerFlags, store: StoreFlags) -> Self {
        Self(Arc::new(Inner { server, store, open: Mutex::default() }))
    }

    /// Whoever holds the answer keeps the folder. `drives`: what is asked starts a run, which on a
    /// folder nobody but this process can drive.
    pub async fn connect(&self, drives: bool) -> Result<Arc<Client>> {
        let mut open = self.0.open.lock().await;
        let found = match open.as_mut() {
            Some(found) => found,
            None => {
                let client = Arc::new(Client::connect(&self.0.server, &self.0.store).await?);
                if client.is_sole_driver() {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "it ends when the folder is closed, which it does itself when nobody else does"
                    )]
                    tokio::spawn(close_when_idle(self.clone()));
                }
                open.insert(OpenConnection { client, driver: None })
            }
        };
        if drives && found.driver.is_none() {
            found.driver = Some(found.client.drive_runs());
        }
        Ok(Arc::clone(&found.client))
    }

    /// The server that is connected, if there is one; a folder is nobody's to wait on.
    pub async fn connected(&self) -> Option<Arc<Client>> {
        let open = self.0.open.lock().await;
        open.as_ref().map(|open| Arc::clone(&open.client)).filter(|client| !client.is_sole_driver())
    }

    /// The server did not answer: it may be elsewhere by now.
    pub async fn disconnect(&self) {
        self.close().await;
    }

    pub async fn close(&self) {
        let open = self.0.open.lock().await.take();
        if let Some(driver) = open.and_then(|open| open.driver) {
            driver.stop().await;
        }
    }
}

/// Closes the folder once nobody has used it for a moment.
async fn close_when_idle(way: ServerConnection) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        let mut open = way.0.open.lock().await;
        match open.as_ref() {
            None => return,
            Some(held) if Arc::strong_count(&held.client) > 1 => {}
            Some(_) => {
                // Held while the runs are put down: whoever asks now waits, and opens it anew.
                if let Some(driver) = open.take().and_then(|open| open.driver) {
                    driver.stop().await;
                }
                return;
            }
        }
    }
}
