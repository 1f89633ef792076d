//! `emergent mcp`: the MCP server on stdio, one message per line. Each line is posted to `/mcp` of a server,
//! or of the router in this process on the data folder, and the response is printed. The protocol itself is
//! implemented only behind `/mcp`.
//!
//! Some clients start this process only to probe it, and several clients may use one data folder. So the
//! folder is opened at the first request, and closed when no request has used it for a moment.

mod bridge;
mod connection;
pub(super) mod stdio;

use std::{collections::HashMap, io::IsTerminal, sync::Arc, time::Duration};

use emergent_mcp::message::{Kind, Message};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use self::{
    bridge::{Bridge, error_text},
    connection::ServerConnection,
    stdio::{Line, Printer, standard_input},
};
use crate::{client::ServerFlags, config::StoreFlags, error::Result, output};

/// How long running requests, and then unprinted responses, may take after the client has closed its input.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How a client is told to start this program, for the help.
pub const CLIENT_CONFIGURATION: &str = r#"In the configuration of a client:
  { "mcpServers": { "emergent": {
      "command": "emergent", "args": ["mcp", "--data-dir", "/home/me/data"] } } }"#;

/// Running requests, by their JSON-RPC id as it was sent.
type RunningRequests = Arc<Mutex<HashMap<String, AbortHandle>>>;

/// Serves standard input until it is closed.
pub async fn run(server: &ServerFlags, store: &StoreFlags) -> Result<()> {
    if std::io::stdin().is_terminal() {
        output::print_notice(
            "This waits for an MCP client on standard input; see docs/mcp.md. Ctrl-C ends it.",
        );
    }
    let printer = Printer::standard_output()?;
    let connection = ServerConnection::new(server.clone(), store.clone());
    let bridge = Arc::new(Bridge::new(connection.clone(), printer.clone()));
    let (running, mut tasks) = (RunningRequests::default(), JoinSet::new());
    let mut lines = standard_input()?;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            // The client has closed standard output.
            () = printer.closed() => break,
        };
        // Completed tasks are removed, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        match line {
            None => break,
            Some(Line::TooLong) => {
                printer.print(&error_text(None, "the line is longer than a message may be")).await
            }
            Some(Line::Text(text)) => handle_line(&bridge, &printer, &running, &mut tasks, text).await,
        }
    }
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    connection.close().await;
    // A client that no longer reads its output must not keep this process alive.
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, printer.flush()).await;
    Ok(())
}

/// Handles one message. Requests run concurrently, except `initialize`; other messages are forwarded in
/// order.
async fn handle_line(
    bridge: &Arc<Bridge>,
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
    if let Some(cancelled) = bridge::cancelled_id(&message) {
        // Dropping the HTTP request cancels it on the server, in every version of the protocol.
        if let Some(request) = running.lock().remove(&cancelled) {
            request.abort();
        }
        return;
    }
    let is_initialize = message.method.as_deref() == Some("initialize");
    let (bridge, running_requests) = (Arc::clone(bridge), Arc::clone(running));
    match (kind, id) {
        (Kind::Request, Some(id)) if !is_initialize => {
            let key = id.clone();
            // The lock is held while the task starts, so that the task cannot remove its entry before it is
            // inserted.
            let mut requests = running.lock();
            let task = tasks.spawn(async move {
                bridge.forward(&text).await;
                running_requests.lock().remove(&id);
            });
            requests.insert(key, task);
        }
        // A handshake has to complete before the messages that follow it.
        _ => bridge.forward(&text).await,
    }
}
