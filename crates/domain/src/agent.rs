//! Agents: the content of an agent definition. The rules that validate it are in `check`.

mod acp;
mod check;
mod delegation;
mod flow;
mod flow_model;
mod maker;
mod memory;
mod model;
mod output;
mod remote;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    approval::ApprovalRule,
    author::Author,
    ids::{AgentId, ProjectId},
    time::Timestamp,
};

pub use acp::{AcpConfig, AnswerAs};
pub use check::{AvailableNames, ShownNames, config_size_problem, is_valid_name};
pub(crate) use check::{Suggestions, json_has_nul, unknown_name};
pub use flow::{FlowConfig, FlowType, MAX_ITERATIONS, Until, UntilRule};
pub use flow_model::calls_no_model;
pub use maker::{AgentChange, MissingScope, ToolScopes};
pub use model::{ModelConfig, PROVIDER_RULE, WrittenModel, resolve_provider};
pub use remote::REMOTE_AGENT_PROVIDER;

/// An agent of a project. Every change creates a new version; a run uses the version that was
/// current when it started.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub id: AgentId,
    pub project: ProjectId,
    pub version: i64,
    pub definition: AgentDefinition,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// One version of an agent's definition, with its author.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentVersion {
    pub version: i64,
    pub definition: AgentDefinition,
    pub created_at: Timestamp,
    pub author: Author,
}

/// The configuration of an agent. The field names are those of a product manifest (snake_case), and
/// unknown fields are rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDefinition {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub system_prompt: String,
    /// If absent, the server uses the model of the setting `EMERGENT_MODEL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelConfig>,
    /// Names and glob patterns of tools. An empty list means that the agent has no tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// If absent, the agent is started by hand only. Otherwise an event name such as
    /// `on_document_ingested`, or a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    #[serde(default)]
    pub flow_type: FlowType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_config: Option<FlowConfig>,
    #[serde(default)]
    pub is_default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The timeout of a run in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_timeout: Option<u32>,
    #[serde(default)]
    pub visibility: Visibility,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp: Option<AcpConfig>,
    /// Which tool calls a person has to approve. The first rule that matches a call decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalRule>,
    /// The JSON schema that the final answer must match. The answer is then also returned as a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The product that installed the agent. None if the project defined the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
}

impl AgentDefinition {
    /// Returns a definition that has only a name, with the default for every other field.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            system_prompt: String::new(),
            model: None,
            tools: Vec::new(),
            trigger: None,
            flow_type: FlowType::Single,
            flow_config: None,
            is_default: false,
            max_steps: None,
            default_timeout: None,
            visibility: Visibility::Project,
            acp: None,
            approvals: Vec::new(),
            output_schema: None,
            config: Map::new(),
            product: None,
        }
    }
}

macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),*
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),*
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use string_enum;

string_enum! {
    /// Where an agent is listed, and who can start it.
    #[derive(Default)]
    Visibility {
        External = "external",
        #[default]
        Project = "project",
        Internal = "internal",
    }
}

/// Chooses the agent that answers when a request names none. An external agent marked as default
/// takes precedence over other default agents.
pub fn default_agent<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> Option<&'a Agent> {
    let rank = |agent: &Agent| match agent.definition.visibility {
        Visibility::External => 0,
        Visibility::Project => 1,
        Visibility::Internal => 2,
    };
    agents
        .into_iter()
        .filter(|agent| agent.definition.is_default)
        .min_by_key(|agent| (rank(agent), agent.created_at))
}

#[cfg(test)]
mod tests;
