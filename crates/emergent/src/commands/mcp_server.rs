//! `emergent mcp-server`: manages the external MCP servers whose tools a project's agents can use.

use std::{io::Read, path::PathBuf};

use emergent_domain::{
    foreign_json,
    mcp_server::{ToolStatus, TransportKind},
    text::counted,
};
use emergent_wire::mcp_server::{
    AcceptMcpTool, InspectionView, McpServerView, McpToolView, NameConflictView, UpdateMcpServer,
};
use serde_json::{Value, json};

use super::{
    encode, parse_flag,
    resolve::{MCP_SERVERS, resolve_id},
};
use crate::{
    cells::cell,
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints, messages,
    output::{self, duration, green, red},
    progress,
    text::{indent_lines, with_note},
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
    ///     {"name": "writer", "transport": "a2a", "url": "https://agents.example.com/writer"}
    ///
    /// `${NAME}` stands for a secret of the project: `emergent secret set NAME`.
    #[command(verbatim_doc_comment)]
    Add {
        /// A JSON file; `-` reads standard input
        file: PathBuf,
    },
    /// List the servers of the project
    List,
    /// Show one server
    Show {
        /// Its name, its id, or the end of its id
        name: String,
    },
    /// Connect to a server now, and list its tools
    Inspect {
        /// Its name, its id, or the end of its id
        name: String,
    },
    /// List the tools of a server as they were last listed
    Tools {
        /// Its name, its id, or the end of its id
        name: String,
        /// Only the tools that are held back until somebody accepts them
        #[arg(long)]
        held: bool,
    },
    /// Accept a new or changed tool and pin its current definition
    Accept {
        /// Its name, its id, or the end of its id
        name: String,
        /// The name of the tool
        #[arg(required_unless_present = "all")]
        tool: Option<String>,
        /// Every tool of the server that is held back
        #[arg(long, conflicts_with = "tool")]
        all: bool,
        /// The digest of the definition that you looked at, or its beginning: nothing is accepted if the tool
        /// has another one by now
        #[arg(long, requires = "tool", conflicts_with = "all")]
        digest: Option<String>,
    },
    /// Switch a server on or off, or change how its tools are accepted and how long they may take
    Set {
        /// Its name, its id, or the end of its id
        name: String,
        /// Whether its tools can be used
        #[arg(long)]
        enabled: Option<bool>,
        /// Whether new tools are accepted as they come
        #[arg(long)]
        trust: Option<bool>,
        /// What happens when a tool changes: pin, warn, off
        #[arg(long, value_name = "POLICY")]
        pin: Option<String>,
        /// Seconds one call may take; above 60, also the start of a program until its tools are listed
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<i64>,
    },
    /// Remove a server and its tools
    Remove {
        /// Its name, its id, or the end of its id
        name: String,
    },
}

const PATH: &str = "/api/admin/mcp-servers";
/// How much of a tool's description a table shows.
const MAX_DESCRIPTION_CHARS: usize = 80;
/// How the error of a server that takes too long begins.
const NO_ANSWER: &str = "gave no answer within ";
const SHORT_DIGEST_CHARS: usize = 12;

