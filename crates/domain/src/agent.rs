//! Agents: the content of an agent definition, and the rules that validate it.

mod acp;
mod delegation;
mod maker;
mod memory;
mod model;
mod output;
mod remote;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    approval::{self, ApprovalRule},
    author::Author,
    ids::{AgentId, ProjectId},
    invalid::{Invalid, Problem},
    run::MAX_STEPS,
    time::Timestamp,
    tool_name,
    trigger::TriggerSpec,
};

pub use acp::AcpConfig;
pub use maker::{AgentChange, MissingScope, ToolScopes};
pub use model::{ModelConfig, PROVIDER_RULE, resolve_provider};
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
    /// How an agent executes: alone, or as a flow over other agents.
    #[derive(Default)]
    FlowType {
        #[default]
        Single = "single",
        /// Runs `flow_config.agents` in order. Each agent receives the output of the previous one.
        Sequential = "sequential",
        /// Repeats its agents until `flow_config.until` is met.
        Loop = "loop",
        /// Runs `flow_config.agents` concurrently, then joins their outputs.
        Parallel = "parallel",
    }
}

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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// Names of agents in the same project. If empty, the flow runs the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
}

/// The condition that ends a loop: the last output contains a text, or equals it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Until {
    Text(String),
    Rule(UntilRule),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UntilRule {
    Contains(String),
    Equals(String),
}

impl Until {
    pub fn is_met(&self, output: &str) -> bool {
        match self {
            Until::Text(text) | Until::Rule(UntilRule::Contains(text)) => output.contains(text.as_str()),
            Until::Rule(UntilRule::Equals(text)) => output.trim() == text.trim(),
        }
    }
}

const MAX_NAME_CHARS: usize = 100;
const MAX_PROMPT_BYTES: usize = 1 << 20;
const MAX_TOOLS: usize = 500;
const MAX_FLOW_AGENTS: usize = 50;
pub const MAX_ITERATIONS: u32 = 50;
/// One day. Work that takes longer belongs in a workflow.
const MAX_TIMEOUT_SECONDS: u32 = 86_400;

/// The names in a project that a definition may refer to.
#[derive(Debug, Clone, Default)]
pub struct AvailableNames {
    /// All names that a tool whitelist may use: canonical names, aliases, and `server.tool`.
    pub tools: Vec<String>,
    /// False if some MCP servers have not been reached yet. Their tools cannot be checked then, so
    /// the validation accepts their names.
    pub tools_complete: bool,
    /// The MCP servers that have not been reached yet.
    pub unreached_servers: Vec<String>,
    /// Those of `tools` that nobody has accepted. They can be named, but are not suggested for a misspelt
    /// name: whoever runs a server chooses the names of its tools.
    pub unaccepted_tools: BTreeSet<String>,
    pub agents: Vec<String>,
}

/// Says which servers were never reached.
fn unreached_servers(available: &AvailableNames) -> String {
    let names: Vec<String> = available.unreached_servers.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "the tools of the MCP servers have not been read yet".to_owned(),
        [only] => format!("the MCP server {only} was never reached, so its tools are not known"),
        _ => format!("the MCP servers {} were never reached, so their tools are not known", names.join(", ")),
    }
}

