//! `emergent agent`: lists, creates, changes, deletes and starts agents.

mod change;
mod definition;
mod history;
mod invoke;

use std::path::PathBuf;

use emergent_domain::{agent::ModelConfig, foreign_json, run::DEFAULT_TIMEOUT_SECONDS};
use emergent_wire::{
    agent::AgentView,
    agent_parts::{ApprovalRuleView, ModelView},
    run::TriggerRun,
};
use serde_json::{Map, Value};

use super::{
    confirm::ask_about_last,
    number::parse_finite,
    resolve::{AGENTS, resolve_id},
    watch_run,
};
pub use change::usable_models;

use crate::{
    cells::cell,
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints, messages,
    output::{self, bold},
};

#[derive(Debug, clap::Subcommand)]
pub enum Agent {
    /// List the agents, newest first
    List {
        /// Also those that only other agents can start
        #[arg(long)]
        internal: bool,
    },
    /// Show one agent, with its prompt
    Show {
        /// A name, an id, the end of an id, or `last`
        agent: String,
    },
    /// Define a new agent as a file says
    ///
    /// JSON, TOML or YAML, with the fields of the API or of a manifest: name, description,
    /// system_prompt, model, tools, max_steps and so on.
    Create {
        /// The file, whose ending says what it is; `-` is standard input
        file: PathBuf,
    },
    /// Create or change agents, so that they are as files say
    ///
    /// A file is like that of `create`. The agent of its name is created, or changed: what the file
    /// leaves out gets its default. A second time, nothing changes.
    Apply {
        /// The files; `-` is standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Check everything and say what would be done, without doing it; each file by itself
        #[arg(long)]
        dry_run: bool,
    },
    /// Change an agent in your editor ($VISUAL or $EDITOR)
    Edit {
        /// A name, an id, the end of an id, or `last`
        agent: String,
    },
    /// List the versions of an agent: when, by whom, and what was changed
    History {
        /// A name, an id (also of a deleted agent), the end of an id, or `last`
        agent: String,
        /// Print this version whole, as a file for `agent apply`
        #[arg(value_name = "VERSION")]
        number: Option<i64>,
    },
    /// Delete an agent; its runs stay readable
    Delete {
        /// A name, an id, the end of an id, or `last`
        agent: String,
        /// With `last`, delete it without asking
        #[arg(long, short)]
        yes: bool,
    },
    /// Start an agent
    Trigger(Trigger),
    /// Start an external agent as a caller from outside, and print its answer
    ///
    /// The answer is printed as it is written. Needs the scope agents:invoke and no other.
    Invoke(invoke::Invoke),
}

