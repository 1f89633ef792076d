//! `emergent project`: lists and creates the projects of a server, which are its tenants.

use emergent_wire::project::{CreateProject, ProjectView};

use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

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
                let projects: Vec<Received<ProjectView>> = client.get_all_pages("/api/projects").await?;
                if as_json {
                    return output::print_json(&projects);
                }
                let rows: Vec<_> = projects.iter().map(|project| row(project)).collect();
                output::print_table(&["ID", "NAME", "STRICT", "MADE"], &rows)
            }
            Project::Create { name, strict } => {
                let body = CreateProject { name, strict };
                let created: Received<ProjectView> =
                    client.post("/api/projects", &body).await?.data().await?;
                if as_json {
                    output::print_json(&created)
                } else {
                    output::print_table(&["ID", "NAME", "STRICT", "MADE"], &[row(&created)])
                }
            }
        }
    }
}

fn row(project: &ProjectView) -> Vec<String> {
    let strict = if project.strict { "yes" } else { "no" };
    vec![project.id.to_string(), project.name.clone(), strict.to_owned(), project.created_at.to_string()]
}
