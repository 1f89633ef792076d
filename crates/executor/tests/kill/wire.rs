//! What the server under test and the test say to each other: a connection for each question, a
//! line there, a line back. A server that finds nobody there any more ends.

use std::path::{Path, PathBuf};

use emergent_domain::ids::RunId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::agent_scripts::Task;

/// The environment variable that makes the test binary the server it tests.
pub const ROLE: &str = "EMERGENT_KILL_TEST_SERVER";

/// How a server is told what to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Role {
    /// Its number; a server that starts later has a higher one.
    pub process: usize,
    pub desk: PathBuf,
    pub database: Database,
    /// Nobody else is at the database: the leases of the dead need not lapse.
    pub alone: bool,
    /// How many runs it drives at once.
    pub places: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

/// What a server says, and what it is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Told {
    /// It drives runs from now on.
    Ready,
    /// The model is asked. Answered with the number of the request.
    Asked(Asked),
    /// A tool outside is called. Answered with a ticket.
    Called {
        process: usize,
        tool: String,
        key: String,
    },
    /// Answered with a [`Start`], when there is one.
    Next,
    Accepted {
        key: String,
        run: RunId,
    },
    /// So many runs have not ended.
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

/// A request as the model got it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asked {
    pub process: usize,
    pub run: RunId,
    pub step: i64,
    pub system: String,
    pub turns: Value,
    pub with_tools: bool,
}

/// What a call outside came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub process: usize,
    pub number: u64,
}

/// Says something and waits for the answer.
pub async fn say<T: DeserializeOwned>(desk: &Path, told: &Told) -> T {
    let answer = async {
        let mut stream = UnixStream::connect(desk).await?;
        let mut line = serde_json::to_string(told)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await?;
        Ok::<T, std::io::Error>(serde_json::from_str(&answer)?)
    };
    match answer.await {
        Ok(answer) => answer,
        // The test is over; a server that outlived it would be nobody's.
        Err(_) => std::process::exit(0),
    }
}