#[derive(Debug, clap::Args)]
pub struct Trigger {
    /// A name, an id, the end of an id, or `last`
    agent: String,
    /// What to do
    #[arg(long, value_name = "TEXT")]
    input: String,
    /// More to know, as JSON
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// Watch it work until it ends
    #[arg(long)]
    follow: bool,
    /// Another model than the definition's
    #[arg(long, value_name = "PROVIDER/NAME")]
    model: Option<String>,
    /// Steps with tools before it has to sum up
    #[arg(long, value_name = "N")]
    max_steps: Option<i64>,
    /// How long it may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<i64>,
    /// What it may cost, in US dollars; the agents that it starts count
    #[arg(long, value_name = "DOLLARS", value_parser = parse_finite)]
    max_cost_usd: Option<f64>,
    /// How many tokens it may use; the agents that it starts count
    #[arg(long, value_name = "N")]
    max_total_tokens: Option<i64>,
    /// A name for this request: sent again with it, it starts nothing more
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Agent {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Agent::Create { .. } | Agent::Apply { dry_run: false, .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        match self {
            Agent::Create { file } => change::check_files(std::slice::from_ref(file)),
            Agent::Apply { files, dry_run: false } => change::check_files(files),
            _ => Ok(()),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Agent::List { internal } => {
                let agents: Vec<Received<AgentView>> =
                    client.get_all_pages(&format!("/api/admin/agents?include_internal={internal}")).await?;
                if as_json { output::print_json(&agents) } else { print_agents(&agents) }
            }
            Agent::Show { agent } => {
                let agent = resolve_agent(client, &agent).await?;
                if as_json { output::print_json(&agent) } else { print_agent(&agent) }
            }
            Agent::Create { file } => {
                let response = client.post("/api/admin/agents", &definition::read(&file)?).await;
                let response = response.map_err(|error| {
                    let apply = format!("agent apply {}", hints::quoted(&file.to_string_lossy()));
                    error.with_way_out("conflict", &hints::command(&apply), "changes it")
                })?;
                let created: Received<AgentView> = response.data().await?;
                if as_json {
                    output::print_json(&created)
                } else {
                    output::print_line(&format!(
                        "{} is created (version {})",
                        created.name, created.version
                    ))?;
                    change::print_warnings(&created);
                    Ok(())
                }
            }
            Agent::Apply { files, dry_run } => change::apply(client, &files, dry_run, as_json).await,
            Agent::Edit { agent } => change::edit(client, &agent, as_json).await,
            Agent::History { agent, number } => history::show(client, &agent, number, as_json).await,
            Agent::Delete { agent: reference, yes } => {
                let agent = resolve_agent(client, &reference).await?;
                ask_about_last(&reference, yes, &format!("delete the agent {}", agent.name))?;
                let deleted: Received<AgentView> =
                    client.delete(&format!("/api/admin/agents/{}", agent.id)).await?.data().await?;
                if as_json {
                    output::print_json(&deleted)
                } else {
                    output::print_line(&format!("agent {} is deleted; its runs stay readable", deleted.name))
                }
            }
            Agent::Trigger(trigger) => trigger.run(client, as_json).await,
            Agent::Invoke(invoke) => invoke.run(client, as_json).await,
        }
    }
}

impl Trigger {
    async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let agent = resolve_id(client, &AGENTS, &self.agent).await?;
        let context = parse_context(self.context.as_deref())?;
        let model = self.model.as_deref().map(parse_model).transpose()?;
        let body = TriggerRun {
            input: self.input,
            context,
            model,
            max_steps: self.max_steps,
            timeout_seconds: self.timeout,
            max_cost_usd: self.max_cost_usd,
            max_total_tokens: self.max_total_tokens,
        };
        let path = format!("/api/admin/agents/{agent}/trigger");
        let key = self.idempotency_key.as_deref();
        let sent = client.post_once(&path, &body, key).await.map_err(|error| {
            let name = hints::quoted(&self.agent);
            let other = hints::command(&format!("agent trigger {name} --input … --model provider/name"));
            // Whoever named a model knows the option.
            match self.model {
                Some(_) => error,
                None => error.with_way_out("no_model", &other, "starts it with another model"),
            }
        });
        watch_run::follow_or_print(client, &agent, sent?, self.follow, as_json).await
    }
}

/// Reads the JSON of an option `--context`.
fn parse_context(text: Option<&str>) -> Result<Option<Value>> {
    let parsed = text.map(foreign_json::from_str).transpose();
    parsed.map_err(|error| Error::Usage(format!("--context is not JSON: {error}")))
}

/// Reads the model of an option `--model`.
pub fn parse_model(text: &str) -> Result<ModelView> {
    let model: ModelConfig = text.parse().map_err(|error| Error::Usage(format!("--model: {error}")))?;
    Ok(model.into())
}

/// Loads the agent that a person names, internal agents included.
pub async fn resolve_agent(client: &Client, reference: &str) -> Result<Received<AgentView>> {
    let id = resolve_id(client, &AGENTS, reference).await?;
    client.get(&format!("/api/admin/agents/{id}")).await?.data().await
}

/// The content of a file with the field names of the API. Messages name the fields as the file does.
pub fn with_api_fields(content: Value) -> Value {
    messages::remember_fields(&content);
    to_camel_case(content)
}