impl McpServer {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            McpServer::Add { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        match self {
            McpServer::Add { file } if file.as_os_str() != "-" => read_description(file).map(drop),
            _ => Ok(()),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            McpServer::Add { file } => {
                let description = read_description(&file)?;
                let name = description["name"].as_str().unwrap_or("NAME").to_owned();
                let response = client.post(PATH, &description).await.map_err(|error| {
                    let remove = hints::command(&format!("mcp-server remove {}", hints::quoted(&name)));
                    error.with_way_out("conflict", &remove, "removes it, to add it again with other settings")
                })?;
                let created: Received<McpServerView> = response.data().await?;
                if as_json {
                    return output::print_json(&created);
                }
                let name = &created.name;
                output::print_text(&format!(
                    "{name} is added; `{}` connects to it",
                    hints::command(&format!("mcp-server inspect {name}"))
                ))?;
                match &created.warning {
                    Some(warning) => output::print_item("! ", &format!("{name}: {warning}")),
                    None => Ok(()),
                }
            }
            McpServer::List => {
                let servers: Vec<Received<McpServerView>> = client.get_all_pages(PATH).await?;
                if as_json {
                    return output::print_json(&servers);
                }
                if servers.is_empty() {
                    return output::print_text(
                        "No external MCP servers; `emergent mcp-server add --help` shows how to add one.",
                    );
                }
                let rows: Vec<_> = servers.iter().map(|server| row(server)).collect();
                output::print_table(
                    &["NAME", "TRANSPORT", "STATUS", "TOOLS", "HELD BACK", "CONFLICTS", "PRODUCT", "AT"],
                    &rows,
                )?;
                servers.iter().try_for_each(|server| explain_status(server))
            }
            McpServer::Show { name } => {
                let server = resolve_server(client, &name).await?;
                if as_json { output::print_json(&server) } else { show(&server) }
            }
            McpServer::Inspect { name } => {
                let server = resolve_server(client, &name).await?;
                let path = server_path(&server, "/inspect");
                let (activity, nothing) = (format!("connecting to {}", server.name), json!({}));
                let response = progress::show_while(&activity, client.post(&path, &nothing)).await?;
                let inspection: Received<InspectionView> = response.data().await?;
                if as_json { output::print_json(&inspection) } else { show_inspection(&server, &inspection) }
            }
            McpServer::Tools { name, held } => {
                let server = resolve_server(client, &name).await?;
                let mut tools = list_tools(client, &server).await?;
                tools.retain(|tool| !held || tool.held_back);
                if as_json {
                    output::print_json(&tools)
                } else if tools.is_empty() && output::terminal_width().is_some() {
                    let held = if held { " that are held back" } else { "" };
                    output::print_line(&format!("{} has no tools{held}.", server.name))
                } else {
                    show_tools(tools.iter().map(|tool| &**tool), held)
                }
            }
            McpServer::Accept { name, tool, digest, .. } => {
                let server = resolve_server(client, &name).await?;
                let mut tools = list_tools(client, &server).await?;
                match &tool {
                    Some(tool) => tools.retain(|listed| listed.name == *tool),
                    None => tools.retain(|listed| listed.held_back),
                }
                if let (Some(tool), true) = (&tool, tools.is_empty()) {
                    return Err(Error::Usage(format!("`{name}` has no tool `{tool}`")));
                }
                check_digest(&tools, digest.as_deref())?;
                accept_tools(client, &server, &tools, as_json).await
            }
            McpServer::Set { name, enabled, trust, pin, timeout } => {
                let server = resolve_server(client, &name).await?;
                if enabled.is_none() && trust.is_none() && pin.is_none() && timeout.is_none() {
                    let message = "say what to set: --enabled, --trust, --pin or --timeout";
                    return Err(Error::Usage(message.to_owned()));
                }
                let body = UpdateMcpServer {
                    enabled,
                    trust,
                    pin_policy: parse_flag("--pin", pin.as_deref())?,
                    timeout_seconds: timeout,
                    ..UpdateMcpServer::default()
                };
                let updated: Received<McpServerView> =
                    client.patch(&server_path(&server, ""), &body).await?.data().await?;
                if as_json { output::print_json(&updated) } else { show(&updated) }
            }
            McpServer::Remove { name } => {
                let server = resolve_server(client, &name).await?;
                let removed: Received<McpServerView> =
                    client.delete(&server_path(&server, "")).await?.data().await?;
                if as_json {
                    output::print_json(&removed)
                } else {
                    output::print_line(&format!("{} is removed", removed.name))
                }
            }
        }
    }
}

async fn list_tools(client: &Client, server: &McpServerView) -> Result<Vec<Received<McpToolView>>> {
    client.get(&server_path(server, "/tools")).await?.data().await
}

/// Refuses to accept a tool whose digest does not begin with what somebody looked at.
fn check_digest(tools: &[Received<McpToolView>], expected: Option<&str>) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    match tools.iter().find(|tool| expected.is_empty() || !tool.digest.starts_with(expected)) {
        None => Ok(()),
        Some(tool) => Err(Error::Usage(format!(
            "`{}` has another definition by now, with the digest {}: look at it again",
            tool.name,
            short_digest(tool)
        ))),
    }
}

/// As much of a digest as a table shows.
fn short_digest(tool: &McpToolView) -> &str {
    tool.digest.get(..SHORT_DIGEST_CHARS).unwrap_or(&tool.digest)
}

