//! The types of a manifest. Field names are snake_case, and unknown fields are rejected. The schema
//! defines the allowed values, and [`crate::validate`] the rules across several fields.

use std::{collections::BTreeMap, sync::LazyLock};

use emergent_domain::{
    agent::{self, AcpConfig, AgentDefinition, FlowConfig, FlowType, ModelConfig, Visibility, WrittenModel},
    approval::ApprovalRule,
    mcp_server::ServerSpec,
    pack::TemplatePack,
    prompt::Prompt,
    stored_json,
    trigger::{EventConfig, EventKind, ScheduleConfig, Trigger},
    workflow_template::WorkflowTemplate,
};
use emergent_executor::triggers::WorkflowTriggerSpec;
use semver::Version;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{problem::ManifestProblem, readable};

/// The provider of a model in a manifest that was installed before the name had to tell the provider.
const DEFAULT_PROVIDER: &str = "google";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// For editors only.
    #[serde(rename = "$schema", default)]
    pub schema: Option<String>,
    pub name: String,
    pub version: Version,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub author: String,
    #[serde(default)]
    pub license: String,
    #[serde(default)]
    pub repository: String,
    #[serde(default)]
    pub min_core_version: Option<Version>,
    #[serde(default)]
    pub template_packs: Vec<TemplatePack>,
    #[serde(default)]
    pub agents: Vec<ManifestAgent>,
    #[serde(default)]
    pub jobs: Vec<ManifestJob>,
    #[serde(default)]
    pub mcp: ManifestMcp,
    #[serde(default)]
    pub a2a: ManifestA2a,
    /// The original JSON. It is stored, and the pointers of problems refer to it.
    #[serde(skip)]
    pub raw: Value,
    /// What is wrong with it. A manifest with problems is never installed.
    #[serde(skip)]
    pub problems: Vec<ManifestProblem>,
    /// The pointers to the parts that cannot be read, and for which placeholders stand. Each is among the problems.
    #[serde(skip)]
    pub unread: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestAgent {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub system_prompt: String,
    #[serde(default)]
    pub model: Option<ManifestModel>,
    #[serde(default)]
    pub temperature: Option<f64>,
    #[serde(default)]
    pub max_tokens: Option<u32>,
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default)]
    pub trigger: Option<String>,
    #[serde(default)]
    pub flow_type: FlowType,
    #[serde(default)]
    pub flow_config: Option<FlowConfig>,
    #[serde(default)]
    pub is_default: bool,
    #[serde(default)]
    pub max_steps: Option<u32>,
    #[serde(default)]
    pub default_timeout: Option<u32>,
    #[serde(default)]
    pub visibility: Visibility,
    #[serde(default)]
    pub acp: Option<AcpConfig>,
    #[serde(default)]
    pub approvals: Vec<ApprovalRule>,
    #[serde(default)]
    pub output_schema: Option<Value>,
    #[serde(default)]
    pub config: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "WrittenModel<ModelFields>")]
pub struct ManifestModel {
    pub provider: Option<String>,
    pub name: String,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
}

/// A model that a manifest has as an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFields {
    #[serde(default)]
    provider: Option<String>,
    name: String,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    max_tokens: Option<u32>,
}

impl From<WrittenModel<ModelFields>> for ManifestModel {
    fn from(model: WrittenModel<ModelFields>) -> Self {
        match model {
            WrittenModel::Name(model) => {
                let ModelConfig { provider, name, temperature, max_tokens } = model;
                Self { provider: Some(provider), name, temperature, max_tokens }
            }
            WrittenModel::Fields(ModelFields { provider, name, temperature, max_tokens }) => {
                Self { provider, name, temperature, max_tokens }
            }
        }
    }
}

impl ManifestModel {
    /// Returns the provider. A manifest is installed only if the provider is given or follows from the name; those
    /// that were installed before this rule have the default.
    fn provider(&self) -> String {
        let provider = agent::resolve_provider(self.provider.clone(), &self.name);
        provider.unwrap_or_else(|_| DEFAULT_PROVIDER.to_owned())
    }
}

/// Starts an agent on a schedule, or a workflow on a schedule or at an event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestJob {
    pub name: String,
    /// Empty if the job has an event.
    #[serde(default)]
    pub cron: String,
    /// The event at which the job starts a workflow, such as `on_document_ingested`.
    #[serde(default)]
    pub event: Option<EventKind>,
    /// Empty if the job starts a workflow.
    #[serde(default)]
    pub agent: String,
    /// The workflow to start instead of an agent.
    #[serde(default)]
    pub dispatch: Option<WorkflowTemplate>,
    /// The settings of the schedule.
    #[serde(default)]
    pub config: ScheduleConfig,
    /// The settings of the event.
    #[serde(default)]
    pub event_config: EventConfig,
}