/// Translates the field names of a manifest (`system_prompt`) to those of the API (`systemPrompt`), so that a
/// file may use either. The content of `config` and the output schema belong to the agent and are left alone.
pub fn to_camel_case(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let renamed = fields.into_iter().map(|(name, value)| {
        let is_own = matches!(name.as_str(), "config" | "output_schema" | "outputSchema");
        let value = if is_own { value } else { to_camel_case(value) };
        (word_to_camel_case(&name), value)
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

/// The name of a field as the API writes it.
pub fn word_to_camel_case(word: &str) -> String {
    let mut parts = word.split('_');
    let mut camel_case = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        camel_case.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel_case.push_str(letters.as_str());
    }
    camel_case
}

/// `provider/name` of an agent, or a dash.
fn model(agent: &AgentView) -> String {
    agent.model.as_ref().map_or("–".to_owned(), |model| format!("{}/{}", model.provider, model.name))
}

fn print_agents(agents: &[Received<AgentView>]) -> Result<()> {
    let rows: Vec<_> = agents
        .iter()
        .map(|agent| {
            let default = if agent.is_default { "yes" } else { "" };
            vec![
                agent.id.to_string(),
                agent.name.clone(),
                default.to_owned(),
                agent.visibility.to_string(),
                model(agent),
                cell(&agent.description, 60),
            ]
        })
        .collect();
    // Commands take the name, so a narrow terminal goes without the others rather than without half of it.
    output::print_list_with_optional(
        &["ID", "NAME", "DEFAULT", "VISIBILITY", "MODEL", "DESCRIPTION"],
        &rows,
        &["NAME"],
        &["VISIBILITY", "ID"],
        ("agent apply FILE", "creates one"),
    )
}

/// What holds for an agent without `maxSteps`.
const DEFAULT_STEPS_TEXT: &str = "none; 50 when another agent starts it (default)";

fn timeout_text(seconds: Option<u32>) -> String {
    match seconds {
        Some(seconds) => format!("{seconds} s"),
        None => format!("{DEFAULT_TIMEOUT_SECONDS} s (default)"),
    }
}

/// A rule about calls of tools: `ask: payments_*, when amount gt 1000; deny after 3600 s`.
fn approval_text(rule: &ApprovalRuleView) -> String {
    let conditions = rule.when.iter().filter_map(|filter| {
        let Value::Object(filter) = serde_json::to_value(filter).ok()? else { return None };
        let word = |name: &str| match filter.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let parts = [word("path"), word("op"), word("value")];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    });
    let conditions = conditions.collect::<Vec<_>>().join(" and ");
    let when = if conditions.is_empty() { String::new() } else { format!(", when {conditions}") };
    let expiry = rule.expires_in.map(|seconds| format!("; {} after {seconds} s", rule.on_expiry));
    format!("{}: {}{when}{}", rule.action, rule.tools.join(" "), expiry.unwrap_or_default())
}

fn print_agent(agent: &AgentView) -> Result<()> {
    output::print_row(&format!("{}  version {}", bold(&agent.name), agent.version))?;
    let mut facts = vec![
        ("id", agent.id.to_string()),
        ("description", agent.description.clone()),
        ("model", model(agent)),
        ("tools", if agent.tools.is_empty() { "none".to_owned() } else { agent.tools.join(" ") }),
        ("visibility", agent.visibility.to_string()),
        ("flow", agent.flow_type.to_string()),
        ("max steps", agent.max_steps.map_or(DEFAULT_STEPS_TEXT.to_owned(), |steps| steps.to_string())),
        ("timeout", timeout_text(agent.default_timeout)),
    ];
    facts.extend(agent.trigger.clone().map(|trigger| ("trigger", trigger)));
    facts.extend(agent.product.clone().map(|product| ("product", product)));
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::print_fact(name, value)?;
    }
    for (index, rule) in agent.approvals.iter().enumerate() {
        output::print_fact(if index == 0 { "approvals" } else { "" }, &approval_text(rule))?;
    }
    if let Some(schema) = &agent.output_schema {
        output::print_value("output schema", schema)?;
    }
    if let Some(flow) = &agent.flow_config {
        output::print_value("flow config", &serde_json::to_value(flow).unwrap_or_default())?;
    }
    match agent.system_prompt.as_str() {
        "" => Ok(()),
        prompt => output::print_text(&format!("\n{prompt}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_about_calls_is_a_line() {
        let text = |rule| approval_text(&serde_json::from_value(rule).unwrap());
        assert_eq!(text(json!({ "tools": ["entities_delete"], "action": "ask" })), "ask: entities_delete");
        let rule = json!({ "tools": ["pay", "refund_*"], "action": "ask", "expiresIn": 60,
            "when": [{ "path": "amount", "op": "gt", "value": 1000 }, { "path": "to", "op": "exists" }] });
        assert_eq!(text(rule), "ask: pay refund_*, when amount gt 1000 and to exists; deny after 60 s");
        assert_eq!((timeout_text(None), timeout_text(Some(60))), ("300 s (default)".into(), "60 s".into()));
    }

    #[test]
    fn manifest_field_names_are_translated_to_those_of_the_api() {
        let manifest = json!({ "name": "a", "system_prompt": "p", "flow_config": { "max_iterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true,
            "output_schema": { "properties": { "due_date": { "type": "string" } } } });
        let api = json!({ "name": "a", "systemPrompt": "p", "flowConfig": { "maxIterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true,
            "outputSchema": { "properties": { "due_date": { "type": "string" } } } });
        assert_eq!(to_camel_case(manifest), api);
    }
}