/// Accepts tools one after the other, each with the digest of what was listed. A tool that changes meanwhile is
/// not accepted.
async fn accept_tools(
    client: &Client,
    server: &McpServerView,
    tools: &[Received<McpToolView>],
    as_json: bool,
) -> Result<()> {
    let mut accepted: Vec<Received<McpToolView>> = Vec::new();
    for tool in tools {
        let path = server_path(server, &format!("/tools/{}/accept", encode(&tool.name)));
        let body = AcceptMcpTool { digest: Some(tool.digest.clone()) };
        accepted.push(client.post(&path, &body).await?.data().await?);
        if !as_json {
            output::print_text(&format!(
                "{} is accepted as it is now: {}",
                tool.name,
                short_description(tool)
            ))?;
        }
    }
    match accepted.as_slice() {
        [one] if as_json => output::print_json(one),
        _ if as_json => output::print_json(&accepted),
        [] => output::print_line(&format!("{} has no tools that are held back", server.name)),
        [first, ..] => output::print_dim(&format!(
            "Runs that start from now on can use {}, if `tools` of their agent names {} (`{}`, or `{}.*`): `{}` changes it",
            if accepted.len() == 1 { "it" } else { "them" },
            if accepted.len() == 1 { "it" } else { "each" },
            first.qualified_name,
            server.name,
            hints::command("agent edit AGENT")
        )),
    }
}

/// Reads a server's description from a file. Field names of a manifest (`pin_policy`) are translated to those
/// of the API (`pinPolicy`).
fn read_description(file: &PathBuf) -> Result<Value> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file).map_err(|source| Error::input_file(file, source))?
    };
    let mut value: Value = foreign_json::from_str(&text)
        .map_err(|error| Error::Usage(format!("`{}` is not JSON: {error}", file.display())))?;
    messages::remember_file(file);
    messages::remember_fields(&value);
    if let Value::Object(fields) = &mut value {
        for (manifest_name, api_name) in [
            ("tool_filter", "toolFilter"),
            ("pin_policy", "pinPolicy"),
            ("timeout_seconds", "timeoutSeconds"),
        ] {
            if let Some(value) = fields.remove(manifest_name) {
                fields.insert(api_name.to_owned(), value);
            }
        }
    }
    Ok(value)
}

/// Finds the server that a person names.
async fn resolve_server(client: &Client, reference: &str) -> Result<Received<McpServerView>> {
    let id = resolve_id(client, &MCP_SERVERS, reference).await?;
    client.get(&format!("{PATH}/{id}")).await?.data().await
}

/// The API path of a server, with `suffix` appended.
fn server_path(server: &McpServerView, suffix: &str) -> String {
    format!("{PATH}/{}{suffix}", server.id)
}

/// The name of the protocol that a server speaks, whose version an inspection tells.
pub fn protocol_name(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::A2a => "A2A",
        TransportKind::Stdio | TransportKind::Http | TransportKind::Sse => "MCP",
    }
}

/// The URL of a server, or its program with arguments.
fn target_label(server: &McpServerView) -> String {
    match &server.url {
        Some(url) => url.clone(),
        None => {
            let args = server.args.iter().flatten().map(String::as_str);
            let command = server.command.as_deref().unwrap_or_default();
            std::iter::once(command).chain(args).collect::<Vec<_>>().join(" ")
        }
    }
}

fn row(server: &McpServerView) -> Vec<String> {
    vec![
        server.name.clone(),
        server.transport.to_string(),
        server.status.clone(),
        server.tool_count.to_string(),
        server.held_back.to_string(),
        server.conflicts.to_string(),
        server.product.clone().unwrap_or_default(),
        target_label(server),
    ]
}

/// Says under a table of servers why one fails, and what to do about tools that are held back or have the name
/// of others.
fn explain_status(server: &McpServerView) -> Result<()> {
    let name = &server.name;
    if let Some(error) = &server.last_error {
        let since = server.last_error_at.map(|at| format!(" ({at})")).unwrap_or_default();
        let failure = with_note(&format!("{name} {}", indent_lines(error)), &since);
        output::print_item(&format!("{} ", red("✗")), &failure)?;
    }
    if server.held_back > 0 {
        output::print_text(&format!(
            "{name} has tools that are held back: `{}` shows them",
            hints::command(&format!("mcp-server tools {name} --held"))
        ))?;
    }
    if server.conflicts > 0 {
        output::print_text(&format!(
            "{name} has tools with the name of others: `{}` shows which",
            hints::command(&format!("mcp-server tools {name}"))
        ))?;
    }
    Ok(())
}

