//! `emergent project`: the tenants of a server.

use serde_json::{Value, json};

use crate::{client::Client, error::Result, output};

#[derive(Debug, clap::Subcommand)]
pub enum Project {
    /// The projects, newest first
    List,
    /// Make a project
    Create {
        name: String,
        /// Refuse types that no assigned template pack describes
        #[arg(long)]
        strict: bool,
    },
}

impl Project {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Project::List => {
                let projects = client.get_all_pages("/api/projects").await?;
                if as_json {
                    return output::print_json(&projects);
                }
                let rows: Vec<_> = projects.iter().map(row).collect();
                output::print_table(&["ID", "NAME", "STRICT", "MADE"], &rows)
            }
            Project::Create { name, strict } => {
                let body = json!({ "name": name, "strict": strict });
                let made: Value = client.post("/api/projects", &body).await?.data().await?;
                if as_json {
                    output::print_json(&made)
                } else {
                    output::print_table(&["ID", "NAME", "STRICT", "MADE"], &[row(&made)])
                }
            }
        }
    }
}

fn row(project: &Value) -> Vec<String> {
    let text = |name: &str| project[name].as_str().unwrap_or_default().to_owned();
    let strict = if project["strict"] == true { "yes" } else { "no" };
    vec![text("id"), text("name"), strict.to_owned(), text("createdAt")]
}
