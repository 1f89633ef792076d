//! Agent definitions, and requests to create and change them.

use emergent_domain::{
    agent::{Agent, AgentDefinition, AgentVersion, FlowType, Visibility},
    invalid::Problem,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    agent_parts::{AcpView, ApprovalRuleView, FlowConfigView, ModelView},
    author::AuthorView,
    fields::{self, expected_version, nullable, nullable_object},
    schema,
};

/// An agent as it stands now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Agent)]
pub struct AgentView {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub system_prompt: String,
    /// Null: the server's model for everything.
    pub model: Option<ModelView>,
    pub tools: Vec<String>,
    pub trigger: Option<String>,
    #[schema(value_type = schema::FlowType)]
    pub flow_type: FlowType,
    pub flow_config: Option<FlowConfigView>,
    pub is_default: bool,
    pub max_steps: Option<u32>,
    /// Seconds.
    pub default_timeout: Option<u32>,
    #[schema(value_type = schema::Visibility)]
    pub visibility: Visibility,
    pub acp: Option<AcpView>,
    /// Which calls a person has to approve; the first rule that matches decides.
    #[serde(default)]
    pub approvals: Vec<ApprovalRuleView>,
    /// The JSON schema that the final answer must match; null for an agent that answers with text.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
    /// The product that brought it; null for an agent of the project's own.
    pub product: Option<String>,
    /// Counts from 1; name it as `expectedVersion` to change only what you have seen.
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// What is probably a mistake: patterns in `tools` that match no tool, and a `model` whose script is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<AgentWarningView>,
    /// True in the answer to a write of somebody who may not read: only what identifies the result is there, and the other
    /// fields are empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub withheld: bool,
}

/// Something in a definition that is probably a mistake.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentWarning)]
pub struct AgentWarningView {
    /// Such as `tools[1]` or `model`.
    pub field: String,
    pub reason: String,
}

impl AgentView {
    /// Adds what is probably a mistake.
    #[must_use]
    pub fn with_warnings(self, problems: Vec<Problem>) -> Self {
        let view = |Problem { field, reason }| AgentWarningView { field, reason };
        Self { warnings: problems.into_iter().map(view).collect(), ..self }
    }
}

impl From<Agent> for AgentView {
    fn from(agent: Agent) -> Self {
        let definition = agent.definition;
        Self {
            id: agent.id.0,
            name: definition.name,
            description: definition.description,
            system_prompt: definition.system_prompt,
            model: definition.model.map(Into::into),
            tools: definition.tools,
            trigger: definition.trigger,
            flow_type: definition.flow_type,
            flow_config: definition.flow_config.map(Into::into),
            is_default: definition.is_default,
            max_steps: definition.max_steps,
            default_timeout: definition.default_timeout,
            visibility: definition.visibility,
            acp: definition.acp.map(Into::into),
            approvals: definition.approvals.into_iter().map(Into::into).collect(),
            output_schema: definition.output_schema,
            config: definition.config,
            product: definition.product,
            version: agent.version,
            created_at: agent.created_at,
            updated_at: agent.updated_at,
            warnings: Vec::new(),
            withheld: false,
        }
    }
}

/// A new agent. What is left out is empty, or decided by the server's defaults.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAgent {
    /// Unique in the project.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", example = "researcher")]
    pub name: String,
    /// What it is good at: other agents read this when they look for help.
    #[serde(default)]
    #[schema(max_length = 10_000)]
    pub description: String,
    #[serde(default)]
    pub system_prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ModelChoice>)]
    pub model: Option<ModelView>,
    /// Names and globs of tools (`GET /api/admin/tools`). An empty list is no tools.
    #[serde(default)]
    #[schema(max_items = 500)]
    pub tools: Vec<String>,
    /// An event such as `on_document_ingested`, or a cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub trigger: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<schema::FlowType>)]
    pub flow_type: FlowType,
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub flow_config: Option<FlowConfigView>,
    #[serde(default)]
    pub is_default: bool,
    /// Steps with tools; then a last answer, and the run pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub max_steps: Option<u32>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400)]
    pub default_timeout: Option<u32>,
    #[serde(default)]
    #[schema(value_type = Option<schema::Visibility>)]
    pub visibility: Visibility,
    /// For agents whose `visibility` is `external`.
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub acp: Option<AcpView>,
    /// Which calls a person has to approve; the first rule that matches decides. Without one a call is made,
    /// except that of an external tool that its server marks as destructive.
    #[serde(default, deserialize_with = "fields::map_list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub approvals: Vec<ApprovalRuleView>,
    /// A JSON schema that the final answer must match. The answer is then returned as `output` as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
}

