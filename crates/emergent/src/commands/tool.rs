//! `emergent tool`: lists and shows the tools that the agents of the project can use.

use emergent_wire::{
    mcp_server::McpServerView,
    tool::{ToolEffect, ToolSource, ToolView},
};

use super::resolve;
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    hints,
    output::{self, bold},
};

/// How much of a description a list shows where there is no terminal.
const MAX_DESCRIPTION_CHARS: usize = 100;

#[derive(Debug, clap::Subcommand)]
pub enum Tool {
    /// List the tools by name
    List {
        /// Only tools whose name contains this
        filter: Option<String>,
        /// Only tools of this external server
        #[arg(long, value_name = "NAME")]
        mcp_server: Option<String>,
    },
    /// Show one tool, with the schema of its input
    Show {
        /// Its name, an alias, or SERVER.TOOL
        tool: String,
    },
}

impl Tool {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let mut tools: Vec<Received<ToolView>> = client.get("/api/admin/tools").await?.data().await?;
        match self {
            Tool::List { filter, mcp_server } => {
                if let Some(server) = &mcp_server {
                    check_server(client, &tools, server).await?;
                }
                tools.retain(|tool| {
                    let name_fits = filter.as_ref().is_none_or(|filter| tool.name.contains(filter.as_str()));
                    name_fits && (mcp_server.is_none() || tool.server == mcp_server)
                });
                if as_json { output::print_json(&tools) } else { print_tools(&tools) }
            }
            Tool::Show { tool: reference } => {
                let is_meant = |tool: &ToolView| {
                    tool.name == reference
                        || tool.qualified_name.as_ref() == Some(&reference)
                        || tool.called_as == reference
                        || tool.aliases.contains(&reference)
                };
                let Some(tool) = tools.iter().find(|tool| is_meant(tool)) else {
                    let suggestion =
                        resolve::suggestion(&reference, tools.iter().map(|tool| tool.name.as_str()));
                    let list = hints::command("tool list");
                    return Err(Error::Usage(format!(
                        "there is no tool `{reference}`{suggestion} (`{list}` lists them)"
                    )));
                };
                if as_json { output::print_json(tool) } else { print_tool(tool) }
            }
        }
    }
}

/// Refuses a name that no external server has. One without tools is fine, and so is any name if the servers cannot be read.
async fn check_server(client: &Client, tools: &[Received<ToolView>], name: &str) -> Result<()> {
    if tools.iter().any(|tool| tool.server.as_deref() == Some(name)) {
        return Ok(());
    }
    let servers = client.get_all_pages::<Received<McpServerView>>("/api/admin/mcp-servers").await;
    let Ok(servers) = servers else { return Ok(()) };
    if servers.iter().any(|server| server.name == name) {
        return Ok(());
    }
    let suggestion = resolve::suggestion(name, servers.iter().map(|server| server.name.as_str()));
    let list = hints::command("mcp-server list");
    Err(Error::Usage(format!("there is no MCP server `{name}`{suggestion} (`{list}` lists them)")))
}

fn effect_text(effect: &ToolEffect) -> &'static str {
    match effect {
        ToolEffect::Reads => "reads",
        ToolEffect::Writes => "writes",
        ToolEffect::Destroys => "destroys",
        ToolEffect::External => "external",
        ToolEffect::Coordinates => "coordinates",
    }
}

/// `builtin`, or the name of the external server.
fn source_text(tool: &ToolView) -> String {
    match (&tool.source, &tool.server) {
        (ToolSource::Mcp, Some(server)) => server.clone(),
        (ToolSource::Mcp, None) => "mcp".to_owned(),
        (ToolSource::Builtin, _) => "builtin".to_owned(),
    }
}

fn print_tools(tools: &[Received<ToolView>]) -> Result<()> {
    let rows: Vec<_> = tools
        .iter()
        .map(|tool| {
            let description = cell(&tool.description, MAX_DESCRIPTION_CHARS);
            vec![tool.name.clone(), source_text(tool), effect_text(&tool.effect).to_owned(), description]
        })
        .collect();
    output::print_table(&["TOOL", "FROM", "EFFECT", "DESCRIPTION"], &rows)
}

fn print_tool(tool: &ToolView) -> Result<()> {
    output::print_line(&bold(&tool.name))?;
    let mut facts = vec![
        ("from", source_text(tool)),
        ("effect", effect_text(&tool.effect).to_owned()),
        ("repeatable", if tool.repeatable { "yes" } else { "no" }.to_owned()),
        ("called as", tool.called_as.clone()),
    ];
    facts.extend(tool.qualified_name.clone().map(|name| ("listed as", name)));
    if !tool.aliases.is_empty() {
        facts.push(("aliases", tool.aliases.join(", ")));
    }
    let scope = tool.scope.map_or("none: only agents call it".to_owned(), |scope| scope.as_str().to_owned());
    facts.push(("scope", scope));
    for (label, value) in &facts {
        output::print_fact(label, value)?;
    }
    output::print_text(&format!("\n{}\n", tool.description.trim_end()))?;
    output::print_value("input", &tool.input_schema)
}
