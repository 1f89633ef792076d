//! The protocol between the server under test and the test: one connection per request, with one line
//! in each direction. A server that cannot reach the test any more exits.

use std::path::{Path, PathBuf};

use emergent_domain::ids::RunId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::agent_scripts::Task;

/// The environment variable that makes the test binary act as the server under test.
pub const ROLE: &str = "EMERGENT_KILL_TEST_SERVER";

/// The configuration of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Role {
    /// The number of the server; a later server has a higher one.
    pub process: usize,
    pub observer: PathBuf,
    pub database: Database,
    /// Whether no other server uses the database, so that leases of dead servers need not expire first.
    pub alone: bool,
    /// How many runs the server drives concurrently.
    pub slots: usize,
    /// The lease of the server, in milliseconds; `None` for the default.
    pub lease_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

/// The requests of a server, and their replies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ServerMessage {
    /// The server drives runs from now on.
    Ready,
    /// The model is called. The reply is the number of the request.
    ObservedRequest(ObservedRequest),
    /// An external tool is called. The reply is a ticket.
    Called {
        process: usize,
        tool: String,
        key: String,
    },
    /// The reply is a [`Start`], as soon as there is one.
    Next,
    Accepted {
        key: String,
        run: RunId,
    },
    /// This many runs have not ended.
    Left {
        process: usize,
        runs: i64,
    },
}

/// A run to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    pub agent: String,
    pub task: Task,
}

/// A request as the model received it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObservedRequest {
    pub process: usize,
    pub run: RunId,
    pub step: i64,
    pub system: String,
    pub turns: Value,
    pub with_tools: bool,
}

/// The result of an external call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub process: usize,
    pub number: u64,
}

/// Sends a message and waits for the reply.
pub async fn say<T: DeserializeOwned>(observer: &Path, message: &ServerMessage) -> T {
    let answer = async {
        let mut stream = UnixStream::connect(observer).await?;
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await?;
        Ok::<T, std::io::Error>(serde_json::from_str(&answer)?)
    };
    match answer.await {
        Ok(answer) => answer,
        // The test has ended, and the server must not outlive it.
        Err(_) => std::process::exit(0),
    }
}