impl ManifestJob {
    /// The trigger of a job that starts a workflow; `None` if it starts an agent, or its times are wrong.
    pub fn workflow_trigger(&self) -> Option<WorkflowTriggerSpec> {
        let dispatch = self.dispatch.clone()?;
        let (trigger, config) = match self.event {
            Some(event) => (Trigger::Event(event), serde_json::to_value(&self.event_config)),
            None => (Trigger::Cron(self.cron.parse().ok()?), serde_json::to_value(&self.config)),
        };
        let config = config.unwrap_or_default();
        Some(WorkflowTriggerSpec { name: self.name.clone(), trigger, config, dispatch })
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifestMcp {
    pub servers: Vec<ServerSpec>,
    pub prompts: Vec<Prompt>,
    /// The glob patterns that select which tools of these servers the project can use.
    pub tool_filter: Vec<String>,
}

/// The filter that every tool passes.
fn all_tools() -> &'static [String] {
    static ALL: LazyLock<[String; 1]> = LazyLock::new(|| ["*".to_owned()]);
    ALL.as_slice()
}

impl Default for ManifestMcp {
    fn default() -> Self {
        Self { servers: Vec::new(), prompts: Vec::new(), tool_filter: vec!["*".to_owned()] }
    }
}

/// The agents of other systems that the product uses.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifestA2a {
    pub agents: Vec<ManifestRemoteAgent>,
}

/// An agent of another system: a server whose transport is A2A.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RemoteAgentFields")]
pub struct ManifestRemoteAgent(pub ServerSpec);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoteAgentFields {
    name: String,
    #[serde(default)]
    description: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl From<RemoteAgentFields> for ManifestRemoteAgent {
    fn from(agent: RemoteAgentFields) -> Self {
        let RemoteAgentFields { name, description, url, headers, env } = agent;
        Self(ServerSpec::A2a { name, description, url, headers, env })
    }
}

/// A server of a manifest, with its place in it and the filter of its tools.
#[derive(Debug, Clone)]
pub struct ManifestServer<'a> {
    pub spec: &'a ServerSpec,
    pub pointer: String,
    pub tool_filter: &'a [String],
}

impl Manifest {
    /// Whether nothing can be said about the value at a pointer, because it could not be read, or what it is a part of.
    pub fn is_unread(&self, pointer: &str) -> bool {
        readable::is_unread(&self.unread, pointer)
    }

    /// Returns the external servers: the MCP servers, and the agents of other systems.
    pub fn servers(&self) -> impl Iterator<Item = ManifestServer<'_>> {
        let mcp = self.mcp.servers.iter().enumerate().map(|(index, spec)| ManifestServer {
            spec,
            pointer: format!("/mcp/servers/{index}"),
            tool_filter: &self.mcp.tool_filter,
        });
        let agents = self.a2a.agents.iter().enumerate().map(|(index, agent)| ManifestServer {
            spec: &agent.0,
            pointer: format!("/a2a/agents/{index}"),
            // The filter is about the tools of MCP servers. An agent is one tool.
            tool_filter: all_tools(),
        });
        mcp.chain(agents)
    }

    /// Returns the output schemas of agents and of tasks, with their fields.
    pub fn output_schemas(&self) -> Vec<(String, Value)> {
        let agents = self.agents.iter().enumerate().filter_map(|(index, agent)| {
            Some((format!("agents[{index}].output_schema"), agent.output_schema.clone()?))
        });
        let dispatches = self.jobs.iter().filter_map(|job| job.dispatch.as_ref());
        let tasks = dispatches.flat_map(|dispatch| dispatch.tasks.iter().flatten());
        let tasks = tasks.filter_map(|task| Some(("jobs".to_owned(), task.output_schema.clone()?)));
        agents.chain(tasks).collect()
    }

    /// Parses a stored manifest, which was validated when it was installed. Returns `None` if this
    /// version of the server can no longer read it. Manual changes cannot be detected then.
    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let raw: Value = stored_json::from_str(text).ok()?;
        let manifest: Self = serde_json::from_value(raw.clone()).ok()?;
        Some(Self { raw, ..manifest })
    }

    /// Returns the agents as definitions, in order.
    pub fn definitions(&self) -> impl Iterator<Item = AgentDefinition> + '_ {
        self.agents.iter().map(|agent| agent.definition(&self.name))
    }
}

impl ManifestAgent {
    pub fn definition(&self, product: &str) -> AgentDefinition {
        let model = self.model.as_ref().map(|model| ModelConfig {
            provider: model.provider(),
            name: model.name.clone(),
            temperature: model.temperature.or(self.temperature),
            max_tokens: model.max_tokens.or(self.max_tokens),
        });
        AgentDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            system_prompt: self.system_prompt.clone(),
            model,
            tools: self.tools.clone(),
            trigger: self.trigger.clone(),
            flow_type: self.flow_type,
            flow_config: self.flow_config.clone(),
            is_default: self.is_default,
            max_steps: self.max_steps,
            default_timeout: self.default_timeout,
            visibility: self.visibility,
            acp: self.acp.clone(),
            approvals: self.approvals.clone(),
            output_schema: self.output_schema.clone(),
            config: self.config.clone(),
            product: Some(product.to_owned()),
        }
    }
}
