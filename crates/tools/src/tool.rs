//! What a tool is.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    ids::{ProjectId, RunId},
    json::Schema,
    token::Scope,
};
use emergent_graph::{Graph, WriteContext};
use emergent_store::Tx;
use serde_json::Value;

/// A tool as it is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// The canonical name.
    pub name: String,
    /// The server it comes from; `None` for the built-in ones.
    pub server: Option<String>,
    /// Written for a model.
    pub description: Arc<str>,
    /// JSON schema of the input, as a model gets it. Every run that has the tool shares it.
    pub input_schema: Schema,
    pub effect: Effect,
    /// What a caller from outside needs to use it; `None`: agents only.
    pub scope: Option<Scope>,
}

/// What a call does to the world, and so what may be done with a call whose fate is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing: may run beside others, and again.
    Reads,
    /// Changes the graph, in the transaction of its record: happens once.
    Writes { destructive: bool },
    /// Does something elsewhere. Repeated after a crash only when it says that it may be.
    External { read_only: bool, idempotent: bool },
    /// Starts or looks at other agents: the executor's own business.
    Coordinates,
}

/// Where a call is made from. The project is the only one the tool can see.
#[derive(Clone)]
pub struct ToolContext {
    pub graph: Graph,
    pub project: ProjectId,
    /// The run that calls; `None` for a client from outside.
    pub run: Option<RunId>,
}

/// What a call came to.
pub enum ToolOutput {
    Answer(Value),
    /// To be run in the caller's transaction.
    Change(GraphChange),
}

/// A change to the graph and the answer it gives. May run more than once, as every transaction may.
pub type GraphChange = Box<dyn Fn(&mut Tx<'_>, &WriteContext) -> emergent_graph::Result<Value> + Send + Sync>;

/// Why a call did not work, worded for the model: it should know how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model can mend this.
    #[error("{0}")]
    Refused(String),
    /// The server's own trouble; the run goes on, and the model hears only this much.
    #[error("the tool failed for a reason of its own: {0}")]
    Failed(String),
}

impl From<emergent_graph::Error> for ToolError {
    fn from(error: emergent_graph::Error) -> Self {
        match error {
            emergent_graph::Error::Store(error) => {
                tracing::error!(error = %error, "a tool's database access failed");
                Self::Failed("the database did not answer".into())
            }
            emergent_graph::Error::Embedding(error) => Self::Failed(format!("no vectors: {error}")),
            other => Self::Refused(other.to_string()),
        }
    }
}

#[async_trait]
pub trait Tool: Send + Sync {
    fn info(&self) -> &ToolInfo;

    /// The schema that inputs are checked against. It may say more than the one that the tool is
    /// offered with, such as the length of a text: a model would pay for that with every call.
    fn checked_schema(&self) -> &Schema {
        &self.info().input_schema
    }

    /// How long a call may take; `None`: as long as any.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Does it, or prepares it. The input has been checked against the schema.
    async fn call(&self, context: &ToolContext, input: Value) -> Result<ToolOutput, ToolError>;
}
