//! `emergent mcp`: the MCP server on stdio, one message a line. Each line is posted to `/mcp`, of a
//! server or of the router in this process on the data folder; what comes back is printed. The
//! protocol is spoken in one place, and this only carries.
//!
//! Clients start such a process to see what it is and kill it at once, and people have several
//! clients on one folder. So nothing is opened before something is asked, and the folder is let go
//! as soon as nothing is.

mod bridge;
mod connection;
mod stdio;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_mcp::message::{Kind, Message};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use self::{
    bridge::{Bridge, error_text},
    connection::ServerConnection,
    stdio::{Line, Printer, standard_input},
};
use crate::{client::ServerFlags, config::StoreFlags, error::Result};

/// What is under way when the client closes its end may still be answered for so long.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Requests that are being answered, by their id as it was sent.
type RunningRequests = Arc<Mutex<HashMap<String, AbortHandle>>>;

pub async fn run(server: &ServerFlags, store: &StoreFlags) -> Result<()> {
    let printer = Printer::standard_output()?;
    let way = ServerConnection::new(server.clone(), store.clone());
    let carrier = Arc::new(Bridge::new(way.clone(), printer.clone()));
    let (running, mut tasks) = (RunningRequests::default(), JoinSet::new());
    let mut lines = standard_input()?;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            // The client does not read any more.
            () = printer.closed() => break,
        };
        while tasks.try_join_next().is_some() {}
        match line {
            None => break,
            Some(Line::TooLong) => {
                printer.print(&error_text(None, "this line is longer than a message may be")).await
            }
            Some(Line::Text(text)) => handle_line(&carrier, &printer, &running, &mut tasks, text).await,
        }
    }
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    way.close().await;
    // A client that reads nothing any more is not waited for.
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, printer.flush()).await;
    Ok(())
}

/// One message. Requests are answered side by side; the order of the rest is kept.
async fn handle_line(
    carrier: &Arc<Bridge>,
    printer: &Printer,
    running: &RunningRequests,
    tasks: &mut JoinSet<()>,
    text: String,
) {
    let message = match Message::parse(text.as_bytes()) {
        Ok(message) => message,
        Err(error) => return printer.print(&bridge::rpc_error_text(None, &error)).await,
    };
    let (kind, id) = (message.kind(), message.id.map(|id| id.get().to_owned()));
    if let Some(taken_back) = bridge::cancelled_id(&message) {
        // Dropping a request cancels it, in both eras.
        if let Some(request) = running.lock().remove(&taken_back) {
            request.abort();
        }
        return;
    }
    let waits = message.method.as_deref() == Some("initialize");
    let (carrier, done) = (Arc::clone(carrier), Arc::clone(running));
    match (kind, id) {
        (Kind::Request, Some(id)) if !waits => {
            let key = id.clone();
            // Held while it starts, so that it cannot be done before it is noted.
            let mut noted = running.lock();
            let task = tasks.spawn(async move {
                carrier.forward(&text).await;
                done.lock().remove(&id);
            });
            noted.insert(key, task);
        }
        // A handshake has to be through before anything that follows it.
        _ => carrier.forward(&text).await,
    }
}
