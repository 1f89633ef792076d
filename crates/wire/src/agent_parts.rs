//! The nested objects of an agent's definition: its model, its flow, and its description for other systems
//! (ACP), and the rules that say which of its calls a person has to approve.

use emergent_domain::{
    agent::{self, AcpConfig, AnswerAs, FlowConfig, ModelConfig, Until, UntilRule, WrittenModel},
    approval::{Action, ApprovalRule, OnExpiry},
    filter::Filter,
    invalid::Invalid,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{fields, schema, search::FilterView};

/// Which model, and how it is asked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "WrittenModel<ModelFields>")]
#[schema(as = Model)]
pub struct ModelView {
    /// May be omitted in a request for `gemini-*` (google), `gpt-*` and `o` with a digit (openai), and `claude-*`
    /// (anthropic).
    #[schema(min_length = 1, max_length = 200, example = "google", required = false)]
    pub provider: String,
    #[schema(min_length = 1, max_length = 200, example = "gemini-2.5-flash")]
    pub name: String,
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    #[schema(minimum = 1)]
    pub max_tokens: Option<u32>,
}

/// A model as a request has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelFields {
    provider: Option<String>,
    name: String,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
}

impl TryFrom<WrittenModel<ModelFields>> for ModelView {
    type Error = Invalid;

    fn try_from(model: WrittenModel<ModelFields>) -> Result<Self, Invalid> {
        let ModelFields { provider, name, temperature, max_tokens } = match model {
            WrittenModel::Name(model) => return Ok(model.into()),
            WrittenModel::Fields(fields) => fields,
        };
        let provider = agent::resolve_provider(provider, &name)?;
        Ok(Self { provider, name, temperature, max_tokens })
    }
}

impl From<ModelConfig> for ModelView {
    fn from(model: ModelConfig) -> Self {
        let ModelConfig { provider, name, temperature, max_tokens } = model;
        Self { provider, name, temperature, max_tokens }
    }
}

impl From<ModelView> for ModelConfig {
    fn from(model: ModelView) -> Self {
        let ModelView { provider, name, temperature, max_tokens } = model;
        Self { provider, name, temperature, max_tokens }
    }
}

/// For every flow type but `single`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = FlowConfig)]
pub struct FlowConfigView {
    /// Names of agents of the project; none: the agent itself.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub agents: Vec<String>,
    /// When a loop has done enough.
    pub until: Option<UntilView>,
    #[schema(minimum = 1, maximum = 50)]
    pub max_iterations: Option<u32>,
}

/// A text the last output contains, or `{ "contains": … }`, or `{ "equals": … }`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a text, { \"contains\": text } or { \"equals\": text }")]
#[schema(as = Until)]
pub enum UntilView {
    Text(String),
    Rule(UntilRuleView),
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UntilRule)]
pub enum UntilRuleView {
    Contains(String),
    Equals(String),
}

impl From<FlowConfig> for FlowConfigView {
    fn from(flow: FlowConfig) -> Self {
        let until = flow.until.map(|until| match until {
            Until::Text(text) => UntilView::Text(text),
            Until::Rule(UntilRule::Contains(text)) => UntilView::Rule(UntilRuleView::Contains(text)),
            Until::Rule(UntilRule::Equals(text)) => UntilView::Rule(UntilRuleView::Equals(text)),
        });
        Self { agents: flow.agents, until, max_iterations: flow.max_iterations }
    }
}

impl From<FlowConfigView> for FlowConfig {
    fn from(flow: FlowConfigView) -> Self {
        let until = flow.until.map(|until| match until {
            UntilView::Text(text) => Until::Text(text),
            UntilView::Rule(UntilRuleView::Contains(text)) => Until::Rule(UntilRule::Contains(text)),
            UntilView::Rule(UntilRuleView::Equals(text)) => Until::Rule(UntilRule::Equals(text)),
        });
        Self { agents: flow.agents, until, max_iterations: flow.max_iterations }
    }
}

/// What the agent card says of an agent that the outside may call.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Acp)]
pub struct AcpView {
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub input_modes: Vec<String>,
    #[serde(default)]
    pub output_modes: Vec<String>,
    /// What a caller of A2A gets when the agent has completed its work: the `task` with the answer as an artifact, or
    /// only what the agent says, as a `message`.
    #[serde(default, skip_serializing_if = "AnswerAs::is_task")]
    #[schema(value_type = Option<schema::AnswerAs>)]
    pub answer_as: AnswerAs,
}

impl From<AcpConfig> for AcpView {
    fn from(acp: AcpConfig) -> Self {
        let AcpConfig { display_name, description, capabilities, input_modes, output_modes, answer_as } = acp;
        Self { display_name, description, capabilities, input_modes, output_modes, answer_as }
    }
}

impl From<AcpView> for AcpConfig {
    fn from(acp: AcpView) -> Self {
        let AcpView { display_name, description, capabilities, input_modes, output_modes, answer_as } = acp;
        Self { display_name, description, capabilities, input_modes, output_modes, answer_as }
    }
}

/// A rule about tool calls. The first rule that matches a call decides about it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ApprovalRule)]
pub struct ApprovalRuleView {
    /// Names and globs of tools, as in the agent's `tools`.
    #[schema(min_items = 1, max_items = 100)]
    pub tools: Vec<String>,
    /// Conditions on the input of the call. All have to match.
    #[serde(default, deserialize_with = "fields::map_list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<FilterView>, max_items = 20)]
    pub when: Vec<Filter>,
    #[schema(value_type = schema::ApprovalAction)]
    pub action: Action,
    /// Seconds until `onExpiry` applies; without it, the call waits until a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000)]
    pub expires_in: Option<u32>,
    #[serde(default)]
    #[schema(value_type = Option<schema::OnExpiry>)]
    pub on_expiry: OnExpiry,
}

impl From<ApprovalRule> for ApprovalRuleView {
    fn from(rule: ApprovalRule) -> Self {
        let ApprovalRule { tools, when, action, expires_in, on_expiry } = rule;
        Self { tools, when, action, expires_in, on_expiry }
    }
}

impl From<ApprovalRuleView> for ApprovalRule {
    fn from(rule: ApprovalRuleView) -> Self {
        let ApprovalRuleView { tools, when, action, expires_in, on_expiry } = rule;
        Self { tools, when, action, expires_in, on_expiry }
    }
}
