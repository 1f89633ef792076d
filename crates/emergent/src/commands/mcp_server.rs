//! `emergent mcp-server`: the external MCP servers whose tools a project's agents can use.

use std::{io::Read, path::PathBuf};

use axum::http::Method;
use serde_json::{Value, json};

use super::encode;
use crate::{
    client::Client,
    error::{Error, Result},
    output::{self, bold, dim, duration, green, red},
};

#[derive(Debug, clap::Subcommand)]
pub enum McpServer {
    /// Add a server, described as in a manifest's `mcp.servers`
    ///
    ///     {"name": "github", "transport": "http", "url": "https://mcp.github.com/mcp",
    ///      "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}
    ///
    ///     {"name": "files", "transport": "stdio", "command": "npx",
    ///      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/files"]}
    ///
    /// `${NAME}` stands for a secret of the project: `emergent secret set NAME`.
    #[command(verbatim_doc_comment)]
    Add {
        /// A JSON file; `-` reads standard input
        file: PathBuf,
    },
    /// The servers of the project
    List,
    /// One server, by name or id
    Show { name: String },
    /// Reach for a server now, and list its tools
    Inspect { name: String },
    /// The tools of a server as they were last listed
    Tools { name: String },
    /// Take a tool that changed as it is now
    Accept { name: String, tool: String },
    /// Switch a server on or off, or change how its tools are pinned and how long they may take
    Set {
        name: String,
        #[arg(long)]
        enabled: Option<bool>,
        /// What happens when a tool changes: pin, warn, off
        #[arg(long, value_name = "POLICY")]
        pin: Option<String>,
        /// Seconds one call may take
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<i64>,
    },
    /// Take a server away
    Remove { name: String },
}

const PATH: &str = "/api/admin/mcp-servers";

impl McpServer {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            McpServer::Add { file } => {
                let made: Value = client.post(PATH, &read(&file)?).await?.data().await?;
                if as_json {
                    return output::print_json(&made);
                }
                let name = text(&made["name"]);
                output::print_line(&format!(
                    "{name} is added; `emergent mcp-server inspect {name}` reaches for it"
                ))
            }
            McpServer::List => {
                let servers = client.get_all_pages(PATH).await?;
                if as_json {
                    return output::print_json(&servers);
                }
                if servers.is_empty() {
                    return output::print_line(
                        "No external MCP servers. `emergent mcp-server add --help` shows how.",
                    );
                }
                let rows: Vec<_> = servers.iter().map(row).collect();
                output::print_table(
                    &["NAME", "TRANSPORT", "STATUS", "TOOLS", "HELD BACK", "PRODUCT", "AT"],
                    &rows,
                )
            }
            McpServer::Show { name } => {
                let server = resolve_server(client, &name).await?;
                if as_json { output::print_json(&server) } else { show(&server) }
            }
            McpServer::Inspect { name } => {
                let server = resolve_server(client, &name).await?;
                let seen: Value =
                    client.post(&server_path(&server, "/inspect"), &json!({})).await?.data().await?;
                if as_json { output::print_json(&seen) } else { show_inspection(&server, &seen) }
            }
            McpServer::Tools { name } => {
                let server = resolve_server(client, &name).await?;
                let tools: Vec<Value> = client.get(&server_path(&server, "/tools")).await?.data().await?;
                if as_json { output::print_json(&tools) } else { show_tools(&tools) }
            }
            McpServer::Accept { name, tool } => {
                let server = resolve_server(client, &name).await?;
                let path = server_path(&server, &format!("/tools/{}/accept", encode(&tool)));
                let accepted: Value = client.post(&path, &json!({})).await?.data().await?;
                if as_json {
                    output::print_json(&accepted)
                } else {
                    output::print_line(&format!("{tool} is accepted as it is now"))
                }
            }
            McpServer::Set { name, enabled, pin, timeout } => {
                let server = resolve_server(client, &name).await?;
                let given = [
                    ("enabled", json!(enabled)),
                    ("pinPolicy", json!(pin)),
                    ("timeoutSeconds", json!(timeout)),
                ];
                let body: serde_json::Map<_, _> = given
                    .into_iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect();
                if body.is_empty() {
                    return Err(Error::Usage("say what to set: --enabled, --pin or --timeout".to_owned()));
                }
                let body = Some(Value::Object(body).to_string());
                let answer = client
                    .send_raw(Method::PATCH, &server_path(&server, ""), &[], body)
                    .await?
                    .error_for_status()
                    .await?;
                let after: Value = answer.data().await?;
                if as_json { output::print_json(&after) } else { show(&after) }
            }
            McpServer::Remove { name } => {
                let server = resolve_server(client, &name).await?;
                let gone: Value = client.delete(&server_path(&server, "")).await?.data().await?;
                if as_json {
                    output::print_json(&gone)
                } else {
                    output::print_line(&format!("{} is removed", text(&gone["name"])))
                }
            }
        }
    }
}

