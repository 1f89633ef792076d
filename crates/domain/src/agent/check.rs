//! The rules that validate the definition of an agent.

use std::{cell::Cell, collections::BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::{AgentDefinition, Visibility};
use crate::{
    approval,
    ids::{NAME_IS_ID, is_id},
    invalid::{Invalid, Problem},
    json_cost::JsonCost,
    run::MAX_STEPS,
    token::Scope,
    tool_name,
    trigger::TriggerSpec,
};

const MAX_NAME_CHARS: usize = 100;
const MAX_PROMPT_BYTES: usize = 1 << 20;
const MAX_TOOLS: usize = 500;
const MAX_CONFIG_BYTES: usize = 64 << 10;
/// Lists of agents hold the values of all configurations.
const MAX_CONFIG_VALUES: usize = 2_000;
/// How many problems are reported, and how many warnings. Whoever mends these sees the others next.
const MAX_PROBLEMS: usize = 100;
const MAX_SUGGESTIONS: usize = 20;
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
    pub shown: ShownNames,
}

/// Which names the problems and the warnings of a definition may show, besides those that it has itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ShownNames {
    #[default]
    All,
    /// Those of these built-in tools, which are documented: for somebody who may not read which agents, tools and MCP
    /// servers the project has.
    Builtin(BTreeSet<String>),
}

impl AvailableNames {
    /// The agents that may be suggested for a misspelt name.
    pub(crate) fn shown_agents(&self) -> &[String] {
        match self.shown {
            ShownNames::All => &self.agents,
            ShownNames::Builtin(_) => &[],
        }
    }

    /// Whether a tool may be suggested for a misspelt name.
    pub(crate) fn may_suggest(&self, tool: &str) -> bool {
        match &self.shown {
            ShownNames::All => !self.unaccepted_tools.contains(tool),
            ShownNames::Builtin(names) => names.contains(tool),
        }
    }
}

/// For how many misspelt names of one definition the nearest name is still looked for. Each takes a comparison with every
/// known name, and a definition may have thousands.
pub(crate) struct Suggestions(Cell<usize>);

impl Suggestions {
    pub(crate) fn new() -> Self {
        Self(Cell::new(MAX_SUGGESTIONS))
    }

    /// The tool that was probably meant; `None` if there is none, or after enough suggestions.
    pub(crate) fn nearest_tool<'a>(&self, name: &str, available: &'a AvailableNames) -> Option<&'a str> {
        let remaining = self.0.get().checked_sub(1)?;
        self.0.set(remaining);
        tool_name::nearest_tool(name, available)
    }
}

/// Returns why an entry of a list of tools is probably a mistake; `None` if it is none.
fn doubt(entry: &str, available: &AvailableNames, suggestions: &Suggestions) -> Option<String> {
    match &available.shown {
        ShownNames::Builtin(builtin) => doubt_builtin(entry, builtin, available, suggestions),
        ShownNames::All if tool_name::is_glob(entry) => {
            (!tool_name::matches_any(entry, available)).then(|| unmatched_pattern(entry, available))
        }
        ShownNames::All => {
            (!tool_name::is_available(entry, available)).then(|| unknown_tool(entry, available, suggestions))
        }
    }
}

/// Like [`doubt`], for somebody who may not know the tools of MCP servers. Only the built-in tools count: otherwise one
/// pattern after the other would tell which tools and servers there are.
fn doubt_builtin(
    entry: &str,
    builtin: &BTreeSet<String>,
    available: &AvailableNames,
    suggestions: &Suggestions,
) -> Option<String> {
    let known = AvailableNames { tools: builtin.iter().cloned().collect(), ..AvailableNames::default() };
    let is_of_server = tool_name::external::split_qualified(entry).is_some();
    let is_known = || match tool_name::is_glob(entry) {
        true => tool_name::matches_any(entry, &known),
        false => tool_name::is_available(entry, &known),
    };
    if is_of_server || is_known() {
        return None;
    }
    let nearest = match suggestions.nearest_tool(entry, available) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    Some(format!(
        "`{entry}` means no built-in tool, and the tools of MCP servers are shown with the scope `{}` only{nearest}",
        Scope::AgentsRead
    ))
}

/// Says which servers were never reached; `None` if all were, so that no tool is unknown because of them.
fn unreached_servers(available: &AvailableNames) -> Option<String> {
    let names: Vec<String> = available.unreached_servers.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => None,
        [only] => Some(format!("the MCP server {only} was never reached, so its tools are not known")),
        _ => Some(format!(
            "the MCP servers {} were never reached, so their tools are not known",
            names.join(", ")
        )),
    }
}

