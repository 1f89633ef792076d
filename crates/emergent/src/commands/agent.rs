//! `emergent agent`: define agents, start them, watch them work.

use std::{io::Read, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{encode, watch_run};
use crate::{
    client::Client,
    error::{Error, Result},
    output::{self, bold, first_line},
};

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
    max_steps: Option<u32>,
    /// How long it may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

impl Agent {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Agent::List { internal } => {
                let agents =
                    client.get_all_pages(&format!("/api/admin/agents?include_internal={internal}")).await?;
                if as_json { output::print_json(&agents) } else { print_agents(&agents) }
            }
            Agent::Show { agent } => {
                let agent = resolve_agent(client, &agent).await?;
                if as_json { output::print_json(&agent) } else { print_agent(&agent) }
            }
            Agent::Create { file } => {
                let made: Value =
                    client.post("/api/admin/agents", &read_definition(&file)?).await?.data().await?;
                if as_json { output::print_json(&made) } else { print_agents(&[made]) }
            }
            Agent::Delete { agent } => {
                let agent = resolve_agent(client, &agent).await?;
                let id = text(&agent["id"]);
                let gone: Value = client.delete(&format!("/api/admin/agents/{id}")).await?.data().await?;
                if as_json {
                    output::print_json(&gone)
                } else {
                    output::print_line(&format!(
                        "agent {} is deleted; its runs stay readable",
                        text(&gone["name"])
                    ))
                }
            }
            Agent::Trigger(trigger) => trigger.run(client, as_json).await,
        }
    }
}

impl Trigger {
    async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let agent = resolve_id(client, &self.agent).await?;
        let mut body = json!({ "input": self.input });
        if let Some(context) = &self.context {
            body["context"] = serde_json::from_str(context)
                .map_err(|error| Error::Usage(format!("--context is not JSON: {error}")))?;
        }
        if let Some(model) = &self.model {
            let Some((provider, name)) = model.split_once('/') else {
                return Err(Error::Usage(format!("--model `{model}` is not of the form provider/name")));
            };
            body["model"] = json!({ "provider": provider, "name": name });
        }
        if let Some(steps) = self.max_steps {
            body["maxSteps"] = json!(steps);
        }
        if let Some(seconds) = self.timeout {
            body["timeoutSeconds"] = json!(seconds);
        }
        let path = format!("/api/admin/agents/{agent}/trigger");
        let started: Value = client.post(&path, &body).await?.data().await?;
        watch_run::follow_or_print(client, &agent, &started, self.follow, as_json).await
    }
}

/// The id as it is, or the agent of that name, internal ones included.
async fn resolve_id(client: &Client, named: &str) -> Result<String> {
    if is_id(named) {
        return Ok(named.to_owned());
    }
    resolve_agent(client, named).await.map(|agent| text(&agent["id"]).to_owned())
}

pub async fn resolve_agent(client: &Client, named: &str) -> Result<Value> {
    if is_id(named) {
        return client.get(&format!("/api/admin/agents/{}", encode(named))).await?.data().await;
    }
    let agents = client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    agents.into_iter().find(|agent| agent["name"] == named).ok_or_else(|| {
        Error::Usage(format!("there is no agent `{named}` in this project (`emergent agent list`)"))
    })
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn read_definition(path: &PathBuf) -> Result<Value> {
    let failed = |source| Error::File { path: path.clone(), source };
    let mut content = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut content).map_err(failed)?;
    } else {
        content = std::fs::read_to_string(path).map_err(failed)?;
    }
    let toml = path.extension().is_some_and(|ending| ending == "toml");
    let parsed = if toml {
        toml::from_str(&content).map_err(|error| error.to_string())
    } else {
        serde_json::from_str(&content).map_err(|error| error.to_string())
    };
    let parsed = parsed.map_err(|why| Error::Usage(format!("`{}` cannot be read: {why}", path.display())))?;
    Ok(to_camel_case(parsed))
}

/// A manifest writes `system_prompt`, the API `systemPrompt`: either will do in a file. What is
/// below `config` is the agent's own business.
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
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        whole.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        whole.push_str(letters.as_str());
    }
    whole
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn model(agent: &Value) -> String {
    match &agent["model"] {
        Value::Null => "–".to_owned(),
        model => format!("{}/{}", text(&model["provider"]), text(&model["name"])),
    }
}

fn print_agents(agents: &[Value]) -> Result<()> {
    let rows: Vec<_> = agents
        .iter()
        .map(|agent| {
            let default = if agent["isDefault"] == true { " (default)" } else { "" };
            vec![
                text(&agent["id"]).to_owned(),
                format!("{}{default}", text(&agent["name"])),
                text(&agent["visibility"]).to_owned(),
                model(agent),
                first_line(text(&agent["description"]), 60),
            ]
        })
        .collect();
    output::print_table(&["ID", "NAME", "VISIBILITY", "MODEL", "DESCRIPTION"], &rows)
}

fn print_agent(agent: &Value) -> Result<()> {
    output::print_line(&format!("{}  version {}", bold(text(&agent["name"])), agent["version"]))?;
    let tools: Vec<_> = agent["tools"].as_array().into_iter().flatten().map(text).collect();
    let number = |name: &str| agent[name].as_i64().map_or("–".to_owned(), |number| number.to_string());
    let mut facts = vec![
        ("id", text(&agent["id"]).to_owned()),
        ("description", text(&agent["description"]).to_owned()),
        ("model", model(agent)),
        ("tools", if tools.is_empty() { "none".to_owned() } else { tools.join(" ") }),
        ("visibility", text(&agent["visibility"]).to_owned()),
        ("flow", text(&agent["flowType"]).to_owned()),
        ("max steps", number("maxSteps")),
        ("timeout", agent["defaultTimeout"].as_i64().map_or("–".to_owned(), |seconds| format!("{seconds}s"))),
    ];
    for (name, field) in [("trigger", "trigger"), ("product", "product")] {
        facts.extend(agent[field].as_str().map(|value| (name, value.to_owned())));
    }
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::print_line(&format!("  {name:<12} {value}"))?;
    }
    if agent["flowConfig"].is_object() {
        output::print_line(&format!("  {:<12} {}", "flow config", agent["flowConfig"]))?;
    }
    match text(&agent["systemPrompt"]) {
        "" => Ok(()),
        prompt => output::print_line(&format!("\n{prompt}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifests_words_become_the_apis() {
        let manifest = json!({ "name": "a", "system_prompt": "p", "flow_config": { "max_iterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true });
        let api = json!({ "name": "a", "systemPrompt": "p", "flowConfig": { "maxIterations": 2 },
            "config": { "allow_delegation": true }, "isDefault": true });
        assert_eq!(to_camel_case(manifest), api);
    }
}