/// A server's description; a manifest's spelling of the fields is as good as the API's.
fn read(file: &PathBuf) -> Result<Value> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file)
            .map_err(|error| Error::Usage(format!("could not read `{}`: {error}", file.display())))?
    };
    let mut value: Value = serde_json::from_str(&text)
        .map_err(|error| Error::Usage(format!("`{}` is not JSON: {error}", file.display())))?;
    if let Value::Object(fields) = &mut value {
        for (of_manifest, of_api) in [
            ("tool_filter", "toolFilter"),
            ("pin_policy", "pinPolicy"),
            ("timeout_seconds", "timeoutSeconds"),
        ] {
            if let Some(given) = fields.remove(of_manifest) {
                fields.insert(of_api.to_owned(), given);
            }
        }
    }
    Ok(value)
}

async fn resolve_server(client: &Client, named: &str) -> Result<Value> {
    let servers = client.get_all_pages(PATH).await?;
    let found = servers.iter().find(|server| server["name"] == named || server["id"] == named);
    found.cloned().ok_or_else(|| {
        let names: Vec<_> = servers.iter().map(|server| text(&server["name"])).collect();
        let known = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        Error::Usage(format!("there is no MCP server `{named}` in this project; {known}"))
    })
}

fn server_path(server: &Value, rest: &str) -> String {
    format!("{PATH}/{}{rest}", text(&server["id"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The program with its arguments, or the address.
fn target_label(server: &Value) -> String {
    match server["url"].as_str() {
        Some(url) => url.to_owned(),
        None => {
            let args = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            std::iter::once(text(&server["command"])).chain(args).collect::<Vec<_>>().join(" ")
        }
    }
}

fn row(server: &Value) -> Vec<String> {
    let plain = |field: &str| text(&server[field]).to_owned();
    let number = |field: &str| server[field].to_string();
    vec![
        plain("name"),
        plain("transport"),
        plain("status"),
        number("toolCount"),
        number("heldBack"),
        plain("product"),
        target_label(server),
    ]
}

fn show(server: &Value) -> Result<()> {
    output::print_line(&format!("{}  {}", bold(text(&server["name"])), dim(text(&server["id"]))))?;
    let mut rows = vec![("at", target_label(server)), ("status", text(&server["status"]).to_owned())];
    if let Some(error) = server["lastError"].as_str() {
        rows.push(("last error", red(error)));
    }
    rows.push(("tools", format!("{}, {} held back", server["toolCount"], server["heldBack"])));
    rows.push(("pinned", text(&server["pinPolicy"]).to_owned()));
    rows.push(("timeout", format!("{} s", server["timeoutSeconds"])));
    if let Some(product) = server["product"].as_str() {
        rows.push(("product", product.to_owned()));
    }
    for (name, values) in [("env", &server["env"]), ("headers", &server["headers"])] {
        for (key, value) in values.as_object().into_iter().flatten() {
            rows.push((name, format!("{key}: {}", text(value))));
        }
    }
    rows.iter().try_for_each(|(name, value)| output::print_line(&format!("  {name:<11} {value}")))
}

fn show_inspection(server: &Value, seen: &Value) -> Result<()> {
    let name = text(&server["name"]);
    if seen["reachable"] != true {
        output::print_line(&format!("{} {name} {}", red("✗"), text(&seen["error"])))?;
        return Err(Error::Usage(format!("`{name}` could not be used")));
    }
    let (protocol, took) =
        (text(&seen["protocol"]), duration(seen["durationMs"].as_u64().unwrap_or_default()));
    output::print_line(&format!("{} {name} speaks MCP {protocol}, answered in {took}", green("✓")))?;
    let tools: Vec<Value> = seen["tools"].as_array().cloned().unwrap_or_default();
    show_tools(&tools)
}

fn show_tools(tools: &[Value]) -> Result<()> {
    let rows: Vec<_> = tools
        .iter()
        .map(|tool| {
            let status = if tool["heldBack"] == true { "held back" } else { text(&tool["status"]) };
            let said = text(&tool["description"]).lines().next().unwrap_or_default();
            vec![text(&tool["name"]).to_owned(), status.to_owned(), said.chars().take(80).collect()]
        })
        .collect();
    output::print_table(&["TOOL", "STATUS", "DESCRIPTION"], &rows)
}