fn show(server: &McpServerView) -> Result<()> {
    output::print_title(&server.name, &server.id.to_string())?;
    let mut rows = vec![("at", target_label(server))];
    rows.extend(server.warning.clone().map(|warning| ("warning", warning)));
    rows.push(("status", server.status.clone()));
    if let Some(error) = &server.last_error {
        let since = server.last_error_at.map(|at| format!(" ({at})")).unwrap_or_default();
        rows.push(("last error", with_note(&indent_lines(error), &since)));
    }
    rows.push(("tools", format!("{}, {} held back", server.tool_count, server.held_back)));
    if server.conflicts > 0 {
        rows.push((
            "conflicts",
            format!("{} with the name of another server's", counted(server.conflicts, "tool")),
        ));
    }
    if server.needs_confirmation {
        let command = hints::command(&format!("mcp-server set {} --enabled true", server.name));
        let how = format!("not confirmed by an operator: `{command}`");
        rows.push(("configured", how));
    }
    rows.push(("if changed", server.pin_policy.to_string()));
    rows.push(("trusted", if server.trust { "yes, new tools are accepted" } else { "no" }.to_owned()));
    rows.push(("timeout", format!("{} s", server.timeout_seconds)));
    if let Some(product) = &server.product {
        rows.push(("product", product.clone()));
    }
    rows.extend(server.env.iter().map(|(key, value)| ("env", format!("{key}: {value}"))));
    let headers = server.headers.iter().flatten();
    rows.extend(headers.map(|(key, value)| ("headers", format!("{key}: {value}"))));
    rows.iter().try_for_each(|(name, value)| output::print_item(&format!("  {name:<11} "), value))
}

fn show_inspection(server: &McpServerView, inspection: &InspectionView) -> Result<()> {
    let name = &server.name;
    if !inspection.reachable {
        let error = inspection.error.as_deref().unwrap_or_default();
        output::print_item(&format!("{} ", red("✗")), &format!("{name} {}", indent_lines(error)))?;
        if server.transport == TransportKind::Stdio && error.contains(NO_ANSWER) {
            let set = hints::command(&format!("mcp-server set {} --timeout 180", hints::quoted(name)));
            let advice = format!(
                "a first start may download the package, which can take longer: try again, or give it more time \
                 with `{set}`"
            );
            output::print_item("  ", &advice)?;
        }
        return Err(Error::Usage(format!("`{name}` could not be used")));
    }
    let (protocol, took) =
        (inspection.protocol.as_deref().unwrap_or_default(), duration(inspection.duration_ms));
    let family = protocol_name(server.transport);
    output::print_line(&format!("{} {name} speaks {family} {protocol}, answered in {took}", green("✓")))?;
    show_tools(&inspection.tools, false)
}

/// Prints tools, with digests for those who decide whether to accept them.
fn show_tools<'a>(tools: impl IntoIterator<Item = &'a McpToolView>, with_digest: bool) -> Result<()> {
    let tools: Vec<_> = tools.into_iter().collect();
    let rows: Vec<_> = tools
        .iter()
        .map(|tool| {
            let status = match (tool.status, tool.held_back) {
                (ToolStatus::Live, _) => "accepted",
                (ToolStatus::New, _) => "held (new)",
                (ToolStatus::Changed, true) => "held (changed)",
                (ToolStatus::Changed, false) => "changed",
                (ToolStatus::Gone, _) => "gone",
            };
            let mut row = vec![tool.name.clone(), status.to_owned(), short_description(tool)];
            if with_digest {
                row.insert(2, short_digest(tool).to_owned());
            }
            row
        })
        .collect();
    match with_digest {
        true => output::print_table(&["TOOL", "STATUS", "DIGEST", "DESCRIPTION"], &rows)?,
        false => output::print_table(&["TOOL", "STATUS", "DESCRIPTION"], &rows)?,
    }
    for tool in tools {
        let (name, qualified) = (&tool.name, &tool.qualified_name);
        match &tool.conflict {
            None => {}
            Some(NameConflictView { owner: None, .. }) => output::print_text(&format!(
                "{name} has the name of a built-in tool: list it as `{qualified}`"
            ))?,
            Some(NameConflictView { owner: Some(owner), others }) => output::print_text(&format!(
                "{name} is also a tool of {}: `{name}` means that of {owner}, list this one as `{qualified}`",
                others_than(&tool.qualified_name, owner, others)
            ))?,
        }
    }
    Ok(())
}

/// The first line of what a tool says it does.
fn short_description(tool: &McpToolView) -> String {
    cell(&tool.description, MAX_DESCRIPTION_CHARS)
}

/// The servers with a tool of the same name, besides the one of this tool.
fn others_than(qualified_name: &str, owner: &str, others: &[String]) -> String {
    let own = qualified_name.split('.').next().unwrap_or_default();
    let servers = std::iter::once(owner).chain(others.iter().map(String::as_str));
    servers.filter(|server| *server != own).collect::<Vec<_>>().join(", ")
}
