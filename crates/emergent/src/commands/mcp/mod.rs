//! `emergent mcp`: the MCP server on stdio, one message a line. Each line is posted to `/mcp`, of a
//! server or of the router in this process on the data folder; what comes back is printed. The
//! protocol is spoken in one place, and this only carries.
//!
//! Clients start such a process to see what it is and kill it at once, and people have several
//! clients on one folder. So nothing is opened before something is asked, and the folder is let go
//! as soon as nothing is.

mod carry;
mod lines;
mod way;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_mcp::message::{Kind, Message};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use self::{
    carry::{Carrier, refusal},
    lines::{Line, Printer, standard_input},
    way::Way,
};
use crate::{client::ServerFlags, config::StoreFlags, error::Result};

/// What is under way when the client closes its end may still be answered for so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Requests that are being answered, by their id as it was sent.
type Running = Arc<Mutex<HashMap<String, AbortHandle>>>;

pub async fn run(server: &ServerFlags, store: &StoreFlags) -> Result<()> {
    let printer = Printer::standard_output();
    let way = Way::new(server.clone(), store.clone());
    let carrier = Arc::new(Carrier::new(way.clone(), printer.clone()));
    let (running, mut tasks) = (Running::default(), JoinSet::new());
    let mut lines = standard_input();
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
                printer.print(&refusal(None, "this line is longer than a message may be")).await
            }
            Some(Line::Text(text)) => take(&carrier, &printer, &running, &mut tasks, text).await,
        }
    }
    let _ = tokio::time::timeout(LAST_WORDS, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    way.close().await;
    // A client that reads nothing any more is not waited for.
    let _ = tokio::time::timeout(LAST_WORDS, printer.flush()).await;
    Ok(())
}

/// One message. Requests are answered side by side; the order of the rest is kept.
async fn take(
    carrier: &Arc<Carrier>,
    printer: &Printer,
    running: &Running,
    tasks: &mut JoinSet<()>,
    text: String,
) {
    let message = match Message::parse(text.as_bytes()) {
        Ok(message) => message,
        Err(error) => return printer.print(&carry::error(None, &error)).await,
    };
    let (kind, id) = (message.kind(), message.id.map(|id| id.get().to_owned()));
    if let Some(taken_back) = carry::taken_back(&message) {
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
                carrier.carry(&text).await;
                done.lock().remove(&id);
            });
            noted.insert(key, task);
        }
        // A handshake has to be through before anything that follows it.
        _ => carrier.carry(&text).await,
    }
}
