//! `emergent agent`: lists, creates, deletes and starts agents.

use std::{io::Read, path::PathBuf};

use emergent_wire::{
    agent::AgentView,
    agent_parts::ModelView,
    run::{StartedRun, TriggerRun},
};
use serde_json::{Map, Value};

use super::{encode, watch_run};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    output::{self, bold, first_line},
};

/// The length of a UUID as text.
const UUID_CHARS: usize = 36;

#[derive(Debug, clap::Subcommand)]
pub enum Agent {
    /// The agents, newest first
    List {
        /// Also those that only other agents can start
        #[arg(long)]
        internal: bool,
    },
    /// One agent, with its prompt
    Show {
        /// A name or an id
        agent: String,
    },
    /// Define an agent as a file says
    ///
    /// JSON, or TOML when the file ends in .toml, with the fields of the API or of a manifest:
    /// name, description, system_prompt, model, tools, max_steps and so on.
    Create {
        /// The file; `-` is standard input
        file: PathBuf,
    },
    /// Take an agent away; its runs stay readable
    Delete {
        /// A name or an id
        agent: String,
    },
    /// Start an agent
    Trigger(Trigger),
}

#[derive(Debug, clap::Args)]
pub struct Trigger {
    /// A name or an id
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
}

impl Agent {
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
                let created: Received<AgentView> =
                    client.post("/api/admin/agents", &read_definition(&file)?).await?.data().await?;
                if as_json { output::print_json(&created) } else { print_agents(&[created]) }
            }
            Agent::Delete { agent } => {
                let agent = resolve_agent(client, &agent).await?;
                let deleted: Received<AgentView> =
                    client.delete(&format!("/api/admin/agents/{}", agent.id)).await?.data().await?;
                if as_json {
                    output::print_json(&deleted)
                } else {
                    output::print_line(&format!("agent {} is deleted; its runs stay readable", deleted.name))
                }
            }
            Agent::Trigger(trigger) => trigger.run(client, as_json).await,
        }
    }
}

impl Trigger {
    async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let agent = resolve_id(client, &self.agent).await?;
        let context = match &self.context {
            Some(context) => Some(
                serde_json::from_str(context)
                    .map_err(|error| Error::Usage(format!("--context is not JSON: {error}")))?,
            ),
            None => None,
        };
        let model = match &self.model {
            Some(model) => {
                let Some((provider, name)) = model.split_once('/') else {
                    return Err(Error::Usage(format!("--model `{model}` is not of the form provider/name")));
                };
                let (provider, name) = (provider.to_owned(), name.to_owned());
                Some(ModelView { provider, name, temperature: None, max_tokens: None })
            }
            None => None,
        };
        let body = TriggerRun {
            input: self.input,
            context,
            model,
            max_steps: self.max_steps,
            timeout_seconds: self.timeout,
            max_cost_usd: None,
            max_total_tokens: None,
        };
        let path = format!("/api/admin/agents/{agent}/trigger");
        let started: Received<StartedRun> = client.post(&path, &body).await?.data().await?;
        watch_run::follow_or_print(client, &agent, &started, self.follow, as_json).await
    }
}

/// The id of an agent that is given by name or id. An id is not checked.
async fn resolve_id(client: &Client, name_or_id: &str) -> Result<String> {
    if is_id(name_or_id) {
        return Ok(name_or_id.to_owned());
    }
    resolve_agent(client, name_or_id).await.map(|agent| agent.id.to_string())
}

/// Loads an agent by name or id, internal agents included.
pub async fn resolve_agent(client: &Client, name_or_id: &str) -> Result<Received<AgentView>> {
    if is_id(name_or_id) {
        return client.get(&format!("/api/admin/agents/{}", encode(name_or_id))).await?.data().await;
    }
    let agents: Vec<Received<AgentView>> =
        client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    agents.into_iter().find(|agent| agent.name == name_or_id).ok_or_else(|| {
        Error::Usage(format!("there is no agent `{name_or_id}` in this project (`emergent agent list`)"))
    })
}

/// Whether the text has the form of a UUID.
fn is_id(text: &str) -> bool {
    text.len() == UUID_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Reads an agent definition from a JSON or TOML file.
fn read_definition(path: &PathBuf) -> Result<Value> {
    let failed = |source| Error::File { path: path.clone(), source };
    let mut content = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut content).map_err(failed)?;
    } else {
        content = std::fs::read_to_string(path).map_err(failed)?;
    }
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let parsed = if is_toml {
        toml::from_str(&content).map_err(|error| error.to_string())
    } else {
        serde_json::from_str(&content).map_err(|error| error.to_string())
    };
    let parsed =
        parsed.map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))?;
    Ok(to_camel_case(parsed))
}

/// Translates the field names of a manifest (`system_prompt`) to those of the API (`systemPrompt`), so that a
/// file may use either. The content of `config` belongs to the agent and is left alone.
pub fn to_camel_case(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let renamed = fields.into_iter().map(|(name, value)| {
        let value = if name == "config" { value } else { to_camel_case(value) };
        (word_to_camel_case(&name), value)
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

fn word_to_camel_case(word: &str) -> String {
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
            let default = if agent.is_default { " (default)" } else { "" };
            vec![
                agent.id.to_string(),
                format!("{}{default}", agent.name),
                agent.visibility.to_string(),
                model(agent),
                first_line(&agent.description, 60),
            ]
        })
        .collect();
    output::print_table(&["ID", "NAME", "VISIBILITY", "MODEL", "DESCRIPTION"], &rows)
}

fn print_agent(agent: &AgentView) -> Result<()> {
    output::print_line(&format!("{}  version {}", bold(&agent.name), agent.version))?;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let mut facts = vec![
        ("id", agent.id.to_string()),
        ("description", agent.description.clone()),
        ("model", model(agent)),
        ("tools", if agent.tools.is_empty() { "none".to_owned() } else { agent.tools.join(" ") }),
        ("visibility", agent.visibility.to_string()),
        ("flow", agent.flow_type.to_string()),
        ("max steps", or_dash(agent.max_steps.map(|steps| steps.to_string()))),
        ("timeout", or_dash(agent.default_timeout.map(|seconds| format!("{seconds}s")))),
    ];
    facts.extend(agent.trigger.clone().map(|trigger| ("trigger", trigger)));
    facts.extend(agent.product.clone().map(|product| ("product", product)));
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::print_line(&format!("  {name:<12} {value}"))?;
    }
    if let Some(flow) = &agent.flow_config {
        let flow = serde_json::to_value(flow).unwrap_or_default();
        output::print_line(&format!("  {:<12} {flow}", "flow config"))?;
    }
    match agent.system_prompt.as_str() {
        "" => Ok(()),
        prompt => output::print_line(&format!("\n{prompt}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn manifest_field_names_are_translated_to_those_of_the_api() {
        let manifest = json!({ "name": "a", "system_prompt": "p", "flow_config": { "max_iterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true });
        let api = json!({ "name": "a", "systemPrompt": "p", "flowConfig": { "maxIterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true });
        assert_eq!(to_camel_case(manifest), api);
    }
}