impl AgentDefinition {
    /// Validates the definition and reports all problems, not only the first.
    pub fn check(&self, available: &AvailableNames) -> Result<(), Invalid> {
        let mut problems = Vec::new();
        let mut add_problem = |field: &str, reason: String| problems.push(Problem::new(field, reason));
        if let Some(reason) = name_problem(&self.name) {
            add_problem("name", reason);
        }
        if self.system_prompt.len() > MAX_PROMPT_BYTES {
            add_problem("systemPrompt", format!("is longer than {MAX_PROMPT_BYTES} bytes"));
        }
        if self.description.len() > 10_000 {
            add_problem("description", "is longer than 10000 bytes".into());
        }
        if let Some(model) = &self.model {
            for (field, value) in [("model.provider", &model.provider), ("model.name", &model.name)] {
                if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
                    add_problem(field, "must be 1 to 200 characters".into());
                }
            }
            if model.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
                add_problem("model.temperature", "must be 0 to 2".into());
            }
            if model.max_tokens == Some(0) {
                add_problem("model.maxTokens", "must be at least 1".into());
            }
        }
        if self.tools.len() > MAX_TOOLS {
            add_problem("tools", format!("has more than {MAX_TOOLS} entries"));
        }
        for (index, pattern) in self.tools.iter().take(MAX_TOOLS).enumerate() {
            if let Err(reason) = tool_name::check_pattern(pattern, available) {
                add_problem(&format!("tools[{index}]"), reason);
            }
        }
        if self.max_steps.is_some_and(|steps| steps == 0 || i64::from(steps) > MAX_STEPS) {
            add_problem("maxSteps", format!("must be 1 to {MAX_STEPS}"));
        }
        if self.default_timeout.is_some_and(|seconds| seconds == 0 || seconds > MAX_TIMEOUT_SECONDS) {
            add_problem("defaultTimeout", format!("must be 1 to {MAX_TIMEOUT_SECONDS} seconds"));
        }
        if self.acp.is_some() && self.visibility != Visibility::External {
            add_problem("acp", "is only for agents whose `visibility` is `external`".into());
        }
        if let Some(acp) = &self.acp {
            acp.check(&mut add_problem);
        }
        if self.trigger.is_some() && self.visibility == Visibility::Internal {
            add_problem(
                "trigger",
                "is not allowed on an internal agent, which only other agents can start".into(),
            );
        }
        if let Err(invalid) = TriggerSpec::from_definition(self) {
            invalid.problems.into_iter().for_each(|problem| add_problem(&problem.field, problem.reason));
        }
        let check_pattern = |pattern: &str| tool_name::check_pattern(pattern, available);
        if let Err(invalid) = approval::check_rules(&self.approvals, check_pattern) {
            invalid.problems.into_iter().for_each(|problem| add_problem(&problem.field, problem.reason));
        }
        self.check_flow(available, &mut add_problem);
        self.check_delegation(&mut add_problem);
        self.check_memory(&mut add_problem);
        self.check_output_schema(&mut add_problem);
        self.check_texts(&mut add_problem);
        Invalid::if_any(problems)
    }

    /// Returns what is probably a mistake, although the definition can be saved: patterns that match no tool, and
    /// names that no known tool has while a server was never reached. Tools may be added later, so this is no error.
    pub fn warnings(&self, available: &AvailableNames) -> Vec<Problem> {
        let reason = |entry: &String| match tool_name::is_glob(entry) {
            true if tool_name::matches_any(entry, available) => None,
            true => Some(format!(
                "the pattern `{entry}` matches no tool of this project: check its spelling, or add the MCP server \
                 of the tools; a pattern without a dot means bare names, and `server.*` the tools of a server"
            )),
            false if tool_name::is_available(entry, available) => None,
            false => Some(format!(
                "the tool `{entry}` is not known: {}. Check its spelling, or make the server reachable{}",
                unreached_servers(available),
                match tool_name::nearest_tool(entry, available) {
                    Some(nearest) => format!("; did you mean `{nearest}`?"),
                    None => String::new(),
                }
            )),
        };
        let entries = self.tools.iter().enumerate();
        let problems = entries.filter_map(|(index, entry)| Some((index, reason(entry)?)));
        problems.map(|(index, reason)| Problem::new(format!("tools[{index}]"), reason)).collect()
    }

    /// Rejects NUL characters, because PostgreSQL cannot store them in a text column.
    fn check_texts(&self, add_problem: &mut impl FnMut(&str, String)) {
        let fields = [
            ("systemPrompt", self.system_prompt.contains('\0')),
            ("description", self.description.contains('\0')),
            ("product", self.product.as_ref().is_some_and(|product| product.contains('\0'))),
            ("flowConfig", json_has_nul(&self.flow_config)),
            ("acp", json_has_nul(&self.acp)),
            ("approvals", json_has_nul(&self.approvals)),
            ("config", json_has_nul(&self.config)),
        ];
        for (field, _) in fields.iter().filter(|(_, has_nul)| *has_nul) {
            add_problem(field, "must not contain a NUL character".into());
        }
    }

    fn check_flow(&self, available: &AvailableNames, add_problem: &mut impl FnMut(&str, String)) {
        let flow = self.flow_config.as_ref();
        let agents = flow.map_or(&[][..], |flow| &flow.agents);
        if self.flow_type == FlowType::Single && flow.is_some_and(|flow| *flow != FlowConfig::default()) {
            add_problem(
                "flowConfig",
                "is only for the flow types `sequential`, `loop` and `parallel`".into(),
            );
        }
        if self.flow_type == FlowType::Parallel && agents.is_empty() {
            add_problem("flowConfig.agents", "is required: list the agents to run concurrently".into());
        }
        if agents.len() > MAX_FLOW_AGENTS {
            add_problem("flowConfig.agents", format!("has more than {MAX_FLOW_AGENTS} entries"));
        }
        // A list that is too long is refused anyway: comparing each of its names with all agents would take
        // long, and would add a problem for each.
        let checked = if agents.len() > MAX_FLOW_AGENTS { &[][..] } else { agents };
        for (index, name) in checked.iter().enumerate() {
            let field = format!("flowConfig.agents[{index}]");
            if *name == self.name {
                add_problem(&field, "an agent cannot be a part of its own flow".into());
            } else if !available.agents.contains(name) {
                let hint = crate::pack::nearest_name(name, available.agents.iter().map(String::as_str));
                add_problem(&field, unknown_name("agent", name, hint));
            }
        }
        if let Some(n) = flow.and_then(|flow| flow.max_iterations)
            && !(1..=MAX_ITERATIONS).contains(&n)
        {
            add_problem("flowConfig.maxIterations", format!("must be 1 to {MAX_ITERATIONS}"));
        }
        if flow.is_some_and(|flow| flow.until.is_some()) && self.flow_type != FlowType::Loop {
            add_problem("flowConfig.until", "is only for the flow type `loop`".into());
        }
    }
}

pub(crate) fn json_has_nul(value: &impl Serialize) -> bool {
    let mut pending = vec![serde_json::to_value(value).unwrap_or_default()];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) if text.contains('\0') => return true,
            Value::Array(items) => pending.extend(items),
            Value::Object(map) if map.keys().any(|key| key.contains('\0')) => return true,
            Value::Object(map) => pending.extend(map.into_values()),
            _ => {}
        }
    }
    false
}

/// Whether an agent can have this name.
pub fn is_valid_name(name: &str) -> bool {
    name_problem(name).is_none()
}

fn name_problem(name: &str) -> Option<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    (!starts || name.len() > MAX_NAME_CHARS || !name.chars().all(fine)).then(|| {
        format!(
            "must be 1 to {MAX_NAME_CHARS} letters, digits, `-`, `_` or `.`, and start with a letter or digit"
        )
    })
}

pub(crate) fn unknown_name(kind: &str, name: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("there is no {kind} `{name}`; did you mean `{hint}`?"),
        None => format!("there is no {kind} `{name}`"),
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