/// Says why a pattern grants nothing, and what to do about it.
fn unmatched_pattern(pattern: &str, available: &AvailableNames) -> String {
    match unreached_servers(available) {
        Some(unreached) => format!(
            "the pattern `{pattern}` matches no known tool; {unreached}. Check its spelling, or make the server reachable"
        ),
        None => format!(
            "the pattern `{pattern}` matches no tool of this project: check its spelling, or add the MCP server \
             of the tools; a pattern without a dot means bare names, and `server.*` the tools of a server"
        ),
    }
}

/// Says why a tool is not known, and what to do about it.
fn unknown_tool(name: &str, available: &AvailableNames, suggestions: &Suggestions) -> String {
    let reason = match unreached_servers(available) {
        Some(unreached) => format!("{unreached}. Check its spelling, or make the server reachable"),
        None => "no tool of this project has this name. Check its spelling".to_owned(),
    };
    let nearest = match suggestions.nearest_tool(name, available) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    format!("the tool `{name}` is not known: {reason}{nearest}")
}

/// Says what is too large about the settings of an agent or a trigger.
pub fn config_size_problem(config: &impl Serialize) -> Option<String> {
    let text = serde_json::to_vec(config).unwrap_or_default();
    if text.len() > MAX_CONFIG_BYTES {
        Some(format!("is longer than {MAX_CONFIG_BYTES} bytes as JSON"))
    } else if JsonCost::estimate(&text).values > MAX_CONFIG_VALUES {
        Some(format!("has more than {MAX_CONFIG_VALUES} values"))
    } else {
        None
    }
}

impl AgentDefinition {
    /// Validates the definition and reports all problems, not only the first.
    pub fn check(&self, available: &AvailableNames) -> Result<(), Invalid> {
        let (mut problems, mut unlisted) = (Vec::new(), 0_usize);
        let mut add_problem = |field: &str, reason: String| match problems.len() {
            MAX_PROBLEMS => unlisted += 1,
            _ => problems.push(Problem::new(field, reason)),
        };
        let suggestions = Suggestions::new();
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
            if let Err(reason) = tool_name::check_pattern(pattern, available, &suggestions) {
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
        // The message about an invalid trigger quotes the settings, so their size is checked first.
        if self.check_config_size(&mut add_problem)
            && let Err(invalid) = TriggerSpec::from_definition(self)
        {
            invalid.problems.into_iter().for_each(|problem| add_problem(&problem.field, problem.reason));
        }
        let check_pattern = |pattern: &str| tool_name::check_pattern(pattern, available, &suggestions);
        if let Err(invalid) = approval::check_rules(&self.approvals, check_pattern) {
            invalid.problems.into_iter().for_each(|problem| add_problem(&problem.field, problem.reason));
        }
        self.check_flow(available, &mut add_problem);
        self.check_delegation(&mut add_problem);
        self.check_memory(&mut add_problem);
        self.check_output_schema(&mut add_problem);
        self.check_texts(&mut add_problem);
        if unlisted > 0 {
            problems.push(Problem::new("", format!("there are {unlisted} more problems")));
        }
        Invalid::if_any(problems)
    }

    /// Returns whether the settings are small enough.
    fn check_config_size(&self, add_problem: &mut impl FnMut(&str, String)) -> bool {
        match config_size_problem(&self.config) {
            Some(reason) => add_problem("config", reason),
            None => return true,
        }
        false
    }

    /// Returns what is probably a mistake, although the definition can be saved: patterns that match no known tool, and
    /// names that no known tool has, also in the rules of `approvals`. A server that was never reached may have the tool,
    /// and tools may be added later, so this is no error.
    pub fn warnings(&self, available: &AvailableNames) -> Vec<Problem> {
        let suggestions = Suggestions::new();
        let warn = |list: String, entries: &[String]| {
            let reasons = entries
                .iter()
                .enumerate()
                .filter_map(|(index, entry)| Some((index, doubt(entry, available, &suggestions)?)));
            reasons
                .map(|(index, reason)| Problem::new(format!("{list}[{index}]"), reason))
                .collect::<Vec<_>>()
        };
        let mut warnings = warn("tools".to_owned(), &self.tools);
        for (index, rule) in self.approvals.iter().enumerate() {
            warnings.extend(warn(format!("approvals[{index}].tools"), &rule.tools));
            if warnings.len() > MAX_PROBLEMS {
                break;
            }
        }
        warnings.truncate(MAX_PROBLEMS);
        warnings
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
    if is_id(name) {
        return Some(NAME_IS_ID.to_owned());
    }
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