impl From<CreateAgent> for AgentDefinition {
    fn from(body: CreateAgent) -> Self {
        Self {
            name: body.name,
            description: body.description,
            system_prompt: body.system_prompt,
            model: body.model.map(Into::into),
            tools: body.tools,
            trigger: body.trigger,
            flow_type: body.flow_type,
            flow_config: body.flow_config.map(Into::into),
            is_default: body.is_default,
            max_steps: body.max_steps,
            default_timeout: body.default_timeout,
            visibility: body.visibility,
            acp: body.acp.map(Into::into),
            approvals: body.approvals.into_iter().map(Into::into).collect(),
            output_schema: body.output_schema,
            config: body.config,
            // Only the installation of a product sets this.
            product: None,
        }
    }
}

impl From<AgentDefinition> for CreateAgent {
    fn from(definition: AgentDefinition) -> Self {
        Self {
            name: definition.name,
            description: definition.description,
            system_prompt: definition.system_prompt,
            model: definition.model.map(Into::into),
            tools: definition.tools,
            trigger: definition.trigger,
            flow_type: definition.flow_type,
            flow_config: definition.flow_config.map(Into::into),
            is_default: definition.is_default,
            max_steps: definition.max_steps,
            default_timeout: definition.default_timeout,
            visibility: definition.visibility,
            acp: definition.acp.map(Into::into),
            approvals: definition.approvals.into_iter().map(Into::into).collect(),
            output_schema: definition.output_schema,
            config: definition.config,
        }
    }
}

/// One version of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentVersion)]
pub struct AgentVersionView {
    /// Counts from 1. The last version of a deleted agent records its deletion.
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Who wrote this version.
    pub author: AuthorView,
    /// The whole definition, as a request that would create the agent.
    pub definition: CreateAgent,
}

impl From<AgentVersion> for AgentVersionView {
    fn from(version: AgentVersion) -> Self {
        Self {
            version: version.version,
            created_at: version.created_at,
            author: version.author.into(),
            definition: version.definition.into(),
        }
    }
}

/// What to change; what is absent stays. Null takes away what may be absent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateAgent {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 10_000)]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ModelChoice>)]
    pub model: Option<Option<ModelView>>,
    /// Replaces the whole list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 500)]
    pub tools: Option<Vec<String>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub trigger: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowType>)]
    pub flow_type: Option<FlowType>,
    #[serde(default, deserialize_with = "nullable_object", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FlowConfigView>)]
    pub flow_config: Option<Option<FlowConfigView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_default: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub max_steps: Option<Option<u32>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86_400)]
    pub default_timeout: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Visibility>)]
    pub visibility: Option<Visibility>,
    #[serde(default, deserialize_with = "nullable_object", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AcpView>)]
    pub acp: Option<Option<AcpView>>,
    /// Replaces the whole list.
    #[serde(
        default,
        deserialize_with = "fields::optional_map_list",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Vec<ApprovalRuleView>>, max_items = 100)]
    pub approvals: Option<Vec<ApprovalRuleView>>,
    /// Replaces the whole schema.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Option<Value>>,
    /// Replaces the whole object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// The version this change was made from; 409 with the current one when it is another.
    #[serde(default, deserialize_with = "expected_version", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub expected_version: Option<i64>,
}

impl UpdateAgent {
    /// Returns the definition with the given fields replaced. It takes `&self`, because the transaction that
    /// calls it may be repeated.
    pub fn apply_to(&self, mut definition: AgentDefinition) -> AgentDefinition {
        fn set<T: Clone>(value: &Option<T>, target: &mut T) {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        fn set_nullable<T: Clone, U: From<T>>(value: &Option<Option<T>>, target: &mut Option<U>) {
            if let Some(value) = value {
                *target = value.clone().map(Into::into);
            }
        }
        set(&self.name, &mut definition.name);
        set(&self.description, &mut definition.description);
        set(&self.system_prompt, &mut definition.system_prompt);
        set_nullable(&self.model, &mut definition.model);
        set(&self.tools, &mut definition.tools);
        set(&self.trigger, &mut definition.trigger);
        set(&self.flow_type, &mut definition.flow_type);
        set_nullable(&self.flow_config, &mut definition.flow_config);
        set(&self.is_default, &mut definition.is_default);
        set(&self.max_steps, &mut definition.max_steps);
        set(&self.default_timeout, &mut definition.default_timeout);
        set(&self.visibility, &mut definition.visibility);
        set_nullable(&self.acp, &mut definition.acp);
        if let Some(rules) = &self.approvals {
            definition.approvals = rules.iter().cloned().map(Into::into).collect();
        }
        set(&self.output_schema, &mut definition.output_schema);
        set(&self.config, &mut definition.config);
        definition
    }
}
