//! The [`Tool`] trait, and the types of its description, context, output and errors.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    ids::{ProjectId, RunId},
    json::Schema,
    token::Scope,
};
use emergent_graph::{Graph, WriteContext, judged_names::JudgedNames};
use emergent_mcp::client::CallInput;
use emergent_store::Tx;
use serde_json::Value;

use crate::CallReporter;

/// The description of a tool, for models and for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// The tool's own name. A run may call it by another one, see [`crate::ToolSet`].
    pub name: String,
    /// The MCP server that has the tool; `None` for a built-in tool.
    pub server: Option<String>,
    /// What the tool does, worded for a model.
    pub description: Arc<str>,
    /// JSON schema of the input, as a model gets it. All runs that have the tool share one copy.
    pub input_schema: Schema,
    pub effect: Effect,
    /// The scope that an API or MCP client needs to call the tool; `None`: only agents can call it.
    pub scope: Option<Scope>,
}

/// What a tool call changes. It decides whether a call with an unknown outcome may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing: the call may run concurrently with others, and may be repeated.
    Reads,
    /// Changes the graph in the transaction that records the call, so exactly once.
    Writes { destructive: bool },
    /// Acts outside of this server. After a crash, the call is repeated only if it is read-only or
    /// idempotent.
    External { read_only: bool, idempotent: bool },
    /// Starts, reads or controls other runs. The executor implements these tools.
    Coordinates,
    /// Asks a person, and waits for the answer. The executor implements this tool.
    Asks,
}

/// Who makes a tool call. The tool has access to the data of this project only.
#[derive(Clone)]
pub struct ToolContext {
    pub graph: Graph,
    pub project: ProjectId,
    /// The run that makes the call; `None` for an API or MCP client.
    pub run: Option<RunId>,
    /// The position of the call in the record of the run, which is the same whenever the call is repeated.
    pub call: Option<i64>,
    /// Who is asked if an external server requests input during the call. `None` if there is nobody: such requests
    /// are declined.
    pub input: Option<CallInput>,
    /// Who hears what a call to another system waits for. `None` if no run makes the call.
    pub reporter: Option<CallReporter>,
    /// Whether whoever makes the call may read the graph. A run reads with the tools that it was given.
    pub may_read: bool,
    /// What the names in the input meant when rules or a person decided that the call may be made; empty if nobody decided.
    /// A change gets them with its transaction.
    pub judged: Arc<[JudgedNames]>,
}

impl ToolContext {
    pub fn new(graph: Graph, project: ProjectId, run: Option<RunId>) -> Self {
        Self {
            graph,
            project,
            run,
            call: None,
            input: None,
            reporter: None,
            may_read: true,
            judged: Arc::default(),
        }
    }
}

/// What a tool returns.
pub enum ToolOutput {
    /// The result of a finished call.
    Answer(Value),
    /// The result of a call to an external server that returned more than text: as a model gets it, and as
    /// the server sent it.
    External { answer: Value, content: ExternalContent },
    /// A change that the caller has to run in its transaction.
    Change(GraphChange),
}

/// What an external server returned, for clients that show images and follow links themselves. It is redacted
/// and limited in size.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalContent {
    /// The content blocks of MCP.
    pub blocks: Vec<Value>,
    pub structured: Option<Value>,
}

/// Changes the graph and returns the result of the call. It may run more than once, because a transaction
/// may be retried.
pub type GraphChange = Box<dyn Fn(&mut Tx<'_>, &WriteContext) -> emergent_graph::Result<Value> + Send + Sync>;

/// Why a tool call failed. The message is written for the model.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The call cannot succeed as it was made; the message says how to correct it.
    #[error("{0}")]
    Refused(String),
    /// The server or a service it depends on failed, or is not available. The run continues, and the model gets only
    /// this message.
    #[error("the call failed: {0}")]
    Failed(String),
}

impl From<emergent_graph::Error> for ToolError {
    fn from(error: emergent_graph::Error) -> Self {
        match error {
            emergent_graph::Error::Store(error) => Self::from_store(&error),
            emergent_graph::Error::Embedding(error) => Self::Failed(format!("no vectors: {error}")),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl ToolError {
    /// Tells the model what it can do about an error of the database.
    fn from_store(error: &emergent_store::Error) -> Self {
        use emergent_store::Error as StoreError;
        match error {
            // The same query would take as long again.
            StoreError::TooSlow { limit } => Self::Refused(format!(
                "the query took longer than the limit of {} seconds and was stopped: ask for less at once, with \
                 narrower conditions, fewer rows or a smaller depth",
                limit.as_secs_f32()
            )),
            StoreError::TooLarge { .. } => Self::Refused(format!("{error}: ask for less at once")),
            StoreError::Busy { .. } | StoreError::TooManyRows { .. } => {
                Self::Failed(format!("{error}; try again in a few seconds"))
            }
            _ => {
                tracing::error!(error = %error, "a tool's database access failed");
                Self::Failed("the database did not answer".into())
            }
        }
    }
}

/// A tool that agents and clients can call, built-in or of an external MCP server.
#[async_trait]
pub trait Tool: Send + Sync {
    fn info(&self) -> &ToolInfo;

    /// The schema that inputs are validated against. It may have details that the offered schema
    /// leaves out, such as the length of a text, because every model call pays for the offered one.
    fn checked_schema(&self) -> &Schema {
        &self.info().input_schema
    }

    /// The digest of the definition of an external tool, as the run got it. A person who approves a call
    /// approves it for this definition. `None` for a built-in tool.
    fn definition_digest(&self) -> Option<&str> {
        None
    }

    /// Whether the tool is on an external server that marks it as destructive.
    fn is_marked_destructive(&self) -> bool {
        false
    }

    /// The time limit of a call; `None`: the guard's default.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Executes the call, or prepares its [`GraphChange`]. The input has been validated against
    /// [`Tool::checked_schema`].
    async fn call(&self, context: &ToolContext, input: Value) -> Result<ToolOutput, ToolError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_which_limit_of_the_database_it_reached() {
        let told =
            |error: emergent_store::Error| ToolError::from(emergent_graph::Error::from(error)).to_string();
        let slow = told(emergent_store::Error::TooSlow { limit: Duration::from_millis(2_500) });
        assert!(slow.contains("2.5 seconds") && slow.contains("less at once"), "{slow}");
        let busy = told(emergent_store::Error::Busy { waited: Duration::from_secs(10) });
        assert!(busy.contains("within 10 seconds") && busy.contains("try again"), "{busy}");
        assert!(told(emergent_store::Error::Broken).contains("did not answer"), "details are for the log");
    }
}
